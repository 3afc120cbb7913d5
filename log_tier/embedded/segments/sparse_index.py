"""The sparse index of a segment: at which position which offset begins, about every 64 KiB.

    0   4  magic "DuIx"
    4   4  format version (1)
    8   8  base offset of the segment
    16     entries, 16 bytes each: offset u64, position u32, CRC-32C of these 12 bytes

It is a cache and never trusted: a reader that uses an entry checks that the batch at that position carries that offset,
and scans from the start of the segment where it does not. An entry is made only for a batch that is on stable storage.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_right
from typing import Final

import google_crc32c

from log_tier.model.identifiers import Offset

__all__ = ["INDEX_ENTRY_BYTES", "INDEX_HEADER_BYTES", "SparseIndex", "encode_entries", "encode_index_header"]

INDEX_HEADER_BYTES: Final = 16
INDEX_ENTRY_BYTES: Final = 16

_HEADER: Final = struct.Struct("<4sIQ")
_PLACE: Final = struct.Struct("<QI")
_ENTRY: Final = struct.Struct("<QII")
_MAGIC: Final = b"DuIx"
_VERSION: Final = 1


class SparseIndex:
    """Entries of rising offset and position. A lookup is O(log n)."""

    __slots__ = ("_offsets", "_positions")

    def __init__(self) -> None:
        self._offsets: array[int] = array("Q")
        self._positions: array[int] = array("Q")

    def __len__(self) -> int:
        return len(self._offsets)

    def add(self, offset: int, position: int) -> None:
        """Append an entry behind all others."""
        assert not self._offsets or offset > self._offsets[-1], f"{offset} after {self._offsets[-1]}"
        self._offsets.append(offset)
        self._positions.append(position)

    def entry(self, number: int) -> tuple[int, int]:
        """Offset and position of an entry; -1 is the newest."""
        return self._offsets[number], self._positions[number]

    def at_or_before(self, offset: int) -> tuple[int, int] | None:
        """The newest entry whose offset is not above `offset`."""
        number = bisect_right(self._offsets, offset)
        return self.entry(number - 1) if number else None

    def encode(self, base: Offset) -> bytes:
        """The whole file."""
        return encode_index_header(base) + encode_entries(list(zip(self._offsets, self._positions, strict=True)))

    @classmethod
    def decode(cls, data: bytes, base: Offset) -> SparseIndex:
        """The entries of a file before the first bad one; none where the file is another segment's."""
        index = cls()
        if len(data) < INDEX_HEADER_BYTES or _HEADER.unpack_from(data) != (_MAGIC, _VERSION, base):
            return index
        last_offset = last_position = -1
        for at in range(INDEX_HEADER_BYTES, len(data) - _ENTRY.size + 1, _ENTRY.size):
            offset, position, check = _ENTRY.unpack_from(data, at)
            if google_crc32c.value(data[at : at + 12]) != check or offset <= last_offset or position <= last_position:
                break
            index.add(offset, position)
            last_offset, last_position = offset, position
        return index


def encode_index_header(base: Offset) -> bytes:
    """The first 16 bytes of an index file."""
    return _HEADER.pack(_MAGIC, _VERSION, base)


def encode_entries(entries: list[tuple[int, int]]) -> bytes:
    """Entries (offset, position) as bytes."""
    return b"".join(
        _ENTRY.pack(offset, position, google_crc32c.value(_PLACE.pack(offset, position)))
        for offset, position in entries
    )
