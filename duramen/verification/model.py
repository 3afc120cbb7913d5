"""The model: what the log means, written in the shortest way, without the index's code.

It reads records in log order and keeps, for every key, the list of what it was: so the state at *any* offset can be
asked for.

The log's time at an offset is the highest timestamp up to there. A key expires when that time reaches its expiry,
wherever it is read: no other clock has a say.

A barrier says which version of the table is read from its offset on. A version with an `empty:` place held nothing at
the offset that the place names, and then followed what the live one accepted. A version whose content the model is
given holds that at its base, and followed in the same way. Any other version that the model has not met counts as a
build of what the table holds, and shares the content of the version before it.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from duramen.verification.history import BuiltPart, LogRecord

__all__ = ["KEYLESS", "PartitionModel", "RecordOutcome"]

KEYLESS: Final = frozenset({"noop", "barrier"})
"""Operations that change no key."""

_EMPTY: Final = "empty:"


class RecordOutcome(NamedTuple):
    """The outcome of one record, according to the model."""

    effective: bool
    """The record changed something; or it is a barrier, and no second copy."""
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
    expires_ms: int = 0
    """The log time from which on the key is absent; 0: never."""


_ABSENT: Final = _Change(-1, None)


class _Content:
    """What one version held, or several that hold the same, at every offset from its base on."""

    def __init__(self, base: int) -> None:
        self.base = base
        self._changes: dict[str, list[_Change]] = {}

    @classmethod
    def built(cls, part: BuiltPart) -> _Content:
        """What a build holds at its base."""
        content = cls(part.base)
        for key, (version, value) in part.entries.items():
            content.set(key, _Change(version, value, part.expires_ms.get(key, 0)))
        return content

    def at(self, key: str, offset: int, now_ms: int) -> _Change:
        """What a key is when the log's time is `now_ms`. O(log n)."""
        changes = self._changes.get(key, ())
        place = bisect_right(changes, offset, key=lambda change: change.offset)
        if not place or changes[place - 1].value is None:
            return _ABSENT
        return _live(changes[place - 1], now_ms)

    def keys(self, prefix: str) -> Iterator[str]:
        """Every key with that prefix that was ever in it."""
        return (key for key in self._changes if key.startswith(prefix))

    def set(self, key: str, change: _Change) -> None:
        self._changes.setdefault(key, []).append(change)

    def follow(self, group: list[LogRecord], now_ms: int) -> None:
        """Take over what the live version accepted."""
        for record in group:
            if record.offset > self.base and record.operation not in KEYLESS:
                before = self.at(record.key, record.offset, now_ms)
                after, _, refused = _effect(record, before, now_ms)
                if not refused and not (before.value is None and after.value is None):
                    self.set(record.key, after)


