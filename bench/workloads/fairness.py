"""What a user notices of another one who floods the server: a fixed rate of calls next to a flood, and alone.

A third side has the same flood at another server of the machine: what is left of the difference then is the server's,
and not that of processors which are shared.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol

from bench.callers import run_async
from bench.drivers.duramen import SERVER_NEEDS
from bench.statistics import quantile
from bench.workload import Bar, Measurement, RunSettings, Side, Workload

if TYPE_CHECKING:
    from bench.drivers.resp_clients import RespClients
    from bench.drivers.shared_server import CalledBy

__all__ = ["FAIRNESS"]

_RATE_PER_S: Final = 100
_WARMUP_S: Final = 1.0
_NAMES: Final = {"grpc": "gRPC", "resp": "the Redis protocol"}
_SHARE: Final = 2.0
"""Of the p99 of the same calls on a server that nobody floods."""


class _Calls(Protocol):
    """What the quiet user calls."""

    async def put(self, key: bytes, value: bytes) -> None: ...
    async def get(self, key: bytes) -> bytes | None: ...


class _Flood(NamedTuple):
    """Who floods with what, and by which protocols each of the two calls."""

    kind: str
    quota: Sequence[str] = ()
    by: Sequence[CalledBy] = ("resp",)
    quiet_by: CalledBy = "grpc"


async def _quiet_calls(server: _Calls, seconds: float) -> dict[str, float]:
    """A put and a get in turn, each begun at its time, whether those before it have ended or not."""
    loop = asyncio.get_running_loop()
    taken_ns: list[int] = []

    async def call(number: int, counts: bool) -> None:
        began = perf_counter()
        key = b"%d" % (number % 1000)
        await (server.put(key, bytes(100)) if number % 2 else server.get(key))
        if counts:
            taken_ns.append(int((perf_counter() - began) * 1e9))

    under_way = []
    began_s = loop.time()
    for number in itertools.count():
        due_s = number / _RATE_PER_S
        if due_s >= _WARMUP_S + seconds:
            break
        await asyncio.sleep(max(0.0, began_s + due_s - loop.time()))
        under_way.append(asyncio.create_task(call(number, due_s >= _WARMUP_S)))
    await asyncio.gather(*under_way)
    taken_ns.sort()
    metrics = {name: quantile(taken_ns, q) / 1000 for name, q in (("p50_us", 0.5), ("p99_us", 0.99))}
    return {"per_second": len(taken_ns) / seconds, **metrics}


def _side(name: str, role: Literal["subject", "peer"], flood: _Flood, *, flooded: bool, elsewhere: bool) -> Side:
    async def once(settings: RunSettings) -> Measurement:
        from bench.drivers.shared_server import SharedServer

        measured, other = SharedServer(quota=flood.quota), SharedServer(quota=flood.quota)
        clients: RespClients | None = None
        flooding: list[asyncio.subprocess.Process] = []
        said = ""
        try:
            await measured.start(settings.folder)
            await measured.add_flooder()
            target = measured
            if elsewhere:
                (settings.folder / "other").mkdir()
                await other.start(settings.folder / "other")
                await other.add_flooder()
                target = other
            if flood.quiet_by == "resp":
                clients = await measured.connect_by_resp()
            if flooded:
                flooding = [await target.start_flood(flood.kind, by=by) for by in flood.by]
            metrics = await _quiet_calls(clients or measured, settings.seconds)
            for by, each in zip(flood.by, flooding, strict=False):
                printed, _ = await each.communicate(b"")
                answered, refused = map(int, printed.split())
                assert answered > 0, "the flood never came"
                said += f"; the flood by {_NAMES[by]} had {answered} answers and {refused} refusals"
        finally:
            if clients is not None:
                await clients.close()
            await measured.stop()
            if elsewhere:
                await other.stop()
        return Measurement(metrics, measured.version, measured.note + said)

    return Side(name, role, lambda settings: run_async(once(settings)), SERVER_NEEDS)


def _workload(name: str, title: str, flood: _Flood) -> Workload:
    return Workload(
        name,
        f"put and get by {_NAMES[flood.quiet_by]}, {_RATE_PER_S} a second of one user, while another {title}",
        (
            _side("flooded", "subject", flood, flooded=True, elsewhere=False),
            _side("alone", "peer", flood, flooded=False, elsewhere=False),
            _side("flood-elsewhere", "peer", flood, flooded=True, elsewhere=True),
        ),
        (Bar("p99_us", "at most", _SHARE, "alone", "flooded"),),
    )


_CALLS: Final = ("--calls", "1000")
_FEW_CALLS: Final = ("--calls", "100")
"""A tenth of what the server can answer of such single calls."""

FAIRNESS: Final = (
    _workload("fair_quota", "sends SET without end, with a quota of 1,000 calls/s", _Flood("puts", _CALLS)),
    _workload(
        "fair_large",
        "sends values of 256 KiB, with a quota of 5 MB/s",
        _Flood("large", ("--bytes-in", "5MB")),
    ),
    _workload("fair_scans", "sends KEYS *, with a quota of 10 calls/s", _Flood("scans", ("--calls", "10"))),
    _workload("fair_no_quota", "sends SET without end, without a quota", _Flood("puts")),
    _workload(
        "fair_grpc",
        "calls Put by gRPC without end, with a quota of 100 calls/s",
        _Flood("puts", _FEW_CALLS, by=("grpc",)),
    ),
    _workload("fair_grpc_no_quota", "calls Put by gRPC without end, without a quota", _Flood("puts", by=("grpc",))),
    _workload(
        "fair_resp",
        "calls Put by gRPC without end, with a quota of 100 calls/s",
        _Flood("puts", _FEW_CALLS, by=("grpc",), quiet_by="resp"),
    ),
    _workload(
        "fair_resp_no_quota",
        "calls Put by gRPC without end, without a quota",
        _Flood("puts", by=("grpc",), quiet_by="resp"),
    ),
    _workload(
        "fair_both_no_quota",
        "sends SET and calls Put by gRPC without end, without a quota",
        _Flood("puts", by=("resp", "grpc")),
    ),
    _workload(
        "fair_resp_both_no_quota",
        "sends SET and calls Put by gRPC without end, without a quota",
        _Flood("puts", by=("resp", "grpc"), quiet_by="resp"),
    ),
)
