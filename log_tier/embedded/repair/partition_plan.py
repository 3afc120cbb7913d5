"""The plan of a partition's repair: what is missing, what the copy has of it, and what the operator gives up. Pure.

For each hole the copy's batches are taken as they are, if the copy is of the same history (`comparison.py`).

    copy holds the hole's batches            taken, byte for byte
    copy lacks some, all of them given up    empty shells in their place, which occupy their offsets
    copy lacks some, not all given up        refused, with the offsets by number
    copy is of another history               refused, unless all is given up
    only the file's length shows a loss      nothing is missing, if a copy of no earlier time ends there

At the beginning of a trimmed partition nothing is put in place of what is given up: the partition begins behind it, as
after a trim. Everywhere else a fold goes on over the empty shells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from log_tier.embedded.repair.comparison import CopyComparison
from log_tier.embedded.repair.facts import BatchRun, CopyFacts, CopySegment, FoundBatch, Hole, PartitionFacts, end_of
from log_tier.model.identifiers import RANGES_MAX, Offset, OffsetRange, merged_ranges, ranges_without

__all__ = ["LOST_MAX", "FilePiece", "Keep", "NewSegment", "PartitionPlan", "Refusal", "Shell", "Take", "plan_partition"]

_START: Final = Offset(0)

LOST_MAX: Final = 1 << 24
"""So many offsets behind the known end may be given up: nobody has lost more unnoticed, and a number that was mistyped
should not use up offsets."""


class Keep(NamedTuple):
    """Bytes of the damaged log's file of that base."""

    segment: Offset
    position: int
    end_position: int


class Take(NamedTuple):
    """Bytes of the copy's file of that base."""

    segment: Offset
    position: int
    end_position: int


class Shell(NamedTuple):
    """Offsets that hold no record, `first` to, and without, `end`."""

    first: Offset
    end: Offset
    timestamp_ms: int


FilePiece = Keep | Take | Shell


class NewSegment(NamedTuple):
    """A file to be written."""

    base: Offset
    pieces: Sequence[FilePiece]


class Refusal(NamedTuple):
    """Why a partition is not repaired."""

    partition: str
    why: str
    offsets: tuple[OffsetRange, ...] = ()
    """What has to be given up, where that would help."""


@dataclass(slots=True)
class PartitionPlan:
    """What is written, and what becomes of the missing offsets. Nothing is written where there is a refusal."""

    segments: list[NewSegment] = field(default_factory=list)
    taken: list[OffsetRange] = field(default_factory=list)
    given_up: tuple[OffsetRange, ...] = ()
    """Offsets in whose place shells come."""
    trimmed: tuple[OffsetRange, ...] = ()
    """Offsets that were given up at the beginning of a trimmed partition."""
    earliest: Offset | None = None
    """The first offset that is left, if it changes."""
    record: tuple[OffsetRange, ...] = ()
    """All offsets that were given up in this partition, in earlier repairs as well."""
    compacted: Offset = _START
    end: Offset = _START
    """The end that is proved."""
    refusals: list[Refusal] = field(default_factory=list)


def plan_partition(facts: PartitionFacts, copy: CopyFacts | None, give_up: Sequence[OffsetRange]) -> PartitionPlan:
    """Plan the repair of one partition. `copy` holds the batches at both sides of each hole, and everything below the
    offset to which one of them is compacted where a hole lies there. O(items + the copy's batches in holes).
    """
    return _Planner(facts, copy, merged_ranges(give_up)).plan()


