"""What a segment's bytes say after a crash: where its batches end, and whether what follows is a tear or damage.

A **tear** is what a crash leaves of writes that were never acknowledged. It is legal at the end of the newest segment,
and it is cut. **Damage** is anything else that cannot be read, and it is never cut: some acknowledged record may be in
it.

Say the batches are whole up to position P, and the next offset would be E. Behind P:

    only zeros            space that was preallocated; nothing was lost
    otherwise a tear,     unless something proves that offset E had been on stable storage:
      · a later batch in this file whose `base offset - unsynced` is above E: it was written after E was synced
      · an index entry with a valid checksum at E or above: entries are made after the sync
      · the checkpoint, written when a segment is made, when its file grows and before it shrinks, names an end above E
      · a frame of the journal holds offset E
      · the file is shorter than the checkpoint says: files grow, on stable storage, before they are written to
      · the bytes at P begin a batch of a newer format version: a crash leaves zeros or what this version writes

So bits that flip in the middle of a log are damage, as is a file that was cut short, at whatever byte. With one copy,
no log can distinguish a tear from damage to exactly the last commit before an unclean end. Nor can it recognise an
older copy of the newest file that has its full length, and nothing of what was proved since: by an index entry (once in
a MiB), a growth, or a frame of the journal. Replicas exist for both.

Sealed segments have no tear: they must end where the next one begins. Their last 64 KiB are read at open, the rest is
checked when it is read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from log_tier.embedded.segments.segment import SCAN_BYTES, Run, Segment, damaged, first_in_index, read_run
from log_tier.embedded.segments.sparse_index import SparseIndex
from log_tier.embedded.storage import names
from log_tier.embedded.storage.disk import Disk, File
from log_tier.model.batch_header import (
    BATCH_BYTES_MAX,
    EXTENT,
    FORMAT_VERSION,
    HEADER_BYTES,
    MAGIC,
    check_stored_at,
)
from log_tier.model.errors import BatchRefused, LogDamaged, UnknownFormat
from log_tier.model.identifiers import NOTHING, Offset

__all__ = ["Cut", "NewestEnd", "check_sealed", "find_proof", "recover_newest"]

# How far apart two reads of the search for later batches overlap: nothing that begins in one is missed in the next.
_SEARCH_BYTES: Final = 4 * BATCH_BYTES_MAX


@dataclass(frozen=True, slots=True)
class Cut:
    """What recovery cut from the end of a partition. Nothing in it had been acknowledged."""

    file: str
    position: int
    """Where the file ends now."""
    bytes: int
    """How many were behind it, not counting the zeros at the end."""
    offset: Offset
    """The offset that the next record gets."""

    def __str__(self) -> str:
        return (
            f"cut a torn tail of {self.bytes} bytes at byte {self.position} of {self.file}: writes that were never "
            f"acknowledged; the log goes on at offset {self.offset}"
        )


class NewestEnd(NamedTuple):
    """The state of the newest segment's end."""

    cut: Cut | None
    """What was cut, if it was torn."""
    damage: LogDamaged | None
    """Why its end cannot be believed, if it cannot."""
    capacity: int
    """How long its file is, zeros behind the last batch included."""
    lost: int = 0
    """With damage: how many offsets behind the last batch are known to have been on stable storage, at least 1."""


def _scan(file: File, segment: Segment, size: int, index: SparseIndex, every_bytes: int, *, gaps: bool) -> Run:
    """Walk from the newest usable index entry to the end; fill in what is found. Returns the last run."""
    start, expected = 0, segment.base
    if len(index):
        if first_in_index(file, segment.path, index.entry(-1), size):
            expected, start = Offset(index.entry(-1)[0]), index.entry(-1)[1]
        else:
            index = SparseIndex()
    segment.index, segment.end, segment.bytes = index, expected, start
    indexed = start
    while True:
        run = read_run(file, segment.path, segment.bytes, size, segment.end, size=SCAN_BYTES, gaps=gaps)
        for position, header in run.batches:
            if position - indexed >= every_bytes:
                index.add(header.base_offset, position)
                indexed = position
            segment.end = Offset(header.base_offset + header.span)
            segment.bytes = position + header.length
            segment.newest_ms = header.timestamp_ms
        if run.damage is not None or not run.batches or segment.bytes == size:
            return run


def check_sealed(disk: Disk, segment: Segment, next_base: Offset, *, every_bytes: int, gaps: bool) -> LogDamaged | None:
    """Check that a sealed segment ends where the next begins; fill in its facts. Reads one index and about 64 KiB.
    `gaps`: a compaction may have dropped records of it.
    """
    file = disk.open(segment.path)
    try:
        size = file.size()
        run = _scan(file, segment, size, segment.load_index(disk), every_bytes, gaps=gaps)
    finally:
        file.close()
    if run.damage is not None:
        return run.damage
    if segment.end != next_base:
        return damaged(
            segment.path,
            segment.bytes,
            segment.end,
            f"the file ends here, and the next segment begins with offset {next_base}: one between them is missing",
        )
    return None


