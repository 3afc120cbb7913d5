"""A request that names partitions names each once, and no more than a table can have: whatever a client sends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import grpc
import pytest
from kit.client.grpc_thread import GrpcThread

from log_tier.model.batch import decode_batch
from log_tier.model.batch_header import split_batches
from log_tier.model.identifiers import PARTITIONS_MAX
from router.proto import keyvalue_pb2 as kv
from router.proto import keyvalue_pb2_grpc, kv_pb2, kv_pb2_grpc, tables_pb2, tables_pb2_grpc

MANY: Final = [0] * (PARTITIONS_MAX + 1)


@pytest.fixture(scope="module")
def channel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[grpc.Channel]:
    server = GrpcThread(tmp_path_factory.mktemp("grpc partition lists")).start()
    with server.connect() as channel:
        yield channel
    server.close()


@pytest.fixture(scope="module")
def table_id(channel: grpc.Channel) -> bytes:
    tables: Any = tables_pb2_grpc.TablesStub(channel)  # type: ignore[no-untyped-call]
    table_id: bytes = tables.Create(tables_pb2.CreateTableRequest(name="two", partitions=2)).id
    return table_id


def _offsets() -> list[kv.PartitionOffset]:
    return [kv.PartitionOffset(partition=partition, offset=0) for partition in MANY]


ASKED: Final[dict[str, Callable[[Any, bytes], Any]]] = {
    "partitions of a watch": lambda stub, table: next(stub.Watch(kv.WatchRequest(table_id=table, partitions=MANY))),
    "starts of a watch": lambda stub, table: next(stub.Watch(kv.WatchRequest(table_id=table, start=_offsets()))),
    "partitions of a scan": lambda stub, table: stub.Scan(kv.ScanRequest(table_id=table, limit=1, partitions=MANY)),
    "offsets of a scan": lambda stub, table: stub.Scan(kv.ScanRequest(table_id=table, limit=1, after=_offsets())),
    "partitions of a producer": lambda stub, table: stub.Producer(
        kv.ProducerRequest(table_id=table, producer_id=1, partitions=MANY)
    ),
}


@pytest.mark.parametrize("name", ASKED)
def test_a_list_is_no_longer_than_a_table(channel: grpc.Channel, table_id: bytes, name: str) -> None:
    stub: Any = keyvalue_pb2_grpc.KeyValueStub(channel)  # type: ignore[no-untyped-call]
    with pytest.raises(grpc.RpcError, match="names 1025 partitions, a table has at most 1024") as caught:
        ASKED[name](stub, table_id)
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_a_partition_that_is_named_often_is_read_once(channel: grpc.Channel, table_id: bytes) -> None:
    stub: Any = keyvalue_pb2_grpc.KeyValueStub(channel)  # type: ignore[no-untyped-call]
    keys: Any = kv_pb2_grpc.KVStub(channel)  # type: ignore[no-untyped-call]
    for key in (b"a", b"b", b"c", b"d"):
        keys.Put(kv_pb2.KVPutRequest(table="two", key=key, value=b"value"))
    twice = stub.Scan(kv.ScanRequest(table_id=table_id, limit=10, strong=True, partitions=[0, 1] * 2))
    assert list(twice.keys) == [b"a", b"b", b"c", b"d"]
    start = [kv.PartitionOffset(partition=partition, offset=0) for partition in (0, 1)]
    stream = stub.Watch(kv.WatchRequest(table_id=table_id, start=start, partitions=[0, 1] * 2))
    seen: list[bytes] = []
    for event in stream:
        seen += [key for batch in split_batches(event.batches) for key in decode_batch(batch).columns.keys]
        if len(seen) >= 4:
            break
    stream.cancel()
    assert sorted(seen) == [b"a", b"b", b"c", b"d"]
