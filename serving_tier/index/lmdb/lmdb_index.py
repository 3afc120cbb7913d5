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

from collections.abc import Sequence, Set
from pathlib import Path
from typing import Any, Self

from log_tier.model.barrier import ORIGINAL, LiveVersion
from log_tier.model.batch import Batch, decode_batch
from log_tier.model.batch_header import NOWHERE, Place, place_of, split_batches
from log_tier.model.errors import VersionMissing
from log_tier.model.identifiers import FIRST, Offset, Partition, TableId
from serving_tier.fold.fold import Effects, fold
from serving_tier.index.index import Applied, IndexLimits
from serving_tier.index.lmdb.bookkeeping import take_over
from serving_tier.index.lmdb.environment import MAP_BYTES_MAX, Databases, named_troubles, open_environment
from serving_tier.index.lmdb.fold_transaction import LmdbView, carry_out
from serving_tier.index.lmdb.folder import BootId, claim_folder, read_boot_id, release_folder
from serving_tier.index.lmdb.format import VERSION, State, pack_version
from serving_tier.index.lmdb.identity import find_identity
from serving_tier.index.lmdb.reads import LmdbReads, closed

__all__ = ["LmdbIndex", "applied_of"]


class LmdbIndex(LmdbReads):
    """See `serving_tier.index.index.Index`. Made by `open`."""

    def __init__(self, env: Any, databases: Databases, path: Path, *, map_bytes: int, limits: IndexLimits) -> None:
        super().__init__(env, databases, path, map_bytes=map_bytes)
        self._limits = limits
        self._state = State()
        self.applied: Offset = self._state.applied
        """The last offset that was folded. A plain attribute: every read compares it."""
        self.place = NOWHERE
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
    ) -> Self:
        """Open the index in the folder `path`, or make one. A few ms, whatever its size.

        `start`: the first offset of its table. A new index has applied everything below it, which is nothing.

        Raises `IndexDamaged` for one that cannot be trusted, or that began elsewhere (discard the folder and fold the
        log again), `DiskFull`, `FolderInUse` where this process has it open.
        """
        claim_folder(path, table_id=table_id, partition=partition, boot_id=boot_id)
        env, databases = open_environment(path, map_bytes=map_bytes)
        index = cls(env, databases, path, map_bytes=map_bytes, limits=limits)
        index.place = place_of(table_id, partition)
        try:
            with named_troubles(path, map_bytes), index._begin(write=True) as txn:
                index._state, index.version, index.live = find_identity(
                    txn, databases, path, table_id=table_id, partition=partition, start=start
                )
            index.applied = index._state.applied
        except BaseException:
            index.close(clean=False)
            raise
        return index

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

    def forget_dead_readers(self) -> None:
        """Give back what processes that were killed in a read still hold: their moment's pages."""
        with named_troubles(self._path, self._map_bytes):
            self._env.reader_check()

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
        if self._begin is closed:
            return
        self._begin = closed
        try:
            if clean:
                with named_troubles(self._path, self._map_bytes):
                    self._env.sync(True)
        finally:
            self._env.close()
        if clean:
            release_folder(self._path)


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
