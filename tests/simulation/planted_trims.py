"""Bugs to plant where the log of a table gets shorter, or older, or is read up to a point: what a trim may take, what a
snapshot holds, what an index believes, and what a restored table holds.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import lmdb

from duramen.client import watch
from log_tier.model import batch_cut
from log_tier.model.batch import Batch, decode_batch
from log_tier.model.identifiers import Offset
from router.admin.planners import upkeep
from serving_tier.fold.entry import version_of
from serving_tier.fold.last_batch import LastBatch
from serving_tier.index.lmdb.environment import Databases
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.jobs import actions, point_in_time
from serving_tier.names import DATA_FILE
from serving_tier.snapshots import take
from serving_tier.snapshots.manifest import SnapshotManifest
from simulation.planted import Patches

__all__ = ["PLANTED_IN_TRIMS"]

_BEYOND: Final = 40


def _trim_past_the_snapshot() -> Patches:
    covered = upkeep._covered

    def generous(situation: Any, partition: Any) -> Offset | None:
        found = covered(situation, partition)
        return None if found is None else Offset(found + _BEYOND)

    return [
        (upkeep, "_covered", generous),
        (actions, "_allowed", lambda run, argument: Offset(int(run.task.arguments[argument]))),
    ]


def _snapshot_of_two_offsets() -> Patches:
    copy_to = LmdbIndex.copy_to

    def mixed(self: LmdbIndex, file: int) -> None:
        """The newest write is in the applied offset, and not among the keys."""
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            with open(Path(folder) / DATA_FILE, "wb") as whole:
                copy_to(self, whole.fileno())
            with lmdb.open(folder, max_dbs=len(Databases._fields)) as env:
                data = env.open_db(b"data")
                with env.begin(db=data, write=True) as txn:
                    entries = list(txn.cursor())
                    if entries:
                        txn.delete(max(entries, key=lambda each: version_of(each[1]))[0])
                env.copyfd(file, compact=True)

    return [(LmdbIndex, "copy_to", mixed)]


def _manifest_ahead_of_its_data() -> Patches:
    manifest: Any = SnapshotManifest
    return [(take, "SnapshotManifest", lambda offset, **of: manifest(offset=Offset(offset + _BEYOND), **of))]


def _index_and_log_are_not_compared() -> Patches:
    return [(LastBatch, "differs", lambda self, other: False)]


def _past_with_one_record_more() -> Patches:
    cut = batch_cut.cut_run
    return [(point_in_time, "cut_run", lambda data, last, place: cut(data, Offset(last + 1), place))]


def _watch_without_holes() -> Patches:

    def dense(data: bytes, place: Any) -> Batch:
        batch = decode_batch(data, place)
        return replace(batch, columns=replace(batch.columns, deltas=None))

    return [(watch, "decode_batch", dense)]


PLANTED_IN_TRIMS: Final[dict[str, Callable[[], Patches]]] = {
    "a trim goes past the verified snapshot": _trim_past_the_snapshot,
    "a snapshot mixes two offsets": _snapshot_of_two_offsets,
    "a snapshot's manifest names a later offset than its data": _manifest_ahead_of_its_data,
    "an index of another history than its log is believed": _index_and_log_are_not_compared,
    "a restore to a point in time holds a record more": _past_with_one_record_more,
    "a watch numbers what a compaction has left without holes": _watch_without_holes,
}
