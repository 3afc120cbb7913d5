"""What two or more status documents of one server say together: rates, and how long a lag lasts. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

__all__ = ["LogRates", "PartitionFigures", "StatusHistory"]

# A lag's direction over less is noise, over more is old news.
WINDOW_S: Final = 10.0
# What a disk does in a minute is a compaction as often as a trend.
DISK_WINDOW_S: Final = 600.0
DISK_SPAN_MIN_S: Final = 60.0

_KEPT_EACH_S: Final = 0.9
_DISK_KEPT_EACH_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class PartitionFigures:
    """One partition now. A rate is per second, and None until there are two documents to compare."""

    name: str
    """`orders/3`."""
    state: str
    reason: str
    ready: int
    """How many of its copies are ready; `wanted`: how many should be."""
    wanted: int
    lag_records: int
    lag_s: float
    written_per_s: float | None
    applied_per_s: float | None
    lag_per_s: float | None
    """How steeply its lag rises; below zero: falls."""

    @property
    def level_in_s(self) -> float | None:
        """Seconds until it is level with the log if all goes on so; None: never."""
        if not self.lag_records:
            return 0.0
        if self.lag_per_s is None or self.lag_per_s >= 0:
            return None
        return self.lag_records / -self.lag_per_s

    @property
    def is_well(self) -> bool:
        """Ready, with all its copies."""
        return self.state == "ready" and self.ready >= self.wanted


class LogRates(NamedTuple):
    """The log of the server's process, per second."""

    batches: float
    bytes: float
    syncs: float


class _Sample(NamedTuple):
    at: float
    offsets: Mapping[tuple[str, int], tuple[int, int, int]]
    """By table and partition: last, applied, lag."""
    log: tuple[int, int, int] | None
    """Batches, bytes, syncs since the start."""


class StatusHistory:
    """The newest document and the few figures of earlier ones that it is compared with.

    Bounded: at most twelve samples of three numbers for each partition, and 121 of the disk.
    """

    def __init__(self) -> None:
        """Empty."""
        self.latest: dict[str, Any] | None = None
        self._now: _Sample | None = None
        self._samples: deque[_Sample] = deque()
        self._disk: deque[tuple[float, int]] = deque()

    def add(self, document: dict[str, Any], at: float) -> None:
        """Take a document that arrived `at` (seconds of a clock that never goes back). O(partitions)."""
        before = self.latest
        if before is not None and _is_restarted(before, document):
            self._samples.clear()
            self._disk.clear()
        self.latest = document
        self._now = now = _sample(document, at)
        while self._samples and at - self._samples[0].at > WINDOW_S:
            self._samples.popleft()
        if not self._samples or at - self._samples[-1].at >= _KEPT_EACH_S:
            self._samples.append(now)
        if document["disk"] is None:
            return
        while self._disk and at - self._disk[0][0] > DISK_WINDOW_S:
            self._disk.popleft()
        if not self._disk or at - self._disk[-1][0] >= _DISK_KEPT_EACH_S:
            self._disk.append((at, document["disk"]["free_bytes"]))

    def partitions(self) -> list[PartitionFigures]:
        """All partitions, what needs somebody first: not well, then by lag, by writes, by name. O(n log n)."""
        if self.latest is None:
            return []
        found = [self._figures(each) for each in self.latest["partitions"]]
        return sorted(found, key=_urgency)

    def log_rates(self) -> LogRates | None:
        """None where the log is in another process, and until there are two documents."""
        then, now = self._compared()
        if then is None or now is None or then.log is None or now.log is None:
            return None
        spent_s = now.at - then.at
        return LogRates(*((new - old) / spent_s for new, old in zip(now.log, then.log, strict=True)))

    def disk_full_in_s(self) -> float | None:
        """Seconds until the disk is full if it goes on as in the last ten minutes; None: it does not fill up, or not
        long enough was seen."""
        if self.latest is None or self._now is None or not self._disk:
            return None
        at, free_then = self._disk[0]
        free, spent_s = self.latest["disk"]["free_bytes"], self._now.at - at
        if spent_s < DISK_SPAN_MIN_S or free >= free_then:
            return None
        return float(free * spent_s / (free_then - free))

    def _compared(self) -> tuple[_Sample | None, _Sample | None]:
        """The two samples whose difference is a rate."""
        now = self._now
        if now is None or not self._samples or self._samples[0].at >= now.at:
            return None, now
        return self._samples[0], now

    def _figures(self, each: Mapping[str, Any]) -> PartitionFigures:
        then, now = self._compared()
        written = applied = rising = None
        place = (each["table"], each["partition"])
        if then is not None and now is not None and (old := then.offsets.get(place)) is not None:
            spent_s, new = now.at - then.at, now.offsets[place]
            if new[0] >= old[0] and new[1] >= old[1]:  # else another table, or another replica, has this name now
                written, applied, rising = ((a - b) / spent_s for a, b in zip(new, old, strict=True))
        return PartitionFigures(
            name=f"{each['table']}/{each['partition']}",
            state=each["state"],
            reason=each["reason"],
            ready=each["ready"],
            wanted=each["wanted"],
            lag_records=each["lag_records"],
            lag_s=each["lag_s"],
            written_per_s=written,
            applied_per_s=applied,
            lag_per_s=rising,
        )


def _sample(document: Mapping[str, Any], at: float) -> _Sample:
    log = document["log"]
    return _Sample(
        at,
        {
            (each["table"], each["partition"]): (each["last"], each["applied"], each["lag_records"])
            for each in document["partitions"]
        },
        None if log is None else (log["appends"], log["bytes"], log["syncs"]),
    )


def _is_restarted(before: Mapping[str, Any], document: Mapping[str, Any]) -> bool:
    """Is it another process that answers now? The number alone may be the same: in containers it is 1."""
    same = before["name"] == document["name"] and before["pid"] == document["pid"]
    return not same or document["uptime_s"] < before["uptime_s"]


def _urgency(each: PartitionFigures) -> tuple[bool, int, float, str]:
    return each.is_well, -each.lag_records, -(each.written_per_s or 0.0), each.name
