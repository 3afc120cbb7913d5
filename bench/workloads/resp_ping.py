"""PING beside large commands: how long one client's commands hold up another's.

A process of its own sends PINGs one after the other, so that neither the making of the load nor the reading of its
replies delays what it measures. Meanwhile another connection sends large commands, each when the last one is answered.
Redis executes one command after the other; Duramen's turns have a limit, whatever a command costs.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import socket
import statistics
import time
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection
from typing import Any, Final

from bench.drivers.driver import Driver, PortDriver
from bench.workload import RunSettings, Side, Workload
from bench.workloads.contenders import server_side
from bench.workloads.resp_endpoint import Measure, as_subject
from bench.workloads.resp_pipelines import PipelineConnection, Words

__all__ = ["RESP_PINGS"]

KEYS: Final = 100_000
_LOADED_AT_ONCE: Final = 10_000
_LARGE: Final = b"x" * 1_000_000
_SETTLE_S: Final = 0.5
_GRPC_KEYS: Final = 10_000

_KEYS: Final = [b"{ping}:%06d" % number for number in range(KEYS)]

Load = Callable[[Driver, PipelineConnection], Awaitable[object]]
"""One round of large commands."""


def _sends(*commands: Words) -> Load:
    async def round_of(driver: Driver, connection: PipelineConnection) -> float:
        return await connection.send(list(commands))

    return round_of


async def _over_grpc(driver: Driver, connection: PipelineConnection) -> None:
    """GetMany of 10,000 keys and a scan of the whole table over gRPC, of the same table."""
    import grpc

    from router.proto import kv_pb2 as kv
    from router.proto import kv_pb2_grpc

    port: int = driver.grpc_port  # type: ignore[attr-defined]  # Duramen's alone
    options = [("grpc.max_receive_message_length", -1)]
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
        stub: Any = kv_pb2_grpc.KVStub(channel)  # type: ignore[no-untyped-call]
        await stub.GetMany(kv.KVGetManyRequest(table="default", keys=_KEYS[:_GRPC_KEYS]))
        async for _ in stub.Scan(kv.KVScanRequest(table="default")):
            pass


def _ping(port: int, seconds: float, parent: Connection) -> None:
    """In a process of its own: says that it is there, waits until it may begin, and sends the seconds of each PING."""
    parent.send(None)
    parent.recv()
    with socket.create_connection(("127.0.0.1", port)) as server:
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        ends_s = time.perf_counter() + seconds
        times: list[float] = []
        while (began := time.perf_counter()) < ends_s:
            server.sendall(b"*1\r\n$4\r\nPING\r\n")
            assert server.recv(64) == b"+PONG\r\n"
            times.append(time.perf_counter() - began)
    parent.send(times)


async def _load(connection: PipelineConnection) -> None:
    for at in range(0, KEYS, _LOADED_AT_ONCE):
        await connection.send([(b"MSET", *(word for key in _KEYS[at : at + _LOADED_AT_ONCE] for word in (key, b"v")))])
    await connection.send([(b"SET", b"{ping}:large", _LARGE)])
    await asyncio.sleep(_SETTLE_S)  # the indexes have applied it, and the disk is quiet


def _measure(load: Load) -> Measure:
    async def measure(driver: Driver, settings: RunSettings) -> dict[str, float]:
        assert isinstance(driver, PortDriver), f"no socket reaches {driver.version}"
        connection = await PipelineConnection.open(driver.port)
        here, there = multiprocessing.Pipe()
        pinger = multiprocessing.get_context("spawn").Process(
            target=_ping, args=(driver.port, settings.seconds, there), daemon=True
        )
        pinger.start()
        try:
            await asyncio.to_thread(here.recv)  # a new interpreter takes seconds on a busy machine
            await _load(connection)
            await load(driver, connection)  # warm
            here.send(None)
            while not here.poll():
                assert pinger.is_alive() or here.poll(), "the process that sends PINGs has ended"
                await load(driver, connection)
            times = here.recv()
        finally:
            await connection.close()
            here.close()  # it ends, should it still wait
            await asyncio.to_thread(pinger.join)
        return {
            "p50_us": statistics.median(times) * 1e6,
            "p99_us": sorted(times)[len(times) * 99 // 100] * 1e6,
            "longest_ping_ms": max(times) * 1e3,
        }

    return measure


def _workload(name: str, title: str, load: Load, *, peer: bool = True) -> Workload:
    sides: list[Side] = [
        as_subject(server_side(side, _measure(load))) for side in (("resp", "redis") if peer else ("resp",))
    ]
    return Workload(f"resp_ping_{name}", f"PING beside {title}", tuple(sides))


RESP_PINGS: Final = (
    _workload("get_1mb", "300 pipelined GETs of 1 MB", _sends(*[(b"GET", b"{ping}:large")] * 300)),
    _workload("mget", f"MGET of {KEYS:,} keys", _sends((b"MGET", *_KEYS))),
    _workload("keys", f"KEYS of {KEYS:,} keys", _sends((b"KEYS", b"*"))),
    _workload(
        "exec",
        "EXEC of 2,048 commands",
        _sends((b"MULTI",), *[(b"SET", key, b"w") for key in _KEYS[:2048]], (b"EXEC",)),
    ),
    _workload("grpc", f"a gRPC GetMany of {_GRPC_KEYS:,} keys and a scan of {KEYS:,}", _over_grpc, peer=False),
)
