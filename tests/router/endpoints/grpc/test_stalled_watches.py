"""Watches that nobody reads hold a message each; one that is read again, after whatever time, shows every change."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import grpc
import pytest
from kit.client.grpc_stubs import GrpcStubs, served
from kit.deadlines import patience_s, wait_until

from log_tier.model.batch import decode_batch
from log_tier.model.batch_header import split_batches
from log_tier.rpc.stream_budget import FLOOR_BYTES
from router.proto import keyvalue_pb2, tables_pb2
from router.proto import kv_pb2 as kv

COUNT: Final = 1_500
VALUE: Final = b"x" * 4_000
UNREAD: Final = 40


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GrpcStubs]:
    folder: Path = tmp_path_factory.mktemp("stalled")
    with served(folder, GrpcStubs) as made:
        made.tables.Create(tables_pb2.CreateTableRequest(name="cities", partitions=4), timeout=patience_s(20))
        write(made, range(COUNT))
        # A client that does not grow its windows takes some 64 KiB of a stream that it does not read.
        options = [("grpc.http2.bdp_probe", 0), ("grpc.use_local_subchannel_pool", 1)]
        with grpc.insecure_channel(f"127.0.0.1:{made.server.server.port}", options=options) as channel:
            yield GrpcStubs(made.server, channel)


def write(stubs: GrpcStubs, numbers: range) -> None:
    calls = [
        stubs.kv.Put.future(kv.KVPutRequest(table="cities", key=b"%06d" % number, value=VALUE)) for number in numbers
    ]
    for call in calls:
        call.result(patience_s(20))


def keys(end: int, begin: int = 0) -> list[bytes]:
    return [b"%06d" % number for number in range(begin, end)]


def watch(stubs: GrpcStubs) -> Any:
    return stubs.kv.Watch(kv.KVWatchRequest(table="cities", start=kv.KV_WATCH_START_EARLIEST))


def followers(stubs: GrpcStubs) -> int:
    """How many partitions the server follows for watches."""
    loop = stubs.server.loop
    return sum(task.get_name().startswith("watch cities/") for task in list(asyncio.all_tasks(loop)))


def held_bytes(stubs: GrpcStubs) -> int:
    return stubs.server.server.shell.streams.budget.held_bytes


def shown(call: Any, count: int) -> list[bytes]:
    """The keys of a watch's changes, sorted, when it has shown `count` of them."""
    found: list[bytes] = []
    while len(found) < count:
        found += [change.key for change in next(call).changes]
    return sorted(found)


def test_unread_watches_follow_nothing_and_show_everything_later(stubs: GrpcStubs) -> None:
    unread = [watch(stubs) for _ in range(UNREAD)]
    try:
        for call in unread:
            next(call)
        wait_until(lambda: followers(stubs) == 0, "every source is closed")
        assert 0 < held_bytes(stubs) <= 2 * FLOOR_BYTES * UNREAD
        reader = watch(stubs)
        assert shown(reader, COUNT) == keys(COUNT)
        write(stubs, range(COUNT, COUNT + 100))
        assert shown(reader, 100) == keys(COUNT + 100, COUNT)
        for call in unread[:3]:
            assert shown(call, COUNT + 100) == keys(COUNT + 100)
            call.cancel()
    finally:
        for call in unread:
            call.cancel()
    reader.cancel()
    wait_until(lambda: held_bytes(stubs) == followers(stubs) == 0)


def test_the_batched_service_goes_on_behind_what_it_sent(stubs: GrpcStubs) -> None:
    """Its first message, with the positions, comes once."""
    table = stubs.tables.Find(tables_pb2.FindTableRequest(name="cities"), timeout=patience_s(20))
    start = [keyvalue_pb2.PartitionOffset(partition=number, offset=0) for number in range(4)]
    call = stubs.data.Watch(keyvalue_pb2.WatchRequest(table_id=table.id, start=start))
    first = next(call)
    assert len(first.positions) == 4
    wait_until(lambda: followers(stubs) == 0, "its source is closed")
    ends = dict.fromkeys(range(4), -1)
    seen = 0
    while seen < COUNT:
        event = next(call)
        assert not event.positions
        for data in split_batches(event.batches):
            batch = decode_batch(data)
            assert batch.header.base_offset == ends[event.partition] + 1
            ends[event.partition] = batch.header.last_offset
            seen += len(batch.columns.keys)
    call.cancel()


def test_watches_beyond_the_limit_are_refused_by_name(stubs: GrpcStubs, monkeypatch: pytest.MonkeyPatch) -> None:
    budget = stubs.server.server.shell.streams.budget
    monkeypatch.setattr(budget, "held_bytes", budget.held_bytes + (1 << 40))
    with pytest.raises(grpc.RpcError) as caught:
        shown(watch(stubs), COUNT)
    error: Any = caught.value
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    monkeypatch.undo()
    call = watch(stubs)
    assert len(shown(call, COUNT)) >= COUNT
    call.cancel()