class PartitionModel:
    """One partition, from its first record to its last."""

    def __init__(self, records: Iterable[LogRecord], builds: Mapping[str, BuiltPart] | None = None) -> None:
        """`builds`: by URL, what was built of this partition."""
        self.records: dict[int, LogRecord] = {}
        self.verdicts: dict[int, RecordOutcome] = {}
        self.latest = -1
        self.ends: set[int] = {-1}
        """Offsets at which a state may be seen: the ends of batches."""
        self._times: list[tuple[int, int]] = [(-1, 0)]
        """From which offset on the log's time was what."""
        self._first: dict[tuple[int, int], int] = {}
        """Producer and sequence of a record → the offset of its first copy."""
        self._newest: dict[int, int] = {}
        """By producer: the sequence below which everything that comes is late, and void."""
        ordered = list(records)
        self._versions = {1: _Content(-1)}
        """Every version by its number, as soon as anything may be in it."""
        for record in ordered:
            said = _barrier(record)
            if said is not None and said.empty_from is not None:
                self._versions.setdefault(said.version, _Content(said.empty_from[record.partition]))
            elif said is not None and builds and said.url in builds:
                self._versions.setdefault(said.version, _Content.built(builds[said.url]))
        self._live = [(-1, self._versions[1])]
        """Whose content is read from which offset on."""
        self._job = -1
        """Of the last barrier that took effect."""
        for group in _groups(ordered):
            self._apply(group)
        self.ends.add(self.latest)

    def _apply(self, group: list[LogRecord]) -> None:
        before = self.latest
        for record in group:
            self.records[record.offset] = record
            if record.offset == record.batch:
                self.ends.add(self.latest)
            self.latest = record.offset
            if record.time_ms > self._times[-1][1]:
                self._times.append((record.offset, record.time_ms))
        if self._is_late(group):
            for record in group:
                original = self._first.get((record.producer, record.sequence), -1)
                self.verdicts[record.offset] = RecordOutcome(False, duplicate_of=original)
            return
        now_ms = self._times[-1][1]
        written: dict[str, _Change] = {}
        verdicts = [self._judge(record, written, before, now_ms) for record in group]
        rejected = next((verdict.rejected for verdict in verdicts if verdict.rejected), "")
        if rejected:  # one record's rejection takes the whole group with it
            verdicts = [RecordOutcome(False, rejected=rejected)] * len(group)
        else:
            live = self._live[-1][1]
            for key, change in written.items():
                live.set(key, change)
            for other in {id(each): each for each in self._versions.values() if each is not live}.values():
                other.follow(group, now_ms)
            self._pass_barrier(group)
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

    def _judge(self, record: LogRecord, written: dict[str, _Change], before: int, now_ms: int) -> RecordOutcome:
        found = written.get(record.key) or self._read(before).at(record.key, before, now_ms)
        version = -1 if found.value is None else found.offset
        if (
            (record.condition == "absent" and version >= 0)
            or (record.condition == "present" and version < 0)
            or (record.condition == "version" and version != record.version)
        ):
            return RecordOutcome(False, rejected="condition_failed")
        if record.operation in KEYLESS:
            return RecordOutcome(record.operation == "barrier")
        after, result, refused = _effect(record, found, now_ms)
        if refused:
            return RecordOutcome(False, rejected=refused)
        if found.value is not None or after.value is not None:
            written[record.key] = after
        return RecordOutcome(True, result=result)

    def _pass_barrier(self, group: list[LogRecord]) -> None:
        for record in group:
            said = _barrier(record)
            if said is not None and said.job > self._job:
                self._job = said.job
                content = self._versions.setdefault(said.version, self._live[-1][1])
                self._live.append((record.offset, content))

    def _read(self, offset: int) -> _Content:
        return self._live[bisect_right(self._live, offset, key=lambda each: each[0]) - 1][1]

    def time_at(self, offset: int) -> int:
        """The log's time at `offset`, ms since 1970. O(log n)."""
        return self._times[bisect_right(self._times, offset, key=lambda each: each[0]) - 1][1]

    def at(self, key: str, offset: int) -> tuple[int, str | None]:
        """Version and value of a key in the state at `offset`; (-1, None) where it is absent. O(log n)."""
        found = self._read(offset).at(key, offset, self.time_at(offset))
        return found.offset, found.value

    def keys_at(self, offset: int, prefix: str, now_ms: int = 0) -> dict[str, str]:
        """Everything with that prefix in the state at `offset`, without what has expired when the log's time is this,
        or that at `offset` where it is later. O(keys log n).
        """
        content, time_ms = self._read(offset), max(now_ms, self.time_at(offset))
        found = {key: content.at(key, offset, time_ms).value for key in content.keys(prefix)}
        return {key: value for key, value in found.items() if value is not None}


class _Said(NamedTuple):
    """What a barrier says."""

    version: int
    job: int
    url: str
    """Where it was built; empty where the barrier does not say it."""
    empty_from: tuple[int, ...] | None
    """For each partition the offset behind which the version, which was empty, took writes over; None: it was built."""


def _barrier(record: LogRecord) -> _Said | None:
    if record.operation != "barrier":
        return None
    said = json.loads(record.value)
    url = str(said.get("url", ""))
    empty_from = None
    if url.startswith(_EMPTY):
        empty_from = tuple(int(each) for each in url.removeprefix(_EMPTY).partition("/")[0].split(","))
    return _Said(said["version"], said["job"], url, empty_from)


def _live(change: _Change, now_ms: int) -> _Change:
    """It, or nothing where it has expired."""
    return _ABSENT if 0 < change.expires_ms <= now_ms else change


def _effect(record: LogRecord, before: _Change, now_ms: int) -> tuple[_Change, str, str]:
    """What an operation makes of a key, its result, and why it can't: not_a_number."""
    if record.operation == "delete":
        return _Change(record.offset, None), "", ""
    if record.operation == "put":
        after, result = record.value, ""
    elif record.operation == "append":
        after = (before.value or "") + record.value
        result = str(len(after))
    else:
        try:
            number = int(before.value) if before.value is not None else None
        except ValueError:
            return before, "", "not_a_number"
        after = result = str(_arithmetic(record.operation, number, int(record.value)))
    expires_ms = _expires_ms(record, before, now_ms)
    if 0 < expires_ms <= now_ms:
        return _Change(record.offset, None), result, ""  # it expires as it is written
    return _Change(record.offset, after, expires_ms), result, ""


def _expires_ms(record: LogRecord, before: _Change, now_ms: int) -> int:
    if record.expiry == "ttl":
        return now_ms + record.expires_ms
    if record.expiry == "at":
        return record.expires_ms
    # An update that says nothing keeps what is there; a put that says nothing ends it.
    return before.expires_ms if record.expiry == "keep" or record.operation != "put" else 0


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
