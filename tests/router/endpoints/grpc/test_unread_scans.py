"""Scans that nobody reads hold little, and those that somebody reads go on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import grpc
import pytest
from kit.client.grpc_stubs import GrpcStubs, served
from kit.deadlines import patience_s, wait_until

import duramen
from log_tier.rpc.stream_budget import FLOOR_BYTES, SOFT_BYTES
from router.proto import kv_pb2 as kv
from router.proto import tables_pb2

COUNT: Final = 2_000
VALUE: Final = b"x" * 4_000
UNREAD: Final = 100
KEYS: Final = [b"%06d" % number for number in range(COUNT)]


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GrpcStubs]:
    folder: Path = tmp_path_factory.mktemp("unread")
    with served(folder, GrpcStubs) as made:
        made.tables.Create(tables_pb2.CreateTableRequest(name="cities", partitions=4), timeout=patience_s(20))
        with duramen.connect(f"127.0.0.1:{made.server.server.port}") as database:
            database.table("cities").put_many([(key, VALUE) for key in KEYS])
        wait_until(lambda: keys_of(scan(made)) == KEYS, "the replicas have applied them")
        yield made


def held_bytes(stubs: GrpcStubs) -> int:
    return stubs.server.server.shell.streams.budget.held_bytes


def keys_of(call: Any) -> list[bytes]:
    return [entry.key for message in call for entry in message.entries]


def scan(stubs: GrpcStubs, **how: Any) -> Any:
    return stubs.kv.Scan(kv.KVScanRequest(table="cities", **how), timeout=patience_s(120))


def test_a_scan_goes_on_where_many_others_are_not_read(stubs: GrpcStubs) -> None:
    unread = [scan(stubs) for _ in range(UNREAD)]
    try:
        for call in unread:
            next(call)  # each has begun
        wait_until(lambda: held_bytes(stubs) > 0)
        assert keys_of(scan(stubs)) == KEYS
        assert keys_of(scan(stubs, reverse=True)) == KEYS[::-1]
        assert keys_of(scan(stubs, limit=777)) == KEYS[:777]
        assert held_bytes(stubs) <= SOFT_BYTES + FLOOR_BYTES * UNREAD
    finally:
        for call in unread:
            call.cancel()
    wait_until(lambda: held_bytes(stubs) == 0)


def test_a_scan_that_stalls_goes_on_with_nothing_twice(stubs: GrpcStubs) -> None:
    """While others write: what was there from the beginning is shown once."""
    stalled = scan(stubs)
    first = next(stalled)
    stop, written = threading.Event(), list[bytes]()

    def write() -> None:
        while not stop.is_set():
            number = len(written) + 1
            written.append(b"%06d.%d" % (number % COUNT, number))
            stubs.kv.Put(kv.KVPutRequest(table="cities", key=written[-1], value=b"new"))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert keys_of(scan(stubs)).count(b"000100") == 1
        shown = [entry.key for entry in first.entries] + keys_of(stalled)
    finally:
        stop.set()
        writer.join()
        for key in written:  # other tests have the table as it was
            stubs.kv.Delete(kv.KVDeleteRequest(table="cities", key=key), timeout=patience_s(20))
        wait_until(lambda: keys_of(scan(stubs)) == KEYS, "the replicas have applied that")
    assert shown == sorted(set(shown))
    assert [key for key in shown if len(key) == 6] == KEYS


def test_streams_beyond_the_limit_are_refused_by_name(stubs: GrpcStubs, monkeypatch: pytest.MonkeyPatch) -> None:
    budget = stubs.server.server.shell.streams.budget
    monkeypatch.setattr(budget, "held_bytes", budget.held_bytes + (1 << 40))
    with pytest.raises(grpc.RpcError) as caught:
        next(scan(stubs))
    error: Any = caught.value
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "do not read" in error.details()
    monkeypatch.undo()
    assert len(keys_of(scan(stubs, limit=3))) == 3
