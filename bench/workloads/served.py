"""Puts and gets against a server: single calls from 256 callers, from one, and 100 keys to a call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import cycle, repeat
from typing import Final

from bench.callers import WARMUP_SECONDS, Timing, drive
from bench.data import PRELOADED_KEYS, chunks, make_pairs
from bench.drivers import synced_file
from bench.drivers.driver import Driver
from bench.workload import Bar, Measurement, RunSettings, Side, Workload
from bench.workloads.contenders import preload, server_side

__all__ = ["CALLERS", "SERVED", "get_by", "put_by"]

CALLERS: Final = 256
KEYS_PER_CALL: Final = 100

_FRESH_PAIRS: Final = 1_000_000
"""Pairs that put workloads write, over again where a side gets through them."""

_RECORD_BYTES: Final = 116
_FLOOR_BYTES_MAX: Final = 512 << 20


def put_by(callers: int) -> Callable[[Driver, RunSettings], Awaitable[dict[str, float]]]:
    async def measure(driver: Driver, settings: RunSettings) -> dict[str, float]:
        next_pair = cycle(make_pairs(_FRESH_PAIRS)).__next__

        async def call() -> None:
            key, value = next_pair()
            await driver.put(key, value)

        timing = await drive(call, callers=callers, seconds=settings.seconds)
        return timing.metrics()

    return measure


def get_by(callers: int) -> Callable[[Driver, RunSettings], Awaitable[dict[str, float]]]:
    async def measure(driver: Driver, settings: RunSettings) -> dict[str, float]:
        pairs = make_pairs(PRELOADED_KEYS)
        # Keys are random, so reading them in the order they were written is reading them at random.
        await preload(driver, pairs)
        next_pair = cycle(pairs).__next__

        async def call() -> None:
            key, expected = next_pair()
            found = await driver.get(key)
            if found != expected:
                raise AssertionError(f"get of {key!r} found {found!r}, put was {expected!r}")

        timing = await drive(call, callers=callers, seconds=settings.seconds)
        return timing.metrics()

    return measure


async def _put_many(driver: Driver, settings: RunSettings) -> dict[str, float]:
    next_chunk = cycle(chunks(make_pairs(_FRESH_PAIRS), KEYS_PER_CALL)).__next__

    async def call() -> None:
        await driver.put_many(next_chunk())

    timing = await drive(call, callers=1, seconds=settings.seconds)
    return timing.metrics(keys_per_call=KEYS_PER_CALL)


async def _get_many(driver: Driver, settings: RunSettings) -> dict[str, float]:
    pairs = make_pairs(PRELOADED_KEYS)
    await preload(driver, pairs)
    wanted = [([key for key, _ in chunk], [value for _, value in chunk]) for chunk in chunks(pairs, KEYS_PER_CALL)]
    next_wanted = cycle(wanted).__next__

    async def call() -> None:
        keys, expected = next_wanted()
        found = await driver.get_many(keys)
        if found != expected:
            raise AssertionError(f"get_many of {len(keys)} keys from {keys[0]!r} found other values than were put")

    timing = await drive(call, callers=1, seconds=settings.seconds)
    return timing.metrics(keys_per_call=KEYS_PER_CALL)


def _synced_file_side(records_per_sync: int, *, keys_per_call: int = 1) -> Side:
    """The floor of a durable put: so many records in one write, one sync, nothing else."""

    def run(settings: RunSettings) -> Measurement:
        data = b"".join(key + value for key, value in make_pairs(records_per_sync))
        assert len(data) == records_per_sync * _RECORD_BYTES
        durations = synced_file.timed_writes(
            settings.folder,
            repeat(data),
            bytes_max=_FLOOR_BYTES_MAX,
            seconds_max=settings.seconds + WARMUP_SECONDS,
        )
        timing = Timing(seconds=sum(durations) / 1e9, latencies_ns=durations)
        metrics = timing.metrics(keys_per_call=keys_per_call)
        if keys_per_call == 1:
            metrics["per_second"] *= records_per_sync
        return Measurement(metrics, "the file system", f"{records_per_sync} record(s) a sync; {synced_file.NOTE}")

    return Side("write+fdatasync", "floor", run)


SERVED: Final = (
    Workload(
        "put_256",
        f"durable put, {CALLERS} concurrent callers, one client process",
        (
            *(server_side(name, put_by(CALLERS)) for name in ("duramen", "etcd", "redis", "redis-pipelined", "nats")),
            server_side("grpc-echo", put_by(CALLERS)),
            _synced_file_side(CALLERS),
        ),
        (
            Bar("per_second", "at least", 5, "etcd"),
            Bar("per_second", "at least", 5, "redis"),
            Bar("per_second", "at least", 2, "nats"),
        ),
    ),
    Workload(
        "get_256",
        f"get, {CALLERS} concurrent callers, one client process, {PRELOADED_KEYS:,} keys",
        tuple(
            server_side(name, get_by(CALLERS))
            for name in (
                *("duramen", "etcd", "redis", "etcd-linearizable", "redis-pipelined", "nats"),
                "grpc-echo",
            )
        ),
        (
            Bar("per_second", "at least", 10, "etcd"),
            Bar("per_second", "at least", 8, "redis"),
        ),
    ),
    Workload(
        "put_1",
        "durable put, one caller",
        (
            *(server_side(name, put_by(1)) for name in ("duramen", "etcd", "redis", "nats", "grpc-echo")),
            _synced_file_side(1),
        ),
        (Bar("p50_us", "at most", 1.5, "etcd"),),
    ),
    Workload(
        "get_1",
        f"get, one caller, {PRELOADED_KEYS:,} keys",
        tuple(server_side(name, get_by(1)) for name in ("duramen", "etcd", "redis", "nats", "grpc-echo")),
        (Bar("p50_us", "at most", 1.5, "etcd"),),
    ),
    Workload(
        "put_many_100",
        f"put_many, {KEYS_PER_CALL} keys per call, one caller",
        (
            *(server_side(name, _put_many) for name in ("duramen", "etcd", "redis", "nats", "grpc-echo")),
            _synced_file_side(KEYS_PER_CALL, keys_per_call=KEYS_PER_CALL),
        ),
        (
            Bar("keys_per_second", "at least", 50_000),
            Bar("keys_per_second", "at least", 5, "etcd"),
        ),
    ),
    Workload(
        "get_many_100",
        f"get_many, {KEYS_PER_CALL} keys per call, one caller, {PRELOADED_KEYS:,} keys",
        tuple(server_side(name, _get_many) for name in ("duramen", "etcd", "redis", "nats", "grpc-echo")),
        (
            Bar("keys_per_second", "at least", 50_000),
            Bar("keys_per_second", "at least", 5, "etcd"),
        ),
    ),
)
