"""An index in memory: a sorted dict with the contract of `serving_tier.index.index`.

Tests compare the LMDB index with it. It starts empty and folds its log from the beginning; no server uses it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from threading import RLock
from typing import NoReturn

from sortedcontainers import SortedDict, SortedSet

from log_tier.model.barrier import ORIGINAL
from log_tier.model.batch import decode_batch
from log_tier.model.batch_header import split_batches
from log_tier.model.errors import InvalidKey, LimitExceeded, ShuttingDown, VersionMissing
from log_tier.model.identifiers import NOTHING, Offset
from log_tier.rows.definition import TableDefinition
from log_tier.rows.definitions.checks import check_index
from log_tier.rows.table_index import INDEX_NUMBER_BYTES, TableIndex
from log_tier.tally.keep import Kept
from log_tier.tally.period import PartitionTally, Period
from serving_tier.fold.effects import Effects
from serving_tier.fold.entry import LiveEntry, columns_of_entries, entry_of, expiry_of, is_live, value_of
from serving_tier.fold.fold import fold
from serving_tier.fold.index_changes import KEY_LENGTH_BYTES, entries_of_stored
from serving_tier.fold.producers import ProducerState
from serving_tier.fold.verdicts import Judgement, Outcome, Verdict, outcomes_between
from serving_tier.index.index import (
    FOUND_BYTES_MAX,
    Applied,
    Found,
    IndexLimits,
    IndexStatistics,
    PastPage,
    PastPoint,
    ScanPage,
    StoredVersion,
)
from serving_tier.index.memory_past import MemoryPast, MemoryPastState
from serving_tier.index.past_pages import past_page
from serving_tier.index.scan import digest_of, index_bounds, rows_of_entries, take_page

__all__ = ["MemoryIndex"]


class MemoryIndex:
    """`Index` in memory, for tests. A lock takes the place of LMDB's transactions."""

    def __init__(
        self,
        *,
        limits: IndexLimits = IndexLimits(),  # noqa: B008  (immutable)
        definition: TableDefinition | None = None,
    ) -> None:
        self._limits = limits
        self.definition = None if definition is None else definition.first
        """What the table's keys and values are, as far as was folded; None: bytes."""
        self._lock: AbstractContextManager[object] = RLock()
        self._void = 0
        self.live = ORIGINAL
        self._applied: Offset = NOTHING
        self._log_time_ms = 0
        self._verdicts_from = Offset(0)
        self._counting: Period | None = None
        self._kept = Kept(Offset(0))
        self._entries: SortedDict = SortedDict()
        """Key → stored form."""
        self._ordered: SortedDict = SortedDict()
        """Entry of an ordered index → length of the row's key."""
        self._past = MemoryPast(self.definition)
        self._hints: SortedSet = SortedSet()
        """(expiry in ms, key): a superset of the expiries that are there."""
        self._producers: dict[int, ProducerState] = {}
        """In the order of their last batches."""
        self._judgements: dict[Offset, Judgement] = {}
        """In the order of their offsets, as are the results."""
        self._results: dict[Offset, bytes] = {}

    @property
    def applied(self) -> Offset:
        """The last offset that was folded."""
        return self._applied

    @property
    def log_time_ms(self) -> int:
        """The largest timestamp that was folded."""
        return self._log_time_ms

    @property
    def verdicts_from(self) -> Offset:
        """Rejections below this offset are forgotten."""
        return self._verdicts_from

    def stored(self, key: bytes) -> bytes | None:
        """The stored form of an entry, for the fold."""
        found: bytes | None = self._entries.get(key)
        return found

    def kept(self, key: bytes) -> bytes | None:
        """What a key has, or had when it expired, for the fold."""
        return self._past.kept(key)

    def changed_last(self, key: bytes) -> Offset:
        """The offset of the last change of a key, for the fold."""
        return self._past.changed_last(key)

    def with_value(self, value: bytes) -> Iterator[bytes]:
        """The keys of the rows whose entries begin with a value, for the fold."""
        for entry in self._ordered.irange(value):
            if not entry.startswith(value):
                return
            yield entry[len(value) :]

    def producer_count(self) -> int:
        """How many producers are known, for the fold."""
        return len(self._producers)

    def producers_by_age(self) -> Iterator[int]:
        """The ids of the producers, the oldest first, for the fold."""
        return iter(self._producers)

    def apply(self, chunk: bytes) -> Applied:
        """Fold a run of whole stored batches."""
        batches = map(decode_batch, split_batches(chunk))
        effects = fold(
            batches,
            self,
            applied=self._applied,
            log_time_ms=self._log_time_ms,
            producers_max=self._limits.producers,
            live=self.live,
            counting=self._counting,
            definition=self.definition,
        )
        for live in effects.went_live:
            if live.version != ORIGINAL.version:
                raise VersionMissing(
                    f"an index in memory has one version, and the log goes on with version {live.version} at offset "
                    f"{live.since}",
                    version=live.version,
                    offset=live.since,
                )
        with self._lock:
            self._carry_out(effects)
        return Applied(
            effects.applied, effects.log_time_ms, effects.records, effects.rejected, effects.duplicates, effects.void
        )

    def _carry_out(self, effects: Effects) -> None:
        self._void += effects.void
        self.live = effects.live or self.live
        before, self.definition = self.definition, effects.definition
        self._past.add(effects)
        for key, stored in effects.entries.items():
            if stored is None:
                self._entries.pop(key, None)
            else:
                self._entries[key] = stored
        for entry, length in effects.index_changes.items():
            if length is None:
                self._ordered.pop(entry, None)
            else:
                self._ordered[entry] = length
        if effects.defined:
            self._reindex(before)
        for hint, noted in effects.hints.items():
            (self._hints.add if noted else self._hints.discard)(hint)
        for producer_id, state in effects.producers.items():
            self._producers.pop(producer_id, None)
            if state is not None:
                self._producers[producer_id] = state
        self._judgements.update((judgement.offset, judgement) for judgement in effects.judgements)
        self._results.update(effects.results)
        self._applied, self._log_time_ms = effects.applied, effects.log_time_ms
        if effects.counting is not None:
            self._kept = self._kept.with_closed(effects.counted, newest=effects.counting.minute)
            self._counting = effects.counting
        self._trim()

    def _reindex(self, before: TableDefinition | None) -> None:
        """Make the entries of the indexes that a definition brings, at once; those of the others go."""
        if self.definition is None or before is None or before.indexes == self.definition.indexes:
            return
        kept = {each.number.to_bytes(INDEX_NUMBER_BYTES) for each in self.definition.indexes}
        for entry in [each for each in self._ordered if each[:INDEX_NUMBER_BYTES] not in kept]:
            del self._ordered[entry]
        for key, stored in self._entries.items():
            for entry in self._entries_of(key, stored):
                self._ordered[entry] = len(key).to_bytes(KEY_LENGTH_BYTES)

    def _entries_of(self, key: bytes, stored: bytes) -> Sequence[bytes]:
        rows = None if self.definition is None else self.definition.judge.entries
        return () if rows is None else entries_of_stored(key, stored, rows)

    def tally(self) -> PartitionTally:
        """What was counted of the batches that were folded."""
        last = () if self._counting is None else (self._counting,)
        return PartitionTally(self._kept.since, self._applied, (*self._kept.periods, *last))

    def _trim(self) -> None:
        while len(self._judgements) > self._limits.verdicts:
            oldest = self._judgements.pop(next(iter(self._judgements)))
            self._verdicts_from = Offset(oldest.offset + oldest.span)
        for offset in list(self._results):
            if offset > self._applied - self._limits.results:
                break
            del self._results[offset]
        while self._hints and self._hints[0][0] <= self._log_time_ms:
            expires_at_ms, key = self._hints.pop(0)
            stored = self._entries.get(key)
            if stored is not None and expiry_of(stored) == expires_at_ms:
                del self._entries[key]
                for entry in self._entries_of(key, stored):
                    del self._ordered[entry]

    def get(self, key: bytes) -> LiveEntry | None:
        """One entry."""
        with self._lock:
            stored = self._live(key)
        return None if stored is None else entry_of(stored)

    def get_value(self, key: bytes) -> bytes | None:
        """One entry's value."""
        with self._lock:
            stored = self._live(key)
        return None if stored is None else value_of(stored)

    def _live(self, key: bytes) -> bytes | None:
        if not key:
            raise InvalidKey("the key is empty; keys have 1 to 511 bytes")
        stored: bytes | None = self._entries.get(key)
        return stored if stored is not None and is_live(stored, self._log_time_ms) else None

    def get_many(self, keys: Sequence[bytes], *, bytes_max: int = FOUND_BYTES_MAX) -> Found:
        """Several entries, all read at one applied offset."""
        with self._lock:
            found = [self._live(key) for key in keys]
            if sum(map(len, filter(None, found))) > bytes_max:
                raise LimitExceeded(f"the values of these {len(keys)} keys have more than {bytes_max} bytes")
            return Found(self._applied, *columns_of_entries(found, self._log_time_ms))

    def get_past(self, keys: Sequence[bytes], point: PastPoint, *, bytes_max: int = FOUND_BYTES_MAX) -> Found:
        """Several entries as they were at one offset. O(changes)."""
        with self._lock:
            at = self._past.offset_of(point)
            found = [self._past.stored(key, at) for key in keys]
            return Found(at, *columns_of_entries(found, self._past.time_at(at)))

    def past_keys(self) -> list[bytes]:
        """Every key that has or had something, in order."""
        with self._lock:
            return self._past.keys(b"", None, reverse=False)

    def versions(
        self, key: bytes, point: PastPoint, *, limit: int, bytes_max: int = FOUND_BYTES_MAX
    ) -> tuple[Offset, list[StoredVersion]]:
        """At most `limit` versions of a key up to a state, the newest first. O(changes)."""
        with self._lock:
            at = self._past.offset_of(point)
            return at, self._past.versions(key, at)[:limit]

    def scan_past(
        self,
        start: bytes,
        end: bytes | None,
        point: PastPoint,
        *,
        compared: PastPoint | None = None,
        reverse: bool = False,
        limit: int = 1000,
        bytes_max: int = 1 << 20,
    ) -> PastPage:
        """Entries of a range of keys in a state, or where it differs from another one. O(keys × changes)."""
        with self._lock:
            state = MemoryPastState(self._past, point)
            other = None if compared is None else MemoryPastState(self._past, compared)
            keys = self._past.keys(start, end, reverse=reverse)
            return past_page(keys, state, other, limit=limit, bytes_max=bytes_max)

    def scan(
        self, start: bytes, end: bytes | None, *, reverse: bool = False, limit: int = 1000, bytes_max: int = 1 << 20
    ) -> ScanPage:
        """Entries of a range of keys."""
        with self._lock:
            keys = self._entries.irange(start, end, inclusive=(True, False), reverse=reverse)
            pairs = ((key, self._entries[key]) for key in keys)
            return take_page(
                pairs, log_time_ms=self._log_time_ms, limit=limit, bytes_max=bytes_max, applied=self._applied
            )

    def find(
        self,
        index: TableIndex,
        start: bytes,
        end: bytes | None,
        *,
        reverse: bool = False,
        limit: int = 1000,
        bytes_max: int = 1 << 20,
    ) -> ScanPage:
        """Rows in the order of an ordered index."""
        with self._lock:
            check_index(index, self.definition)
            bounds = index_bounds(index, start, end)
            entries = self._ordered.irange(*bounds, inclusive=(True, False), reverse=reverse)
            pairs = rows_of_entries(((entry, self._ordered[entry]) for entry in entries), self.stored)
            return take_page(
                pairs, log_time_ms=self._log_time_ms, limit=limit, bytes_max=bytes_max, applied=self._applied
            )

    def outcomes(self, first: Offset, last: Offset) -> dict[Offset, Outcome]:
        """What is known about the offsets `first` to `last`, inclusive."""
        with self._lock:
            return outcomes_between(
                first,
                last,
                verdicts_from=self._verdicts_from,
                judgements=self._judgements_between,
                results=lambda first, last: (
                    (offset, result) for offset, result in self._results.items() if first <= offset <= last
                ),
            )

    def _judgements_between(self, first: int, last: int) -> list[Judgement]:
        rows = list(self._judgements.values())
        start = bisect_left(rows, first, key=lambda row: row.offset)
        if (
            start
            and rows[start - 1].verdict is Verdict.DUPLICATE
            and rows[start - 1].offset + rows[start - 1].span > first
        ):
            start -= 1
        return [row for row in rows[start:] if row.offset <= last]

    def producer(self, producer_id: int) -> ProducerState | None:
        """The last batch of a producer that took effect."""
        with self._lock:
            return self._producers.get(producer_id)

    def count(self) -> int:
        """The number of live keys."""
        with self._lock:
            return len(self._entries)

    def next_expiry_ms(self) -> int | None:
        """A log time that no entry's expiry comes before."""
        with self._lock:
            return int(self._hints[0][0]) if self._hints else None

    def digest(self) -> str:
        """32 hex digits over everything that is live."""
        with self._lock:
            return digest_of(self._entries.items(), log_time_ms=self._log_time_ms)

    def statistics(self) -> IndexStatistics:
        """Sizes."""
        with self._lock:
            return IndexStatistics(
                applied=self._applied,
                log_time_ms=self._log_time_ms,
                entries=len(self._entries),
                producers=len(self._producers),
                verdicts=len(self._judgements),
                results=len(self._results),
                expiries=len(self._hints),
                bytes_used=0,
                void=self._void,
            )

    def close(self, *, clean: bool = True) -> None:
        """Forget everything: there is nothing else to let go of. Every later read raises `ShuttingDown`. Idempotent."""
        if isinstance(self._lock, _Closed):
            return
        with self._lock:
            self._lock = _Closed()
            self._entries.clear()


class _Closed:
    """Takes the lock's place after `close`: entering raises `ShuttingDown`."""

    def __enter__(self) -> NoReturn:
        raise ShuttingDown("the index is closed")

    def __exit__(self, *_: object) -> None:
        raise AssertionError("nobody came in")
