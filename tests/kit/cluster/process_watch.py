"""What a cluster's processes take, and say, while they are broken; and how long writes stood still."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from duramen.verification.chaos import FaultEvent, within
from duramen.verification.cluster import StartedCluster
from duramen.verification.history import History

__all__ = ["ProcessWatch", "longest_stalls", "said", "tracebacks"]

_EVERY_S = 1.0

# A fault's consequences are looked for so long after it.
_AFTER_NS = 5_000_000_000


class ProcessWatch:
    """Looks at every child's memory and threads once a second."""

    def __init__(self, cluster: StartedCluster) -> None:
        self._cluster = cluster
        self.threads: dict[str, int] = defaultdict(int)
        """By child: the most threads seen."""
        self.memory_mib: dict[str, list[int]] = defaultdict(list)
        """By child and process, as `n1/1234`: its resident memory, second by second."""

    async def run(self, stop: asyncio.Event) -> None:
        while not await within(stop, _EVERY_S):
            for name, child in list(self._cluster.children.items()):
                try:
                    lines = Path(f"/proc/{child['pid']}/status").read_text().splitlines()
                except (FileNotFoundError, ProcessLookupError):
                    continue
                found = dict(line.split(":", 1) for line in lines)
                if "VmRSS" in found:  # else it has just been killed
                    self.threads[name] = max(self.threads[name], int(found["Threads"]))
                    self.memory_mib[f"{name}/{child['pid']}"].append(int(found["VmRSS"].split()[0]) >> 10)

    def described(self) -> str:
        memory = ", ".join(
            f"{name} {seen[0]}→{max(seen)}→{seen[-1]}" for name, seen in self.memory_mib.items() if len(seen) > 5
        )
        return f"threads at most {dict(self.threads)}; MiB first, most, last: {memory}"


def said(data: Path) -> dict[str, list[str]]:
    """The lines that each child wrote on its standard error."""
    return {file.stem: file.read_text(errors="replace").splitlines() for file in sorted((data / "output").iterdir())}


def tracebacks(lines: Sequence[str]) -> list[str]:
    """Those that show a bug. gRPC writes one where a reply's client has gone; that is none."""
    _, *blocks = "\n".join(["", *lines]).split("\nTraceback (most recent call last):\n")
    return [block[:3000] for block in blocks if "cygrpc.ExecuteBatchError: " not in block]


def longest_stalls(history: History, events: Sequence[FaultEvent]) -> dict[str, float]:
    """By kind of fault: the longest time in seconds in which no write to some partition was acknowledged.

    A gap belongs to every fault that was under way in it, or had ended less than five seconds before.
    """
    ends: dict[int, list[int]] = defaultdict(list)
    for call in history.calls:
        if call.client >= 0 and call.kind in ("write", "batch") and call.outcome in ("ok", "rejected"):
            ends[call.partition].append(call.end_ns)
    longest: dict[str, float] = {}
    for each in ends.values():
        gaps = list(pairwise(sorted(each)))
        closed = [after for _, after in gaps]
        for fault in events:
            name = f"{fault.what} {fault.whom}"
            for before, after in gaps[bisect_left(closed, fault.start_ns) :]:
                if before > fault.end_ns + _AFTER_NS:
                    break
                longest[name] = max(longest.get(name, 0.0), (after - before) / 1e9)
    return {name: round(seconds, 2) for name, seconds in sorted(longest.items())}
