"""Where the time of a call went: which request carried it, which commit that was in, and what is left. Pure.

    call    ├─────────────────────────────────────────────┤
    request     ├──────────────────────────────────────┤      gathered behind another one: queued
    commit             ├────────────────────┤                 another commit was under way: queued; its own: synced
    waited                                    ├─────────┤     until the replica had applied it

The call ends when its request does, and no later request of its kind and partition has ended by then; so its own is the
longest one that began since the call did. The commit of a request is the last one that began since the request did.
Where the log is in this process and no request was long, the call itself stands for it: it has no long part but those
of commits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from log_tier.measures.long_work import LongCommit, LongRequest
from log_tier.model.identifiers import Offset, PartitionId
from log_tier.slow_calls.slow_call import CallKind, PartName

__all__ = ["TICK_S", "TimeSpent", "time_spent"]

TICK_S: Final = 0.002
"""Event loops' clocks tick in milliseconds, and are behind those of threads by as much."""

_LEAST_S: Final = 0.0005
"""What is shorter is in the rest."""

_UNKNOWN: Final[dict[CallKind, tuple[PartName, ...]]] = {
    "read": ("waited", "read"),
    "write": ("queued", "synced"),
    "scan": ("waited", "read"),
    "wait": (),
    "other": (),
}
"""The parts of a call of whose request nothing is known here."""


class TimeSpent(NamedTuple):
    """The parts of a call in seconds, and the offset that it wrote or waited for."""

    parts: dict[PartName, float | None]
    offset: Offset | None = None


def time_spent(
    kind: CallKind,
    places: Sequence[PartitionId],
    began_s: float,
    ended_s: float,
    requests: Sequence[LongRequest],
    commits: Sequence[LongCommit] | None,
    *,
    is_alone: bool = False,
) -> TimeSpent:
    """Divide a call. `requests`, `commits`: those that have ended since the call began; None: the log is elsewhere.
    `is_alone`: no other server carries requests, so one that is not among them was not long.
    """
    if kind == "wait":  # for an offset, at a replica: no request carries it
        return TimeSpent({"waited": ended_s - began_s})
    mine = [
        request for request in requests if request.began_s >= began_s - TICK_S and request.ended_s <= ended_s + TICK_S
    ]
    own = _longest(kind, places, mine)
    judged = _longest("outcomes", places, mine) if kind == "write" else None
    if own is None and kind == "write" and commits is not None:
        own = LongRequest("write", began_s, ended_s, places, 0.0 if judged is None else judged.waited_s)
        judged = None
    if own is None and judged is None:
        alone: dict[PartName, float | None] = {"rest": ended_s - began_s}
        return TimeSpent(alone if is_alone and kind != "other" else dict.fromkeys(_UNKNOWN[kind]))
    parts: dict[PartName, float | None] = {}
    waited_s = 0.0 if judged is None else judged.waited_s
    if own is not None:
        waited_s += own.waited_s
        if kind != "write":
            parts = {"queued": own.began_s - began_s, "read": own.ended_s - own.began_s - own.waited_s}
        elif commits is None:
            parts = {"queued": None, "synced": None}
        else:
            queued_s, synced_s = _committed(own.began_s, own.ended_s - own.waited_s, commits)
            parts = {"queued": own.began_s - began_s + queued_s, "synced": synced_s}
    parts["waited"] = min(waited_s, ended_s - began_s)
    parts = {name: spent_s for name, spent_s in parts.items() if spent_s is None or spent_s >= _LEAST_S}
    known = [spent_s for spent_s in parts.values() if spent_s is not None]
    if len(known) == len(parts):
        parts["rest"] = max(0.0, ended_s - began_s - sum(known))
    return TimeSpent(parts, None if own is None else own.offset)


def _longest(kind: str, places: Sequence[PartitionId], requests: Sequence[LongRequest]) -> LongRequest | None:
    """The longest request of a kind that was about one of these partitions."""
    wanted = set(places)
    found = [request for request in requests if request.kind == kind and not wanted.isdisjoint(request.places)]
    return max(found, key=lambda request: request.ended_s - request.began_s, default=None)


def _committed(began_s: float, stable_s: float, commits: Sequence[LongCommit]) -> tuple[float, float]:
    """How long a write waited for its commit, and how long that took, as far as commits were long."""
    mine = [commit for commit in commits if commit.began_s >= began_s and commit.ended_s <= stable_s + TICK_S]
    if mine:
        own = mine[-1]
        return max(0.0, own.began_s - began_s), own.ended_s - own.began_s
    # Its own was short, so it waited for others, which had begun before it.
    ahead_s = [min(commit.ended_s, stable_s) - max(commit.began_s, began_s) for commit in commits]
    return sum(each for each in ahead_s if each > 0), 0.0
