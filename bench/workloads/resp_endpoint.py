"""The RESP endpoint compared with Redis: the same protocol, the same keys, the same load generators, and a sync behind
every SET.

`redis-benchmark` drives both servers at the same cost, so what differs is the servers'. redis-py's asyncio client,
which is what a Python program has, costs more than either of them; it is also our side of the comparison with etcd's
client.

Every run loads a million keys first, under the names that `redis-benchmark` asks for, and reads some of them back: a
read waits for what was acknowledged, so all of it has been applied when the clock starts.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import cycle
from typing import Final

from bench.calibration import calibrated
from bench.callers import drive, run_async
from bench.data import make_numbered_pairs
from bench.drivers.driver import Driver, PortDriver
from bench.redis_benchmark import Load, run_load
from bench.workload import Bar, Measurement, Needs, RunSettings, Side, Workload
from bench.workloads.contenders import preload, server_side

__all__ = [
    "CONNECTIONS",
    "GET",
    "KEYS",
    "PIPELINED",
    "RESP_ENDPOINT",
    "SET",
    "Measure",
    "as_subject",
    "benchmark_side",
    "by_benchmark",
]

KEYS: Final = 1_000_000
_QUICK_DIVISOR: Final = 10

CONNECTIONS: Final = 50
"""What `redis-benchmark` takes by itself."""

CALLERS: Final = 64
PIPELINED: Final = 16
KEYS_PER_CALL: Final = 100

GET: Final = ("get",)
SET: Final = ("set",)
_MGET: Final = ("MGET", *["key:__rand_int__"] * KEYS_PER_CALL)

_CHECKED_KEYS: Final = 2000
"""Read back after loading, spread over all: `redis-benchmark` does not look at what a GET returns."""

_BENCHMARK_NEEDS: Final = ("redis-benchmark", "Debian: redis-tools")

Measure = Callable[[Driver, RunSettings], Awaitable[dict[str, float]]]


def _keys(settings: RunSettings) -> int:
    return KEYS // _QUICK_DIVISOR if settings.quick else KEYS


async def _load(driver: Driver, pairs: list[tuple[bytes, bytes]]) -> None:
    """Put all pairs, see that they are there, and let the disk have them before anything is timed."""
    await preload(driver, pairs)
    some = pairs[:: max(1, len(pairs) // _CHECKED_KEYS)] + pairs[-1:]
    for start in range(0, len(some), KEYS_PER_CALL):
        part = some[start : start + KEYS_PER_CALL]
        if await driver.get_many([key for key, _ in part]) != [value for _, value in part]:
            raise AssertionError(f"{len(part)} keys from {part[0][0]!r} have other values than were put")
    await asyncio.to_thread(os.sync)


# --- by redis-benchmark


def by_benchmark(command: tuple[str, ...], *, connections: int, pipelined: int = 1) -> Measure:
    """Load the keys, then let `redis-benchmark` send one command for as long as was asked."""

    async def measure(driver: Driver, settings: RunSettings) -> dict[str, float]:
        assert isinstance(driver, PortDriver), f"redis-benchmark cannot drive {driver.version}"
        keys, port = _keys(settings), driver.port
        await _load(driver, make_numbered_pairs(keys))
        load = Load(command, connections=connections, keys=keys, pipelined=pipelined, access=driver.access)

        async def rate(requests: int) -> float:
            return (await run_load(load, port=port, requests=requests)).per_second

        requests = await calibrated(rate, seconds=settings.seconds)
        found = await run_load(load, port=port, requests=requests)
        if connections * pipelined == 1:
            # Its buckets are as wide as a call is long: only the mean says anything.
            return {"per_second": found.per_second, "mean_us": 1e6 / found.per_second}
        latencies = {"p50_us": found.p50_us, "p99_us": found.p99_us}
        if command is _MGET:
            return {"keys_per_second": found.per_second * KEYS_PER_CALL, **latencies}
        return {"per_second": found.per_second, **latencies}

    return measure


def benchmark_side(name: str, measure: Measure) -> Side:
    """The contender `name` under `redis-benchmark`."""
    binary, install = _BENCHMARK_NEEDS
    side = server_side(name, measure)
    needs = side.needs
    return as_subject(
        replace(
            side,
            needs=Needs(needs.modules, (*needs.binaries, binary), f"{install}; {needs.install}", needs.here),
        )
    )


def as_subject(side: Side) -> Side:
    """Here the Redis endpoint is what is measured, and has the name that bars and ratios look for."""
    return replace(side, name="duramen") if side.role == "subject" else side


def _benchmark(name: str, title: str, measure: Measure, bar: Bar, *more: Side) -> Workload:
    return Workload(
        name,
        f"{title}; redis-benchmark, {KEYS:,} keys",
        (*(benchmark_side(side, measure) for side in ("resp", "redis")), *more),
        (bar,),
    )


def _fixed_reply(connections: int) -> Side:
    """What no server on Python's event loop passes."""

    async def once(settings: RunSettings) -> Measurement:
        from bench.drivers.fixed_reply import FixedReply

        server = FixedReply()
        await server.start(settings.folder)
        try:
            load = Load(GET, connections=connections, keys=_keys(settings))

            async def rate(requests: int) -> float:
                return (await run_load(load, port=server.port, requests=requests)).per_second

            found = await run_load(load, port=server.port, requests=await calibrated(rate, seconds=settings.seconds))
        finally:
            await server.stop()
        return Measurement(
            {"per_second": found.per_second, "mean_us": 1e6 * connections / found.per_second},
            server.version,
            server.note,
        )

    binary, install = _BENCHMARK_NEEDS
    return Side("uvloop", "floor", lambda settings: run_async(once(settings)), Needs(("uvloop",), (binary,), install))


