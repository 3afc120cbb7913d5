"""The bytes of a journal file: its header, its frames, and what can be read of a file that is damaged. Pure.

    0      header    magic "DuJl", version u16, zero u16, generation u64, log id (16 bytes), size of the file u64,
    4096   header    number of the first frame u64, checksum of the frame before it u32; CRC-32C of all these; end of
                     the room that is fit for frames u64; CRC-32C of everything before
    8192   frames    magic "DuJf", bytes of the entries u32, generation u64, number u64, checksum of the frame before
                     u32, key u32, entries u32; CRC-32C of all these and the entries; then the entries, under the key

The header is there twice, in two blocks of the disk: of a header that is being overwritten when power fails each copy
is the old one or the new one, and a block that is lost takes one of them.

Frames are **chained**. A frame carries its generation, its number and the checksum of the frame before it, and the
first frame of a file goes on where the other file ended. Frames are written one at a time, and a frame is synced before
the next one is begun. So of all frames of a run only the newest can be torn, and a whole frame behind a broken one
proves that the broken one was on stable storage: that is damage.

The room for frames never holds many zeros in a row (`journal_room.py`), and is made so before the first frame is
written there. So where the chain ends in zeros, frames were lost: a disk shows zeros for what it has lost. That is
damage as well.

Version 2 had no key and no such room, so that zeros were the end of the chain. Version 1 had one header of 20 bytes and
frames without number and chain. Both are read and no longer written.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import google_crc32c

from log_tier.embedded.commit.journal_room import PROBE_BYTES, lost_at, restored
from log_tier.model.batch_header import read_header
from log_tier.model.errors import BatchRefused, UnknownFormat
from log_tier.model.identifiers import (
    Offset,
    PartitionId,
    partition_id_from_bytes,
    table_id_to_bytes,
)

__all__ = [
    "FRAMES_AT",
    "FRAME_BYTES",
    "HEADERS_AT",
    "FileHeader",
    "Frame",
    "JournalEntry",
    "Walk",
    "encode_entries",
    "encode_frame",
    "encode_header",
    "entry_bytes",
    "fit_room",
    "has_frame",
    "read_headers",
    "walk",
    "whole_frames",
]

VERSION: Final = 3

HEADERS_AT: Final = (0, 4096)
"""One copy for each of two blocks; 4 KiB is the largest block that disks and file systems lose at once."""

FRAMES_AT: Final = 8192

_FILE_MAGIC: Final = b"DuJl"
_FRAME_MAGIC: Final = b"DuJf"
_HEADER: Final = struct.Struct("<4sHHQ16sQQI")
_FRAME: Final = struct.Struct("<4sIQQIII")
_ENTRY: Final = struct.Struct("<16sIQQI")
"""Table id, partition, base of the segment, position in it, bytes."""
_CRC: Final = struct.Struct("<I")
_HEADER_BYTES: Final = _HEADER.size + _CRC.size
"""The header of version 2, and what that of each later one begins with: so a version knows that another is newer."""
_FIT: Final = struct.Struct("<Q")
FRAME_BYTES: Final = _FRAME.size + _CRC.size
"""Bytes of a frame without its entries."""

_FRAME_V2: Final = struct.Struct("<4sIQQII")
_HEADER_V1: Final = struct.Struct("<4sHHQ")
_FRAME_V1: Final = struct.Struct("<4sIQI")
_FRAMES_AT_V1: Final = _HEADER_V1.size + _CRC.size

_crc = google_crc32c.value
_crc_extend = google_crc32c.extend


class FileHeader(NamedTuple):
    """The header of a journal file."""

    version: int
    generation: int
    log_id: bytes
    size: int
    """Bytes that the file has had since this header was written, or more."""
    number: int
    """The number of the file's first frame. 0: a chain begins here, and nothing of the other file is needed."""
    previous: int
    """Checksum of the frame before its first one."""
    fit: int = 0
    """Up to here the file's room is fit for frames: it has no zeros in a row, on stable storage. 0: who knows."""


class JournalEntry(NamedTuple):
    """Bytes and where they belong."""

    partition: PartitionId
    segment: Offset
    """Base of the segment."""
    position: int
    data: bytes

    def end(self) -> Offset | None:
        """The offset after the last record in its batches; None where they cannot be read."""
        at, end = 0, None
        while at < len(self.data):
            try:
                header = read_header(self.data, at)
            except (BatchRefused, UnknownFormat):
                break
            at, end = at + header.length, Offset(header.base_offset + header.span)
        return end


