"""The reads of an LMDB index, by whichever process has its file open.

Each read opens its own read transaction, so it sees the index at one applied offset and takes no lock; it holds a pin
meanwhile (`serving_tier.index.pins`). Entries without an expiry, the usual case, cost one lookup; for the others the
log time is read in the same transaction.

Those that run in a user's own thread (`get_value`, `scan`, `find`) give their pin back wherever Ctrl-C interrupts them,
or the index could not be closed. CPython looks for signals behind a call and at the beginning of a Python function. So
the pin is taken by the first call of a `try` block, and not by a context manager written in Python.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NoReturn

import lmdb

from log_tier.model.errors import IndexDamaged, InvalidRequest, ShuttingDown
from log_tier.model.identifiers import Offset, PartitionId
from log_tier.model.kept_history import KeptHistory
from log_tier.rows.table_index import TableIndex
from serving_tier.fold.entry import LiveEntry, columns_of_entries, entry_of, is_live, value_of
from serving_tier.fold.producers import ProducerState
from serving_tier.fold.verdicts import Judgement, Outcome
from serving_tier.index.index import (
    FOUND_BYTES_MAX,
    Found,
    IndexStatistics,
    PastPage,
    PastPoint,
    ScanPage,
    StoredVersion,
)
from serving_tier.index.lmdb.bookkeeping import judgements_between, outcomes_known, producer_known
from serving_tier.index.lmdb.counts import count_live, first_expiry_ms, statistics_of
from serving_tier.index.lmdb.environment import Databases, named_troubles
from serving_tier.index.lmdb.format import APPLIED_AND_TIME_OF, IDENTITY, STATE, State, unpack_identity
from serving_tier.index.lmdb.pinned_read import PinnedRead
from serving_tier.index.past.past_keys import past_keys
from serving_tier.index.past.past_reading import PastState
from serving_tier.index.past_pages import past_page
from serving_tier.index.pins import PIN, Pins
from serving_tier.index.scan import digest_of, index_bounds, pairs_between, rows_of_entries, stored_within, take_page

__all__ = ["LmdbReads", "closed"]

# A named tuple's own constructor is a Python function; this one is not.
_new_found: Final[Callable[[tuple[Any, ...]], Found]] = partial(tuple.__new__, Found)

_UNREADABLE: Final = (lmdb.Error, IndexError, struct.error)
"""How a read of a damaged file ends: LMDB refuses, or a row is shorter than any that is written."""


class _Read:
    """One read transaction over the entries, and its pin, as a `with` block. LMDB's errors leave it as ours. 1 µs."""

    __slots__ = ("_reads", "_txn")

    def __init__(self, reads: LmdbReads) -> None:
        self._reads = reads

    def __enter__(self) -> Any:
        reads = self._reads
        reads.pins.acquire(PIN)
        try:
            self._txn = reads._begin(reads._data)
        except BaseException as error:
            reads.pins.release()
            if isinstance(error, lmdb.Error):
                reads._refuse_read(error)
            raise
        return self._txn

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        reads = self._reads
        try:
            self._txn.abort()
        finally:
            reads.pins.release()
        if isinstance(error, _UNREADABLE):
            reads._refuse_read(error)


