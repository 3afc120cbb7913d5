"""Who takes part: each server's driver, what it needs, and the making of a side from it.

Drivers are imported when they run: a library that is not installed must not keep the others from running, and a run
should carry nobody's import but its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from bench.callers import run_async
from bench.data import chunks
from bench.drivers.driver import Driver
from bench.drivers.duramen import SERVER_NEEDS, Duramen
from bench.workload import Measurement, Needs, RunSettings, Side

__all__ = ["CONTENDERS", "Contender", "preload", "server_side", "side_of"]

_LOADING_AT_ONCE: Final = 8
"""Calls of 100 pairs in flight while a store is filled, outside every timed region."""


@dataclass(frozen=True, slots=True)
class Contender:
    """A server that a workload can name."""

    role: Literal["subject", "peer", "floor"]
    make: Callable[[], Driver]
    needs: Needs


def _etcd() -> Driver:
    from bench.drivers.etcd import Etcd

    return Etcd()


def _etcd_linearizable() -> Driver:
    from bench.drivers.etcd import Etcd

    return Etcd(linearizable=True)


def _resp_endpoint() -> Driver:
    from bench.drivers.resp_endpoint import RespEndpoint

    return RespEndpoint()


def _one_reader() -> Driver:
    from bench.drivers.resp_endpoint import RespEndpoint

    return RespEndpoint(readers=1)


def _two_readers() -> Driver:
    from bench.drivers.resp_endpoint import RespEndpoint

    return RespEndpoint(readers=2)


def _redis() -> Driver:
    from bench.drivers.redis import Redis

    return Redis()


def _redis_pipelined() -> Driver:
    from bench.drivers.redis import RedisPipelined

    return RedisPipelined()


def _nats() -> Driver:
    from bench.drivers.nats import Nats

    return Nats()


def _grpc_echo() -> Driver:
    from bench.drivers.grpc_echo import GrpcEcho

    return GrpcEcho()


_ETCD_NEEDS: Final = Needs(("grpc",), ("etcd",), "Debian: etcd-server")
_EXTRA: Final = "extra: duramen[bench]"
_RESP_NEEDS: Final = Needs((*SERVER_NEEDS.modules, "redis", "hiredis"), install=_EXTRA)
_REDIS_NEEDS: Final = Needs(("redis", "hiredis"), ("redis-server",), f"Debian: redis-server; {_EXTRA}")

CONTENDERS: Final[dict[str, Contender]] = {
    "duramen": Contender("subject", Duramen, SERVER_NEEDS),
    "resp": Contender("subject", _resp_endpoint, _RESP_NEEDS),
    "one-reader": Contender("peer", _one_reader, _RESP_NEEDS),
    "two-readers": Contender("peer", _two_readers, _RESP_NEEDS),
    "etcd": Contender("peer", _etcd, _ETCD_NEEDS),
    "etcd-linearizable": Contender("peer", _etcd_linearizable, _ETCD_NEEDS),
    "redis": Contender("peer", _redis, _REDIS_NEEDS),
    "redis-pipelined": Contender("peer", _redis_pipelined, _REDIS_NEEDS),
    "nats": Contender("peer", _nats, Needs(("nats",), ("nats-server",), f"Debian: nats-server; {_EXTRA}")),
    "grpc-echo": Contender("floor", _grpc_echo, Needs(("grpc",))),
}


def server_side(name: str, measure: Callable[[Driver, RunSettings], Awaitable[dict[str, float]]]) -> Side:
    """The side on which the contender `name` is started on an empty folder, measured and stopped."""
    return side_of(name, CONTENDERS[name], measure)


def side_of(
    name: str, contender: Contender, measure: Callable[[Driver, RunSettings], Awaitable[dict[str, float]]]
) -> Side:
    """`server_side` for a contender that one workload has."""

    async def once(settings: RunSettings) -> Measurement:
        driver = contender.make()
        try:
            await driver.start(settings.folder)
            metrics = await measure(driver, settings)
        finally:
            await driver.stop()
        return Measurement(metrics, driver.version, driver.note)

    return Side(name, contender.role, lambda settings: run_async(once(settings)), contender.needs)


async def preload(driver: Driver, pairs: Sequence[tuple[bytes, bytes]]) -> None:
    """Put all `pairs`, 100 to a call, some calls at a time, and let the server settle. Not timed."""
    waiting = iter(chunks(list(pairs), 100))

    async def loader() -> None:
        for chunk in waiting:
            await driver.put_many(chunk)

    async with asyncio.TaskGroup() as group:
        for _ in range(_LOADING_AT_ONCE):
            group.create_task(loader())
    await driver.settle()