class Frame(NamedTuple):
    """A whole frame."""

    generation: int
    number: int
    check: int
    entries: list[JournalEntry]
    end: int
    """Where the next frame begins."""


class Walk(NamedTuple):
    """The frames of a file, and what ends them."""

    frames: list[Frame]
    end: int
    """Position behind the last of them."""
    number: int
    """What the next frame's number would be."""
    previous: int
    """Checksum of the last frame."""
    later: int | None
    """Position of a whole frame of this generation behind `end`: then what is at `end` is damaged."""
    torn: int
    """Bytes at `end` that claim to be the next frame and are not whole."""
    claims: list[str]
    """Which offsets the torn frame held, as far as they can be read."""
    zeros: int | None = None
    """Position of zeros that nothing has written, where the next frame is or should be: frames were lost."""


def encode_header(generation: int, log_id: bytes, *, size: int, number: int, previous: int, fit: int) -> bytes:
    """One copy of a file's header."""
    head = _HEADER.pack(_FILE_MAGIC, VERSION, 0, generation, log_id, size, number, previous)
    head += _CRC.pack(_crc(head)) + _FIT.pack(fit)
    return head + _CRC.pack(_crc(head))


def entry_bytes(count: int) -> int:
    """Bytes of `count` entry headers, without the entries' contents."""
    return count * _ENTRY.size


def encode_entries(entries: Sequence[JournalEntry]) -> bytes:
    """The payload of a frame."""
    return b"".join(
        part
        for (topic, number), segment, position, data in entries
        for part in (_ENTRY.pack(table_id_to_bytes(topic), number, segment, position, len(data)), data)
    )


def encode_frame(
    payload: bytes, *, generation: int, number: int, previous: int, entries: int, key: int
) -> tuple[bytes, int]:
    """What precedes the payload, which is under `key`, and the frame's checksum."""
    head = _FRAME.pack(_FRAME_MAGIC, len(payload), generation, number, previous, key, entries)
    check = _crc_extend(_crc(head), payload)
    return head + _CRC.pack(check), check


def read_headers(data: bytes) -> FileHeader | None:
    """The header of a file's first bytes: of two valid copies the newer one; None where none is valid."""
    found = [header for at in HEADERS_AT if (header := _read_header(data, at)) is not None]
    if found:
        return max(found, key=lambda header: (header.generation, header.fit))
    head = data[: _HEADER_V1.size]
    if len(data) < _FRAMES_AT_V1 or _CRC.unpack_from(data, _HEADER_V1.size)[0] != _crc(head):
        return None
    magic, version, _, generation = _HEADER_V1.unpack(head)
    return FileHeader(1, generation, b"", 0, 0, 0) if magic == _FILE_MAGIC and version == 1 else None


def _read_header(data: bytes, at: int) -> FileHeader | None:
    head = data[at : at + _HEADER.size]
    if len(data) < at + _HEADER_BYTES or _CRC.unpack_from(data, at + _HEADER.size)[0] != _crc(head):
        return None
    magic, version, _, generation, log_id, size, number, previous = _HEADER.unpack(head)
    if magic != _FILE_MAGIC or version < 2:
        return None
    if version > VERSION:
        raise UnknownFormat(
            f"the journal has format version {version}, this process reads up to version {VERSION}: "
            "open this log with the Duramen that wrote it, or a newer one"
        )
    fit = 0
    if version > 2:
        end = at + _HEADER_BYTES + _FIT.size
        if len(data) < end + _CRC.size or _CRC.unpack_from(data, end)[0] != _crc(data[at:end]):
            return None
        (fit,) = _FIT.unpack_from(data, at + _HEADER_BYTES)
    return FileHeader(version, generation, log_id, size, number, previous, fit)


def walk(data: bytes, header: FileHeader) -> Walk:
    """The frames of a file of this header's generation, in order, and what is behind them. O(the file)."""
    frames: list[Frame] = []
    at = _FRAMES_AT_V1 if header.version == 1 else FRAMES_AT
    number, previous = header.number, header.previous
    while True:
        frame = _read_frame(data, at, header)
        if frame is None or (header.version > 1 and (frame.number, _previous(data, at)) != (number, previous)):
            break
        frames.append(frame)
        at, number, previous = frame.end, number + 1, frame.check
    later = next(_frames_behind(data, at, header, number), None)
    torn, claims = (0, []) if later is not None else _torn(data, at, header, number, previous)
    # A tear is no longer than its frame, and nothing was ever written behind it.
    zeros = lost_at(data, at, min(at + (torn or FRAME_BYTES) + PROBE_BYTES, header.fit)) if later is None else None
    return Walk(frames, at, number, previous, later, torn, claims, zeros)


