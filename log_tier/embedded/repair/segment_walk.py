"""Reading one segment for a repair: every batch, and behind damage the next one that can be read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from log_tier.embedded.repair.facts import FoundBatch, end_of
from log_tier.embedded.segments.inspection import next_batch
from log_tier.embedded.segments.segment import SCAN_BYTES, Segment, read_run
from log_tier.embedded.storage import names
from log_tier.embedded.storage.disk import Disk, File
from log_tier.model.batch import decode_batch
from log_tier.model.batch_header import EXTENT, FORMAT_VERSION, HEADER_BYTES, MAGIC, Place, check_stored, read_header
from log_tier.model.errors import BatchRefused, LogDamaged, UnknownFormat
from log_tier.model.identifiers import Offset

__all__ = ["NO_END", "Gone", "damage_in_words", "walk_segment"]

NO_END: Final = Offset(1 << 62)
"""What the newest file may hold; a sealed one holds what lies below the next one's base."""

_VERSION_AT: Final = 4


class Gone(NamedTuple):
    """Damage: where the batches end, and where they go on."""

    first: Offset
    end: Offset | None
    """The first offset that can be read again; None: nothing follows in this file."""
    why: str
    is_newer: bool
    """Does a batch of a newer format version lie there?"""


def walk_segment(disk: Disk, segment: Segment, end: Offset, compacted: Offset) -> Iterator[FoundBatch | Gone]:
    """The batches of a file and the damage between them, in order; `end`: the next file's base, or `NO_END`;
    `compacted`: below it offsets may have no batch.

    A batch with offsets beyond `end` is not this file's. Raises `OSError`. O(the file).
    """
    path, whose = segment.path, names.folder_place(segment.folder)
    file = disk.open(path)
    try:
        size, position, expected = file.size(), 0, segment.base
        while position < size:
            gaps, below = end != NO_END and expected < compacted, None if end == NO_END else end
            run = read_run(file, path, position, size, expected, size=SCAN_BYTES, gaps=gaps, below=below)
            why = "" if run.damage is None else damage_in_words(run.damage)
            for place, header in run.batches:
                begins = place - position
                why_not = _fault(run.data[begins : begins + header.length], end_of(header), end, whose)
                if why_not:
                    position, why = place, why_not
                    break
                yield FoundBatch(place, header)
                expected = end_of(header)
            else:
                position += len(run.data)
            if not why:
                continue
            is_newer = _is_newer(file, position, whose)
            following = next_batch(file, path, position - 1, size, first=expected)
            after = None if following is None else read_header(file.pread(HEADER_BYTES, following))
            if after is None or following is None or end_of(after) > end:
                yield Gone(expected, None, why, is_newer)
                return
            yield Gone(expected, after.base_offset, why, is_newer)
            position, expected = following, after.base_offset
    finally:
        file.close()


def _fault(data: bytes, batch_end: Offset, end: Offset, whose: Place | None) -> str:
    """Why a batch whose checksums hold is not this file's; empty if it is."""
    if batch_end > end:
        return f"the batch there ends with offset {batch_end - 1}, and the next file begins with offset {end}"
    try:
        decode_batch(data, whose)
    except (BatchRefused, UnknownFormat) as error:
        return error.message
    return ""


def damage_in_words(damage: LogDamaged) -> str:
    """Why, without the place and the advice."""
    return damage.message.partition(" should be: ")[2].partition(". Nothing was cut")[0] or damage.message


def _is_newer(file: File, position: int, whose: Place | None) -> bool:
    """Does a batch of a newer format version lie there, and not one of this version in which a bit was flipped?"""
    head = file.pread(EXTENT.size, position)
    if len(head) < EXTENT.size:
        return False
    magic, version, length = EXTENT.unpack(head)
    if magic != MAGIC or version <= FORMAT_VERSION:
        return False
    batch = bytearray(file.pread(length, position))
    if len(batch) < HEADER_BYTES:
        return False
    batch[_VERSION_AT] = FORMAT_VERSION
    try:
        check_stored(bytes(batch), whose)
    except (BatchRefused, UnknownFormat):
        return True
    return False