class LmdbReads:
    """An open LMDB file of an index. See `serving_tier.index.index.Index` for what the reads promise."""

    def __init__(
        self, env: Any, databases: Databases, path: Path, *, map_bytes: int, begin: Callable[..., Any] | None = None
    ) -> None:
        """`begin`: replaces LMDB's own while the file is not open."""
        self._env, self._path, self._map_bytes = env, path, map_bytes
        self._databases, self._data, self._meta = databases, databases.data, databases.meta
        self._begin: Callable[..., Any] = begin or env.begin
        self.is_at_rest = env is None
        """Does the next read open the file first? See `serving_tier.index.lmdb.index_file`. That takes about 1 ms."""
        self.pins = Pins()
        """Held by each read and write for as long as its transaction runs."""
        self.readers = Pins()
        """Held by long reads, of one transaction or of several: the owner closes the index after they have ended."""

    @property
    def path(self) -> Path:
        """The index's folder."""
        return self._path

    def get(self, key: bytes) -> LiveEntry | None:
        """One entry. One lookup, about 2 µs."""
        with self._reading() as txn:
            stored = txn.get(key)
            if stored is None or (stored[7] and not is_live(stored, self._log_time(txn))):
                return None
            return entry_of(stored)

    def get_value(self, key: bytes) -> bytes | None:
        """One entry's value. One lookup, and nothing that is not needed for it."""
        pins = self.pins
        try:
            pins.acquire(PIN)
            # Not `with`: a read transaction ends when nothing refers to it any more, and that costs half as much.
            txn = self._begin(self._data)
            stored: bytes | None = txn.get(key)
            if stored is None:
                return None
            if stored[7]:
                return value_of(stored) if is_live(stored, self._log_time(txn)) else None
        except _UNREADABLE as error:
            self._refuse_read(error)
        finally:
            txn = None  # the transaction ends before the pin does
            pins.release()
        return stored[8:]

    def stored(self, key: bytes) -> bytes | None:
        """The stored form of one entry, expired or not: for an endpoint that writes the bytes on. 0.4 µs."""
        pins = self.pins
        try:
            pins.acquire(PIN)
            stored: bytes | None = self._begin(self._data).get(key)
        except _UNREADABLE as error:
            self._refuse_read(error)
        finally:
            pins.release()
        return stored

    def transaction(self) -> int:
        """The number of the newest write transaction: two reads under the same number saw the same state. 0.5 µs."""
        pins = self.pins
        try:
            pins.acquire(PIN)
            number: int = self._begin().id()
        except _UNREADABLE as error:
            self._refuse_read(error)
        finally:
            pins.release()
        return number

    def stored_many(
        self, keys: Sequence[bytes], *, bytes_max: int, transaction: int | None = None
    ) -> list[bytes | None] | None:
        """The stored forms of several entries at one applied offset, expired ones included. 0.2 µs a key.

        `transaction`: the number that the newest write transaction must have, else the result is None. Raises
        `LimitExceeded` at the first entry with which they have more than `bytes_max` bytes together.
        """
        pins = self.pins
        try:
            pins.acquire(PIN)
            txn = self._begin(self._data)
            if transaction is not None and txn.id() != transaction:
                return None
            found = stored_within(txn.get, keys, bytes_max)
        except _UNREADABLE as error:
            self._refuse_read(error)
        finally:
            txn = None  # the transaction ends before the pin does
            pins.release()
        return found

    def get_many(self, keys: Sequence[bytes], *, bytes_max: int = FOUND_BYTES_MAX) -> Found:
        """Several entries, all read at one applied offset. Raises `LimitExceeded` as `stored_many`."""
        pins = self.pins
        try:
            pins.acquire(PIN)
            txn = self._begin(self._data)
            applied, log_time_ms = APPLIED_AND_TIME_OF(txn.get(STATE, db=self._meta))
            found = stored_within(txn.get, keys, bytes_max, 8)  # a version is no part of a value
            return _new_found((applied, *columns_of_entries(found, log_time_ms)))
        except _UNREADABLE as error:
            self._refuse_read(error)
        finally:
            txn = None  # the transaction ends before the pin does
            pins.release()

    def get_past(self, keys: Sequence[bytes], point: PastPoint, *, bytes_max: int = FOUND_BYTES_MAX) -> Found:
        """Several entries as they were at one offset, which `Found.applied` names. Some 5 µs, and 3 µs a key.

        Raises `HistoryGone` for a state that is not kept, `InvalidRequest` for a table that keeps none, and
        `LimitExceeded` as `stored_many`.
        """
        with self._reading() as txn:
            state = self._past(txn, point)
            found = stored_within(state.stored, keys, bytes_max, 8)
            return _new_found((state.at, *columns_of_entries(found, state.log_time_ms)))

    def versions(
        self, key: bytes, point: PastPoint, *, limit: int, bytes_max: int = FOUND_BYTES_MAX
    ) -> tuple[Offset, list[StoredVersion]]:
        """At most `limit` versions of a key, the newest first, up to a state of the past, and the offset of that state.
        Fewer where their values have more than `bytes_max` bytes together; at least one. Raises as `get_past`.
        """
        found: list[StoredVersion] = []
        with self._reading() as txn:
            state = self._past(txn, point)
            for version in islice(state.versions(key), limit):
                bytes_max -= len(version.stored or b"")
                if found and bytes_max < 0:
                    break
                found.append(version)
        return state.at, found

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
        """Entries of a range of keys in a state, or where it differs from another one. Some 5 µs for each key that has
        or had something. Raises as `get_past`.
        """
        with self._reading() as txn:
            state, other = self._past(txn, point), None if compared is None else self._past(txn, compared)
            is_present = state.is_present and (other is None or other.is_present)
            keys = past_keys(txn, self._databases, start, end, reverse=reverse, is_present=is_present)
            return past_page(keys, state, other, limit=limit, bytes_max=bytes_max)

    def _past(self, txn: Any, point: PastPoint) -> PastState:
        applied, log_time_ms = APPLIED_AND_TIME_OF(txn.get(STATE, db=self._meta))
        return PastState(txn, self._databases, self._keeps(), point, applied=applied, log_time_ms=log_time_ms)

    def _keeps(self) -> KeptHistory:
        """How much of its past the table keeps. Raises `InvalidRequest`: nothing."""
        raise InvalidRequest("the past of this file is not read here")

    def scan(
        self, start: bytes, end: bytes | None, *, reverse: bool = False, limit: int = 1000, bytes_max: int = 1 << 20
    ) -> ScanPage:
        """Entries of a range of keys. About 1 µs an entry."""
        pins, txn = self.pins, None
        try:
            pins.acquire(PIN)
            txn = self._begin(self._data)
            applied, log_time_ms = APPLIED_AND_TIME_OF(txn.get(STATE, db=self._meta))
            pairs = pairs_between(txn.cursor(), start, end, reverse=reverse)
            return take_page(pairs, log_time_ms=log_time_ms, limit=limit, bytes_max=bytes_max, applied=applied)
        except _UNREADABLE as error:
            self._refuse_read(error)
        finally:
            try:
                if txn is not None:
                    txn.abort()  # its cursors end with it
            finally:
                pins.release()

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
        """Rows in the order of an ordered index. About 2 µs a row."""
        pins, txn = self.pins, None
        try:
            pins.acquire(PIN)
            txn = self._begin(self._data)
            self._check_index(index, txn)
            applied, log_time_ms = APPLIED_AND_TIME_OF(txn.get(STATE, db=self._meta))
            first, behind = index_bounds(index, start, end)
            entries = pairs_between(txn.cursor(self._databases.ordered), first, behind, reverse=reverse)
            pairs = rows_of_entries(entries, txn.get)
            return take_page(pairs, log_time_ms=log_time_ms, limit=limit, bytes_max=bytes_max, applied=applied)
        except _UNREADABLE as error:
            self._refuse_read(error)
        finally:
            try:
                if txn is not None:
                    txn.abort()  # its cursors end with it
            finally:
                pins.release()

    def _check_index(self, index: TableIndex, txn: Any) -> None:
        """Raise what `log_tier.rows.definition.check_index` does by the state that a transaction reads."""
        raise InvalidRequest("the rows of this file are read by key alone")

    def outcomes(self, first: Offset, last: Offset) -> dict[Offset, Outcome]:
        """What is known about the offsets `first` to `last`, inclusive. Two lookups, and the rows found."""
        with self._reading() as txn:
            return outcomes_known(txn, self._databases, first, last)

    def judgements(self, first: Offset, last: Offset) -> list[Judgement]:
        """What was decided against between two offsets, inclusive; known from `verdicts_from` on."""
        with self._reading() as txn:
            return judgements_between(txn, self._databases, first, last)

    def producer(self, producer_id: int) -> ProducerState | None:
        """The last batch of a producer that took effect."""
        with self._reading() as txn:
            return producer_known(txn, self._databases, producer_id)

    def count(self) -> int:
        """The number of live keys."""
        with self._reading() as txn:
            return count_live(txn, self._databases, log_time_ms=self._log_time(txn))

    def next_expiry_ms(self) -> int | None:
        """A log time that no entry's expiry comes before."""
        with self._reading() as txn:
            return first_expiry_ms(txn, self._databases, log_time_ms=self._log_time(txn))

    def digest(self) -> str:
        """32 hex digits over everything that is live. About 1 µs a key; holds one read transaction meanwhile."""
        with self._reading() as txn:
            return digest_of(txn.cursor().iternext(), log_time_ms=self._log_time(txn))

    def pinned(self) -> PinnedRead:
        """A read transaction that stays open, whatever is applied meanwhile; the caller closes it. 5 µs."""
        self.readers.acquire(PIN)
        try:
            txn = self._begin(self._data)
            state = State.unpack(txn.get(STATE, db=self._meta))
        except BaseException as error:
            txn = None
            self.readers.release()
            if isinstance(error, _UNREADABLE):
                self._refuse_read(error)
            raise
        return PinnedRead(
            txn,
            self._databases,
            self.readers,
            applied=state.applied,
            log_time_ms=state.log_time_ms,
            troubles=lambda: named_troubles(self._path, self._map_bytes),
        )

    def statistics(self) -> IndexStatistics:
        """Sizes."""
        with self._reading() as txn:
            return statistics_of(self._env, txn, self._databases)

    def identity(self) -> PartitionId:
        """The partition that the index is of. One lookup."""
        with self._reading() as txn:
            return unpack_identity(txn.get(IDENTITY, db=self._meta))[1]

    def _reading(self) -> _Read:
        return _Read(self)

    def _log_time(self, txn: Any) -> int:
        """The log time of the state that `txn` sees."""
        log_time_ms: int = APPLIED_AND_TIME_OF(txn.get(STATE, db=self._meta))[1]
        return log_time_ms

    def _refuse_read(self, error: Exception) -> NoReturn:
        """Raise our error for LMDB's, and for a row that is none. The reads call it in an `except`, which costs nothing
        until it happens.
        """
        if not isinstance(error, lmdb.Error):
            raise IndexDamaged(
                f"{self._path} has a row that cannot be read ({error}): discard it and fold the log again",
                file=str(self._path),
            ) from error
        with named_troubles(self._path, self._map_bytes):
            raise error


def closed(*_: object, **__: object) -> NoReturn:
    """Replaces `begin` when the file is closed."""
    raise ShuttingDown("the index is closed")
