"""What the files of a partition hold and what they lack, in the damaged log and in its copy. Pure.

A partition's files are described as **runs** of whole batches and **holes** between them, in the order of their
offsets. A hole is known by the offsets that should be there; what is left of them is not looked at.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import google_crc32c

from log_tier.model.batch_header import BatchHeader
from log_tier.model.identifiers import Offset, OffsetRange

__all__ = [
    "BatchRun",
    "CopyFacts",
    "CopySegment",
    "FoundBatch",
    "Hole",
    "Known",
    "PartitionFacts",
    "digest_of",
    "end_of",
]

_IDENTITY: Final = struct.Struct("<QII")


class FoundBatch(NamedTuple):
    """A whole batch, and where it begins in its file."""

    position: int
    header: BatchHeader


class Known(NamedTuple):
    """What a partition's checkpoint says."""

    earliest: Offset
    end: Offset
    newest_segment: Offset
    reserved_bytes: int
    compacted: Offset
    given_up: tuple[OffsetRange, ...] = ()


class BatchRun(NamedTuple):
    """Whole batches, end to end in one file."""

    segment: Offset
    """Base of the file."""
    position: int
    end_position: int
    first: BatchHeader
    last: BatchHeader
    digest: int
    """Equal for equal batches, wherever they lie."""
    is_compacted: bool = False
    """Does a batch lack records, or are there offsets without a batch?"""


class Hole(NamedTuple):
    """Offsets that should be there and cannot be read. None are missing if `first == end`: then there are only bytes
    that belong nowhere.
    """

    first: Offset
    end: Offset
    """The offset after the last missing one; of an open hole, as far as is known."""
    segment: Offset | None
    """The file in which they were; None: it is missing."""
    why: str
    is_open: bool = False
    """Does nothing follow it? Then more than these may be missing."""
    is_newer: bool = False
    """Does a batch of a newer format version lie there?"""
    is_doubtful: bool = False
    """Of an open hole: does only the length of the file show that anything is missing?"""


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """A damaged partition, or one that is not."""

    name: str
    """For people: topic/partition."""
    items: Sequence[BatchRun | Hole]
    known: Known
    is_trimmed: bool
    """May older records have been removed on purpose? Then a replica begins with a copy of an index in any case."""
    end: Offset
    """The offset after the last one that is known to have been there."""

    @property
    def holes(self) -> list[Hole]:
        """What is missing, in order."""
        return [item for item in self.items if isinstance(item, Hole)]

    @property
    def known_end(self) -> Offset:
        """`end`, without what only the length of a file shows."""
        last = self.items[-1] if self.items else None
        return last.first if isinstance(last, Hole) and last.is_doubtful else self.end

    @property
    def newest(self) -> Offset | None:
        """Base of the newest file; None: there is none."""
        return next((item.segment for item in reversed(self.items) if item.segment is not None), None)


class CopySegment(NamedTuple):
    """A file of the copy."""

    base: Offset
    batches: Sequence[FoundBatch]
    damaged: Sequence[OffsetRange]


class CopyFacts(NamedTuple):
    """The copy's files of a partition, as far as they may be needed."""

    segments: Sequence[CopySegment]
    earliest: Offset
    end: Offset
    """The offset after its last one."""
    known: Known

    def is_as_new_as(self, known: Known) -> bool:
        """Was it made after a checkpoint that says so was written, as far as checkpoints show?"""
        ours, theirs = (known.end, known.newest_segment), (self.known.end, self.known.newest_segment)
        return theirs > ours or (theirs == ours and self.known.reserved_bytes >= known.reserved_bytes)

    def batches(self, first: Offset, end: Offset) -> Iterator[tuple[CopySegment, FoundBatch]]:
        """The batches with at least one offset of `first` to `end`, which is not among them."""
        for segment in self.segments:
            at = bisect_left(segment.batches, first + 1, key=lambda batch: end_of(batch.header))
            for batch in segment.batches[at:]:
                if batch.header.base_offset >= end:
                    break
                yield segment, batch

    def at(self, base: Offset) -> BatchHeader | None:
        """The batch that begins with an offset."""
        found = next(self.batches(base, Offset(base + 1)), None)
        return found[1].header if found is not None and found[1].header.base_offset == base else None

    @property
    def damaged(self) -> list[OffsetRange]:
        """What cannot be read in it."""
        return [each for segment in self.segments for each in segment.damaged]


def end_of(header: BatchHeader) -> Offset:
    """The offset after a batch."""
    return Offset(header.base_offset + header.span)


def digest_of(headers: Iterable[BatchHeader], digest: int = 0) -> int:
    """The digest of a run of these batches; `digest`: of those before them."""
    for header in headers:
        identity = _IDENTITY.pack(header.base_offset, header.checksum, header.stamp_checksum)
        digest = google_crc32c.extend(digest, identity)
    return digest
