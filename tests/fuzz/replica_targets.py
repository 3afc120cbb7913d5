"""Folders of indexes and snapshots, opened by what serves them: damage is named, or what is read is read."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import cache, partial
from pathlib import Path
from typing import Final

from fuzz.index_targets import index_files
from fuzz.log_targets import stored_samples
from fuzz.sealing import sealed_text
from fuzz.target import Target
from log_tier.model.batch import Columns, encode_batch
from log_tier.model.batch_header import stamp_batch
from log_tier.model.identifiers import Offset, Partition, PartitionId, TableId
from serving_tier.index.lmdb.folder import summary_of_folder, verify_index
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.index.lmdb.shared_reader import IndexReader
from serving_tier.names import DATA_FILE, MARKER_FILE
from serving_tier.snapshots.contents import read_contents
from serving_tier.snapshots.manifest import PIECE_BYTES
from serving_tier.snapshots.page_check import PageCheck

__all__ = ["replica_targets"]

_PLACE: Final = PartitionId(TableId("AAECAwQFBgcICQoLDA0ODw"), Partition(3))
_MEMORY: Final = Path("/dev/shm")
_BOOT: Final = "a boot"
_LATER_MS: Final = 600_000
"""Minutes behind the samples: what was counted of the log's earlier minutes is written."""
_QUICK_INPUTS: Final = 100
"""An index is opened and read for each: some milliseconds."""


def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="duramen-fuzz-", dir=_MEMORY if _MEMORY.is_dir() else None))


def _in_a_folder(read: Callable[[Path], object], data: bytes) -> None:
    folder = _folder()
    try:
        (folder / DATA_FILE).write_bytes(data)
        verify_index(folder)  # as every folder that was not closed cleanly
        read(folder)
    finally:
        shutil.rmtree(folder)


def _contents(folder: Path) -> None:
    """A copy is checked before it is opened: some damage ends the process in LMDB."""
    check = PageCheck("the copy")
    data = (folder / DATA_FILE).read_bytes()
    for at in range(0, len(data), PIECE_BYTES):
        check.feed(data[at : at + PIECE_BYTES])
    check.finish()
    read_contents(folder, digest=True)


def _shared(folder: Path) -> None:
    """The reads of a process that serves another one's index."""
    with closing(IndexReader.open(folder, partition=_PLACE)) as index:
        assert index.applied >= -1
        index.statistics(), index.count(), index.next_expiry_ms(), index.producer(7)
        index.outcomes(Offset(0), Offset(40)), index.judgements(Offset(0), Offset(40))
        page = index.scan(b"", None)
        index.get_many(page.keys)
        with closing(index.pinned()) as pinned:
            pinned.definition()


def _replica(data: bytes) -> None:
    """A replica that starts behind an unclean end of its process: it reads what it holds, and folds on."""
    folder = _folder()
    try:
        (folder / DATA_FILE).write_bytes(data)
        (folder / MARKER_FILE).write_bytes(_closed()[2])
        with closing(LmdbIndex.open(folder, partition=_PLACE, boot_id=lambda: _BOOT)) as index:
            index.tally(), index.count(), index.definition_now(), index.producer(7)
            index.scan(b"", None, reverse=True)
            batch = encode_batch(Columns((b"key",), (b"value",)))
            next_at = Offset(index.applied + 1)
            index.apply(stamp_batch(batch, base_offset=next_at, timestamp_ms=_LATER_MS, unsynced=0, place=index.place))
    finally:
        shutil.rmtree(folder)


@cache
def _closed() -> tuple[bytes, bytes, bytes]:
    """The data file and the marker of an index that was closed, and the marker while it was open."""
    folder = _folder()
    try:
        index = LmdbIndex.open(folder, partition=_PLACE, boot_id=lambda: _BOOT)
        for chunk in stored_samples()[1:-1]:
            index.apply(chunk)
        marked = (folder / MARKER_FILE).read_bytes()
        index.close()
        return (folder / DATA_FILE).read_bytes(), (folder / MARKER_FILE).read_bytes(), marked
    finally:
        shutil.rmtree(folder)


def _summary(data: bytes) -> None:
    """The marker of a folder that was copied."""
    folder = _folder()
    try:
        (folder / DATA_FILE).write_bytes(_closed()[0])
        (folder / MARKER_FILE).write_bytes(data)
        summary_of_folder(folder, partition=_PLACE, boot=_BOOT)
    finally:
        shutil.rmtree(folder)


def replica_targets() -> Iterator[Target]:
    """A file by its readers, a snapshot's copy, and what a marker says of the file next to it."""
    yield Target("index of another process", _files, partial(_in_a_folder, _shared), quick_inputs=_QUICK_INPUTS)
    yield Target("index of a replica", _files, _replica, quick_inputs=_QUICK_INPUTS)
    yield Target("copy of a snapshot", _files, partial(_in_a_folder, _contents), quick_inputs=_QUICK_INPUTS)
    yield Target("summary of an index", _markers, _summary, quick_inputs=_QUICK_INPUTS)
    yield Target("summary of an index, sealed", _markers, _summary, seal=sealed_text, quick_inputs=_QUICK_INPUTS)


def _files() -> Sequence[bytes]:
    return index_files()


def _markers() -> Sequence[bytes]:
    return [_closed()[1]]
