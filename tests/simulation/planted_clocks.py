"""Bugs to plant in what time it is: the machine's clock is asked where the log's time counts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from duramen.testing.machine.simulated_clock import SimulatedClock
from log_tier.embedded.segments.partition_log import PartitionLog
from serving_tier.index.lmdb import lmdb_reads
from serving_tier.index.lmdb.format import APPLIED_AND_TIME_OF, State
from simulation.planted import Patches

__all__ = ["CLOCKS_IN_DATABASE", "CLOCKS_IN_LOG"]


def _dates_by_the_clock() -> Patches:
    inner: Any = PartitionLog.stage

    def stage(self: PartitionLog, *args: Any, **kwargs: Any) -> Any:
        self._newest_ms = 0
        return inner(self, *args, **kwargs)

    return [(PartitionLog, "stage", stage)]


def _now_ms() -> int:
    return SimulatedClock(asyncio.get_running_loop().time).wall_ms()


class _StateByTheClock:
    @staticmethod
    def unpack(row: bytes) -> State:
        return State.unpack(row)._replace(log_time_ms=_now_ms())


def _expiries_by_the_clock() -> Patches:
    def applied_and_time(row: bytes) -> tuple[int, int]:
        return APPLIED_AND_TIME_OF(row)[0], _now_ms()

    return [(lmdb_reads, "State", _StateByTheClock), (lmdb_reads, "APPLIED_AND_TIME_OF", applied_and_time)]


CLOCKS_IN_LOG: Final[dict[str, Callable[[], Patches]]] = {
    "a timestamp is the clock's, also where that was set back": _dates_by_the_clock,
}
CLOCKS_IN_DATABASE: Final[dict[str, Callable[[], Patches]]] = {
    "an expiry is judged by the wall clock": _expiries_by_the_clock,
}
