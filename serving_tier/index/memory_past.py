"""The past of an index in memory: every change that was folded, looked through from the beginning.

It is the model for `serving_tier.index.past`: nothing is removed, and a bound decides what may be read.
"""

from __future__ import annotations

from log_tier.model.errors import HistoryGone, InvalidRequest
from log_tier.model.identifiers import NOTHING, Offset
from log_tier.rows.definition import TableDefinition
from serving_tier.fold.effects import Effects
from serving_tier.fold.entry import is_live
from serving_tier.fold.past import KeyChanged
from serving_tier.index.index import PastPoint, StoredVersion

__all__ = ["MemoryPast", "MemoryPastState"]


class MemoryPast:
    """Every change of a key, and the log time at each offset."""

    def __init__(self, definition: TableDefinition | None) -> None:
        self._keeps = None if definition is None else definition.keeps
        self._changes: list[KeyChanged] = []
        self._times: list[tuple[Offset, int]] = []
        self._applied: Offset = NOTHING
        self._log_time_ms = 0

    def add(self, effects: Effects) -> None:
        """Take in what a fold changed."""
        self._changes += effects.changed or ()
        self._times += effects.times
        self._applied, self._log_time_ms = effects.applied, effects.log_time_ms

    def kept(self, key: bytes) -> bytes | None:
        """What a key has, or had when it expired."""
        return next((each.stored for each in reversed(self._changes) if each.key == key), None)

    def changed_last(self, key: bytes) -> Offset:
        """The offset of the last change of a key."""
        return next((each.offset for each in reversed(self._changes) if each.key == key), NOTHING)

    def offset_of(self, point: PastPoint) -> Offset:
        """The offset of a state that may be read. Raises `HistoryGone`, `InvalidRequest`."""
        if self._keeps is None:
            raise InvalidRequest("the table keeps no history")
        at = self._applied if point.offset is None else min(point.offset, self._applied)
        if point.time_ms:
            at = self._offset_at(point.time_ms)
        least_ms = self._log_time_ms - self._keeps.age_ms
        if at < self._applied and self._keeps.age_ms and self.time_at(Offset(at + 1)) <= least_ms:
            raise HistoryGone(f"offset {at}", asked=at, earliest=self._offset_at(least_ms))
        return at

    def time_at(self, at: Offset) -> int:
        """The log time of a state."""
        return max((time_ms for offset, time_ms in self._times if offset <= at), default=0)

    def stored(self, key: bytes, at: Offset) -> bytes | None:
        """What a key had, expired or not. Raises `HistoryGone`."""
        assert self._keeps is not None, "the table keeps no history"
        changes = [each for each in self._changes if each.key == key]
        before = [each for each in changes if each.offset <= at]
        versions = self._keeps.versions
        if versions and len(changes) - len(before) > versions:
            raise HistoryGone(f"offset {at}", asked=at, earliest=changes[-versions - 1].offset)
        return before[-1].stored if before else None

    def keys(self, start: bytes, end: bytes | None, *, reverse: bool) -> list[bytes]:
        """Every key that had something, in order."""
        had = {each.key for each in self._changes if start <= each.key and (end is None or each.key < end)}
        return sorted(had, reverse=reverse)

    def versions(self, key: bytes, at: Offset) -> list[StoredVersion]:
        """The changes of a key up to a state, the newest first."""
        assert self._keeps is not None, "the table keeps no history"
        self.stored(key, at)
        changes = [each for each in self._changes if each.key == key]
        least_ms = self._log_time_ms - self._keeps.age_ms
        first = max(0, len(changes) - self._keeps.versions) if self._keeps.versions else 0
        if self._keeps.age_ms:
            begins = self._offset_at(least_ms)
            first = sum(1 for each in changes if each.offset <= begins)
        kept = changes[first:]
        begun = changes[first - 1] if first else None
        if begun is not None and begun.stored is not None:
            if not self._keeps.age_ms:
                kept = [begun, *kept]
            elif is_live(begun.stored, least_ms):
                kept = [begun._replace(log_time_ms=0), *kept]
        return [StoredVersion(each.offset, each.stored, each.log_time_ms) for each in kept if each.offset <= at][::-1]

    def _offset_at(self, time_ms: int) -> Offset:
        later = [offset for offset, each_ms in self._times if each_ms > time_ms]
        return Offset(later[0] - 1) if later else self._applied


class MemoryPastState:
    """The state at one offset."""

    def __init__(self, past: MemoryPast, point: PastPoint) -> None:
        """Raises `HistoryGone`, `InvalidRequest`."""
        self._past = past
        self.at = past.offset_of(point)
        """The offset."""
        self._log_time_ms = past.time_at(self.at)

    def stored(self, key: bytes) -> bytes | None:
        """What a key has in it. Raises `HistoryGone`."""
        found = self._past.stored(key, self.at)
        return found if found is not None and is_live(found, self._log_time_ms) else None
