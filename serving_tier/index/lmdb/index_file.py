"""The file of an index that is written here: open while it is used, and at rest otherwise.

    at rest ──── a read or a write ────▶ open ──── nobody uses it, and others need descriptors ────▶ at rest
       └───────────────── close ───────────┴──▶ closed

A file at rest costs no descriptor. While nothing was written since, its folder says what the file holds
(`serving_tier.index.lmdb.summary`), and the next start need not open it. Which files are open is decided by
`serving_tier.index.lmdb.open_environments`.

Every read and write holds a pin (`serving_tier.index.pins`); a file is put to rest, and closed, while none is held.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import lmdb

from log_tier.model.barrier import ORIGINAL
from log_tier.model.batch_header import place_of
from log_tier.model.errors import DuramenError, IndexDamaged, InvalidRequest, Overloaded, ShuttingDown
from log_tier.model.identifiers import Offset, PartitionId
from log_tier.model.kept_history import KeptHistory
from log_tier.rows.definition import TableDefinition
from log_tier.rows.definitions.checks import check_index
from log_tier.rows.table_index import TableIndex
from serving_tier.fold.index_builds import NO_BUILDS
from serving_tier.fold.verdicts import FoldVerdicts
from serving_tier.index.index import IndexLimits
from serving_tier.index.lmdb.counts import count_live, first_expiry_ms, statistics_of
from serving_tier.index.lmdb.environment import Databases, named_troubles, open_environment
from serving_tier.index.lmdb.folder import (
    BootId,
    check_folder,
    claim_folder,
    folder_trouble,
    release_folder,
    rest_folder,
    sync_data,
)
from serving_tier.index.lmdb.format import DEFINITION, State, unpack_definition
from serving_tier.index.lmdb.identity import IndexIdentity, find_identity
from serving_tier.index.lmdb.lmdb_reads import LmdbReads, closed
from serving_tier.index.lmdb.open_environments import OpenEnvironments
from serving_tier.index.lmdb.summary import IndexSummary

__all__ = ["OPENING_ITEMS", "IndexFile"]

logger = logging.getLogger(__name__)

OPENING_ITEMS: Final = 250
"""The 1 ms that it takes to open a file at rest, as items of a turn (`log_tier.concurrency.sized_work`)."""

# How many other indexes are put to rest where the process is out of descriptors: each gives three back.
_SHED: Final = 4

_NAMES: Final = Databases(*Databases._fields)
"""Placeholders for the handles of a file that is not open."""

# A closing index waits so long for reads of other threads that have begun; a short one takes a microsecond.
_READS_PAUSES_MAX: Final = 2000
_READS_PAUSE_S: Final = 0.0005


class IndexFile(LmdbReads):
    """The LMDB file of one index: open while it is used, at rest otherwise. What it holds (`applied`, `version`,
    `live`) is known in every state.
    """

    def __init__(
        self,
        path: Path,
        *,
        partition: PartitionId,
        start: Offset,
        map_bytes: int,
        boot_id: BootId,
        limits: IndexLimits,
        environments: OpenEnvironments | None,
        definition: TableDefinition | None = None,
    ) -> None:
        super().__init__(None, _NAMES, path, map_bytes=map_bytes, begin=self._enter)
        self._partition, self._start = partition, start
        self.definition = None if definition is None else definition.first
        self._first = self.definition
        self._defined: tuple[bytes | None, TableDefinition | None] = None, None
        """The row of the definition that a find has met last, and what it says."""
        """What the table's keys and values are, as far as was folded here; None: bytes. While the file has not been
        opened, what they were at the table's start."""
        self.builds = NO_BUILDS
        """Which ordered indexes the file does not hold whole. Not known while it has not been opened."""
        self._boot_id, self._limits, self._environments = boot_id, limits, environments
        self._former: Databases | tuple[()] = ()
        """The handles of the environment that was closed last. A read that may hold one has had its pin since before
        that, so no other environment is closed meanwhile."""
        self._opening = threading.Lock()
        """Held while the file is opened or closed."""
        self._is_new = False
        """There is no file yet."""
        self._claimed = False
        """The marker on the disk says that the file is being written."""
        self._unsynced = False
        """Something was written since the marker last said that the file is clean."""
        self._summary: IndexSummary | None = None
        """What the file holds; None if the file was written since the last summary."""
        self._closed = False
        """No transaction begins any more."""
        self._ended = False
        """`close` has closed the file, or found it closed."""
        self._next_expiry: int | None = None
        self._next_expiry_of: State | None = None
        """The state for which `_next_expiry` was read."""
        self._newest_verdicts: FoldVerdicts | None = None
        """What the newest fold decided; None where that has to be read."""
        self._state = State()
        self.applied: Offset = self._state.applied
        """The last offset that was folded. A plain attribute: every read compares it."""
        self.shown: Offset = self.applied
        """No read that has begun shows more than this offset. Ahead of `applied` from before a commit until after it:
        readers see a commit before the thread that made it can say so."""
        self.place = place_of(partition)
        """The place (table and partition) of the batches that it folds."""
        self.version = ORIGINAL.version
        """Which version of its table this is."""
        self.live = ORIGINAL
        """Which version is live, as far as was folded here."""

    def _check_index(self, index: TableIndex, txn: Any) -> None:
        # `definition` is of before or behind a commit that another thread is about to make, or has just made.
        row = txn.get(DEFINITION, db=self._meta)
        known, definition = self._defined
        if row != known:
            definition = unpack_definition(row)
            self._defined = row, definition
        check_index(index, definition)

    def _keeps(self) -> KeptHistory:
        if self._first is None or self._first.keeps is None:
            raise InvalidRequest(
                "the table keeps no history: only a table that was created with history= is read as it was"
            )
        return self._first.keeps

    def _enter(self, database: Any = None, **how: Any) -> Any:
        """Replaces `begin` while the file is at rest: open the file; from then on `begin` is LMDB's own."""
        with self._opening:
            env = self._awake()
            self._begin = env.begin
            return env.begin(self._handle_now(database), **how)

    def _handle_now(self, database: Any) -> Any:
        """The handle of a database in the environment that is open. `database`: a placeholder, or a handle, which a
        read may have got just before the file was put to rest. `_opening` is held.
        """
        if isinstance(database, str):
            return getattr(self._databases, database)
        if database is not None and database in self._former:
            return self._databases[self._former.index(database)]
        return database

    @contextmanager
    def _write(self, database: str | None = None) -> Iterator[Any]:
        """One write transaction and its pin. The folder says before that it is being written."""
        with self.pins.held():
            with self._opening:
                env = self._awake(write=True)
            with env.begin(database and getattr(self._databases, database), write=True) as txn:
                yield txn

    def _awake(self, *, write: bool = False) -> Any:
        """The environment, opened where it is not. `_opening` is held."""
        if self._closed:
            raise ShuttingDown("the index is closed")
        if (write or self._is_new) and not self._claimed:
            self._claim()
        elif self._env is None and not self._is_new:
            try:
                check_folder(self._path, partition=self._partition, boot_id=self._boot_id)
            except OSError as error:
                raise folder_trouble(error, self._path) from error
        if self._env is None:
            self._open_file()
        return self._env

    def _claim(self) -> None:
        """Mark the folder as being written. `_opening` is held."""
        try:
            claim_folder(self._path, partition=self._partition, boot_id=self._boot_id)
        except OSError as error:
            raise folder_trouble(error, self._path) from error
        self._claimed = self._unsynced = True

    def _open_file(self) -> None:
        """Open the environment and read the index's identity and state. `_opening` is held."""
        others = self._environments
        if others is not None:
            others.make_room()
        try:
            env, databases = self._environment()
        except Overloaded:
            if others is None or not others.shed(_SHED):
                raise
            env, databases = self._environment()
        known = self._summary
        try:
            # A file that was not claimed holds its rows already, and is not written.
            with named_troubles(self._path, self._map_bytes), env.begin(write=self._claimed) as txn:
                found = self._found(txn, databases)
            if known is not None and not self._is_new and found[:3] != (known.state, known.version, known.live):
                raise IndexDamaged(
                    f"{self._path} holds {found}, its marker says {known}: discard it and fold the log again",
                    file=str(self._path),
                )
        except BaseException:
            env.close()
            raise
        self._env, self._databases, self.is_at_rest = env, databases, False
        self._data, self._meta = databases.data, databases.meta
        self._begin = env.begin
        self._is_new = False
        self._state, self.version, self.live, self.definition, self.builds = found
        self.applied = self.shown = found.state.applied
        if others is not None:
            others.opened(self)

    def _environment(self) -> tuple[Any, Databases]:
        first = self._first or TableDefinition()
        return open_environment(
            self._path,
            map_bytes=self._map_bytes,
            has_indexes=bool(first.indexes),
            has_history=first.keeps is not None,
        )

    def _found(self, txn: Any, databases: Databases) -> IndexIdentity:
        """The file's identity and state; a new file gets its first rows."""
        try:
            return find_identity(
                txn,
                databases,
                self._path,
                partition=self._partition,
                start=self._start,
                definition=self._first,
            )
        except lmdb.ReadonlyError as error:
            raise IndexDamaged(
                f"{self._path} holds nothing, its marker says {self._summary}: discard it", file=str(self._path)
            ) from error

    def watch_use(self) -> bool:
        """Was the file used since the last question? One that was not is closed when others need its descriptors."""
        if self._begin == self._enter:
            return False
        if not self._closed:
            self._begin = self._enter
        return True

    def rest(self) -> bool:
        """Close the file until it is needed again; False if it is in use now."""
        if not self._opening.acquire(blocking=False):
            return False
        try:
            if self._closed or self._env is None:
                return True
            self._begin = self._enter
            if self.pins or self.readers:
                return False
            env = self._env
            try:
                summary = self._summarized(env)
            except DuramenError:
                return False  # damaged, or the disk fails: the next read or write raises it
            self._env, self.is_at_rest = None, True
            self._former = self._databases
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

    def _known(self) -> IndexSummary | None:
        """The summary of the file, if it was not written since. Raises `ShuttingDown` after `close`."""
        if self._closed:
            closed()
        return self._summary

    def forget_dead_readers(self) -> None:
        """Free the pages that processes killed in a read still hold."""
        with self._opening:
            env = self._env
            if env is not None and not self._closed:
                with named_troubles(self._path, self._map_bytes):
                    env.reader_check()

    @property
    def is_closed(self) -> bool:
        """Has `close` been called?"""
        return self._closed

    @property
    def is_unsynced(self) -> bool:
        """Does a clean close have something to sync?"""
        return self._unsynced

    def _wait_unread(self) -> None:
        """Wait until no transaction is under way. A poll: a read must not pay for an event."""
        for _ in range(_READS_PAUSES_MAX):
            if not self.pins and not self.readers:
                return
            time.sleep(_READS_PAUSE_S)
        held = len(self.pins) + len(self.readers)
        if held:
            raise Overloaded(
                f"{self._path} is not closed: {held} transaction(s) still read it; close it again when they have ended"
            )

    def close(self, *, clean: bool = True) -> None:
        """Close the file; `clean` syncs it first and marks the folder. Idempotent. It waits up to 1 s for reads that
        other threads have begun.

        Not clean is what a killed process leaves: good in this boot of the machine, and discarded in the next. Raises
        `Overloaded` where a transaction is still under way: LMDB would end the process. The file then stays open and
        begins no other transaction; another `close` tries again.
        """
        with self._opening:
            self._closed, self._begin = True, closed
        # Without the lock: a read that has its pin and wants to open the file gets `ShuttingDown` now.
        self._wait_unread()
        with self._opening:
            if self._ended:
                return
            self._ended = True
            env, self._env, self.is_at_rest = self._env, None, True
            clean, summary = clean and self._unsynced, self._summary
            try:
                if env is not None and clean:
                    with suppress(DuramenError):  # the next open raises the damage
                        summary = self._summarized(env)
                    with named_troubles(self._path, self._map_bytes):
                        env.sync(True)
            finally:
                if env is not None:
                    env.close()
                    if self._environments is not None:
                        self._environments.closed(self)
            if not clean or self._is_new:
                return  # what could not be made has nothing to sync
            try:
                if env is None:
                    sync_data(self._path)
                release_folder(self._path, summary)
            except OSError as error:
                trouble = error.strerror or error
                logger.warning("%s was not closed cleanly: %s; the next start looks at it", self._path, trouble)
