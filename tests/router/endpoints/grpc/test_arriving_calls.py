"""Calls whose message does not come whole: they end, and what they took is given back; all others go on."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from kit.client.grpc_stubs import GrpcStubs, served
from kit.client.raw_http2 import RawHttp2
from kit.deadlines import patience_s, wait_until

from log_tier.rpc.messages.arriving_calls import ARRIVING_BYTES_MAX, MESSAGE_S, ArrivingCalls
from router.proto import kv_pb2 as kv
from router.proto import tables_pb2

MIB: Final = 1 << 20
READ: Final = "/duramen.v1.KeyValue/Read"
SCAN: Final = "/duramen.v1.KV/Scan"
UNKNOWN: Final = "/duramen.v1.KV/Nothing"


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GrpcStubs]:
    folder: Path = tmp_path_factory.mktemp("arriving")
    with served(folder, GrpcStubs) as made:
        made.tables.Create(tables_pb2.CreateTableRequest(name="cities", partitions=1), timeout=patience_s(20))
        yield made


@pytest.fixture
def arriving(stubs: GrpcStubs) -> Iterator[ArrivingCalls]:
    found: ArrivingCalls = stubs.server.server.shell.registry.arriving
    yield found
    found.message_s, found.bytes_max, found.ended = MESSAGE_S, ARRIVING_BYTES_MAX, 0


@pytest.fixture
def hostile(stubs: GrpcStubs) -> Iterator[RawHttp2]:
    made = RawHttp2(stubs.server.server.port)
    yield made
    made.close()


def put(stubs: GrpcStubs, value: bytes = b"value") -> Any:
    return stubs.kv.Put(kv.KVPutRequest(table="cities", key=b"key", value=value), timeout=patience_s(20))


def forget_freed_memory() -> None:
    """Have malloc give back what other tests of this process have freed: messages would be laid there, and the process
    would not grow by them.
    """
    if hasattr(libc := ctypes.CDLL(None), "malloc_trim"):  # glibc's
        libc.malloc_trim(0)


def all_ended(stubs: GrpcStubs, hostile: RawHttp2, streams: list[int]) -> bool:
    """gRPC holds the newest call until the next one comes."""
    assert put(stubs).version >= 0, "others are served meanwhile"
    hostile.take(0.05)
    return hostile.ended.issuperset(streams)


def test_messages_that_never_come_whole_end(
    stubs: GrpcStubs, arriving: ArrivingCalls, hostile: RawHttp2, caplog: pytest.LogCaptureFixture
) -> None:
    arriving.message_s = 1.0
    with caplog.at_level(logging.WARNING):
        streams = [hostile.begin(path, 40 * MIB) for path in [READ, SCAN] * 20]
        wait_until(lambda: all_ended(stubs, hostile, streams))
    assert arriving.ended == len(streams)
    assert "their messages did not come whole within 1 s; calls of" in caplog.text
    assert READ in caplog.text
    assert [each.message for each in caplog.records if each.levelno >= logging.ERROR] == []
    assert put(stubs).version >= 0
    wait_until(lambda: not arriving.methods and not arriving.is_watched, "nothing is looked at for nobody")


def test_bytes_one_by_one_do_not_prolong_it(stubs: GrpcStubs, arriving: ArrivingCalls, hostile: RawHttp2) -> None:
    arriving.message_s = 1.0
    stream = hostile.begin(READ, 10_000)
    wait_until(lambda: put(stubs) and not hostile.send(stream, b"x"))
    assert arriving.ended == 1


def test_messages_that_take_too_much_memory_end(
    stubs: GrpcStubs, arriving: ArrivingCalls, hostile: RawHttp2, caplog: pytest.LogCaptureFixture
) -> None:
    arriving.bytes_max = 64 * MIB
    wait_until(lambda: not arriving.is_watched)
    forget_freed_memory()
    with caplog.at_level(logging.WARNING):
        streams = [hostile.begin(READ, 47 * MIB) for _ in range(6)]
        for stream in streams:
            hostile.send(stream, bytes(30 * MIB))
        wait_until(lambda: all_ended(stubs, hostile, streams))
    assert f"more than {64 * MIB}" in caplog.text
    assert put(stubs, bytes(MIB)).version >= 0, "a large message of others comes whole"


def test_clients_that_leave_and_methods_that_nobody_has_are_forgotten(
    stubs: GrpcStubs, arriving: ArrivingCalls
) -> None:
    leaving = RawHttp2(stubs.server.server.port)
    for path in (READ, SCAN, UNKNOWN):
        leaving.begin(path, MIB)
    wait_until(lambda: len(arriving.methods) >= 2)
    leaving.close()
    wait_until(lambda: not arriving.methods)
    assert arriving.ended == 0
