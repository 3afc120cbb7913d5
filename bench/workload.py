"""The words of the benchmark: workload, side, bar, measurement.

A **workload** is one line of the table: a title, some sides, some bars. A **side** is one contender in it: Duramen (the
*subject*), a *peer*, or a *floor* (what the machine does with nothing in between). Running a side once gives a
**measurement**, a dict of the metrics below. A **bar** is a demand on the subject's metric, either in units of its own
or as a ratio to another side's.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

__all__ = ["METRICS", "Bar", "Measurement", "Metric", "Needs", "RunSettings", "Side", "Workload", "find_binary"]


@dataclass(frozen=True, slots=True)
class Metric:
    """How a metric is shown."""

    title: str
    """Its column heading, with the unit."""
    digits: int
    """Digits behind the point."""
    better: Literal["more", "less"]


METRICS: Final[dict[str, Metric]] = {
    "per_second": Metric("per second", 0, "more"),
    "keys_per_second": Metric("keys/s", 0, "more"),
    "records_per_second": Metric("records/s", 0, "more"),
    "mebibytes_per_second": Metric("MiB/s", 0, "more"),
    "mean_us": Metric("mean µs", 2, "less"),
    "p50_us": Metric("p50 µs", 1, "less"),
    "p99_us": Metric("p99 µs", 1, "less"),
    "p999_us": Metric("p99.9 µs", 1, "less"),
    "put_p50_us": Metric("put p50 µs", 0, "less"),
    "put_p99_us": Metric("put p99 µs", 0, "less"),
    "visible_p50_us": Metric("visible p50 µs", 0, "less"),
    "visible_p99_us": Metric("visible p99 µs", 0, "less"),
    "visible_by_put_p99": Metric("visible p99 / put p99", 2, "less"),
    "extra_p50_us": Metric("added p50 µs", 0, "less"),
    "reads": Metric("reads", 0, "more"),
    "stale": Metric("stale", 0, "less"),
    "failures": Metric("failed", 0, "less"),
    "retried_ms": Metric("last retry, ms after a kill", 0, "less"),
    "take_seconds": Metric("snapshot s", 2, "less"),
    "install_seconds": Metric("install s", 2, "less"),
    "ready_seconds": Metric("ready s", 2, "less"),
    "replay_seconds": Metric("replay s", 2, "less"),
    "take_speed": Metric("snapshot / cp", 2, "more"),
    "install_speed": Metric("install / cp", 2, "more"),
    "seconds": Metric("seconds", 2, "less"),
    "copy_seconds": Metric("copy s", 2, "less"),
    "healed_to_copied": Metric("healed / copied", 2, "less"),
    "last_to_first": Metric("last hundred / first", 2, "less"),
    "longest_ms": Metric("longest read, ms", 1, "less"),
    "longest_ping_ms": Metric("longest PING, ms", 1, "less"),
    "anonymous_mebibytes": Metric("anonymous MiB", 0, "less"),
    "resident_mebibytes": Metric("resident MiB", 0, "less"),
}
"""Every metric there is; a side may measure any of them and the report shows those in this order."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one run of one side found."""

    metrics: dict[str, float]
    """Keys are those of `METRICS`."""
    version: str
    """Of what ran: "etcd 3.4.23"."""
    note: str = ""
    """What a reader must know to compare: the durability behind an acknowledgement, the connections used."""

    def __post_init__(self) -> None:
        unknown = self.metrics.keys() - METRICS.keys()
        assert not unknown, f"metrics {sorted(unknown)} are not in METRICS"


@dataclass(frozen=True, slots=True)
class RunSettings:
    """The settings of a run."""

    folder: Path
    """An empty folder on the disk that is measured; removed after the run."""
    seconds: float
    """Length of the timed region of workloads that run against the clock, after their warm-up."""
    quick: bool = False
    """A look, not a result: fixed-size workloads shrink by the factor they state."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What must be installed for a side to run."""

    modules: tuple[str, ...] = ()
    """Modules, or names in modules: `duramen:open`."""
    binaries: tuple[str, ...] = ()
    install: str = ""
    """How one gets them, for the report."""
    here: Callable[[], str | None] | None = None
    """What else must be here, asked when a run is planned: None where it is, else a sentence that says what is not."""

    def missing(self) -> str | None:
        """None where everything is here, else a sentence that names what is not."""
        absent = [f"program {name}" for name in self.binaries if find_binary(name) is None]
        absent += [name for name in self.modules if not _importable(name)]
        if not absent:
            return None if self.here is None else self.here()
        return f"{', '.join(absent)} not found" + (f" ({self.install})" if self.install else "")


@dataclass(frozen=True, slots=True)
class Side:
    """One contender of a workload."""

    name: str
    role: Literal["subject", "peer", "floor"]
    run: Callable[[RunSettings], Measurement] | None
    """None: this side is not written yet, and the report says that it is absent."""
    needs: Needs = field(default_factory=Needs)

    def absent(self) -> str | None:
        """Why this side cannot run here; None where it can."""
        if self.run is None:
            return "side absent: nothing to measure yet"
        return self.needs.missing()


@dataclass(frozen=True, slots=True)
class Bar:
    """One demand: the subject's `metric`, or how it compares to that of `against`, is at least or at most `limit`."""

    metric: str
    bound: Literal["at least", "at most"]
    limit: float
    against: str | None = None
    """The side whose metric the subject's is compared to; None where the limit is in the metric's own unit."""
    subject: str = "duramen"
    compared_by: Literal["ratio", "difference"] = "ratio"
    """A difference (subject minus other) has a limit in the metric's own unit."""

    def holds(self, value: float) -> bool:
        """Whether `value` meets the bar; exactly on it counts as met."""
        return value >= self.limit if self.bound == "at least" else value <= self.limit

    def missed_by(self, value: float) -> float:
        """How far `value` is from the limit, as a share of the limit; 0 where the bar is held."""
        return 0.0 if self.holds(value) else abs(value - self.limit) / self.limit


@dataclass(frozen=True, slots=True)
class Workload:
    """One line of the table."""

    name: str
    title: str
    """What is measured, in a sentence."""
    sides: tuple[Side, ...]
    bars: tuple[Bar, ...] = ()
    runs_max: int | None = None
    """Fewer rounds than asked for, where one round is minutes of loading and what it finds hardly varies."""

    def side(self, name: str) -> Side:
        """The side of that name; `KeyError` where there is none."""
        for side in self.sides:
            if side.name == name:
                return side
        raise KeyError(f"{self.name} has no side {name!r}; it has {', '.join(side.name for side in self.sides)}")


def find_binary(name: str) -> str | None:
    """The path of an installed program. Debian keeps servers in folders that are not on everybody's PATH."""
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"]))


def _importable(name: str) -> bool:
    """Whether the module is installed; it is imported only where a name in it is asked for."""
    module, _, attribute = name.partition(":")
    try:
        found = importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # a parent of the module is not there
        return False
    return found and (not attribute or hasattr(importlib.import_module(module), attribute))
