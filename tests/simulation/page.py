"""The end of a campaign on one page: which properties held, in which world, under which faults, over how many seeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from simulation.job_steps import never_met, steps_met

__all__ = ["PROMISED", "fault_of", "page"]

_ALL: Final = ("log", "database", "resp", "cluster", "cluster-resp")
_REDIS: Final = ("resp", "cluster-resp")
_API: Final = ("database", "cluster")
_CLUSTERS: Final = ("cluster", "cluster-resp")

PROMISED: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("acknowledged", "unwritten", "refused"), ("log", *_REDIS)),
    **dict.fromkeys(("shown", "whole", "dated", "dense", "closed"), ("log",)),
    **dict.fromkeys(("one after the other", "session", "atomic", "notified"), _REDIS),
    **dict.fromkeys(("I1", "I2", "I3", "I4", "I5", "I6", "I7"), _API),
    "expired": ("cluster",),
    **dict.fromkeys(("revoked", "granted", "guessed"), _CLUSTERS),
    **dict.fromkeys(("metered", "unmetered", "waited", "untouched"), _CLUSTERS),
    **dict.fromkeys(("bounded", "given back"), _CLUSTERS),
    "audited": _CLUSTERS,
    "kept": ("cluster",),
    "fitting": ("database", "resp", "cluster"),
    "indexed": ("cluster",),
    "past": ("database", "resp", "cluster"),
    "patched": ("cluster",),
    "restored": _CLUSTERS,
    "tally": _CLUSTERS,
    "equal": ("cluster-resp",),
    "I8": ("log",),
    **dict.fromkeys(("damage", "typed", "retrieved"), _ALL),
    "unique": ("cluster",),
    "level": _CLUSTERS,
    "ends": _ALL,
}
"""By property: the worlds that hold the product to it. `docs/RELIABILITY.md` has the same table."""

_MACHINE: Final = ("power", "kill", "sync", "write", "flip", "misdirect", "zeros")


def fault_of(name: str) -> str:
    """The fault that a count of a run is about; empty for what is none."""
    first = name.partition(" ")[0]
    if name.startswith("incident "):
        return name.removeprefix("incident ")
    if name.startswith("node disk "):
        return name.partition(":")[0]
    if name.startswith("a clock is set "):
        return "a clock is set"
    return f"disk: {first}" if first in _MACHINE and (" at " in name or " in " in name) else ""


def page(seeds: Mapping[str, int], met: Mapping[str, Mapping[str, int]], violations: int) -> list[str]:
    """The lines. `seeds` and `met` by world."""
    worlds = [world for world in _ALL if seeds.get(world)]
    faults: dict[str, Counter[str]] = {}
    for world in worlds:
        for name, count in met.get(world, {}).items():
            if fault := fault_of(name):
                faults.setdefault(fault, Counter())[world] += count
    lines = [_row("seeds for which it held", [f"{world:>12}" for world in worlds])]
    for promise, where in PROMISED.items():
        lines.append(_row(promise, [f"{seeds[world] if world in where else '':>12}" for world in worlds]))
    lines += ["", _row("faults met", [f"{world:>12}" for world in worlds])]
    lines += [_row(fault, [f"{faults[fault][world] or '':>12}" for world in worlds]) for fault in sorted(faults)]
    together: Counter[str] = Counter()
    for world in worlds:
        together.update(met.get(world, {}))
    steps = steps_met(together)
    lines += ["", "steps of jobs that a fault met, by the number of kinds of faults and of meetings"]
    lines += [_row(step, [f"{len(each):>12}", f"{sum(each.values()):>12}"]) for step, each in steps.items()]
    missed = ", ".join(never_met(together)) or "none"
    lines += ["", f"{sum(seeds.values())} seeds, {violations} violations; steps that no fault met: {missed}"]
    return lines


def _row(name: str, cells: list[str]) -> str:
    return f"{name:<26}{''.join(cells)}".rstrip()
