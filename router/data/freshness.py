"""The rule of freshness: may this index answer a read that asks for this? Pure, and the only place that decides it.

A read names what its answer must hold: an offset (`after`, a token's or the session's), or everything that the log
holds (`strong`), or everything that it held some time ago (`lag_max_ms`). An index has applied a prefix of its
partition's log.

    failure that spoils the index                     REFUSE       nothing may be read of it
    failure, and less applied than needed             REFUSE       it will never be applied here
    strong, or level too long ago, and a damaged log  REFUSE       the log's end is not what was acknowledged
    strong, or level too long ago                     ASK_END      the log's end says what is needed
    less applied than needed                          WAIT
    failure                                           LAST_CHOICE  right, but it gets no newer: another replica first
    otherwise                                         ANSWER

The first line that fits decides. After `ASK_END` the caller asks the log, raises what is needed to the end, waits, and
decides once more: a replica that was still folding meets the damage only behind the last batch that can be read. Where
the log itself knows that its end is lost, an offset beyond it is needed, which no replica will apply.

**What is needed.** `needed_offset` gives it: the offset that the read names, else the floor. A floor is what an index
must hold for any reader at all. Of a replica that is new at its node it is the log's end of that time, since its
predecessor may have shown that; at an endpoint it is what the endpoint has acknowledged or shown
(`router/endpoints/resp/data/floors.py`).

**A log that has lost its end** is known to have held more than can be read of it (`Bounds.lost`). A new replica's floor
is then the end that the log is known to have had. No replica of that log applies it, so every read that names no offset
waits until the replica meets the damage, and is refused with it. Only `eventual`, which names `ANYTHING`, is answered
from what is left; it waits for all that can be read. A bounded read needs the floor whatever its session has seen.

`may_answer` is the case that hot paths have: an offset and nothing else. It is true exactly where `decide` says
`ANSWER`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from log_tier.model.errors import DuramenError, IndexDamaged, LogDamaged, TableNotFound
from log_tier.model.identifiers import ANYTHING, NOTHING, Offset, Partition

__all__ = ["Freshness", "FreshnessLevel", "ReadDecision", "decide", "is_level_within", "may_answer", "needed_offset"]

# After these there is nothing to be read of an index, whatever it has applied.
_SPOILED: Final = (TableNotFound, IndexDamaged)


FreshnessLevel = Literal["session", "eventual", "strong", "bounded"]


class Freshness(NamedTuple):
    """How new the answer to a read must be, as its caller asks for it at an endpoint."""

    level: FreshnessLevel = "session"
    """`session`: not older than what the caller has seen; `eventual`: whatever a replica has; `strong`: everything that
    was acknowledged; `bounded`: everything that was acknowledged `lag_max_ms` ago."""
    offsets: Mapping[Partition, Offset] = MappingProxyType({})
    """The offsets that a token requires in addition, by partition."""
    lag_max_ms: int = 0
    """The largest lag that `bounded` allows; 0: no bound."""

    @property
    def strong(self) -> bool:
        """Must the answer hold the log's end?"""
        return self.level == "strong"

    def after(self, partition: Partition, seen: Offset = NOTHING) -> Offset:
        """The offset that a partition must have applied. `seen`: what the caller has seen of it."""
        if self.level == "eventual":
            return self.offsets.get(partition, ANYTHING)
        return max(self.offsets.get(partition, NOTHING), seen)

    def named(self, partitions: int) -> dict[Partition, Offset]:
        """What a read of all partitions of a table names. O(`partitions`) at level `eventual`."""
        if self.level != "eventual":
            return dict(self.offsets)
        return {partition: self.after(partition) for partition in map(Partition, range(partitions))}


class ReadDecision(Enum):
    """What becomes of a read at one index."""

    ANSWER = "answer"
    WAIT = "wait"
    """Until the needed offset is applied."""
    ASK_END = "ask_end"
    """Ask the log for its end, which is needed then."""
    LAST_CHOICE = "last_choice"
    """The replica may answer, but gets no newer: it has stopped."""
    REFUSE = "refuse"
    """With the reason why the replica stopped."""


def needed_offset(after: Offset, floor: Offset, lost: int = 0, *, bounded: bool = False) -> Offset:
    """The offset that the answer must hold. A read that names none shows no less than the floor, and neither does a
    `bounded` one. `lost`: how many offsets up to the floor the log has lost, which a reader of `ANYTHING` does without.
    """
    if after > NOTHING and not bounded:
        return after
    return Offset(floor - lost) if after == ANYTHING else max(after, floor)


def is_level_within(stale_ms: float, lag_max_ms: int) -> bool:
    """Does an index that was level with the log `stale_ms` ago meet the bound? 0: there is none."""
    return not 0 < lag_max_ms < stale_ms


def may_answer(applied: Offset, needed: Offset, failure: DuramenError | None) -> bool:
    """May an index answer at once, of which nothing but an offset is needed? 40 ns."""
    return applied >= needed and failure is None


def decide(
    applied: Offset,
    needed: Offset,
    failure: DuramenError | None,
    *,
    strong: bool = False,
    lag_max_ms: int = 0,
    stale_ms: float = 0.0,
) -> ReadDecision:
    """Decide whether an index may answer a read now, later, or not at all. `failure`: why the replica stopped;
    `stale_ms`: when it was level with the log last, ago.
    """
    if failure is not None and (applied < needed or isinstance(failure, _SPOILED)):
        return ReadDecision.REFUSE
    if strong or not is_level_within(stale_ms, lag_max_ms):
        return ReadDecision.REFUSE if isinstance(failure, LogDamaged) else ReadDecision.ASK_END
    if applied < needed:
        return ReadDecision.WAIT
    return ReadDecision.ANSWER if failure is None else ReadDecision.LAST_CHOICE
