"""The index that serves: one LMDB environment for one partition.

**Writing.** `apply` decodes a chunk, folds it, and carries out the effects in one write transaction that ends with the
row `state`: data and applied offset commit together, and a chunk that fails leaves nothing. Nothing is synced: the log
is the truth, and `serving_tier.index_folder` tells when the file may be trusted.

**Reading.** Each read opens its own read transaction, so it sees one moment and takes no lock. Entries without an
expiry, the usual case, cost one lookup; for the others the log time is read in the same transaction.

What it stands at when it is opened (`lmdb_standing`), knows beside its entries (`lmdb_bookkeeping`) and counts
(`lmdb_counts`) is told in files of their own.

Keys go in as they come: sorting the ten thousand of a chunk first costs more than the better locality gains.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from itertools import takewhile
from pathlib import Path
from typing import Any, Final, NoReturn, Self

import lmdb

from log_tier.barrier import ORIGINAL, LiveVersion
from log_tier.batch import Batch, decode_batch
from log_tier.batch_header import split_batches
from log_tier.errors import LimitExceeded, ShuttingDown, VersionMissing
from log_tier.identifiers import FIRST, Offset, Partition, TableId
from serving_tier.entry import Entry, entry_of, is_live, value_of
from serving_tier.fold import Effects, fold
from serving_tier.index import Applied, Found, IndexLimits, IndexStatistics, ScanPage
from serving_tier.index_folder import BootId, claim_folder, read_boot_id, release_folder
from serving_tier.index_format import IDENTITY, STATE, VERSION, State, pack_version, unpack_identity
from serving_tier.lmdb_bookkeeping import judgements_between, outcomes_known, producer_known, take_over
from serving_tier.lmdb_counts import count_live, first_expiry_ms, statistics_of
from serving_tier.lmdb_environment import MAP_BYTES_MAX, Databases, named_troubles, open_environment
from serving_tier.lmdb_fold import LmdbView, carry_out
from serving_tier.lmdb_moment import LmdbMoment
from serving_tier.lmdb_standing import found_standing
from serving_tier.producers import ProducerState
from serving_tier.scan import digest_of, take_page
from serving_tier.verdicts import Judgement, Outcome

__all__ = ["LmdbIndex", "applied_of"]

# `stored_many` looks at its limit after so many keys.
_STORED_STEP: Final = 128


class LmdbIndex:
    """See `serving_tier.index.Index`. Made by `open`."""

    def __init__(self, env: Any, databases: Databases, path: Path, *, map_bytes: int, limits: IndexLimits) -> None:
        self._env, self._path, self._map_bytes, self._limits = env, path, map_bytes, limits
        self._databases, self._data, self._meta = databases, databases.data, databases.meta
        self._begin = env.begin
        self._state = State()
        self.applied: Offset = self._state.applied
        """The last offset that was folded. A plain attribute: every read compares it."""
        self.version = ORIGINAL.version
        """Which version of its table this is."""
        self.live = ORIGINAL
        """Which version is live, as far as was folded here."""

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        table_id: TableId,
        partition: Partition,
        start: Offset = FIRST,
        map_bytes: int = MAP_BYTES_MAX,
        boot_id: BootId = read_boot_id,
        limits: IndexLimits = IndexLimits(),  # noqa: B008  (immutable)
    ) -> Self:
        """Open the index in the folder `path`, or make one. A few ms, whatever its size.

        `start`: the first offset of its table. A new index has applied everything below it, which is nothing.

        Raises `IndexDamaged` for one that cannot be trusted, or that began elsewhere (discard the folder and fold the
        log again), `DiskFull`, `FolderInUse` where this process has it open.
        """
        claim_folder(path, table_id=table_id, partition=partition, boot_id=boot_id)
        env, databases = open_environment(path, map_bytes=map_bytes)
        index = cls(env, databases, path, map_bytes=map_bytes, limits=limits)
        try:
            with named_troubles(path, map_bytes), index._begin(write=True) as txn:
                index._state, index.version, index.live = found_standing(
                    txn, databases, path, table_id=table_id, partition=partition, start=start
                )
            index.applied = index._state.applied
        except BaseException:
            index.close(clean=False)
            raise
        return index

    @property
    def path(self) -> Path:
        """Its folder."""
        return self._path

    @property
    def log_time_ms(self) -> int:
        """The largest timestamp that was folded."""
        return self._state.log_time_ms

    @property
    def verdicts_from(self) -> Offset:
        """Rejections below this offset are forgotten."""
        return self._state.verdicts_from

    def apply(self, chunk: bytes) -> Applied:
        """Fold a run of whole stored batches, in one write transaction."""
        return applied_of(self.fold_in([decode_batch(batch) for batch in split_batches(chunk)]))

    def fold_in(
        self, batches: Sequence[Batch], *, decided: Set[Offset] | None = None, carried: Effects | None = None
    ) -> Effects:
        """The same, telling the effects. Raises `VersionMissing` at a barrier to another version than this index is:
        what lies behind it is not for this one to decide.

        With `decided` another version decides (see `serving_tier.fold`), and `carried` are its effects, of which
        everything that is not about entries is written here too.
        """
        before = self._state
        with named_troubles(self._path, self._map_bytes):
            with self._begin(write=True) as txn:
                effects = self._fold(batches, txn, decided)
                if carried is not None:
                    effects.producers, effects.live, effects.void = carried.producers, carried.live, carried.void
                    effects.judgements, effects.results = carried.judgements, carried.results
                elif effects.live is not None and effects.live.version != self.version:
                    raise _other_version(self._path, self.version, effects.live)
                after = before
                if effects.applied != before.applied:
                    after = carry_out(effects, txn, self._databases, before=before, limits=self._limits)
            self._commit(after, effects)
        return effects

    def judge(self, batches: Sequence[Batch]) -> Effects:
        """What `fold_in` would do, barriers to other versions included; nothing is written."""
        with named_troubles(self._path, self._map_bytes), self._begin() as txn:
            return self._fold(batches, txn, None)

    def _fold(self, batches: Sequence[Batch], txn: Any, decided: Set[Offset] | None) -> Effects:
        return fold(
            batches,
            LmdbView(txn, self._databases),
            applied=self._state.applied,
            log_time_ms=self._state.log_time_ms,
            producers_max=self._limits.producers,
            live=self.live,
            decided=decided,
        )

    def _commit(self, after: State, effects: Effects) -> None:
        self._state = after
        self.applied = after.applied
        self.live = effects.live or self.live

    def get(self, key: bytes) -> Entry | None:
        """One entry. One lookup, about 1 µs."""
        try:
            txn = self._begin(self._data)
            stored = txn.get(key)
            if stored is None or (stored[7] and not is_live(stored, self._log_time(txn))):
                return None
        except lmdb.Error as error:
            self._refuse_read(error)
        return entry_of(stored)

    def get_value(self, key: bytes) -> bytes | None:
        """One entry's value. One lookup, and nothing that is not needed for it."""
        try:
            # Not `with`: a read transaction ends when nothing refers to it any more, and that costs half as much.
            txn = self._begin(self._data)
            stored: bytes | None = txn.get(key)
            if stored is None:
                return None
            if stored[7]:
                return value_of(stored) if is_live(stored, self._log_time(txn)) else None
        except lmdb.Error as error:
            self._refuse_read(error)
        return stored[8:]

    def stored(self, key: bytes) -> bytes | None:
        """The stored form of one entry, expired or not: for a door that writes the bytes on. 0.4 µs."""
        try:
            stored: bytes | None = self._begin(self._data).get(key)
        except lmdb.Error as error:
            self._refuse_read(error)
        return stored

    def transaction(self) -> int:
        """The number of the newest write transaction: what is read under the same number is of one moment. 0.5 µs."""
        try:
            number: int = self._begin().id()
        except lmdb.Error as error:
            self._refuse_read(error)
        return number

    def stored_many(
        self, keys: Sequence[bytes], *, bytes_max: int, transaction: int | None = None
    ) -> list[bytes | None] | None:
        """The stored forms of several entries, of one moment, expired ones included. 0.2 µs a key.

        `transaction`: None is returned where that is not the newest one any more.
        Raises `LimitExceeded` where they have more than `bytes_max`, before many more are read.
        """
        try:
            txn = self._begin(self._data)
            if transaction is not None and txn.id() != transaction:
                return None
            get = txn.get
            found: list[bytes | None] = []
            room = bytes_max
            for at in range(0, len(keys), _STORED_STEP):
                some = list(map(get, keys[at : at + _STORED_STEP]))
                room -= sum(map(len, filter(None, some)))
                if room < 0:
                    raise LimitExceeded(
                        f"the values of these {len(keys)} keys have more than {bytes_max} bytes: ask for fewer",
                        limit=bytes_max,
                        size=bytes_max - room,
                    )
                found += some
        except lmdb.Error as error:
            self._refuse_read(error)
        return found

    def get_many(self, keys: Sequence[bytes]) -> Found:
        """Several entries, of one moment."""
        try:
            with self._begin(self._data) as txn:
                state = State.unpack(txn.get(STATE, db=self._meta))
                found = list(map(txn.get, keys))
        except lmdb.Error as error:
            self._refuse_read(error)
        time = state.log_time_ms
        return Found(
            [None if stored is None or not is_live(stored, time) else entry_of(stored) for stored in found],
            state.applied,
        )

    def scan(
        self, start: bytes, end: bytes | None, *, reverse: bool = False, limit: int = 1000, bytes_max: int = 1 << 20
    ) -> ScanPage:
        """Entries of a range of keys. About 1 µs an entry."""
        try:
            with self._begin(self._data) as txn:
                state = State.unpack(txn.get(STATE, db=self._meta))
                pairs = _pairs(txn.cursor(), start, end, reverse=reverse)
                page, more = take_page(pairs, log_time_ms=state.log_time_ms, limit=limit, bytes_max=bytes_max)
        except lmdb.Error as error:
            self._refuse_read(error)
        return ScanPage(page, more, state.applied)

    def outcomes(self, first: Offset, last: Offset) -> dict[Offset, Outcome]:
        """What is known about the offsets `first` to `last`, inclusive. Two lookups, and the rows found."""
        try:
            with self._begin() as txn:
                return outcomes_known(txn, self._databases, first, last)
        except lmdb.Error as error:
            self._refuse_read(error)

    def judgements(self, first: Offset, last: Offset) -> list[Judgement]:
        """What was decided against between two offsets, inclusive; known from `verdicts_from` on."""
        with named_troubles(self._path, self._map_bytes), self._begin() as txn:
            return judgements_between(txn, self._databases, first, last)

    def become(self, version: int) -> None:
        """Say which version of its table this is, before it follows any."""
        with named_troubles(self._path, self._map_bytes), self._begin(self._meta, write=True) as txn:
            txn.put(VERSION, pack_version(version))
        self.version = version

    def level_with(self, live: LmdbIndex) -> None:
        """Take over what the live version knows beside its entries: producers, verdicts, results, barriers, and its
        offset: between that and ours lies no record. One transaction; about 1 µs a row.
        """
        assert self.applied <= live.applied, f"{self._path} at {self.applied} is beyond {live.applied}"
        with named_troubles(self._path, self._map_bytes), self._begin(write=True) as txn, live._begin() as source:
            take_over(txn, self._databases, source, live._databases)
        self._state, self.live, self.applied = live._state, live.live, live.applied

    def producer(self, producer_id: int) -> ProducerState | None:
        """The last batch of a producer that took effect."""
        with named_troubles(self._path, self._map_bytes), self._begin() as txn:
            return producer_known(txn, self._databases, producer_id)

    def count(self) -> int:
        """How many keys are there."""
        with named_troubles(self._path, self._map_bytes), self._begin() as txn:
            return count_live(txn, self._databases, log_time_ms=self._log_time(txn))

    def next_expiry_ms(self) -> int | None:
        """A log time that no entry's expiry comes before."""
        with named_troubles(self._path, self._map_bytes), self._begin() as txn:
            return first_expiry_ms(txn, self._databases, log_time_ms=self._log_time(txn))

    def digest(self) -> str:
        """32 hex digits over everything that is live. About 1 µs a key; holds one read transaction meanwhile."""
        with named_troubles(self._path, self._map_bytes), self._begin(self._data) as txn:
            return digest_of(txn.cursor().iternext(), log_time_ms=self._log_time(txn))

    def moment(self) -> LmdbMoment:
        """A read transaction that stays open, whatever is applied meanwhile; whoever takes it closes it. 5 µs."""
        try:
            txn = self._begin(self._data)
            state = State.unpack(txn.get(STATE, db=self._meta))
        except lmdb.Error as error:
            self._refuse_read(error)
        return LmdbMoment(
            txn,
            applied=state.applied,
            log_time_ms=state.log_time_ms,
            troubles=lambda: named_troubles(self._path, self._map_bytes),
        )

    def statistics(self) -> IndexStatistics:
        """Sizes."""
        with named_troubles(self._path, self._map_bytes), self._begin() as txn:
            return statistics_of(self._env, txn, self._databases)

    def identity(self) -> tuple[TableId, Partition]:
        """Whose index this is. One lookup."""
        with named_troubles(self._path, self._map_bytes), self._begin(self._meta) as txn:
            _, table_id, partition = unpack_identity(txn.get(IDENTITY))
        return table_id, partition

    def copy_to(self, file: int) -> None:
        """Write a compact copy of one moment, the bytes of a `data.mdb`, to a file descriptor: a pipe, usually.

        LMDB walks the tree without the interpreter's lock, some 5 GB/s from memory; reads and applies go on, and what
        they free meanwhile is not used again until it ends. Run it in a thread. Whoever reads the pipe ends it by
        closing it, which raises `lmdb.Error`. Raises `IndexDamaged`.
        """
        with named_troubles(self._path, self._map_bytes):
            self._env.copyfd(file, compact=True)

    def close(self, *, clean: bool = True) -> None:
        """Close the file; `clean` syncs it first and marks the folder. Idempotent. No read may be running.

        Not clean is what a killed process leaves: good in this boot of the machine, and discarded in the next.
        """
        if self._begin is _closed:
            return
        self._begin = _closed
        try:
            if clean:
                with named_troubles(self._path, self._map_bytes):
                    self._env.sync(True)
        finally:
            self._env.close()
        if clean:
            release_folder(self._path)

    def _log_time(self, txn: Any) -> int:
        """The log time of the moment that `txn` sees."""
        return State.unpack(txn.get(STATE, db=self._meta)).log_time_ms

    def _refuse_read(self, error: lmdb.Error) -> NoReturn:
        """Raise what `error` means to us; the reads have it in an `except`, which costs nothing until it happens."""
        with named_troubles(self._path, self._map_bytes):
            raise error


