"""Closed-loop callers: the one asyncio program that drives every server.

`callers` coroutines each make a call, wait for its answer and make the next, as an application with that many requests
in flight does. Nothing is scheduled ahead, so a slow server is asked less often: latencies here are those of a closed
loop and say nothing about a queue that builds up in front of an overloaded server.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Coroutine
from time import perf_counter_ns
from typing import Final, TypeVar

import uvloop

from bench.statistics import quantile

__all__ = ["WARMUP_SECONDS", "Timing", "drive", "run_async"]

WARMUP_SECONDS: Final = 1.0
"""Calls that end in the first second are made but not counted: connections open, pools and caches fill."""

_T = TypeVar("_T")


class Timing:
    """What the callers saw in the timed region."""

    def __init__(self, *, seconds: float, latencies_ns: list[int], calls: int | None = None) -> None:
        """`calls` ended within `seconds`; `latencies_ns` may hold more: those that were still under way then."""
        assert latencies_ns, "no call ended after the warm-up"
        self.seconds = seconds
        self.calls = len(latencies_ns) if calls is None else calls
        self._ascending = sorted(latencies_ns)

    def latency_us(self, q: float) -> float:
        """The `q` quantile of the calls' durations, in microseconds."""
        return quantile(self._ascending, q) / 1000

    def metrics(self, *, keys_per_call: int = 1) -> dict[str, float]:
        """Rate and latencies under the names of `METRICS`."""
        rate = self.calls * keys_per_call / self.seconds
        return {
            "per_second" if keys_per_call == 1 else "keys_per_second": rate,
            "p50_us": self.latency_us(0.5),
            "p99_us": self.latency_us(0.99),
            "p999_us": self.latency_us(0.999),
        }


async def drive(
    call: Callable[[], Awaitable[object]], *, callers: int, seconds: float, warmup: float = WARMUP_SECONDS
) -> Timing:
    """Run `callers` loops over `call` for `warmup` + `seconds`; the rate counts what ended in the last `seconds`.

    Latencies are those of the same calls and of the ones under way at the end, which are waited for: a caller that a
    client starves (a pool that hands its connections to the latest caller) would otherwise not be heard of. The first
    exception ends all callers and is raised. Long-lived objects (keys, values) are hidden from the garbage collector
    (`gc.freeze`): its passes over a million untouched objects would be this program's pauses, not the server's.
    """
    gc.collect()
    gc.freeze()
    opened = perf_counter_ns() + int(warmup * 1e9)
    closed = opened + int(seconds * 1e9)
    latencies: list[int] = []
    late = 0

    async def caller() -> None:
        nonlocal late
        started = perf_counter_ns()
        while started < closed:
            await call()
            ended = perf_counter_ns()
            if ended >= opened:
                latencies.append(ended - started)
                late += ended >= closed
            started = ended

    async with asyncio.TaskGroup() as group:
        for _ in range(callers):
            group.create_task(caller())
    return Timing(seconds=seconds, latencies_ns=latencies, calls=len(latencies) - late)


def run_async(main: Coroutine[object, object, _T]) -> _T:
    """`asyncio.run` on uvloop."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)
