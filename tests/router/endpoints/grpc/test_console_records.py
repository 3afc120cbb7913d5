"""`Console/Records`: the records of a partition's log as they lie there, from an offset, a time or the end."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Any, Final

import pytest
from kit.flight_rows import FLIGHTS, flight, flight_key
from kit.log.stored_log import PARTITION, TABLE, StoredLog, add, delete, noop, put

from log_tier.model.batch import Columns, encode_batch
from log_tier.model.batch_header import place_of, read_header, stamp_batch
from log_tier.model.errors import InvalidRequest, LimitExceeded, OffsetTrimmed
from log_tier.model.identifiers import Offset, PartitionId, partition_id
from log_tier.model.log import Bounds, ReadChunk
from log_tier.model.record import Condition, Expiry
from log_tier.model.table_ref import TableRef
from log_tier.rows.json_rows.json_table import JsonTable
from router.endpoints.grpc.pages.entries import VALUE_BYTES_MAX
from router.endpoints.grpc.pages.log_records import records_of_log
from router.proto import console_pb2 as pb

ORDERS: Final = TableRef(TABLE, "orders", 4)


def placed(batch: bytes) -> bytes:
    """The same batch in the partition that is read."""
    header, place = read_header(batch), place_of(partition_id(TABLE, PARTITION))
    return stamp_batch(
        batch, base_offset=header.base_offset, timestamp_ms=header.timestamp_ms, unsynced=header.unsynced, place=place
    )


class ReadLog:
    """Reads stored batches, each as a chunk of its own. `trims`: the log loses its first batch before so many reads."""

    def __init__(self, batches: list[bytes], *, trims: int = 0) -> None:
        self.batches = [placed(each) for each in batches]
        self.trims = trims
        self.reads = 0

    async def bounds(self, _: PartitionId) -> Bounds:
        headers = [read_header(each) for each in self.batches]
        if not headers:
            return Bounds(Offset(0), Offset(-1))
        return Bounds(headers[0].base_offset, headers[-1].last_offset)

    async def read(self, _: PartitionId, start: Offset, **__: Any) -> AsyncGenerator[ReadChunk, None]:
        self.reads += 1
        if self.trims:
            self.trims -= 1
            del self.batches[0]
            raise OffsetTrimmed("it was trimmed just now", earliest=0)
        for each in self.batches:
            if read_header(each).last_offset >= start:
                yield ReadChunk(each, read_header(self.batches[-1]).last_offset)


async def shown(log: ReadLog, **wanted: Any) -> pb.ConsoleRecords:
    any_log: Any = log
    return await records_of_log(any_log, ORDERS, pb.ConsoleRecordsRequest(partition=PARTITION, **wanted))


def written() -> ReadLog:
    """Offsets 0 to 5, in three batches that are a second apart."""
    log = StoredLog()
    log.append(put(b"a", b"1"), producer_id=7, sequence=40)
    log.append(add(b"n", b"5"), delete(b"a", grouped=True), producer_id=7, sequence=41, later_ms=1000)
    more = put(b"\xff", b"v" * 3000, condition=Condition.VERSION, version=2, expiry=Expiry.TTL, expiry_ms=60_000)
    log.append(more, noop(), put(b"z"), later_ms=1000)
    return ReadLog(log.batches)


async def test_keys_of_fields_are_shown_as_them() -> None:
    log = StoredLog()
    log.append(put(flight_key("UA", 7), b"row"), noop(), put(b"none of the table's"))
    any_log: Any = ReadLog(log.batches)
    asked = pb.ConsoleRecordsRequest(partition=PARTITION)
    page = await records_of_log(any_log, ORDERS, asked, JsonTable(FLIGHTS))
    assert [each.key_text for each in page.records] == ['["UA",7]', "", ""]


async def test_rows_are_shown_as_json() -> None:
    """What is none, is of a schema that is not known, or is longer than asked for is shown as it is stored."""
    log = StoredLog()
    long, unknown = flight("UA", 9, "N" * 2000), flight("UA", 8, schema=7)
    log.append(put(flight_key("UA", 7), flight("UA", 7)), put(flight_key("UA", 8), unknown), put(b"k", b"\x00" * 5))
    log.append(put(flight_key("UA", 9), long), delete(flight_key("UA", 7)))
    any_log: Any = ReadLog(log.batches)
    for most, shown_long in ((1024, False), (1 << 14, True)):
        asked = pb.ConsoleRecordsRequest(partition=PARTITION, value_bytes_max=most)
        page = await records_of_log(any_log, ORDERS, asked, JsonTable(FLIGHTS))
        first, *others = [each.row for each in page.records]
        assert json.loads(first) == {"carrier": "UA", "flight": 7, "tailnum": None, "dep_delay": 0.0}
        assert [bool(each) for each in others] == [False, False, shown_long, False]


async def test_each_record_as_it_lies_there() -> None:
    page = await shown(written())
    assert (page.earliest, page.latest, getattr(page, "from"), page.next) == (0, 5, 0, 6)
    assert [(each.offset, each.operation, each.key) for each in page.records] == [
        (0, "put", b"a"),
        (1, "add", b"n"),
        (2, "delete", b"a"),
        (3, "put", b"\xff"),
        (4, "noop", b""),
        (5, "put", b"z"),
    ]
    first, _, grouped, conditional, *_ = page.records
    assert (first.producer_id, first.sequence, first.value, first.base_offset) == (7, 40, b"1", 0)
    assert (grouped.grouped, grouped.sequence, grouped.base_offset) == (True, 42, 1)
    assert grouped.timestamp_ms - first.timestamp_ms == 1000
    assert (conditional.condition, conditional.expiry) == ("version 2", "ttl 60000 ms")
    assert (len(conditional.value), conditional.value_bytes) == (1024, 3000), "cut, and it says so"


async def test_where_it_begins() -> None:
    times = [each.timestamp_ms for each in (await shown(written())).records]
    for wanted, offsets in (
        ({"limit": 2}, [4, 5]),
        ({"limit": 2, "offset": 1}, [1, 2]),
        ({"offset": 4}, [4, 5]),
        ({"offset": 0, "limit": 1}, [0]),
        ({"offset": -5, "limit": 1}, [0]),
        ({"offset": 6}, []),
        ({"offset": 10**15}, []),
        ({"time_ms": times[1]}, [1, 2, 3, 4, 5]),
        ({"time_ms": times[1] - 1}, [1, 2, 3, 4, 5]),
        ({"time_ms": times[1] + 1}, [3, 4, 5]),
        ({"time_ms": 0, "limit": 1}, [0]),
        ({"time_ms": times[5] + 1}, []),
    ):
        page = await shown(written(), **wanted)
        assert [each.offset for each in page.records] == offsets, wanted
        assert page.next == (offsets[-1] + 1 if offsets else 6), wanted


async def test_an_empty_log() -> None:
    page = await shown(ReadLog([]))
    assert (page.earliest, page.latest, page.next, list(page.records)) == (0, -1, 0, [])
    assert list((await shown(ReadLog([]), time_ms=5)).records) == []


async def test_offsets_that_hold_nothing_are_one_row() -> None:
    kept = encode_batch(Columns([b"a", b"b"], [b"1", b"2"], deltas=[2, 5]), span=9)
    shell = encode_batch(Columns([], []), span=4)
    stamped = [
        stamp_batch(each, base_offset=Offset(base), timestamp_ms=1, unsynced=0)
        for each, base in ((kept, 10), (shell, 19))
    ]
    page = await shown(ReadLog(stamped), offset=10)
    assert [(each.offset, each.operation, each.span) for each in page.records] == [
        (10, "empty", 2),
        (12, "put", 0),
        (13, "empty", 2),
        (15, "put", 0),
        (16, "empty", 3),
        (19, "empty", 4),
    ]
    assert page.next == 23
    assert [each.offset for each in (await shown(ReadLog(stamped), offset=14)).records] == [13, 15, 16, 19]


async def test_a_log_that_is_trimmed_under_it() -> None:
    page = await shown(log := ReadLog(written().batches, trims=1), offset=0, limit=1)
    assert ([each.offset for each in page.records], page.earliest, log.reads) == ([1], 1, 2)
    with pytest.raises(OffsetTrimmed):
        await shown(ReadLog(written().batches * 2, trims=3), offset=0)


async def test_what_is_not_served() -> None:
    with pytest.raises(InvalidRequest, match="partitions 0 to 3, not 4"):
        await records_of_log(ReadLog([]), ORDERS, pb.ConsoleRecordsRequest(partition=4))  # type: ignore[arg-type]
    for wanted in ({"limit": 501}, {"value_bytes_max": VALUE_BYTES_MAX + 1}):
        with pytest.raises(LimitExceeded):
            await shown(written(), **wanted)