def applied_of(effects: Effects) -> Applied:
    """What an apply did, of its effects."""
    return Applied(
        effects.applied, effects.log_time_ms, effects.records, effects.rejected, effects.duplicates, effects.void
    )


def _other_version(path: Path, version: int, live: LiveVersion) -> VersionMissing:
    return VersionMissing(
        f"{path} is version {version} of its table, and the log goes on with version {live.version} at offset "
        f"{live.since}: begin with a copy of that version",
        version=live.version,
        offset=live.since,
    )


def _closed(*_: object, **__: object) -> NoReturn:
    raise ShuttingDown("the index is closed")


def _pairs(cursor: Any, start: bytes, end: bytes | None, *, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
    """Keys and stored forms with `start` <= key < `end`, in order."""
    if reverse:
        # To the last key below the end: one back from the first at or after it, or LMDB's last.
        placed = cursor.prev() if end is not None and cursor.set_range(end) else cursor.last()
        return takewhile(lambda pair: pair[0] >= start, cursor.iterprev()) if placed else iter(())
    if not (cursor.set_range(start) if start else cursor.first()):
        return iter(())
    pairs: Iterator[tuple[bytes, bytes]] = cursor.iternext()
    return pairs if end is None else takewhile(lambda pair: pair[0] < end, pairs)
