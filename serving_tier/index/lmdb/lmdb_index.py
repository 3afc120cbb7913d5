"""The index that serves: one LMDB environment for one partition.

**Writing.** `apply` decodes a chunk, folds it, and carries out the effects in one write transaction that ends with the
row `state`: data and applied offset commit together, and a chunk that fails leaves nothing. Nothing is synced: the log
is the truth, and `serving_tier.index.lmdb.folder` says when the file may be trusted.

Its reads are in `serving_tier.index.lmdb.lmdb_reads`; other processes of this machine read the same file
(`shared_reader`). When the file is opened, put to rest and closed is the business of
`serving_tier.index.lmdb.index_file`.

Keys go in as they come: sorting the ten thousand of a chunk first costs more than the better locality gains.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence, Set
from pathlib import Path
from typing import Any, Self

from log_tier.model.barrier import LiveVersion
from log_tier.model.batch import Batch, decode_batch
from log_tier.model.batch_header import Place, split_batches
from log_tier.model.errors import VersionMissing
from log_tier.model.identifiers import FIRST, Offset, PartitionId
from log_tier.rows.definition import TableDefinition
from log_tier.tally.keep import Kept
from log_tier.tally.period import PartitionTally
from serving_tier.fold.effects import Effects
from serving_tier.fold.fold import fold
from serving_tier.fold.index_builds import IndexBuilds
from serving_tier.fold.last_batch import LastBatch
from serving_tier.fold.producers import ProducerState
from serving_tier.fold.verdicts import FoldVerdicts, Outcome
from serving_tier.index.index import Applied, IndexLimits, IndexStatistics
from serving_tier.index.lmdb.bookkeeping import take_over
from serving_tier.index.lmdb.environment import MAP_BYTES_MAX, Databases, named_troubles, with_ordered
from serving_tier.index.lmdb.fold_transaction import LmdbView, build_entries, carry_out, put_builds, tend_entries
from serving_tier.index.lmdb.folder import (
    BootId,
    read_boot_id,
    summary_of_folder,
)
from serving_tier.index.lmdb.format import (
    DEFINITION,
    IDENTITY,
    STATE,
    TALLY,
    VERSION,
    State,
    pack_definition,
    pack_identity,
    pack_version,
)
from serving_tier.index.lmdb.index_file import IndexFile
from serving_tier.index.lmdb.open_environments import OpenEnvironments
from serving_tier.index.lmdb.summary import IndexSummary
from serving_tier.index.past.past_writing import begin_past

__all__ = ["LmdbIndex", "applied_of"]

logger = logging.getLogger(__name__)


class LmdbIndex(IndexFile):
    """An `Index` in one LMDB file. Made by `open`, or by `at_rest`.

    With `environments` its file is open only while it is used now and then; see
    `serving_tier.index.lmdb.open_environments`.
    """

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        partition: PartitionId,
        start: Offset = FIRST,
        map_bytes: int = MAP_BYTES_MAX,
        boot_id: BootId = read_boot_id,
        limits: IndexLimits = IndexLimits(),  # noqa: B008  (immutable)
        environments: OpenEnvironments | None = None,
        definition: TableDefinition | None = None,
    ) -> Self:
        """Open the index in the folder `path`, or make one. A few ms, whatever its size.

        `start`: the first offset of its table. A new index has applied everything below it, which is nothing.
        `definition`: what the table's keys and values are, as the catalog has it; None: bytes. A new index begins with
        the first one of them, and knows each later one by the log.

        Raises `IndexDamaged` for one that cannot be trusted, or of another start or of another table's
        definition (discard the folder and fold the log again), `DiskFull`, `FolderInUse` where this process has
        it open, `Overloaded` where the process is out of descriptors.
        """
        index = cls(
            path,
            partition=partition,
            start=start,
            map_bytes=map_bytes,
            boot_id=boot_id,
            limits=limits,
            environments=environments,
            definition=definition,
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
        partition: PartitionId,
        environments: OpenEnvironments,
        start: Offset = FIRST,
        map_bytes: int = MAP_BYTES_MAX,
        boot_id: BootId = read_boot_id,
        limits: IndexLimits = IndexLimits(),  # noqa: B008  (immutable)
        definition: TableDefinition | None = None,
    ) -> Self | None:
        """`open` without opening the file, if its folder says what it holds, or if there is none yet. One small read.
        None if the file has to be opened. Raises `IndexDamaged`.
        """
        clean, is_new = True, False
        try:
            summary, clean = summary_of_folder(path, partition=partition, boot=boot_id())
        except FileNotFoundError:
            summary, is_new = IndexSummary.of_new(start), True
        if summary is None or summary.start != start:
            return None
        index = cls(
            path,
            partition=partition,
            start=start,
            map_bytes=map_bytes,
            boot_id=boot_id,
            limits=limits,
            environments=environments,
            definition=definition,
        )
        index._is_new, index._unsynced = is_new, not clean
        index._summary, index._state = summary, summary.state
        index.applied = index.shown = summary.state.applied
        index.version, index.live = summary.version, summary.live
        return index

    def producer(self, producer_id: int) -> ProducerState | None:
        """The last batch of a producer that took effect. No file is made for the answer that there is none."""
        is_empty = self._is_new and self._known() is not None
        return None if is_empty else super().producer(producer_id)

    def count(self) -> int:
        """The number of live keys."""
        known = self._known()
        return super().count() if known is None else known.keys

    def next_expiry_ms(self) -> int | None:
        """A log time that no entry's expiry comes before. Known without a look at the file until the next apply."""
        if self._next_expiry_of is not self._state:
            known, state = self._known(), self._state
            self._next_expiry = super().next_expiry_ms() if known is None else known.next_expiry_ms
            self._next_expiry_of = state
        return self._next_expiry

    def outcomes(self, first: Offset, last: Offset) -> dict[Offset, Outcome]:
        """What is known about the offsets `first` to `last`, inclusive. No read for offsets of the newest fold."""
        newest = self._newest_verdicts
        if newest is not None and newest.covers(first, last) and not self._closed:
            return newest.outcomes(first, last)
        return super().outcomes(first, last)

    def definition_now(self) -> TableDefinition:
        """What the table's keys and values are, as far as was folded here. A file at rest is opened for it."""
        with self._reading():
            return self.definition or TableDefinition()

    def statistics(self) -> IndexStatistics:
        """Sizes."""
        known = self._known()
        return super().statistics() if known is None else known.statistics

    @property
    def log_time_ms(self) -> int:
        """The largest timestamp that was folded."""
        return self._state.log_time_ms

    @property
    def last_batch(self) -> LastBatch | None:
        """What identifies the batch with the applied offset; None where that is not known."""
        return self._state.last

    @property
    def verdicts_from(self) -> Offset:
        """Rejections below this offset are forgotten."""
        return self._state.verdicts_from

    def tally(self) -> PartitionTally:
        """What was counted of the batches that were folded here. One read transaction; a file at rest is opened.

        What other versions of the table counted is not in it: a version counts from the offset on where its own fold
        began.
        """
        if self._is_new and self._known() is not None:
            return PartitionTally(Offset(self.applied + 1), self.applied, ())
        with named_troubles(self._path, self._map_bytes), self._reading() as txn:
            row = txn.get(TALLY, db=self._databases.meta)
            state = State.unpack(txn.get(STATE, db=self._databases.meta))
            kept = Kept(Offset(state.applied + 1)) if row is None or state.counting is None else Kept.unpack(row)
        last = () if state.counting is None else (state.counting,)
        return PartitionTally(kept.since, state.applied, (*kept.periods, *last))

    def apply(self, chunk: bytes, place: Place | None = None) -> Applied:
        """Fold a run of whole stored batches, in one write transaction. `place`: of their partition."""
        return applied_of(self.fold_in([decode_batch(batch, place) for batch in split_batches(chunk)]))

    def fold_in(
        self, batches: Sequence[Batch], *, decided: Set[Offset] | None = None, carried: Effects | None = None
    ) -> Effects:
        """`apply` for decoded batches; return the effects. Raises `VersionMissing` at a barrier to another version than
        this index is: what lies behind the barrier is for that version to decide.

        With `decided` another version decides (see `serving_tier.fold.fold`), and `carried` are its effects, of which
        everything that is not about entries is written here too.
        """
        before = self._state
        with named_troubles(self._path, self._map_bytes):
            with self._write("data") as txn:
                self._summary = None
                effects = self._fold(batches, txn, decided)
                if carried is not None:
                    effects.producers, effects.live, effects.void = carried.producers, carried.live, carried.void
                    effects.definition, effects.defined = carried.definition, carried.defined
                    effects.misfits, effects.first_misfit = carried.misfits, carried.first_misfit
                    effects.judgements, effects.results = carried.judgements, carried.results
                else:
                    # Also where the log comes back to this version: what lies between was decided by another one.
                    for live in effects.went_live:
                        if live.version != self.version:
                            raise _other_version(self._path, self.version, live)
                after, builds, env, databases = before, self.builds, self._env, self._databases
                if effects.applied != before.applied:
                    if effects.defined:
                        builds = builds.after(self.definition, effects.definition)
                        if builds:
                            databases = with_ordered(env, txn, databases)
                    after = carry_out(effects, txn, databases, before=before, limits=self._limits, builds=builds)
                    now = effects.live
                    if effects.changed is not None and now and self.live.version != now.version == self.version:
                        begin_past(txn, databases, now.since)
                    if builds:
                        builds = tend_entries(builds, txn, databases, effects.definition)
                    if before.counting is None:  # an earlier version may have made the file
                        txn.put(IDENTITY, pack_identity(self._partition), db=self._databases.meta)
                    self.shown = after.applied
            if builds is not self.builds:
                self._learn(builds, env, databases)
            self._commit(after, effects)
        return effects

    def build_some(self, rows_max: int) -> int | None:
        """Put up to `rows_max` more rows into an index that is being built, in one transaction. Return its number; None
        where there is no such. Some 8 µs a row. Raises what `build_entries` does.
        """
        definition, number = self.definition_now(), next(iter(self.builds.building), None)
        if number is None:
            return None
        with named_troubles(self._path, self._map_bytes), self._write("data") as txn:
            self._summary = None
            behind = build_entries(txn, self._databases, definition, number, self.builds.building[number], rows_max)
            builds = self.builds.at(number, behind)
            put_builds(txn, self._databases, builds)
        self.builds = builds
        return number

    def owes(self, batches: Sequence[Batch]) -> bool:
        """Do these batches put an index into service that is not whole here?"""
        self.definition_now()
        if not self.builds.building:
            return False
        behind = self.judge(batches).definition
        return bool(self.builds.after(self.definition, behind).owed(behind))

    def define(self, definition: TableDefinition | None) -> None:
        """Take over the definition of the live version, before records that lie behind its barrier are followed."""
        if definition is None or definition == self.definition_now():
            return
        with named_troubles(self._path, self._map_bytes), self._write("meta") as txn:
            self._summary = None
            learned = self._defined_as(definition, txn)
        self._learn(*learned)
        self.definition = definition

    def _learn(self, builds: IndexBuilds, env: Any, databases: Databases) -> None:
        """What was written with these handles is there; the file may have been put to rest meanwhile."""
        with self._opening:
            self.builds = builds
            if self._env is env:
                self._databases = databases

    def _defined_as(self, definition: TableDefinition | None, txn: Any) -> tuple[IndexBuilds, Any, Databases]:
        """Write a definition down, and what is to be done for it."""
        builds, env, databases = self.builds.after(self.definition, definition), self._env, self._databases
        if builds:
            databases = with_ordered(env, txn, databases)
        if definition is not None:
            txn.put(DEFINITION, pack_definition(definition), db=databases.meta)
        put_builds(txn, databases, builds)
        return builds, env, databases

    def judge(self, batches: Sequence[Batch]) -> Effects:
        """What `fold_in` would do, barriers to other versions included; nothing is written."""
        with self._reading() as txn:
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
            counting=self._state.counting,
            definition=self.definition,
        )

    def _commit(self, after: State, effects: Effects) -> None:
        # What the transaction itself has trimmed is forgotten here too.
        first = max(self.applied + 1, after.verdicts_from, after.applied - self._limits.results + 1)
        self._newest_verdicts = FoldVerdicts.of(effects.judgements, effects.results, first=first, last=after.applied)
        self._state = after
        self.applied = after.applied
        self.live = effects.live or self.live
        self.definition = effects.definition

    def become(self, version: int) -> None:
        """Say which version of its table this is, before it follows any."""
        with named_troubles(self._path, self._map_bytes), self._write("meta") as txn:
            self._summary = None
            txn.put(VERSION, pack_version(version))
        self.version = version

    def begin_behind(self, offset: Offset) -> None:
        """Count everything up to `offset` as applied, in an index that holds nothing. One transaction."""
        assert self._state.last is None, f"{self._path} has folded batches already"
        with named_troubles(self._path, self._map_bytes), self._write("meta") as txn:
            self._summary = None
            state = self._state._replace(applied=offset)
            txn.put(STATE, state.pack())
            self.shown = offset
        self._state, self.applied = state, offset

    def level_with(self, live: LmdbIndex) -> None:
        """Copy everything but entries from the live version: producers, verdicts, results, barriers, definition, and
        its offset. No record lies between its offset and ours. One transaction; about 1 µs a row.
        """
        assert self.applied <= live.applied, f"{self._path} at {self.applied} is beyond {live.applied}"
        with named_troubles(self._path, self._map_bytes), self._write() as txn, live._reading() as source:
            self._summary = None
            take_over(txn, self._databases, source, live._databases)
            txn.put(IDENTITY, pack_identity(self._partition), db=self._databases.meta)
            self.shown = live.applied
            state = live._state._replace(counting=self._state.counting)
            txn.put(STATE, state.pack(), db=self._databases.meta)
            learned = self._defined_as(live.definition, txn)
        self._state, self.live, self.applied = state, live.live, live.applied
        self._learn(*learned)
        self.definition = live.definition

    def copy_to(self, file: int) -> None:
        """Write a compact copy at one applied offset, the bytes of a `data.mdb`, to a file descriptor: a pipe, usually.

        LMDB walks the tree without the interpreter's lock, some 5 GB/s from memory; reads and applies go on, and what
        they free meanwhile is not used again until it ends. Run it in a thread. The pipe's reader can end the copy by
        closing the pipe, which raises `lmdb.Error`. Raises `IndexDamaged`.
        """
        with self.pins.held():
            with self._opening:
                env = self._awake()
            with named_troubles(self._path, self._map_bytes):
                env.copyfd(file, compact=True)


def applied_of(effects: Effects) -> Applied:
    """The result of an apply, made of the fold's effects."""
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
