"""Large requests over gRPC are worked on in threads, or some at a time: counted by the turn of the event loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Final

import grpc
import pytest
from kit.client.grpc_stubs import GrpcStubs, served
from kit.client.grpc_thread import GrpcThread
from kit.flight_rows import UNNUMBERED_FLIGHTS
from kit.resp.loop_turns import LoopTurns

from log_tier.catalog.catalog import Catalog
from log_tier.concurrency.sized_work import AT_ONCE_ITEMS_MAX, CALLS_AT_ONCE_MAX, WAKES_AT_ONCE_MAX
from log_tier.embedded.commit import batch_checks
from log_tier.model.batch import Columns, encode_batch
from log_tier.model.kept_history import ALL
from log_tier.model.record import Condition, Operation, attribute_of
from log_tier.rows.definition import TableDefinition
from log_tier.rpc import checked
from log_tier.rpc.checked import FIELDS_MAX
from router.data import local_data, machine_tables, merge, misfits, outcomes, reply_budget, watch
from router.endpoints.grpc.kv import finds, past, reads, records, scans, service, watches
from router.endpoints.grpc.pages import found_rows
from router.proto import console_pb2, keyvalue_pb2, kv_pb2, tables_pb2
from router.remote import messages
from router.remote.definitions import definition_message

COUNT: Final = 3 * AT_ONCE_ITEMS_MAX
KEYS: Final = [b"key:%05d" % number for number in range(COUNT)]
EIGHT: Final = 8

JSON: Final = kv_pb2.KV_FORM_JSON
ROW_KEYS: Final = [b'["UA",%d]' % number for number in range(COUNT)]
ROWS: Final = [
    b'{"carrier":"UA","flight":%d,"tailnum":"N14228","dep_delay":%.1f}' % (number, number) for number in range(COUNT)
]


class Stubs(GrpcStubs):
    """A table of one partition and one of eight, and requests to them."""

    def __init__(self, server: GrpcThread, channel: grpc.Channel) -> None:
        super().__init__(server, channel)
        tables = self.tables
        self.one = tables.Create(tables_pb2.CreateTableRequest(name="one", partitions=1))
        self.eight = tables.Create(tables_pb2.CreateTableRequest(name="eight", partitions=EIGHT))
        definition = definition_message(UNNUMBERED_FLIGHTS)
        tables.Create(tables_pb2.CreateTableRequest(name="flights", partitions=1, definition=definition))

        kept = definition_message(TableDefinition(keeps=ALL))
        tables.Create(tables_pb2.CreateTableRequest(name="kept", partitions=1, definition=kept))
        for _ in range(AT_ONCE_ITEMS_MAX // 4):
            self.kv.Put(kv_pb2.KVPutRequest(table="kept", key=b"k", value=b"value"))

    def history(self) -> None:
        reply = self.kv.History(kv_pb2.KVHistoryRequest(table="kept", key=b"k", limit=COUNT, at_time_ms=1 << 62))
        assert [each.value for each in reply.versions] == [b"value"] * (AT_ONCE_ITEMS_MAX // 4)

    def put(self) -> None:
        writes = [kv_pb2.KVWrite(key=key, put=b"value") for key in KEYS]
        reply = self.kv.Write(kv_pb2.KVWriteRequest(table="one", writes=writes))
        assert len(reply.results) == COUNT

    def get_many(self) -> None:
        reply = self.kv.GetMany(kv_pb2.KVGetManyRequest(table="one", keys=KEYS))
        assert [entry.key for entry in reply.entries] == KEYS

    def scan(self) -> None:
        pages = self.kv.Scan(kv_pb2.KVScanRequest(table="one"))
        assert [entry.key for page in pages for entry in page.entries] == KEYS

    def watch(self) -> None:
        stream = self.kv.Watch(kv_pb2.KVWatchRequest(table="one", start=kv_pb2.KV_WATCH_START_EARLIEST))
        seen: list[bytes] = []
        for message in stream:
            seen += [change.key for change in message.changes]
            if len(seen) >= COUNT:
                break
        stream.cancel()
        assert seen[:COUNT] == KEYS

    def put_rows(self) -> None:
        writes = [kv_pb2.KVWrite(put=row) for row in ROWS]
        self.kv.Write(kv_pb2.KVWriteRequest(table="flights", writes=writes, form=JSON))

    def get_rows(self) -> None:
        reply = self.kv.GetMany(kv_pb2.KVGetManyRequest(table="flights", keys=ROW_KEYS, form=JSON))
        assert [entry.value for entry in reply.entries] == ROWS

    def scan_rows(self) -> None:
        pages = self.kv.Scan(kv_pb2.KVScanRequest(table="flights", form=JSON))
        assert [entry.value for page in pages for entry in page.entries] == ROWS

    def find_rows(self) -> None:
        where = '{"carrier":"UA","dep_delay":[1,null]}'
        pages = self.kv.Find(kv_pb2.KVFindRequest(table="flights", where=where, form=JSON))
        assert [entry.value for page in pages for entry in page.entries] == ROWS[1:]

    def find_page(self) -> None:
        page = self.console.Find(console_pb2.ConsoleFindRequest(table="flights", limit=500))
        assert ([entry.value for entry in page.entries], page.more) == (ROWS[:500], True)

    def watch_rows(self) -> None:
        request = kv_pb2.KVWatchRequest(table="flights", start=kv_pb2.KV_WATCH_START_EARLIEST, form=JSON)
        stream, seen = self.kv.Watch(request), 0
        for message in stream:
            seen += len(message.changes)
            if seen >= len(ROWS):
                break
        stream.cancel()

    def read(self) -> None:
        part = keyvalue_pb2.ReadPart(table_id=self.one.id, partition=0, keys=KEYS, after=-1)
        (result,) = self.data.Read(keyvalue_pb2.ReadRequest(parts=[part])).results
        assert list(result.values) == [b"value"] * COUNT

    def read_parts(self) -> None:
        parts = [
            keyvalue_pb2.ReadPart(table_id=self.eight.id, partition=number % EIGHT, keys=[key], after=-1)
            for number, key in enumerate(KEYS)
        ]
        assert len(self.data.Read(keyvalue_pb2.ReadRequest(parts=parts)).results) == COUNT

    def scan_page(self) -> None:
        assert len(self.data.Scan(keyvalue_pb2.ScanRequest(table_id=self.one.id, limit=COUNT)).keys) == COUNT

    def write_parts(self) -> None:
        parts = [
            keyvalue_pb2.WritePart(
                table_id=self.eight.id,
                partition=number % EIGHT,
                batch=encode_batch(Columns([key], [b"value"])),
                outcomes=True,
            )
            for number, key in enumerate(KEYS)
        ]
        results = self.data.Write(keyvalue_pb2.WriteRequest(parts=parts)).results
        # Each has a place of its own, in the order of the parts.
        for partition in range(EIGHT):
            offsets = [result.base_offset for result in results[partition::EIGHT]]
            assert offsets == list(range(offsets[0], offsets[0] + len(offsets)))

    def ask_outcomes(self) -> None:
        part = keyvalue_pb2.OutcomesPart(table_id=self.one.id, partition=0, base_offset=0, timestamp_ms=1, span=1)
        assert len(self.data.Outcomes(keyvalue_pb2.OutcomesRequest(parts=[part] * COUNT)).results) == COUNT

    def read_strongly(self) -> None:
        part = keyvalue_pb2.ReadPart(table_id=self.one.id, partition=0, keys=KEYS[:1], strong=True)
        results = self.data.Read(keyvalue_pb2.ReadRequest(parts=[part] * COUNT)).results
        assert [list(result.values) for result in results] == [[b"value"]] * COUNT

    def read_no_table(self) -> None:
        part = keyvalue_pb2.ReadPart(table_id=bytes(16), partition=0, keys=KEYS[:1])
        results = self.data.Read(keyvalue_pb2.ReadRequest(parts=[part] * COUNT)).results
        assert [result.problem.code for result in results] == ["table_not_found"] * COUNT

    def rejected(self) -> None:
        attribute = attribute_of(Operation.PUT, condition=Condition.ABSENT)
        batch = encode_batch(Columns(KEYS, [b"value"] * COUNT, [attribute] * COUNT))
        part = keyvalue_pb2.WritePart(table_id=self.one.id, partition=0, batch=batch, outcomes=True)
        (result,) = self.data.Write(keyvalue_pb2.WriteRequest(parts=[part])).results
        assert len(result.outcomes) == COUNT


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stubs]:
    with served(tmp_path_factory.mktemp("grpc turns"), Stubs) as opened:
        opened.put()
        opened.put_rows()
        yield opened


IN_THREADS: Final[dict[str, tuple[Callable[[Stubs], None], ModuleType, str]]] = {
    "a group of writes": (Stubs.put, records, "_grouped"),
    "GetMany, its keys": (Stubs.get_many, reads, "check_key"),
    "the versions of a key": (Stubs.history, past, "_versions"),
    "GetMany, its reply": (Stubs.get_many, service, "entry_of"),
    "GetMany, the read": (Stubs.get_many, reply_budget, "_read"),
    "a read of many keys": (Stubs.read, reply_budget, "_read"),
    "a page of a scan": (Stubs.scan_page, merge, "merged_result"),
    "a group of rows as text": (Stubs.put_rows, service, "stored_write"),
    "rows of a GetMany as text": (Stubs.get_rows, service, "shown_entries"),
    "rows of a page of the console as text": (Stubs.find_page, found_rows, "cut_entry"),
    "rows of a watch with a backlog as text": (Stubs.watch_rows, watches, "shown_change"),
    "a watch with a backlog": (Stubs.watch, watches, "decode_batch"),
    "the checks of many parts": (Stubs.write_parts, batch_checks, "checked_span"),
    "many questions about outcomes": (Stubs.ask_outcomes, messages, "outcomes_parts_from"),
    "the outcomes of many records": (Stubs.rejected, local_data, "judged"),
    "what became of many records": (Stubs.rejected, outcomes, "_write_outcome"),
    "the reply about many records": (Stubs.rejected, messages, "_outcome_message"),
}


@pytest.mark.parametrize("name", IN_THREADS)
def test_work_that_a_thread_does(stubs: Stubs, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    work, owner, function = IN_THREADS[name]
    with LoopTurns(stubs.server, monkeypatch, owner, function) as counted:
        work(stubs)
    assert counted.elsewhere >= 1
    assert counted.calls == 0, "none of it on the event loop"


OF_PAGES: Final[dict[str, tuple[Callable[[Stubs], None], ModuleType, str, int]]] = {
    "rows of a scan as text": (Stubs.scan_rows, scans, "shown_entries", 2 * AT_ONCE_ITEMS_MAX // 10),
    "rows that are looked at for a find": (Stubs.find_rows, finds, "row_filter", 1),
    "rows of a find as text": (Stubs.find_rows, scans, "shown_entries", 2 * AT_ONCE_ITEMS_MAX // 10),
}
"""With what a turn may have: the first page is small."""


@pytest.mark.parametrize("name", OF_PAGES)
def test_work_that_a_thread_does_for_large_pages(stubs: Stubs, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    work, owner, function, most = OF_PAGES[name]
    with LoopTurns(stubs.server, monkeypatch, owner, function) as counted:
        work(stubs)
    assert counted.elsewhere >= 1
    assert counted.most_in_one_turn <= most


def test_many_parts_are_read_some_at_a_time(stubs: Stubs, monkeypatch: pytest.MonkeyPatch) -> None:
    stubs.read_parts()  # an index at rest is opened, and read, in a thread
    with LoopTurns(stubs.server, monkeypatch, local_data, "read_keys") as counted:
        stubs.read_parts()
    assert counted.calls == COUNT
    assert counted.most_in_one_turn <= AT_ONCE_ITEMS_MAX / 10


IN_TURNS: Final[dict[str, tuple[Callable[[Stubs], None], ModuleType, str]]] = {
    "parts that wait for their verdicts": (Stubs.write_parts, local_data, "judged"),
    "questions about outcomes": (Stubs.ask_outcomes, local_data, "judged"),
    "strong reads": (Stubs.read_strongly, local_data, "read_many_keys"),
}


@pytest.mark.parametrize("name", IN_TURNS)
def test_some_of_many_calls_are_made_in_a_turn(stubs: Stubs, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    work, owner, function = IN_TURNS[name]
    with LoopTurns(stubs.server, monkeypatch, owner, function) as counted:
        work(stubs)
    assert counted.calls == COUNT
    assert counted.most_in_one_turn <= CALLS_AT_ONCE_MAX


def test_parts_of_no_table_ask_the_catalog_once(stubs: Stubs, monkeypatch: pytest.MonkeyPatch) -> None:
    with LoopTurns(stubs.server, monkeypatch, Catalog, "refresh") as counted:
        stubs.read_no_table()
    assert counted.calls == 1


def test_parts_of_no_table_are_asked_for_some_at_a_time(stubs: Stubs, monkeypatch: pytest.MonkeyPatch) -> None:
    part = keyvalue_pb2.WritePart(table_id=bytes(16), partition=0, batch=encode_batch(Columns([b"key"], [b"value"])))
    with LoopTurns(stubs.server, monkeypatch, misfits, "WritePart") as counted:
        results = stubs.data.Write(keyvalue_pb2.WriteRequest(parts=[part] * COUNT)).results
    assert [result.problem.code for result in results] == ["table_not_found"] * COUNT
    assert counted.calls == COUNT
    assert counted.most_in_one_turn <= AT_ONCE_ITEMS_MAX


def test_many_partitions_are_described_some_at_a_time(stubs: Stubs, monkeypatch: pytest.MonkeyPatch) -> None:
    stubs.tables.Create(tables_pb2.CreateTableRequest(name="wide", partitions=300))
    with LoopTurns(stubs.server, monkeypatch, machine_tables, "_described") as counted:
        assert len(stubs.tables.Describe(tables_pb2.FindTableRequest(name="wide")).partitions) == 300
    assert counted.calls == 300
    assert counted.most_in_one_turn <= AT_ONCE_ITEMS_MAX / 10


def test_reads_of_many_partitions_begin_some_at_a_time(stubs: Stubs, monkeypatch: pytest.MonkeyPatch) -> None:
    stubs.tables.Create(tables_pb2.CreateTableRequest(name="scattered", partitions=300))
    with LoopTurns(stubs.server, monkeypatch, reads, "_read") as counted:
        assert len(stubs.kv.GetMany(kv_pb2.KVGetManyRequest(table="scattered", keys=KEYS)).entries) == COUNT
    assert 250 < counted.calls <= 300
    assert counted.most_in_one_turn <= AT_ONCE_ITEMS_MAX / 10


def test_messages_of_a_stream_have_so_many_entries(stubs: Stubs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "MESSAGE_ENTRIES_MAX", 500)
    monkeypatch.setattr(scans, "MESSAGE_ENTRIES_MAX", 500)
    stream = stubs.kv.Watch(kv_pb2.KVWatchRequest(table="one", start=kv_pb2.KV_WATCH_START_EARLIEST))
    sizes: list[int] = []
    for message in stream:
        sizes.append(len(message.changes))
        if sum(sizes) >= COUNT:
            break
    stream.cancel()
    assert max(sizes) == 500
    pages = stubs.kv.Scan(kv_pb2.KVScanRequest(table="one"))
    assert max(len(page.entries) for page in pages) == 500


def test_a_commit_wakes_some_of_many_watches_in_a_turn(stubs: Stubs, monkeypatch: pytest.MonkeyPatch) -> None:
    many = 4 * WAKES_AT_ONCE_MAX + 1
    streams = [stubs.kv.Watch(kv_pb2.KVWatchRequest(table="eight")) for _ in range(many)]
    for stream in streams:
        next(stream)
    with LoopTurns(stubs.server, monkeypatch, watch, "headers_of") as counted:
        stubs.kv.Put(kv_pb2.KVPutRequest(table="eight", key=b"key", value=b"value"))
        for stream in streams:
            assert [change.key for change in next(stream).changes] == [b"key"]
    for stream in streams:
        stream.cancel()
    assert counted.calls == many
    assert counted.most_in_one_turn <= WAKES_AT_ONCE_MAX


def test_a_caller_next_to_a_hostile_one_shares_the_loop_with_none_of_its_work(
    stubs: Stubs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sends messages of nothing but fields, the other gets a key: the loop looks at none of the fields."""
    raw = stubs.channel.unary_unary("/duramen.v1.KeyValue/Read", bytes, bytes)
    hostile = b"\x0a\x00" * (FIELDS_MAX + 1)
    written = stubs.kv.Put(kv_pb2.KVPutRequest(table="one", key=b"mine", value=b"value"))
    get = kv_pb2.KVGetRequest(table="one", key=b"mine", after=written.token)
    with LoopTurns(stubs.server, monkeypatch, checked, "count_fields") as counted, ThreadPoolExecutor(1) as other:
        flood = other.submit(lambda: [raw.future(hostile).exception() for _ in range(5)])
        gets = 0
        while not flood.done() or not gets:
            assert stubs.kv.Get(get).value == b"value"
            gets += 1
        refused = flood.result()
    assert [error.code() for error in refused if isinstance(error, grpc.RpcError)] == [
        grpc.StatusCode.RESOURCE_EXHAUSTED
    ] * 5
    assert (counted.calls, counted.elsewhere) == (0, 5)


def test_a_small_request_goes_through_no_thread(stubs: Stubs, monkeypatch: pytest.MonkeyPatch) -> None:
    with LoopTurns(stubs.server, monkeypatch, service, "entry_of") as counted:
        stubs.kv.GetMany(kv_pb2.KVGetManyRequest(table="one", keys=KEYS[:10]))
    assert (counted.calls, counted.elsewhere) == (10, 0)
