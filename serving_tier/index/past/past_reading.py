"""What keys had at an offset, and one key's versions, read inside a read transaction of the caller.

get at offset ──▶ the first past entry of the key behind that offset ──▶ what it replaced
             └──▶ there is none ──▶ what the key has now, or had when it expired
             ──▶ it counts if it had not expired by the log's time of that offset
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from log_tier.model.errors import HistoryGone, IndexDamaged
from log_tier.model.identifiers import Offset
from log_tier.model.kept_history import KeptHistory
from serving_tier.fold.entry import is_live, version_of
from serving_tier.fold.past import PastEntry, unpack_past
from serving_tier.index.index import PastPoint, StoredVersion
from serving_tier.index.number_keys import number_key
from serving_tier.index.past.log_times import offset_at, time_at
from serving_tier.index.past.past_rows import HISTORY, PastDatabases, unpack_history_start

__all__ = ["PastState", "kept_entry"]


class PastState:
    """The state of an index at one offset."""

    def __init__(
        self,
        txn: Any,
        databases: PastDatabases,
        keeps: KeptHistory,
        point: PastPoint,
        *,
        applied: Offset,
        log_time_ms: int,
    ) -> None:
        """`applied`, `log_time_ms`: of the state that `txn` sees. Raises `HistoryGone`, with the first offset whose
        state is kept, for one that is not kept.
        """
        self._txn, self._databases, self._keeps = txn, databases, keeps
        self._times = txn.cursor(databases.times)
        self._applied, self._now_ms = applied, log_time_ms
        if point.time_ms:
            at = offset_at(self._times, point.time_ms, self._applied)
        else:
            at = self._applied if point.offset is None else point.offset
        self.at = min(at, self._applied)
        """The offset at which it is read."""
        self.is_present = self.at == self._applied
        """Is it the newest state?"""
        self._cursor = txn.cursor(databases.past)
        self._check(point)
        self.log_time_ms = self._now_ms if self.is_present else time_at(self._times, self.at)
        """By which expiries are judged."""

    def stored(self, key: bytes) -> bytes | None:
        """What a key has in that state, in its stored form; None: nothing that counts. Two or three lookups. Raises
        `HistoryGone` where the history keeps fewer changes of it, `InvalidKey`.
        """
        found = self._found(key)
        return found if found is not None and is_live(found, self.log_time_ms) else None

    def versions(self, key: bytes) -> Iterator[StoredVersion]:
        """The changes of a key up to that state, the newest first, as far as they are kept. Three lookups for each.
        The last one may be one that was made before what is kept: it is what the key had then.
        """
        kept_from, least_ms = self._kept_from(), self._now_ms - self._keeps.age_ms
        state, cursor = self._found(key), self._txn.cursor(self._databases.past)
        if cursor.set_range_dup(key, number_key(self.at + 1)):
            placed = cursor.prev_dup()
        else:
            placed = cursor.set_key(key) and cursor.last_dup()
        while placed:
            entry = self._entry(cursor.value())
            if entry.offset <= kept_from:
                break  # the state is what the key had where the history begins, whatever rows are left below
            yield StoredVersion(entry.offset, state, time_at(self._times, entry.offset))
            state = entry.stored
            placed = cursor.prev_dup()
        if state is not None and (not self._keeps.age_ms or is_live(state, least_ms)):
            # How far back times are known depends on how far the file is swept.
            time_ms = 0 if self._keeps.age_ms else time_at(self._times, version_of(state))
            yield StoredVersion(version_of(state), state, time_ms)

    def _found(self, key: bytes) -> bytes | None:
        cursor = self._cursor
        if not self.is_present and cursor.set_range_dup(key, number_key(self.at + 1)):
            entry = self._entry(cursor.value())
            if entry.since > self.at:
                raise self._gone(entry.since, f"its {self._keeps} newest changes of this key are kept, and it")
            return entry.stored
        return kept_entry(self._txn, self._databases, key)

    def _entry(self, offset: bytes) -> PastEntry:
        row = self._txn.get(offset, db=self._databases.history)
        if row is None:
            raise IndexDamaged(
                f"the past entry of offset {int.from_bytes(offset)} is missing: discard this replica's index, and "
                "fetch a copy of another replica"
            )
        return unpack_past(int.from_bytes(offset), row)

    def _kept_from(self) -> Offset:
        """The first offset whose state is kept: O(log n) lookups where the history is bounded by age."""
        row = self._txn.get(HISTORY, db=self._databases.meta)
        start = self._applied if row is None else unpack_history_start(row)
        if not self._keeps.age_ms:
            return start
        return max(start, offset_at(self._times, self._now_ms - self._keeps.age_ms, self._applied))

    def _check(self, point: PastPoint) -> None:
        if self.is_present:
            return
        row = self._txn.get(HISTORY, db=self._databases.meta)
        start = self._applied if row is None else unpack_history_start(row)
        # A state was the present one until the next offset.
        age_ms = self._keeps.age_ms
        is_kept = not age_ms or time_at(self._times, self.at + 1) > self._now_ms - age_ms
        if self.at < start or not is_kept:
            what = f"{self._keeps} of its past are kept, and it" if age_ms else "it"
            raise self._gone(self._kept_from(), what, point)

    def _gone(self, earliest: Offset, why: str, point: PastPoint | None = None) -> HistoryGone:
        asked = f"offset {self.at}"
        if point is not None and point.time_ms:
            asked = f"the time {point.time_ms} (ms since 1970), which is {asked}"
        return HistoryGone(
            f"the state at {asked} is not kept: {why} begins at offset {earliest}: read at that one or a later one",
            asked=self.at,
            earliest=earliest,
        )


def kept_entry(txn: Any, databases: PastDatabases, key: bytes) -> bytes | None:
    """What a key has, or had when it expired. One lookup, or two."""
    stored: bytes | None = txn.get(key, db=databases.data)
    return txn.get(key, db=databases.lapsed) if stored is None else stored
