"""The index that serves: one LMDB environment for one partition.

**Writing.** `apply` decodes a chunk, folds it, and carries out the effects in one write transaction that ends with the
row `state`: data and applied offset commit together, and a chunk that fails leaves nothing. Nothing is synced: the log
is the truth, and `serving_tier.index.lmdb.folder` tells when the file may be trusted.

**Reading** is told in `lmdb_reads`; other processes of this machine read the same file (`index_reader`).

What it stands at when it is opened (`lmdb_standing`), knows beside its entries (`lmdb_bookkeeping`) and counts
(`lmdb_counts`) is told in files of their own.

Keys go in as they come: sorting the ten thousand of a chunk first costs more than the better locality gains.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Sequence, Set
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self

import lmdb

from log_tier.model.barrier import ORIGINAL, LiveVersion
from log_tier.model.batch import Batch, decode_batch
from log_tier.model.batch_header import Place, place_of, split_batches
from log_tier.model.errors import DuramenError, IndexDamaged, Overloaded, ShuttingDown, VersionMissing
from log_tier.model.identifiers import FIRST, Offset, Partition, TableId
from serving_tier.fold.fold import Effects, fold
from serving_tier.index.index import Applied, IndexLimits, IndexStatistics
from serving_tier.index.lmdb.bookkeeping import take_over
from serving_tier.index.lmdb.counts import count_live, first_expiry_ms, statistics_of
from serving_tier.index.lmdb.environment import MAP_BYTES_MAX, Databases, named_troubles, open_environment
from serving_tier.index.lmdb.fold_transaction import LmdbView, carry_out
from serving_tier.index.lmdb.folder import (
    BootId,
    check_folder,
    claim_folder,
    folder_trouble,
    read_boot_id,
    release_folder,
    rest_folder,
    summary_of_folder,
    sync_data,
)
from serving_tier.index.lmdb.format import VERSION, State, pack_version
from serving_tier.index.lmdb.identity import find_identity
from serving_tier.index.lmdb.open_environments import OpenEnvironments
from serving_tier.index.lmdb.reads import LmdbReads, closed
from serving_tier.index.lmdb.summary import IndexSummary

__all__ = ["LmdbIndex", "applied_of"]

logger = logging.getLogger(__name__)

# How many other indexes are put to rest where the process is out of descriptors: each gives two back.
_SHED: Final = 4


_NAMES: Final = Databases(*Databases._fields)
"""Stand for the handles of a file that is not open."""

# What refers to an open environment that nobody uses: the index, and in `rest` a variable and the call that counts.
_IDLE_REFERENCES: Final = 3

# What refers to a handle of a closed file that no thread has: the dictionary, a variable, and the call that counts.
_IDLE_HANDLE_REFERENCES: Final = 3


class LmdbIndex(LmdbReads):
    """`Index` in LMDB. Made by `open`, or by `at_rest`.

    With `environments` its file is open only while it is used now and then; see
    `serving_tier.index.lmdb.open_environments`.
    """

    def __init__(
        self,
        path: Path,
        *,
        table_id: TableId,
        partition: Partition,
        start: Offset,
        map_bytes: int,
        boot_id: BootId,
        limits: IndexLimits,
        environments: OpenEnvironments | None,
    ) -> None:
        super().__init__(None, _NAMES, path, map_bytes=map_bytes, begin=self._enter)
        self._table_id, self._partition, self._start = table_id, partition, start
        self._boot_id, self._limits, self._environments = boot_id, limits, environments
        self._opening = threading.Lock()
        """Held while the file is opened or closed."""
        self._handles: dict[Any, str] = {}
        """The names of the file's databases by their handles: of this opening, and of those before that a thread still
        has in its hands."""
        self._is_new = False
        """There is no file yet."""
        self._claimed = False
        """The marker on the disk says that the file is being written."""
        self._unsynced = False
        """Something was written since the marker last said that the file is clean."""
        self._summary: IndexSummary | None = None
        """What the file holds; None where it was written since it was last asked for."""
        self._closed = False
        self._next_expiry: int | None = None
        self._next_expiry_of: State | None = None
        """The state in which that was the next expiry."""
        self._state = State()
        self.applied: Offset = self._state.applied
        """The last offset that was folded. A plain attribute: every read compares it."""
        self.place = place_of(table_id, partition)
        """Whose batches it folds."""
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
        environments: OpenEnvironments | None = None,
    ) -> Self:
        """Open the index in the folder `path`, or make one. A few ms, whatever its size.

        `start`: the first offset of its table. A new index has applied everything below it, which is nothing.

        Raises `IndexDamaged` for one that cannot be trusted, or that began elsewhere (discard the folder and fold the
        log again), `DiskFull`, `FolderInUse` where this process has it open, `Overloaded` where the process is out of
        descriptors.
        """
        index = cls(
            path,
            table_id=table_id,
            partition=partition,
            start=start,
            map_bytes=map_bytes,
            boot_id=boot_id,
            limits=limits,
            environments=environments,
        )
        with index._opening:
            index._claim()
            index._open_file()
        return index

    @classmethod
    def at_rest(
        cls,
        path: Path,
        *,
        table_id: TableId,
        partition: Partition,
        environments: OpenEnvironments,
        start: Offset = FIRST,
        map_bytes: int = MAP_BYTES_MAX,
        boot_id: BootId = read_boot_id,
        limits: IndexLimits = IndexLimits(),  # noqa: B008  (immutable)
    ) -> Self | None:
        """The same without opening the file, where its folder says what it holds, or where there is none yet. One small
        read. None where the file has to be opened. Raises `IndexDamaged`.
        """
        clean, is_new = True, False
        try:
            summary, clean = summary_of_folder(path, table_id=table_id, partition=partition, boot=boot_id())
        except FileNotFoundError:
            summary, is_new = IndexSummary.of_new(start), True
        if summary is None or summary.start != start:
            return None
        index = cls(
            path,
            table_id=table_id,
            partition=partition,
            start=start,
            map_bytes=map_bytes,
            boot_id=boot_id,
            limits=limits,
            environments=environments,
        )
        index._is_new, index._unsynced = is_new, not clean
        index._summary, index._state = summary, summary.state
        index.applied, index.version, index.live = summary.state.applied, summary.version, summary.live
        return index

    # --- opening the file, and putting it to rest

    def _enter(self, database: Any = None, **how: Any) -> Any:
        """Replaces `begin` while the file may have to be opened first; from then on `begin` is LMDB's own."""
        with self._opening:
            env = self._awake()
            if database is not None:
                name = database if isinstance(database, str) else self._handles[database]
                database = getattr(self._databases, name)
            self._begin = env.begin
            return env.begin(database, **how)

    def _write(self, database: str | None = None) -> Any:
        """Begin a write transaction. The folder says before that it is being written."""
        with self._opening:
            env = self._awake(write=True)
            return env.begin(database and getattr(self._databases, database), write=True)

    def _awake(self, *, write: bool = False) -> Any:
        """The environment, opened where it is not. `_opening` is held."""
        if self._closed:
            raise ShuttingDown("the index is closed")
        if (write or self._is_new) and not self._claimed:
            self._claim()
        elif self._env is None and not self._is_new:
            try:
                check_folder(self._path, table_id=self._table_id, partition=self._partition, boot_id=self._boot_id)
            except OSError as error:
                raise folder_trouble(error, self._path) from error
        if self._env is None:
            self._open_file()
        return self._env

    def _claim(self) -> None:
        """Mark the folder as being written. `_opening` is held."""
        try:
            claim_folder(self._path, table_id=self._table_id, partition=self._partition, boot_id=self._boot_id)
        except OSError as error:
            raise folder_trouble(error, self._path) from error
        self._claimed = self._unsynced = True

    def _open_file(self) -> None:
        """Open the environment and read where the index is. `_opening` is held."""
        others = self._environments
        if others is not None:
            others.make_room()
        try:
            env, databases = open_environment(self._path, map_bytes=self._map_bytes)
        except Overloaded:
            if others is None or not others.shed(_SHED):
                raise
            env, databases = open_environment(self._path, map_bytes=self._map_bytes)
        known = self._summary
        try:
            # A file that was not claimed holds its rows already, and is not written.
            with named_troubles(self._path, self._map_bytes), env.begin(write=self._claimed) as txn:
                found = find_identity(
                    txn,
                    databases,
                    self._path,
                    table_id=self._table_id,
                    partition=self._partition,
                    start=self._start,
                )
            if known is not None and not self._is_new and found != (known.state, known.version, known.live):
                raise IndexDamaged(
                    f"{self._path} holds {found}, its marker says {known}: discard it and fold the log again",
                    file=str(self._path),
                )
        except lmdb.ReadonlyError as error:
            env.close()
            raise IndexDamaged(f"{self._path} holds nothing, its marker says {known}: discard it") from error
        except BaseException:
            env.close()
            raise
        self._env, self._databases = env, databases
        self._data, self._meta = databases.data, databases.meta
        # Whoever evaluated a handle and was then overtaken by a rest still gets the right database.
        kept = [handle for handle in self._handles if sys.getrefcount(handle) > _IDLE_HANDLE_REFERENCES]
        self._handles = {handle: self._handles[handle] for handle in kept}
        self._handles.update(zip(databases, Databases._fields, strict=True))
        self._begin = env.begin
        self._is_new = False
        self._state, self.version, self.live = found
        self.applied = found.state.applied
        if others is not None:
            others.opened(self)

    def watch_use(self) -> bool:
        """See `serving_tier.index.lmdb.open_environments`."""
        if self._begin == self._enter:
            return False
        if not self._closed:
            self._begin = self._enter
        return True

    def rest(self) -> bool:
        """Close the file until somebody needs it; False where somebody does at this moment.

        Exact, because CPython counts references: every transaction and cursor holds the environment, and so does
        whoever is about to begin one.
        """
        if not self._opening.acquire(blocking=False):
            return False
        try:
            if self._closed or self._env is None:
                return True
            self._begin = self._enter
            env = self._env
            if sys.getrefcount(env) > _IDLE_REFERENCES:
                return False
            try:
                summary = self._summarized(env)
            except DuramenError:
                return False  # damaged, or the disk fails: whoever reads or writes next meets it
            self._env = None
            self._databases, self._data, self._meta = _NAMES, _NAMES.data, _NAMES.meta
            env.close()
            if self._claimed:
                try:
                    rest_folder(self._path, summary)
                    self._claimed = False
                except (OSError, IndexDamaged) as error:
                    # Without it the file is opened at the next start, that is all.
                    logger.info("%s: what it holds could not be written down: %s", self._path, error)
            return True
        finally:
            self._opening.release()

    def _summarized(self, env: Any) -> IndexSummary:
        """What the file holds. It is open, and nothing is being written."""
        if self._summary is None:
            databases = self._databases
            with named_troubles(self._path, self._map_bytes), env.begin() as txn:
                time = self._state.log_time_ms
                self._summary = IndexSummary(
                    self._state,
                    self._start,
                    self.version,
                    self.live,
                    statistics_of(env, txn, databases),
                    count_live(txn, databases, log_time_ms=time),
                    first_expiry_ms(txn, databases, log_time_ms=time),
                )
        return self._summary

    def count(self) -> int:
        """How many keys are there."""
        known = self._known()
        return super().count() if known is None else known.keys

    def next_expiry_ms(self) -> int | None:
        """A log time that no entry's expiry comes before. Known without a look at the file until the next apply."""
        if self._next_expiry_of is not self._state:
            known, state = self._known(), self._state
            self._next_expiry = super().next_expiry_ms() if known is None else known.next_expiry_ms
            self._next_expiry_of = state
        return self._next_expiry

    def statistics(self) -> IndexStatistics:
        """Sizes."""
        known = self._known()
        return super().statistics() if known is None else known.statistics

    def _known(self) -> IndexSummary | None:
        """What is known without a look at the file, if anything is."""
        if self._closed:
            closed()
        return self._summary

    @property
    def log_time_ms(self) -> int:
        """The largest timestamp that was folded."""
        return self._state.log_time_ms

    @property
    def verdicts_from(self) -> Offset:
        """Rejections below this offset are forgotten."""
        return self._state.verdicts_from

    def apply(self, chunk: bytes, place: Place | None = None) -> Applied:
        """Fold a run of whole stored batches, in one write transaction. `place` says whose they should be."""
        return applied_of(self.fold_in([decode_batch(batch, place) for batch in split_batches(chunk)]))

    def fold_in(
        self, batches: Sequence[Batch], *, decided: Set[Offset] | None = None, carried: Effects | None = None
    ) -> Effects:
        """The same, telling the effects. Raises `VersionMissing` at a barrier to another version than this index is:
        what lies behind it is not for this one to decide.

        With `decided` another version decides (see `serving_tier.fold.fold`), and `carried` are its effects, of which
        everything that is not about entries is written here too.
        """
        before = self._state
        with named_troubles(self._path, self._map_bytes):
            with self._write() as txn:
                self._summary = None
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

    def become(self, version: int) -> None:
        """Say which version of its table this is, before it follows any."""
        with named_troubles(self._path, self._map_bytes), self._write("meta") as txn:
            self._summary = None
            txn.put(VERSION, pack_version(version))
        self.version = version

    def level_with(self, live: LmdbIndex) -> None:
        """Take over what the live version knows beside its entries: producers, verdicts, results, barriers, and its
        offset: between that and ours lies no record. One transaction; about 1 µs a row.
        """
        assert self.applied <= live.applied, f"{self._path} at {self.applied} is beyond {live.applied}"
        with named_troubles(self._path, self._map_bytes), self._write() as txn, live._begin() as source:
            self._summary = None
            take_over(txn, self._databases, source, live._databases)
        self._state, self.live, self.applied = live._state, live.live, live.applied

    def forget_dead_readers(self) -> None:
        """Give back what processes that were killed in a read still hold: their moment's pages."""
        with self._opening:
            env = self._env
            if env is not None and not self._closed:
                with named_troubles(self._path, self._map_bytes):
                    env.reader_check()

    def copy_to(self, file: int) -> None:
        """Write a compact copy of one moment, the bytes of a `data.mdb`, to a file descriptor: a pipe, usually.

        LMDB walks the tree without the interpreter's lock, some 5 GB/s from memory; reads and applies go on, and what
        they free meanwhile is not used again until it ends. Run it in a thread. Whoever reads the pipe ends it by
        closing it, which raises `lmdb.Error`. Raises `IndexDamaged`.
        """
        with self._opening:
            env = self._awake()  # and held here, so that the file stays open
        with named_troubles(self._path, self._map_bytes):
            env.copyfd(file, compact=True)

    def close(self, *, clean: bool = True) -> None:
        """Close the file; `clean` syncs it first and marks the folder. Idempotent. No read may be running.

        Not clean is what a killed process leaves: good in this boot of the machine, and discarded in the next.
        """
        with self._opening:
            if self._closed:
                return
            self._closed, self._begin = True, closed
            env, self._env = self._env, None
            clean, summary = clean and self._unsynced, self._summary
            try:
                if env is not None and clean:
                    with suppress(DuramenError):  # damage is met by whoever opens it
                        summary = self._summarized(env)
                    with named_troubles(self._path, self._map_bytes):
                        env.sync(True)
            finally:
                if env is not None:
                    env.close()
                    if self._environments is not None:
                        self._environments.closed(self)
            if clean and env is None:
                try:
                    sync_data(self._path)
                except OSError as error:
                    logger.warning("%s was not closed cleanly: %s; the next start looks at it", self._path, error)
                    return
            if clean:
                release_folder(self._path, summary)


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