# --- by Python


async def _get(driver: Driver, settings: RunSettings) -> dict[str, float]:
    pairs = make_numbered_pairs(_keys(settings))
    await _load(driver, pairs)
    next_pair = cycle(pairs).__next__

    async def call() -> None:
        key, expected = next_pair()
        found = await driver.get(key)
        if found != expected:
            raise AssertionError(f"get of {key!r} found {found!r}, put was {expected!r}")

    return (await drive(call, callers=CALLERS, seconds=settings.seconds)).metrics()


async def _put(driver: Driver, settings: RunSettings) -> dict[str, float]:
    await _load(driver, make_numbered_pairs(_keys(settings)))
    # The same keys in another order, so that what is overwritten is not what was written last.
    next_pair = cycle(make_numbered_pairs(_keys(settings), seed=2)).__next__

    async def call() -> None:
        key, value = next_pair()
        await driver.put(key, value)

    return (await drive(call, callers=CALLERS, seconds=settings.seconds)).metrics()


def _python(name: str, title: str, measure: Measure, peer: str, limit: float) -> Workload:
    return Workload(
        name,
        f"{title}, {CALLERS} callers, one client process, {KEYS:,} keys",
        tuple(as_subject(server_side(side, measure)) for side in ("resp", peer)),
        (Bar("per_second", "at least", limit, peer),),
    )


RESP_ENDPOINT: Final = (
    _benchmark(
        "resp_get_1",
        "GET, 1 connection",
        by_benchmark(GET, connections=1),
        Bar("mean_us", "at most", 1.2, "redis"),
        _fixed_reply(1),
    ),
    _benchmark(
        "resp_get_50",
        f"GET, {CONNECTIONS} connections",
        by_benchmark(GET, connections=CONNECTIONS),
        Bar("per_second", "at least", 0.75, "redis"),
        _fixed_reply(CONNECTIONS),
    ),
    _benchmark(
        "resp_get_50_p16",
        f"GET, {CONNECTIONS} connections, {PIPELINED} pipelined",
        by_benchmark(GET, connections=CONNECTIONS, pipelined=PIPELINED),
        Bar("per_second", "at least", 0.3, "redis"),
    ),
    _benchmark(
        "resp_set_50",
        f"SET acknowledged after its sync, {CONNECTIONS} connections",
        by_benchmark(SET, connections=CONNECTIONS),
        Bar("per_second", "at least", 0.7, "redis"),
    ),
    _benchmark(
        "resp_set_50_p16",
        f"SET acknowledged after its sync, {CONNECTIONS} connections, {PIPELINED} pipelined",
        by_benchmark(SET, connections=CONNECTIONS, pipelined=PIPELINED),
        Bar("per_second", "at least", 0.3, "redis"),
    ),
    _benchmark(
        "resp_mget_100",
        f"MGET of {KEYS_PER_CALL} keys, {CONNECTIONS} connections",
        by_benchmark(_MGET, connections=CONNECTIONS),
        Bar("keys_per_second", "at least", 0.4, "redis"),
    ),
    _python("resp_asyncio_get", "GET by redis-py's asyncio client", _get, "redis", 1),
    _python("resp_asyncio_set", "SET by redis-py's asyncio client", _put, "redis", 1),
    _python("resp_etcd_get", "get: the RESP endpoint by redis-py's asyncio client, etcd by grpc.aio", _get, "etcd", 3),
    _python("resp_etcd_put", "put: the RESP endpoint by redis-py's asyncio client, etcd by grpc.aio", _put, "etcd", 3),
)
