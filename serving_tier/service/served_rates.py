"""How much each replica of a node serves a second: keys that are read, and records that are applied. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, NamedTuple

from log_tier.model.identifiers import PartitionId
from serving_tier.replica.replica import Replica

__all__ = ["ServedRates"]

_MEAN_S: Final = 60.0
"""A minute ago counts a third of now: a burst of some seconds makes nobody hot."""

_DIGITS: Final = 2
"""Of a rate that is reported: with each digit more, more of the reports of a steady load would be new ones."""


class _Counted(NamedTuple):
    replica: Replica
    applied: int
    served: int
    rate: float
    reads: float
    """Of the rate, the part that are keys."""


class ServedRates:
    """The rates of one node's replicas, from their counters."""

    def __init__(self) -> None:
        self._counted: dict[PartitionId, _Counted] = {}
        self._last_s = 0.0

    def measure(self, hosted: Mapping[PartitionId, Replica], now_s: float) -> None:
        """Look at the counters, at `now_s` in seconds. Some 1 µs a replica.

        A replica that is new here, or was opened again, has no rate before the second look, and one that catches up
        with its log after that counts what it applies.
        """
        passed_s, self._last_s = now_s - self._last_s, now_s
        weight = 1.0 - math.exp(-max(0.0, passed_s) / _MEAN_S)
        counted: dict[PartitionId, _Counted] = {}
        for name, replica in hosted.items():
            applied, served, rate, reads = replica.index.applied, replica.progress.served, 0.0, 0.0
            before = self._counted.get(name)
            if before is not None and before.replica is replica and passed_s > 0:
                read = max(0, served - before.served)
                done = max(0, applied - before.applied) + read
                rate = before.rate + weight * (done / passed_s - before.rate)
                reads = before.reads + weight * (read / passed_s - before.reads)
            counted[name] = _Counted(replica, applied, served, rate, reads)
        self._counted = counted

    def of(self, name: PartitionId) -> int:
        """The rate of a replica, rounded; 0 where it is not known."""
        found = self._counted.get(name)
        return 0 if found is None else _rounded(found.rate)

    def reads_of(self, name: PartitionId) -> int:
        """Of the rate, the keys that are read."""
        found = self._counted.get(name)
        return 0 if found is None else _rounded(found.reads)


def _rounded(value: float) -> int:
    rate = round(value)
    return round(rate, _DIGITS - len(str(rate))) if rate else 0