def recover_newest(
    disk: Disk,
    segment: Segment,
    *,
    known_end: Offset,
    clean_bytes: int,
    reserved_bytes: int,
    every_bytes: int,
    before_cut: Callable[[int], None],
) -> NewestEnd:
    """Find the end of the newest segment, cut a tear, and fill in the segment's facts.

    `known_end` is an end that the partition is known to have reached, `clean_bytes` the size that a clean close left
    (-1: there was none), `reserved_bytes` what the file has at least. Behind `segment.bytes` only zeros are left, on
    stable storage, unless there is damage. `before_cut` is called with the size that a torn file is about to get.
    """
    file = disk.open(segment.path, write=True)
    try:
        size = file.size()
        if size != clean_bytes:
            # What a process wrote may sit in the kernel's memory only, and after a failed sync the kernel may show
            # bytes that never reached the device. Sync, forget, and read what is really there.
            file.fdatasync()
            file.forget_cached()
        index = segment.load_index(disk)
        indexed_end = index.entry(-1)[0] if len(index) else NOTHING
        run = _scan(file, segment, size, index, every_bytes, gaps=False)
        position, expected = segment.bytes, segment.end
        unread = _bytes_before_zeros(file, position, size)  # nearly always 0: then there is nothing to look into
        lost = 1
        if known_end > expected:
            why = f"offset {known_end - 1} is known to have been on stable storage"
            lost = known_end - expected
        elif indexed_end >= expected:
            lost = indexed_end - expected + 1
            why = f"the index knows offset {indexed_end} (if you put an older file here, remove {segment.index_path})"
        else:
            proof = find_proof(file, segment.path, position, size, expected) if unread else None
            why = f"offset {proof[0]} at byte {proof[1]} was written after it was synced" if proof else ""
            if not why and size < reserved_bytes:
                why = (
                    f"the file has {size} bytes, and {names.CHECKPOINT} says that {reserved_bytes} were reserved: one "
                    "of them was cut, or is an older copy"
                )
            if not why and unread and _is_newer(file, position, size):
                why = "no crash of this version leaves such a batch"
        if why:
            if run.damage is not None:
                why = f"{run.damage.message.partition(' should be: ')[2].partition('. Nothing was cut')[0]}, and {why}"
            return NewestEnd(None, damaged(segment.path, position, expected, why), size, lost)
        if not unread:
            return NewestEnd(None, None, size)
        before_cut(position)
        file.truncate(position)
        file.fdatasync()
        return NewestEnd(Cut(str(segment.path), position, unread, expected), None, position)
    finally:
        file.close()


def _is_newer(file: File, position: int, size: int) -> bool:
    """Does a batch of a newer format version lie there, and after it nothing or another batch? Every format version
    has its magic, its version and its length at the same places.
    """
    magic, version, length = EXTENT.unpack(file.pread(EXTENT.size, position).ljust(EXTENT.size, b"\0"))
    end = position + length
    if magic != MAGIC or version <= FORMAT_VERSION or not HEADER_BYTES <= length <= BATCH_BYTES_MAX or end > size:
        return False
    return file.pread(len(MAGIC), end) in (MAGIC, bytes(min(len(MAGIC), size - end)))


def find_proof(file: File, path: Path, position: int, size: int, expected: Offset) -> tuple[int, int] | None:
    """Look behind `position` for a batch that was written after `expected` was synced: its offset and position."""
    if position >= size:
        return None
    start, place = position, names.folder_place(path.parent)
    while start < size:
        data = file.pread(_SEARCH_BYTES, start)
        at = data.find(MAGIC)
        while at >= 0:
            try:
                header = check_stored_at(data, at, place)
                if header.base_offset - header.unsynced > expected:
                    return header.base_offset, start + at
            except (BatchRefused, UnknownFormat):
                pass
            at = data.find(MAGIC, at + 1)
        if start + len(data) >= size:
            return None
        start += _SEARCH_BYTES - BATCH_BYTES_MAX
    return None


def _bytes_before_zeros(file: File, position: int, size: int) -> int:
    """How many bytes lie behind `position`, without the zeros at the end of the file."""
    end = size
    while end > position:
        start = max(position, end - SCAN_BYTES)
        data = file.pread(end - start, start)
        if data != bytes(len(data)):  # a comparison of the whole is thirty times quicker than `rstrip`
            return start + len(data.rstrip(b"\0")) - position
        end = start
    return 0
