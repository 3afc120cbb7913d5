"""No turn of the event loop takes more than 10 ms of the processor for large requests over gRPC.

Measurements of the campaign, as those of `tests/router/endpoints/resp/test_turn_times.py`; the suite counts in
`test_grpc_turns.py`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import grpc
import pytest
from kit.client.grpc_stubs import GrpcStubs, served
from kit.client.grpc_thread import GrpcThread
from kit.resp.turn_times import TURN_MAX_S, shortest_of

from log_tier.model.batch import Columns, encode_batch
from log_tier.model.identifiers import PARTITIONS_MAX
from log_tier.model.record import Condition, Operation, attribute_of
from router.proto import admin_pb2, keyvalue_pb2, kv_pb2, tables_pb2
from serving_tier.proto import node_pb2

pytestmark = [
    pytest.mark.campaign,
    pytest.mark.skipif("DURAMEN_CAMPAIGN" not in os.environ, reason="a limit on time: `make campaign` measures it"),
]

TRIES: Final = 4
MANY: Final = 10_000
"""What the limits of the services let in."""
KEYS: Final = [b"key:%06d" % number for number in range(100_000)]


class Large(GrpcStubs):
    """Large requests to one server, each a method."""

    def __init__(self, server: GrpcThread, channel: grpc.Channel) -> None:
        super().__init__(server, channel)
        self.raw_read = channel.unary_unary("/duramen.v1.KeyValue/Read", bytes, bytes)
        self.one = self.tables.Create(tables_pb2.CreateTableRequest(name="one", partitions=1))
        self.wide = self.tables.Create(tables_pb2.CreateTableRequest(name="wide", partitions=PARTITIONS_MAX))
        self.batch = encode_batch(Columns(KEYS[:50_000], [b"value"] * 50_000))
        self.small = encode_batch(Columns([b"small"], [b"value"]))
        self.batch_of_all()

    def group_of_writes(self) -> None:
        writes = [kv_pb2.KVWrite(key=key, put=b"value") for key in KEYS[:MANY]]
        assert len(self.kv.Write(kv_pb2.KVWriteRequest(table="one", writes=writes)).results) == MANY

    def too_large_group(self) -> None:
        writes = [kv_pb2.KVWrite(key=key, put=b"value") for key in KEYS[:30_000]]
        with pytest.raises(grpc.RpcError, match="a group has at most 10000 writes"):
            self.kv.Write(kv_pb2.KVWriteRequest(table="one", writes=writes))

    def small_gets(self) -> None:
        for key in KEYS[:300]:
            assert self.kv.Get(kv_pb2.KVGetRequest(table="one", key=key)).value == b"value"

    def too_many_fields(self) -> None:
        with pytest.raises(grpc.RpcError, match="more than 100000 fields"):
            self.raw_read(b"\x0a\x00" * 2_000_000)

    def get_many(self) -> None:
        assert len(self.kv.GetMany(kv_pb2.KVGetManyRequest(table="one", keys=KEYS[:MANY])).entries) == MANY

    def too_many_gets(self) -> None:
        with pytest.raises(grpc.RpcError, match="asks for at most 10000 keys"):
            self.kv.GetMany(kv_pb2.KVGetManyRequest(table="one", keys=KEYS[:90_000]))

    def scan(self) -> None:
        pages = self.kv.Scan(kv_pb2.KVScanRequest(table="one"))
        assert sum(len(page.entries) for page in pages) >= 50_000

    def watch(self) -> None:
        stream = self.kv.Watch(kv_pb2.KVWatchRequest(table="one", start=kv_pb2.KV_WATCH_START_EARLIEST))
        count = 0
        for message in stream:
            count += len(message.changes)
            if count >= 50_000:
                break
        stream.cancel()

    def batch_of_all(self) -> None:
        part = keyvalue_pb2.WritePart(table_id=self.one.id, partition=0, batch=self.batch)
        (result,) = self.data.Write(keyvalue_pb2.WriteRequest(parts=[part])).results
        assert not result.HasField("problem")

    def read(self) -> None:
        part = keyvalue_pb2.ReadPart(table_id=self.one.id, partition=0, keys=KEYS[:MANY], after=-1)
        assert len(self.data.Read(keyvalue_pb2.ReadRequest(parts=[part])).results[0].values) == MANY

    def too_large_read(self) -> None:
        part = keyvalue_pb2.ReadPart(table_id=self.one.id, partition=0, keys=KEYS[:90_000], after=-1)
        with pytest.raises(grpc.RpcError, match="a read asks for at most 10000 keys"):
            self.data.Read(keyvalue_pb2.ReadRequest(parts=[part]))

    def read_of_many_parts(self) -> None:
        parts = [keyvalue_pb2.ReadPart(table_id=self.one.id, partition=0, keys=[key], after=-1) for key in KEYS[:MANY]]
        assert len(self.data.Read(keyvalue_pb2.ReadRequest(parts=parts)).results) == MANY

    def group_of_updates(self) -> None:
        one = kv_pb2.KVNumber(integer=1)
        writes = [kv_pb2.KVWrite(key=b"number:" + key, add=one) for key in KEYS[:MANY]]
        assert len(self.kv.Write(kv_pb2.KVWriteRequest(table="one", writes=writes)).results) == MANY

    def batch_of_rejected_records(self) -> None:
        attribute = attribute_of(Operation.PUT, condition=Condition.ABSENT)
        batch = encode_batch(Columns(KEYS[:MANY], [b"value"] * MANY, [attribute] * MANY))
        part = keyvalue_pb2.WritePart(table_id=self.one.id, partition=0, batch=batch, outcomes=True)
        assert len(self.data.Write(keyvalue_pb2.WriteRequest(parts=[part])).results[0].outcomes) == MANY

    def many_rejected_records(self) -> None:
        count = 50_000
        attribute = attribute_of(Operation.PUT, condition=Condition.ABSENT)
        batch = encode_batch(Columns(KEYS[:count], [b"value"] * count, [attribute] * count))
        part = keyvalue_pb2.WritePart(table_id=self.one.id, partition=0, batch=batch, outcomes=True)
        assert len(self.data.Write(keyvalue_pb2.WriteRequest(parts=[part])).results[0].outcomes) == count

    def write_of_many_parts(self) -> None:
        part = keyvalue_pb2.WritePart(table_id=self.one.id, partition=0, batch=self.small, outcomes=True)
        assert len(self.data.Write(keyvalue_pb2.WriteRequest(parts=[part] * MANY)).results) == MANY

    def parts_of_no_table(self) -> None:
        part = keyvalue_pb2.WritePart(table_id=bytes(16), partition=0, batch=self.small)
        assert len(self.data.Write(keyvalue_pb2.WriteRequest(parts=[part] * MANY)).results) == MANY

    def damaged_parts(self) -> None:
        part = keyvalue_pb2.WritePart(table_id=self.one.id, partition=0, batch=self.small[:-1])
        assert len(self.data.Write(keyvalue_pb2.WriteRequest(parts=[part] * MANY)).results) == MANY

    def many_outcomes(self) -> None:
        part = keyvalue_pb2.OutcomesPart(table_id=self.one.id, partition=0, base_offset=0, timestamp_ms=1, span=1)
        assert len(self.data.Outcomes(keyvalue_pb2.OutcomesRequest(parts=[part] * MANY)).results) == MANY

    def strong_read_of_many_parts(self) -> None:
        part = keyvalue_pb2.ReadPart(table_id=self.one.id, partition=0, keys=KEYS[:1], strong=True)
        assert len(self.data.Read(keyvalue_pb2.ReadRequest(parts=[part] * MANY)).results) == MANY

    def reads_of_no_table(self) -> None:
        part = keyvalue_pb2.ReadPart(table_id=bytes(16), partition=0, keys=KEYS[:1])
        assert len(self.data.Read(keyvalue_pb2.ReadRequest(parts=[part] * MANY)).results) == MANY

    def partitions_of_all_tables(self) -> None:
        assert len(self.admin.Partitions(admin_pb2.AdminTableRequest()).partitions) > PARTITIONS_MAX

    def lag_of_all_replicas(self) -> None:
        assert len(self.admin.Lag(admin_pb2.AdminTableRequest()).replicas) > PARTITIONS_MAX

    def status_of_the_node(self) -> None:
        (message,) = self.node.Status(node_pb2.StatusRequest(once=True))
        assert len(message.replicas) > PARTITIONS_MAX

    def status_stream(self) -> None:
        stream = self.node.Status(node_pb2.StatusRequest())
        for _ in range(4):
            next(stream)
        stream.cancel()

    def description(self) -> None:
        description = self.tables.Describe(tables_pb2.FindTableRequest(name="wide"))
        assert len(description.partitions) == PARTITIONS_MAX

    def watch_of_many_partitions(self) -> None:
        stream = self.data.Watch(keyvalue_pb2.WatchRequest(table_id=self.wide.id))
        assert len(next(stream).positions) == PARTITIONS_MAX
        stream.cancel()

    def kv_watch_of_many_partitions(self) -> None:
        stream = self.kv.Watch(kv_pb2.KVWatchRequest(table="wide", start=kv_pb2.KV_WATCH_START_EARLIEST))
        next(stream)
        stream.cancel()

    def commit_that_wakes_watches(self) -> None:
        streams = [self.kv.Watch(kv_pb2.KVWatchRequest(table="one")) for _ in range(100)]
        for stream in streams:
            next(stream)
        for number in range(5):
            self.kv.Put(kv_pb2.KVPutRequest(table="one", key=b"%d" % number, value=b"value"))
            for stream in streams:
                assert len(next(stream).changes) == 1
        for stream in streams:
            stream.cancel()

    def scan_of_many_partitions(self) -> None:
        page = self.data.Scan(keyvalue_pb2.ScanRequest(table_id=self.wide.id, limit=MANY, strong=True))
        assert len(page.applied) == PARTITIONS_MAX

    def producer_of_many_partitions(self) -> None:
        assert not self.data.Producer(keyvalue_pb2.ProducerRequest(table_id=self.wide.id, producer_id=7)).positions

    def page_of_a_scan(self) -> None:
        assert len(self.data.Scan(keyvalue_pb2.ScanRequest(table_id=self.one.id, limit=MANY)).keys) == MANY


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Large]:
    with served(tmp_path_factory.mktemp("grpc turn times"), Large) as opened:
        yield opened


REQUESTS: Final[dict[str, Callable[[Large], None]]] = {
    name: work for name, work in vars(Large).items() if not name.startswith("_")
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_large_request(large: Large, name: str) -> None:
    assert shortest_of(TRIES, large.server, lambda: REQUESTS[name](large)) <= TURN_MAX_S


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("write_of_many_parts", "strong_read_of_many_parts"),
        ("group_of_updates", "strong_read_of_many_parts"),
        ("small_gets", "too_many_fields"),
        ("small_gets", "group_of_writes"),
        ("small_gets", "commit_that_wakes_watches"),
        ("reads_of_no_table", "strong_read_of_many_parts"),
        ("reads_of_no_table", "reads_of_no_table"),
    ],
)
def test_two_large_requests_at_once(large: Large, first: str, second: str) -> None:
    def both() -> None:
        with ThreadPoolExecutor(2) as callers:
            for call in [callers.submit(REQUESTS[name], large) for name in (first, second)]:
                call.result()

    assert shortest_of(TRIES, large.server, both) <= TURN_MAX_S