def fit_room(data: bytes, header: FileHeader | None) -> int:
    """How much of a file's room is fit for frames: what its header says, up to zeros that came since."""
    if header is None or header.fit <= FRAMES_AT:
        return FRAMES_AT
    end = min(header.fit, len(data))
    zeros = lost_at(data, FRAMES_AT, end)
    return end if zeros is None else zeros


def whole_frames(data: bytes, header: FileHeader) -> dict[int, int]:
    """The checksums of all whole frames of a header's generation, by their numbers, wherever they lie. O(the file)."""
    found, at = {}, data.find(_FRAME_MAGIC)
    while at >= 0:
        frame = _read_frame(data, at, header)
        if frame is not None:
            found[frame.number] = frame.check
        at = data.find(_FRAME_MAGIC, at + 1)
    return found


def has_frame(data: bytes) -> bool:
    """Whether anything in a file without a readable header looks like a frame."""
    return data.find(_FRAME_MAGIC) >= 0


def _previous(data: bytes, at: int) -> int:
    return int(_FRAME.unpack_from(data, at)[4])


def _read_frame(data: bytes, at: int, header: FileHeader) -> Frame | None:
    """The frame at a position, if it is whole and of the header's generation."""
    layout = _layout(header)
    start = at + layout.size + _CRC.size
    if start > len(data):
        return None
    fields = layout.unpack_from(data, at)
    size, generation, count = fields[1], fields[2], fields[-1]
    if fields[0] != _FRAME_MAGIC or generation != header.generation or start + size > len(data):
        return None
    check = _crc_extend(_crc(data[at : at + layout.size]), data[start : start + size])
    if _CRC.unpack_from(data, at + layout.size)[0] != check:
        return None
    number = 0 if header.version == 1 else fields[3]
    entries = _entries(restored(data[start : start + size], _key(fields)), count)
    return Frame(generation, number, check, list(entries), start + size)


def _layout(header: FileHeader) -> struct.Struct:
    return {1: _FRAME_V1, 2: _FRAME_V2}.get(header.version, _FRAME)


def _key(fields: Sequence[int]) -> int:
    """The key of a frame, from the fields of its head."""
    return fields[5] & 0xFFFF if len(fields) > 6 else 0


def _frames_behind(data: bytes, start: int, header: FileHeader, number: int) -> Iterator[int]:
    """Positions of whole frames that were written after frame `number` was synced, or of that frame itself."""
    at = data.find(_FRAME_MAGIC, start)
    while at >= 0:
        frame = _read_frame(data, at, header)
        if frame is not None and (header.version == 1 or frame.number >= number):
            yield at
        at = data.find(_FRAME_MAGIC, at + 1)


def _torn(data: bytes, at: int, header: FileHeader, number: int, previous: int) -> tuple[int, list[str]]:
    """How many bytes at `at` claim to be frame `number` and are not whole, and which offsets they held."""
    layout = _layout(header)
    start = at + layout.size + _CRC.size
    if start > len(data):
        return 0, []
    fields = layout.unpack_from(data, at)
    # Any of these may be what is broken: two that are right are no accident.
    right = [fields[0] == _FRAME_MAGIC, fields[2] == header.generation]
    if header.version > 1:
        right += [fields[3] == number, number > 0 and fields[4] == previous]
    if sum(right) < 2:
        return 0, []
    end = min(start + fields[1], len(data))
    claims: list[str] = []
    for entry in _entries(restored(data[start:end], _key(fields)), min(fields[-1], len(data))):
        last = entry.end()
        if last is None:
            break
        first = read_header(entry.data).base_offset
        offsets = f"offset {first}" if last == first + 1 else f"offsets {first} to {last - 1}"
        claims.append(f"{entry.partition} {offsets}")
    return end - at, claims


def _entries(payload: bytes, count: int) -> Iterator[JournalEntry]:
    at = 0
    for _ in range(count):
        if at + _ENTRY.size > len(payload):
            return
        topic, partition, segment, position, size = _ENTRY.unpack_from(payload, at)
        at += _ENTRY.size
        if at + size > len(payload):
            return
        yield JournalEntry(
            partition_id_from_bytes(topic, partition), Offset(segment), position, payload[at : at + size]
        )
        at += size
