"""Where an index of a partition can come from: what is offered, in the order in which it is tried, with reasons. Pure.

Three things need an index and have none: a replica that starts (`sources.py`), a read of the past by Spark
(`spark_bulk.source`), a restore to a point in time (`serving_tier.jobs.point_in_time`). They differ in what is offered
to them and in what they want; which source is of use, and which is better, is the same for all:

    fresh        a snapshot from which the log goes on, `earliest - 1 <= offset <= until`; the log, if it still has the
                 table's first record; a peer, whose copy is judged when its manifest is here
    nearer       the newest snapshot first; one at the wanted offset needs no replay at all
    later        a snapshot that holds the last barrier needs the log alone; one of before meets that barrier, and needs
                 a version that may be gone: a peer is preferred to it, and so is one that was not tried before
    cheaper      a replay of few records is preferred to a copy, which costs a node some work; a copy to a long replay

Verified is what was received (`contents.py`), and reachable what answers: both are found out by trying, so a plan is an
order and not a choice. What is not tried is in `passed_over`, with the reason, for the error that names every source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Generic, Literal, Protocol, TypeVar

from log_tier.catalog.cluster_map import SnapshotEntry
from log_tier.model.errors import InvalidRequest
from log_tier.model.identifiers import FIRST, Offset
from log_tier.model.log import Bounds

__all__ = ["SOURCES", "Choice", "Goal", "Offered", "SourcePlan", "plan_sources"]

_NEVER: Final = -1

SOURCES: Final = ("auto", "snapshot", "peer", "log")
"""The sources that a caller may want: all in order, or one kind alone."""


class Named(Protocol):
    """A peer, as far as a plan looks at it."""

    @property
    def name(self) -> str:
        """The node, for people."""
        ...


P = TypeVar("P", bound=Named)


@dataclass(frozen=True, slots=True)
class Offered(Generic[P]):
    """The snapshots, peers and log records from which one partition's index can be made."""

    bounds: Bounds
    """The bounds of the log."""
    start: Offset = FIRST
    """The table's first offset."""
    snapshots: Sequence[SnapshotEntry] = ()
    """In any order."""
    peers: Sequence[P] = ()
    """In the order in which they shall be asked."""


@dataclass(frozen=True, slots=True)
class Goal:
    """The state of the index that a plan must reach."""

    until: Offset | None = None
    """A copy may be at this offset or before it, and the log is replayed up to it; None: to the log's end."""
    wanted: str = "auto"
    """One of `SOURCES`."""
    version: int = 1
    """The table's live version. Snapshots of it are preferred: an older one's comes to the barrier and needs it."""
    swap: int | None = None
    """The job of the table's last barrier, -1 where there was none. Snapshots that do not hold that barrier come after
    the peers. None: barriers do not matter."""
    tried: Sequence[str] = ()
    """Ids of snapshots of before the last barrier that did not lead beyond it, the last one last. They come last."""
    trivial_records: int = 0
    """A log of fewer records is replayed whatever else there is. Only of a table's first version: the later ones begin
    with the files of a bulk build. And only of a log that was never compacted, whose states can all be read."""
    cheap_records: int | None = None
    """A replay of no more records is preferred to a peer's copy, and that to a longer replay; None: every snapshot is
    preferred to every peer, and the log is the last resort."""


@dataclass(frozen=True, slots=True)
class Choice(Generic[P]):
    """One source to try."""

    kind: Literal["snapshot", "peer", "log"]
    snapshot: SnapshotEntry | None = None
    peer: P | None = None

    def __str__(self) -> str:
        if self.snapshot is not None:
            return f"snapshot {self.snapshot.id}"
        return f"peer {self.peer.name}" if self.peer is not None else "the log"


@dataclass(frozen=True, slots=True)
class SourcePlan(Generic[P]):
    """The sources to try, in this order, and the reasons against the others."""

    choices: tuple[Choice[P], ...]
    passed_over: tuple[str, ...]


def plan_sources(offered: Offered[P], goal: Goal) -> SourcePlan[P]:
    """The order in which the sources are tried. O(n log n) of the snapshots.

    Raises `InvalidRequest` for a source that is none.
    """
    if goal.wanted not in SOURCES:
        raise InvalidRequest(f"{goal.wanted!r} is no source: use {', '.join(SOURCES)}")
    bounds, start = offered.bounds, offered.start
    until = bounds.latest if goal.until is None else goal.until
    passed_over: list[str] = []
    near: list[Choice[P]] = []
    far: list[Choice[P]] = []
    early: list[Choice[P]] = []
    again: list[Choice[P]] = []
    if goal.wanted in ("auto", "snapshot"):
        for entry in _in_order(offered.snapshots, goal):
            choice: Choice[P] = Choice("snapshot", snapshot=entry)
            trouble = _no_way_on(entry.offset, until, bounds)
            if trouble:
                passed_over.append(f"{choice}: {trouble}")
            elif goal.swap not in (None, entry.swap):
                (again if entry.id in goal.tried else early).append(choice)
            elif goal.cheap_records is None or until - entry.offset <= goal.cheap_records:
                near.append(choice)
            else:
                far.append(choice)
    peers = [Choice("peer", peer=peer) for peer in offered.peers] if goal.wanted in ("auto", "peer") else []
    log: list[Choice[P]] = []
    if goal.wanted in ("auto", "log"):
        trouble = _no_state(Offset(start - 1), until, bounds)
        if bounds.earliest > start:
            lost = f"the table at {start}: what was between" if start else "what was before"
            passed_over.append(f"the log: it begins at {bounds.earliest}, {lost} is trimmed")
        elif trouble:
            passed_over.append(f"the log: {trouble}")
        else:
            log.append(Choice("log"))
    records = until - start
    if goal.version == 1 and goal.swap in (None, _NEVER) and records < goal.trivial_records and not bounds.compacted:
        ordered = [*log, *near, *peers, *far]
    elif goal.cheap_records is not None and not near and records < goal.cheap_records:
        ordered = [*log, *peers, *far]
    else:
        ordered = [*near, *peers, *far, *early, *log, *again]
    return SourcePlan(tuple(ordered), tuple(passed_over))


def _in_order(snapshots: Sequence[SnapshotEntry], goal: Goal) -> list[SnapshotEntry]:
    """Newest first. Where barriers matter, those of the live version before others, and those that were tried last.
    Else those of the live version alone, where it is a later one and has any.
    """
    newest = sorted(snapshots, key=lambda entry: entry.offset, reverse=True)
    if goal.swap is None:
        mine = [entry for entry in newest if entry.version == goal.version] if goal.version > 1 else []
        return mine or newest
    tried = {snapshot: place for place, snapshot in enumerate(goal.tried)}
    return sorted(newest, key=lambda entry: (tried.get(entry.id, -1), entry.version != goal.version))


def _no_way_on(offset: Offset, until: Offset, bounds: Bounds) -> str:
    """Why the log does not lead from `offset` to `until`; empty where it does."""
    if offset > bounds.latest:
        return f"it is at {offset}, and the log ends at {bounds.latest}: it is another log's"
    if offset > until:
        return f"it is at {offset}, beyond the wanted {until}"
    if offset + 1 < bounds.earliest:
        return f"it ends at {offset}, and the log begins at {bounds.earliest}"
    return _no_state(offset, until, bounds)


def _no_state(offset: Offset, until: Offset, bounds: Bounds) -> str:
    """Why a replay from `offset` does not give the state at `until`, where a compaction has dropped what it needs."""
    if bounds.leads(offset, until):
        return ""
    return f"the log is compacted below {bounds.compacted}, so what lies between {offset} and {until} is not all there"
