"""The model: what the log means, written in the shortest way, without the index's code.

It reads records in log order and keeps, for every key, the list of what it was: so the state at *any* offset can be
asked for. It knows the operations of the workload; times and expiries are not among them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from duramen.verification.history import LogRecord

__all__ = ["KEYLESS", "PartitionModel", "Verdict"]

KEYLESS: Final = frozenset({"noop", "barrier"})
"""Operations that change no key. Versions that a check swaps in meanwhile hold what the table holds."""


class Verdict(NamedTuple):
    """What became of a record."""

    effective: bool
    """The record changed something."""
    duplicate_of: int = -1
    """A second copy: the offset of the first."""
    rejected: str = ""
    """Why it was rejected: condition_failed, not_a_number."""
    result: str = ""
    """After an update: the new number, or the new length."""


class _Change(NamedTuple):
    offset: int
    value: str | None
    """None: the key was deleted."""


class PartitionModel:
    """One partition, from its first record to its last."""

    def __init__(self, records: Iterable[LogRecord]) -> None:
        self.records: dict[int, LogRecord] = {}
        self.verdicts: dict[int, Verdict] = {}
        self.latest = -1
        self.ends: set[int] = {-1}
        """Offsets at which a state may be seen: the ends of batches."""
        self._changes: dict[str, list[_Change]] = {}
        self._first: dict[tuple[int, int], int] = {}
        """Producer and sequence of a record → the offset of its first copy."""
        self._newest: dict[int, int] = {}
        """By producer: the sequence below which everything that comes is late, and void."""
        for group in _groups(records):
            self._apply(group)
        self.ends.add(self.latest)

    def _apply(self, group: list[LogRecord]) -> None:
        before = self.latest
        for record in group:
            self.records[record.offset] = record
            if record.offset == record.batch:
                self.ends.add(self.latest)
            self.latest = record.offset
        if self._is_late(group):
            for record in group:
                original = self._first.get((record.producer, record.sequence), -1)
                self.verdicts[record.offset] = Verdict(False, duplicate_of=original)
            return
        written: dict[str, tuple[int, str | None]] = {}
        verdicts = [self._judge(record, written, before) for record in group]
        rejected = next((verdict.rejected for verdict in verdicts if verdict.rejected), "")
        if rejected:  # one record's rejection takes the whole group with it
            verdicts = [Verdict(False, rejected=rejected)] * len(group)
        else:
            for key, (offset, value) in written.items():
                self._changes.setdefault(key, []).append(_Change(offset, value))
        self.verdicts.update(zip((record.offset for record in group), verdicts, strict=True))

    def _is_late(self, group: list[LogRecord]) -> bool:
        first, last = group[0], group[-1]
        if not first.producer:
            return False
        if first.sequence <= self._newest.get(first.producer, -1):
            return True
        self._newest[first.producer] = last.sequence
        self._first.update(((record.producer, record.sequence), record.offset) for record in group)
        return False

    def _judge(self, record: LogRecord, written: dict[str, tuple[int, str | None]], before: int) -> Verdict:
        version, value = written.get(record.key) or self.at(record.key, before)
        if value is None:
            version = -1
        if (
            (record.condition == "absent" and version >= 0)
            or (record.condition == "present" and version < 0)
            or (record.condition == "version" and version != record.version)
        ):
            return Verdict(False, rejected="condition_failed")
        result = ""
        after: str | None
        if record.operation in KEYLESS:
            return Verdict(False)
        if record.operation == "put":
            after = record.value
        elif record.operation == "delete":
            if value is None:
                return Verdict(True)
            after = None
        elif record.operation == "append":
            after = (value or "") + record.value
            result = str(len(after))
        else:
            try:
                number = int(value) if value is not None else None
            except ValueError:
                return Verdict(False, rejected="not_a_number")
            after = result = str(_arithmetic(record.operation, number, int(record.value)))
        written[record.key] = (record.offset, after)
        return Verdict(True, result=result)

    def at(self, key: str, offset: int) -> tuple[int, str | None]:
        """Version and value of a key in the state at `offset`; (-1, None) where it is absent. O(log n)."""
        changes = self._changes.get(key, ())
        place = bisect_right(changes, offset, key=lambda change: change.offset)
        if not place or changes[place - 1].value is None:
            return -1, None
        return changes[place - 1].offset, changes[place - 1].value

    def keys_at(self, offset: int, prefix: str) -> dict[str, str]:
        """Everything with that prefix in the state at `offset`. O(keys log n)."""
        found = {key: self.at(key, offset)[1] for key in self._changes if key.startswith(prefix)}
        return {key: value for key, value in found.items() if value is not None}


def _arithmetic(operation: str, before: int | None, operand: int) -> int:
    if operation == "add":
        return (before or 0) + operand
    if operation == "multiply":
        return (before or 0) * operand
    if before is None:
        return operand
    return min(before, operand) if operation == "min" else max(before, operand)


def _groups(records: Iterable[LogRecord]) -> Iterator[list[LogRecord]]:
    """Records that take effect together or not at all."""
    group: list[LogRecord] = []
    for record in records:
        if group and not record.grouped:
            yield group
            group = []
        group.append(record)
    if group:
        yield group
