"""What an audit found that only its caller could make, left with the servers: of an export, or of a client's session.

A node compares its replicas with the log by itself. Where exports lie, and what a client was acknowledged, somebody
else knows: who audits these leaves a note with the table, so that everybody sees what was compared, and when.

A note has a name among those of its tier: an export's URL, a session's producers. A part of it is one partition; the
newest audit of a partition replaces the part. A table keeps the newest `NOTES_MAX` notes of a tier; one that found a
difference stays longer than one that found none. Pure.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from operator import attrgetter
from typing import Any, Final

from log_tier.model.identifiers import NOTHING, Offset, Partition, TableId

__all__ = [
    "NAME_MAX",
    "NOTES_MAX",
    "REASON_MAX",
    "TIERS",
    "AuditNote",
    "AuditedPart",
    "NoteAudit",
    "note_from",
    "note_row",
    "noted_of",
    "with_note",
]

TIERS: Final = ("export", "session")

NOTES_MAX: Final = 4
"""Of a tier. A note of a thousand partitions has 70 KB, and the map with it goes to every process."""

NAME_MAX: Final = 300
"""Characters of a name; `REASON_MAX`: of a reason."""
REASON_MAX: Final = 300

_VERDICTS: Final = ("equal", "different", "not compared")


@dataclass(frozen=True, slots=True)
class AuditedPart:
    """One partition."""

    partition: Partition
    rows: int
    """Rows of the export, or records that were acknowledged."""
    until: Offset
    """The last offset that was compared."""
    verdict: str = "equal"
    """equal, different, not compared."""
    reason: str = ""
    """The offsets of a difference, in words; or why something was not compared."""
    checked_ms: int = 0
    """When the note came, in the catalog's log time; 0: it did not come yet."""


@dataclass(frozen=True, slots=True)
class AuditNote:
    """One export, or one session."""

    tier: str
    """export, session."""
    name: str
    parts: tuple[AuditedPart, ...]
    """By partition, rising."""

    @property
    def is_different(self) -> bool:
        """Has one of its parts a difference?"""
        return any(part.verdict == "different" for part in self.parts)

    @property
    def checked_ms(self) -> int:
        """When the newest part of it came."""
        return max((part.checked_ms for part in self.parts), default=0)

    def part(self, partition: int) -> AuditedPart | None:
        """Of one partition. O(log partitions)."""
        place = bisect_left(self.parts, partition, key=attrgetter("partition"))
        found = self.parts[place] if place < len(self.parts) else None
        return found if found is not None and found.partition == partition else None

    def wrong(self, partitions: int) -> str:
        """Why this can be no note of a table of so many partitions; empty where it can. O(parts)."""
        if self.tier not in TIERS:
            return f"the tier of an audit is {self.tier!r}, and should be {' or '.join(TIERS)}"
        if not self.name or len(self.name) > NAME_MAX or not self.name.isprintable():
            return f"the name of an audit is {self.name[:50]!r}, and should be 1 to {NAME_MAX} printable characters"
        if len({part.partition for part in self.parts}) < len(self.parts):
            return f"the audit of {self.name} names a partition twice"
        for part in self.parts:
            if not 0 <= part.partition < partitions:
                return f"the table has {partitions} partitions: there is no {part.partition} to audit"
            if part.rows < 0 or part.until < NOTHING or part.checked_ms:
                return f"an audit of partition {part.partition} holds a number that it cannot hold"
            if part.verdict not in _VERDICTS:
                return f"the verdict of an audit is {part.verdict!r}, and should be {', '.join(_VERDICTS)}"
            if len(part.reason) > REASON_MAX or not part.reason.isprintable():
                return f"the reason of an audit has up to {REASON_MAX} printable characters"
        return ""


@dataclass(frozen=True, slots=True)
class NoteAudit:
    """The command of the catalog that keeps a note, or takes away what is known of its name where it has no parts."""

    table: TableId
    note: AuditNote


def with_note(notes: Sequence[AuditNote], note: AuditNote, time_ms: int) -> tuple[AuditNote, ...]:
    """The notes of a table with one more, which is the last. One without parts takes away what is known of its name.
    `time_ms`: when it came. O(parts of the notes).
    """
    known = [each for each in notes if (each.tier, each.name) == (note.tier, note.name)]
    others = [each for each in notes if each not in known]
    if not note.parts:
        return tuple(others)
    parts = {part.partition: part for each in known for part in each.parts}
    parts |= {part.partition: replace(part, checked_ms=time_ms) for part in note.parts}
    alike = [each for each in others if each.tier == note.tier]
    if len(alike) >= NOTES_MAX:
        others.remove(min(alike, key=lambda each: (each.is_different, each.checked_ms)))
    return (*others, replace(note, parts=tuple(part for _, part in sorted(parts.items()))))


def noted_of(notes: Sequence[AuditNote], partition: int) -> Iterator[tuple[AuditNote, AuditedPart]]:
    """What there is to say of a partition: of each tier the newest part, and those that are different. By tier."""
    for tier in TIERS:
        found = [(note, part) for note in notes if note.tier == tier and (part := note.part(partition)) is not None]
        newest = max((part.checked_ms for _, part in found), default=0)
        shown = False
        for note, part in reversed(found):
            is_newest = not shown and part.checked_ms == newest
            shown = shown or is_newest
            if is_newest or part.verdict == "different":
                yield note, part


def note_row(note: AuditNote) -> dict[str, Any]:
    """As JSON has it: without what is usual."""
    return {"tier": note.tier, "name": note.name, "parts": [_part_row(part) for part in note.parts]}


def note_from(row: Mapping[str, Any], *, strict: bool = False) -> AuditNote:
    """Back from JSON. Fields that are not known are ignored; `strict`: refused. Raises `KeyError`, `TypeError`."""
    if strict and row.keys() != {"tier", "name", "parts"}:
        raise TypeError(f"a note of an audit has the fields {', '.join(row)}")
    return AuditNote(row["tier"], row["name"], tuple(_part_from(part, strict=strict) for part in row["parts"]))


_FIELDS: Final = fields(AuditedPart)
_NAMES: Final = frozenset(each.name for each in _FIELDS)


def _part_row(part: AuditedPart) -> dict[str, Any]:
    values = ((each, getattr(part, each.name)) for each in _FIELDS)
    return {each.name: value for each, value in values if each.default is MISSING or value != each.default}


def _part_from(row: Mapping[str, Any], *, strict: bool) -> AuditedPart:
    return AuditedPart(**{name: value for name, value in row.items() if strict or name in _NAMES})
