"""One blocking caller in Python: `duramen.connect`, which takes the RESP endpoint, and gRPC to etcd."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import cycle
from time import perf_counter_ns
from typing import Any, Final

from bench.callers import WARMUP_SECONDS, Timing
from bench.data import make_pairs
from bench.drivers.driver import Driver, PortDriver
from bench.drivers.resp_endpoint import RespEndpoint
from bench.workload import Bar, RunSettings, Side, Workload
from bench.workloads.contenders import preload, server_side

__all__ = ["RESP_CLIENT"]

_KEYS: Final = 100_000

Call = Callable[[bytes, bytes], None]


def _timed(call: Call, settings: RunSettings) -> dict[str, float]:
    """Call with one pair after the other, in this thread."""
    next_pair = cycle(make_pairs(_KEYS)).__next__
    durations: list[int] = []
    opened = perf_counter_ns() + int(WARMUP_SECONDS * 1e9)
    closed = opened + int(settings.seconds * 1e9)
    started = perf_counter_ns()
    while started < closed:
        call(*next_pair())
        ended = perf_counter_ns()
        if started >= opened:
            durations.append(ended - started)
        started = ended
    return Timing(seconds=settings.seconds, latencies_ns=durations).metrics()


def _resp(driver: Driver, *, put: bool) -> tuple[Call, Callable[[], None]]:
    import duramen

    assert isinstance(driver, RespEndpoint)
    database = duramen.connect(f"127.0.0.1:{driver.grpc_port}")
    table = database.table("default")

    def get(key: bytes, value: bytes) -> None:
        if (found := table.get(key)) != value:
            raise AssertionError(f"get {key!r} found {found!r}")

    def put_one(key: bytes, value: bytes) -> None:
        table.put(key, value)

    return (put_one if put else get), database.close


def _etcd(driver: Driver, *, put: bool) -> tuple[Call, Callable[[], None]]:
    import grpc

    from bench.drivers import etcd_pb2 as pb

    assert isinstance(driver, PortDriver), f"{driver.version} tells no port"
    channel: Any = grpc.insecure_channel(f"127.0.0.1:{driver.port}")
    get_stub = channel.unary_unary(
        "/etcdserverpb.KV/Range",
        request_serializer=pb.RangeRequest.SerializeToString,
        response_deserializer=pb.RangeResponse.FromString,
    )
    put_stub = channel.unary_unary(
        "/etcdserverpb.KV/Put",
        request_serializer=pb.PutRequest.SerializeToString,
        response_deserializer=pb.PutResponse.FromString,
    )

    def get(key: bytes, value: bytes) -> None:
        found = get_stub(pb.RangeRequest(key=key, serializable=True))
        if [each.value for each in found.kvs] != [value]:
            raise AssertionError(f"range of {key!r} found {len(found.kvs)} keys, or another value")

    def put_one(key: bytes, value: bytes) -> None:
        put_stub(pb.PutRequest(key=key, value=value))

    return (put_one if put else get), channel.close


def _side(name: str, *, put: bool) -> Side:
    async def measure(driver: Driver, settings: RunSettings) -> dict[str, float]:
        await preload(driver, make_pairs(_KEYS))
        connect = _resp if name == "resp" else _etcd

        def work() -> dict[str, float]:
            call, close = connect(driver, put=put)
            try:
                return _timed(call, settings)
            finally:
                close()

        return await asyncio.to_thread(work)

    side = server_side(name, measure)
    return Side("duramen" if side.role == "subject" else side.name, side.role, side.run, side.needs)


RESP_CLIENT: Final = (
    Workload(
        "resp_client_get",
        f"get, one blocking caller, {_KEYS:,} keys",
        (_side("resp", put=False), _side("etcd", put=False)),
        (Bar("p50_us", "at most", 0.5, "etcd"),),
    ),
    Workload(
        "resp_client_put",
        "durable put, one blocking caller",
        (_side("resp", put=True), _side("etcd", put=True)),
        (Bar("p50_us", "at most", 1, "etcd"),),
    ),
)
