"""The index that serves: one LMDB environment for one partition.

**Writing.** `apply` decodes a chunk, folds it, and carries out the effects in one write transaction that ends with the
row `state`: data and applied offset commit together, and a chunk that fails leaves nothing. Nothing is synced: the log
is the truth, and `serving_tier.index_folder` tells when the file may be trusted.

**Reading.** Each read opens its own read transaction, so it sees one moment and takes no lock. Entries without an
expiry, the usual case, cost one lookup; for the others the log time is read in the same transaction.

Keys go in as they come: sorting the ten thousand of a chunk first costs more than the better locality gains.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence, Set
from itertools import takewhile
from pathlib import Path
from typing import Any, Final, NoReturn, Self

import lmdb

from log_tier.barrier import ORIGINAL, LiveVersion
from log_tier.batch import Batch, decode_batch
from log_tier.batch_header import split_batches
from log_tier.errors import IndexDamaged, LimitExceeded, ShuttingDown, VersionMissing
from log_tier.identifiers import FIRST, Offset, Partition, TableId
from serving_tier.entry import Entry, entry_of, expiry_of, is_live, value_of
from serving_tier.fold import Effects, fold
from serving_tier.index import Applied, Found, IndexLimits, IndexStatistics, ScanPage
from serving_tier.index_folder import BootId, claim_folder, read_boot_id, release_folder
from serving_tier.index_format import (
    IDENTITY,
    INDEX_FORMAT_VERSION,
    LIVE,
    START,
    STATE,
    VERSION,
    VOID,
    State,
    number_key,
    number_of,
    pack_identity,
    pack_start,
    pack_version,
    unpack_identity,
    unpack_judgement,
    unpack_live,
    unpack_producer,
    unpack_start,
    unpack_version,
    unpack_void,
)
from serving_tier.lmdb_environment import BOOKKEEPING, MAP_BYTES_MAX, Databases, named_troubles, open_environment
from serving_tier.lmdb_fold import LmdbView, carry_out
from serving_tier.lmdb_moment import LmdbMoment
from serving_tier.producers import ProducerState
from serving_tier.scan import digest_of, take_page
from serving_tier.verdicts import Judgement, Outcome, Verdict, outcomes_between

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
            with named_troubles(path, map_bytes):
                index._load(table_id, partition, start)
        except BaseException:
            index.close(clean=False)
            raise
        return index

    def _load(self, table_id: TableId, partition: Partition, start: Offset) -> None:
        """Check whose index this is, and learn where it stands."""
        with self._begin(self._meta, write=True) as txn:
            identity, state, begun = txn.get(IDENTITY), txn.get(STATE), txn.get(START)
            version, live = txn.get(VERSION), txn.get(LIVE)
            if identity is None and state is None and txn.stat(self._data)["entries"] == 0:
                if start > 0:
                    self._state = State(applied=Offset(start - 1), verdicts_from=start)
                    self.applied = self._state.applied
                    txn.put(START, pack_start(start))
                txn.put(IDENTITY, pack_identity(table_id, partition))
                txn.put(STATE, self._state.pack())
                return
        try:
            found = unpack_identity(identity or b"")
            found_start = unpack_start(begun)
            self._state = State.unpack(state or b"")
            self.applied = self._state.applied
            self.version, self.live = unpack_version(version), unpack_live(live)
        except struct.error as error:
            raise IndexDamaged(
                f"{self._path}: the rows of meta cannot be read ({error}): discard it and fold the log again",
                file=str(self._path),
            ) from error
        wanted = (INDEX_FORMAT_VERSION, table_id, partition)
        if found != wanted:
            raise IndexDamaged(
                f"{self._path} says that it is format, table, partition {found}, and should be {wanted}: "
                "discard it and fold the log again",
                file=str(self._path),
            )
        if found_start != start:
            raise IndexDamaged(
                f"{self._path} holds its topic from offset {found_start} on, its table begins at {start}: it is of an "
                "earlier table over that topic; discard it and fold the log again",
                file=str(self._path),
            )

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

    def stored_many(self, keys: Sequence[bytes], *, bytes_max: int) -> list[bytes | None]:
        """The stored forms of several entries, of one moment, expired ones included. 0.2 µs a key.

        Raises `LimitExceeded` where they have more than `bytes_max`, before many more are read.
        """
        try:
            get = self._begin(self._data).get
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
            with self._begin(self._databases.verdicts) as txn:
                state = State.unpack(txn.get(STATE, db=self._meta))
                return outcomes_between(
                    first,
                    last,
                    verdicts_from=state.verdicts_from,
                    judgements=lambda first, last: _judgements(txn.cursor(), first, last),
                    results=lambda first, last: _numbered(txn.cursor(self._databases.results), first, last),
                )
        except lmdb.Error as error:
            self._refuse_read(error)

    def judgements(self, first: Offset, last: Offset) -> list[Judgement]:
        """What was decided against between two offsets, inclusive; known from `verdicts_from` on."""
        try:
            with self._begin(self._databases.verdicts) as txn:
                return _judgements(txn.cursor(), first, last)
        except lmdb.Error as error:
            self._refuse_read(error)

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
            for name in BOOKKEEPING:
                mine, theirs = getattr(self._databases, name), getattr(live._databases, name)
                txn.drop(mine, delete=False)
                txn.cursor(mine).putmulti(source.cursor(theirs).iternext(), append=True)
            for row in (VOID, LIVE, STATE):
                found = source.get(row, db=live._meta)
                if found is not None:
                    txn.put(row, found, db=self._meta)
        self._state, self.live, self.applied = live._state, live.live, live.applied

    def producer(self, producer_id: int) -> ProducerState | None:
        """The last batch of a producer that took effect."""
        try:
            with self._begin(self._databases.producers) as txn:
                row = txn.get(number_key(producer_id))
        except lmdb.Error as error:
            self._refuse_read(error)
        return None if row is None else unpack_producer(row)

    def count(self) -> int:
        """How many keys are there."""
        try:
            with self._begin(self._data) as txn:
                time = self._log_time(txn)
                expired = 0
                for due, key in txn.cursor(self._databases.expiries).iternext():
                    if number_of(due) > time:
                        break
                    stored = txn.get(key)
                    expired += stored is not None and expiry_of(stored) == number_of(due)
                return int(txn.stat(self._data)["entries"]) - expired
        except lmdb.Error as error:
            self._refuse_read(error)

    def next_expiry_ms(self) -> int | None:
        """A log time that no entry's expiry comes before."""
        try:
            with self._begin(self._databases.expiries) as txn:
                cursor = txn.cursor()
                if not cursor.set_range(number_key(self._log_time(txn) + 1)):
                    return None
                return number_of(cursor.key())
        except lmdb.Error as error:
            self._refuse_read(error)

    def digest(self) -> str:
        """32 hex digits over everything that is live. About 1 µs a key; holds one read transaction meanwhile."""
        try:
            with self._begin(self._data) as txn:
                return digest_of(txn.cursor().iternext(), log_time_ms=self._log_time(txn))
        except lmdb.Error as error:
            self._refuse_read(error)

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
        try:
            with self._begin() as txn:
                state = State.unpack(txn.get(STATE, db=self._meta))
                void = unpack_void(txn.get(VOID, db=self._meta))
                rows = {
                    name: int(txn.stat(database)["entries"]) for name, database in self._databases._asdict().items()
                }
            info, page = self._env.info(), self._env.stat()["psize"]
        except lmdb.Error as error:
            self._refuse_read(error)
        return IndexStatistics(
            applied=state.applied,
            log_time_ms=state.log_time_ms,
            entries=rows["data"],
            producers=rows["producers"],
            verdicts=rows["verdicts"],
            results=rows["results"],
            expiries=rows["expiries"],
            bytes_used=(info["last_pgno"] + 1) * page,
            void=void,
        )

    def identity(self) -> tuple[TableId, Partition]:
        """Whose index this is. One lookup."""
        try:
            with self._begin(self._meta) as txn:
                _, table_id, partition = unpack_identity(txn.get(IDENTITY))
        except lmdb.Error as error:
            self._refuse_read(error)
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


def _numbered(cursor: Any, first: int, last: int) -> Iterator[tuple[int, bytes]]:
    """The rows under the numbers `first` to `last`."""
    if not cursor.set_range(number_key(first)):
        return
    for key, row in cursor.iternext():
        if number_of(key) > last:
            return
        yield number_of(key), row


def _judgements(cursor: Any, first: int, last: int) -> list[Judgement]:
    """The judgements about the offsets `first` to `last`; a run of duplicates may begin before them."""
    rows = [unpack_judgement(number_key(number), row) for number, row in _numbered(cursor, first, last)]
    if cursor.set_range(number_key(first)):
        placed = cursor.prev()
    else:
        placed = cursor.last()
    if placed:
        before = unpack_judgement(*cursor.item())
        if before.verdict is Verdict.DUPLICATE and before.offset + before.span > first:
            rows.insert(0, before)
    return rows
