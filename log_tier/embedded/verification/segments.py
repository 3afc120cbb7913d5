"""Whole segments and their sparse indexes, of which a start reads the ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from log_tier.embedded.segments.segment import Segment, damaged, read_runs
from log_tier.embedded.segments.sparse_index import INDEX_ENTRY_BYTES, INDEX_HEADER_BYTES, SparseIndex
from log_tier.embedded.storage import names
from log_tier.embedded.storage.checkpoint import Checkpoint
from log_tier.embedded.storage.disk import Disk
from log_tier.model.batch import decode_batch
from log_tier.model.errors import BatchRefused, LogDamaged, UnknownFormat
from log_tier.model.files.finding import FileFinding

__all__ = ["check_segment", "index_fault"]


def check_segment(disk: Disk, segment: Segment, checkpoint: Checkpoint, *, is_newest: bool) -> Iterator[FileFinding]:
    """Read a segment to its end, which recovery has found, and compare its sparse index with it. O(its bytes).

    A crash may leave the newest one's index torn, or not there yet.
    """
    places: dict[int, int] = {}
    damage = _read_all(disk, segment, checkpoint, places)
    if damage is not None:
        yield FileFinding.of(damage, segment.path)
    else:
        yield from _check_index(disk, segment, places, is_newest)


def _read_all(disk: Disk, segment: Segment, checkpoint: Checkpoint, places: dict[int, int]) -> LogDamaged | None:
    """The first damage; fills in which position each batch's first offset has."""
    whose = names.folder_place(segment.folder)
    for position, run in read_runs(disk, segment, checkpoint.may_lack):
        for place, header in run.batches:
            begins = place - position
            try:
                decode_batch(run.data[begins : begins + header.length], whose)
            except (BatchRefused, UnknownFormat) as error:
                return damaged(segment.path, place, header.base_offset, error.message)
            places[header.base_offset] = place
        if run.damage is not None:
            return run.damage
    return None


def _check_index(disk: Disk, segment: Segment, places: dict[int, int], is_newest: bool) -> Iterator[FileFinding]:
    path = segment.index_path
    if is_newest and not disk.exists(path):
        return
    why, position = index_fault(disk, path, segment, places)
    if why:
        message = (
            f"{path} is damaged at byte {position}: {why}. It is a cache, and nothing is lost: reads scan "
            "more of the segment; stop the log and remove the file to have it made anew"
        )
        yield FileFinding(path, message, is_damage=not is_newest, position=position, remedy="alone")


def index_fault(disk: Disk, path: Path, segment: Segment, places: dict[int, int]) -> tuple[str, int]:
    """What is wrong with a sparse index, and at which byte; empty if nothing is."""
    if not disk.exists(path):
        return "the file is missing", 0
    file = disk.open(path)
    try:
        size = file.size()
        index = SparseIndex.decode(file.pread(max(size, INDEX_HEADER_BYTES), 0), segment.base)
    finally:
        file.close()
    for number in range(len(index)):
        offset, place = index.entry(number)
        if places.get(offset) != place:
            return f"no batch at byte {place} begins with offset {offset}", _entry_at(number)
    if size == INDEX_HEADER_BYTES + len(index) * INDEX_ENTRY_BYTES:
        return "", 0
    return ("an entry there cannot be read", _entry_at(len(index))) if len(index) else ("it cannot be read", 0)


def _entry_at(number: int) -> int:
    return INDEX_HEADER_BYTES + number * INDEX_ENTRY_BYTES