class _Planner:
    def __init__(self, facts: PartitionFacts, copy: CopyFacts | None, give_up: tuple[OffsetRange, ...]) -> None:
        self._facts, self._copy, self._give_up = facts, copy, give_up
        self._plan = PartitionPlan(compacted=facts.known.compacted, end=facts.end)
        self._pieces: dict[Offset, list[FilePiece]] = {}
        """By the base of the file that gets them."""
        self._changed: set[Offset] = set()
        self._moved: dict[Offset, Offset] = {}
        """Files that begin behind what was given up of them: the old base and the new one."""
        self._target = Offset(0)
        self._timestamp_ms = 0
        """Of the last batch so far."""
        self._at = Offset(0)
        """The offset after it."""

    def plan(self) -> PartitionPlan:
        plan, items = self._plan, self._with_lost_end()
        for number, item in enumerate(items):
            if isinstance(item, BatchRun):
                self._keep(item)
                continue
            left = next((each for each in reversed(items[:number]) if isinstance(each, BatchRun)), None)
            right = next((each for each in items[number:] if isinstance(each, BatchRun)), None)
            self._mend(item, left, right)
        plan.segments = [NewSegment(base, self._pieces[base]) for base in sorted(self._changed)]
        holes = [_range(item.first, item.end) for item in items if isinstance(item, Hole) and item.end > item.first]
        plan.record = merged_ranges([*ranges_without(self._facts.known.given_up, holes), *plan.given_up])
        if len(plan.record) > RANGES_MAX:
            why = f"{len(plan.record)} ranges would be given up, and {RANGES_MAX} can be remembered: give up "
            plan.refusals.append(Refusal(self._facts.name, why + "fewer and longer ones, or use a better copy"))
        return plan

    def _with_lost_end(self) -> Sequence[BatchRun | Hole]:
        """The items; with a hole at the end where the operator says that there were more offsets than is known."""
        items, end = list(self._facts.items), self._facts.end
        beyond = next((each for each in self._give_up if each.first <= end <= each.last), None)
        if beyond is None:
            return items
        if beyond.end - end > LOST_MAX:
            why = f"the log is known to end with offset {end - 1}, and {beyond} are given up: too many to be meant"
            self._plan.refusals.append(Refusal(self._facts.name, why))
            return items
        last = items[-1] if items else None
        if isinstance(last, Hole) and last.is_open:
            items[-1] = last._replace(end=beyond.end)
        else:
            items.append(Hole(end, beyond.end, self._facts.newest, "it was given up", is_open=True))
        return items

    def _keep(self, item: BatchRun) -> None:
        self._target = self._moved.get(item.segment, item.segment)
        self._pieces.setdefault(self._target, []).append(Keep(item.segment, item.position, item.end_position))
        self._timestamp_ms, self._at = item.last.timestamp_ms, end_of(item.last)

    def _mend(self, hole: Hole, left: BatchRun | None, right: BatchRun | None) -> None:
        self._target = hole.first if hole.segment is None else self._moved.get(hole.segment, hole.segment)
        self._at = hole.first
        if left is None and right is not None and not self._timestamp_ms:
            self._timestamp_ms = right.first.timestamp_ms
        copy = self._copy
        strange = ""
        if copy is not None:
            wide = hole._replace(end=max(hole.end, copy.end)) if hole.is_open else hole
            strange = CopyComparison(self._facts, copy).trouble(wide, left, right)
            hole = hole if strange else wide
            ends_there = hole.is_doubtful and copy.end == hole.first and not strange
            if ends_there and copy.is_as_new_as(self._facts.known):
                hole = hole._replace(end=hole.first)  # the copy shows that nothing was there
                self._plan.end = hole.first
        missing = [_range(hole.first, hole.end)] if hole.end > hole.first else []
        if copy is not None and not strange:
            available = _available(copy, hole)
            self._plan.taken += ranges_without(available, copy.damaged)
            missing = list(ranges_without(missing, ranges_without(available, copy.damaged)))
            self._plan.compacted = max(self._plan.compacted, min(copy.known.compacted, hole.end))
        refused = ranges_without(missing, self._give_up)
        if refused or (hole.is_newer and missing):
            why = strange or _lack(copy, refused)
            if hole.is_newer:
                why, refused = f"{hole.why}. Nothing of a newer version is given up: update this process; {why}", ()
            self._plan.refusals.append(Refusal(self._facts.name, why, refused))
            return
        self._fill(hole, right, missing, usable=not strange)

    def _fill(self, hole: Hole, right: BatchRun | None, given_up: list[OffsetRange], *, usable: bool) -> None:
        is_head = not self._pieces and self._facts.is_trimmed and bool(given_up)
        if is_head:
            self._trim(hole, given_up)
        else:
            self._plan.given_up = merged_ranges([*self._plan.given_up, *given_up])
        is_last_in_file = right is None or right.segment != hole.segment
        # Only sealed files may have gaps, and each file must end where the next one begins.
        is_dense = is_last_in_file or hole.segment == self._facts.newest
        self._changed.add(self._target)
        self._pieces.setdefault(self._target, [])
        shells = [] if is_head else list(given_up)
        batches = self._copy.batches(self._at, hole.end) if self._copy is not None and usable else iter(())
        for segment, batch in batches:
            base = batch.header.base_offset
            while shells and shells[0].first < base:
                self._shell(*shells.pop(0))
            if is_last_in_file and segment.base >= self._at and self._pieces[self._target]:
                self._shell(self._at, Offset(segment.base - 1))
                self._begin(segment.base)
            if is_dense:
                self._shell(self._at, Offset(base - 1))
            self._take(segment, batch)
        for shell in shells:
            self._shell(*shell)
        if is_dense and not hole.is_open:
            self._shell(self._at, Offset(hole.end - 1))

    def _trim(self, hole: Hole, given_up: list[OffsetRange]) -> None:
        """Let the partition begin behind what is given up at its beginning."""
        self._plan.trimmed = tuple(given_up)
        earliest = self._plan.earliest = self._at = given_up[-1].end
        self._plan.taken = [each for each in self._plan.taken if each.first >= earliest]
        if hole.segment is not None:
            self._moved[hole.segment] = earliest
        self._target = earliest

    def _begin(self, base: Offset) -> None:
        self._target = base
        self._changed.add(base)
        self._pieces.setdefault(base, [])

    def _shell(self, first: Offset, last: Offset) -> None:
        if last >= first:
            self._pieces[self._target].append(Shell(first, Offset(last + 1), self._timestamp_ms))
            self._at = Offset(last + 1)

    def _take(self, segment: CopySegment, batch: FoundBatch) -> None:
        position, header = batch
        pieces = self._pieces[self._target]
        end, last = position + header.length, pieces[-1] if pieces else None
        if isinstance(last, Take) and (last.segment, last.end_position) == (segment.base, position):
            pieces[-1] = last._replace(end_position=end)
        else:
            pieces.append(Take(segment.base, position, end))
        self._timestamp_ms, self._at = header.timestamp_ms, end_of(header)


def _range(first: Offset, end: Offset) -> OffsetRange:
    return OffsetRange(first, Offset(end - 1))


def _available(copy: CopyFacts, hole: Hole) -> list[OffsetRange]:
    """The part of a hole between the copy's first and its last offset."""
    first, end = max(hole.first, copy.earliest), min(hole.end, copy.end)
    return [_range(first, end)] if end > first else []


def _lack(copy: CopyFacts | None, missing: Sequence[OffsetRange]) -> str:
    what = ", ".join(map(str, missing))
    if copy is None:
        return f"{what} cannot be read, and there is no copy of them"
    if copy.end <= copy.earliest:
        return f"{what} cannot be read, and the copy holds nothing of this partition"
    there = f"it holds offsets {copy.earliest} to {copy.end - 1}"
    damaged = ", ".join(map(str, merged_ranges(copy.damaged)))
    return f"{what} cannot be read, and the copy does not have them: {there}" + (
        f", and {damaged} are damaged in it" if damaged else ""
    )
