"""The 64 bytes at the head of every batch: what they say, how the log stamps them, how their checksums are kept.

The layout is drawn in `log_tier.model.batch`, which holds the other half: the columns behind the header.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from operator import itemgetter
from typing import Any, Final, NamedTuple, NewType

import google_crc32c
import zstandard

from log_tier.model.errors import BatchRefused, UnknownFormat
from log_tier.model.identifiers import Offset, PartitionId, table_id_to_bytes

__all__ = [
    "ATTRIBUTES",
    "BATCH_BYTES_MAX",
    "COMPRESSION_MASK",
    "DELTAS",
    "EXPIRIES",
    "EXTENT",
    "FORMAT_VERSION",
    "HEADER_BYTES",
    "MAGIC",
    "NOWHERE",
    "REST_OF_A_SET",
    "RUN_OF_A_FETCH",
    "VERSIONS",
    "ZSTD",
    "BatchHeader",
    "Place",
    "check_body",
    "check_read_at",
    "check_stored",
    "check_stored_at",
    "decoded_bytes",
    "flags_of",
    "offsets_in",
    "pack_batch",
    "place_of",
    "read_header",
    "span_of",
    "split_batches",
    "stamp_batch",
]

MAGIC: Final = b"DuLb"
FORMAT_VERSION: Final = 2
"""What is written. In version 1 the stamp checksum did not cover table and partition."""

_UNPLACED_VERSION: Final = 1
HEADER_BYTES: Final = 64

flags_of: Final = itemgetter(5)
"""The flags of a batch, which has a header."""

_FRAME_HEADER_BYTES: Final = 18
"""Of a compressed body at most; it says how long the body is after decompression."""

# A batch is held whole in memory by everyone who touches it, several times over while it is copied: 16 MiB keeps that
# below 100 MiB for a process that handles a few at once, and holds three of the largest values.
BATCH_BYTES_MAX: Final = 16 * 1024 * 1024

# The flags: how the columns are compressed, and which of the optional ones are there.
COMPRESSION_MASK: Final = 0b11
ZSTD: Final = 1
ATTRIBUTES: Final = 1 << 2
VERSIONS: Final = 1 << 3
EXPIRIES: Final = 1 << 4
DELTAS: Final = 1 << 5

_HEADER: Final = struct.Struct("<4sBBHII QQII QQII")
_MIDDLE: Final = struct.Struct("<BBHI")
_STAMP: Final = struct.Struct("<QQI")
_TAIL: Final = struct.Struct("<QQII")
_U32: Final = struct.Struct("<I")
EXTENT: Final = struct.Struct("<4sB3xI")
"""Magic, version, length: these lie at the same places in every format version."""
assert _HEADER.size == HEADER_BYTES, f"a header has {_HEADER.size} bytes, not {HEADER_BYTES}"

RUN_OF_A_FETCH: Final = 0xFFFF_FFFF
"""In place of `unsynced`, in Kafka's batches: records, or offsets without one, that no producer of ours put together.
Where the batch begins and ends depends on the fetch that read them."""

REST_OF_A_SET: Final = 0xFFFF_FFFE
"""In place of `unsynced`, in Kafka's batches: the records of a set from some record on, whose beginning this reader has
not read, or nobody has."""

_crc = google_crc32c.value
_crc_extend = google_crc32c.extend

Place = NewType("Place", int)
"""The partition of a stored batch, as the checksum of table id and partition. A stamp's checksum goes on from it, so
checking the partition of every batch costs nothing."""

NOWHERE: Final = Place(0)
"""The place of a batch that belongs to no table and never comes into a log."""


# A node has some thousands of partitions.
@lru_cache(maxsize=65_536)
def place_of(partition: PartitionId) -> Place:
    """The place of a partition's batches. Two partitions of one table never have the same."""
    return Place(_crc(table_id_to_bytes(partition.table) + _U32.pack(partition.partition)))


class BatchHeader(NamedTuple):
    """The first 64 bytes, as numbers."""

    magic: bytes
    version: int
    flags: int
    reserved: int
    length: int
    """Bytes of the whole batch, header included."""
    checksum: int
    base_offset: Offset
    timestamp_ms: int
    """When the log appended it, in ms since 1970, never falling within a partition."""
    unsynced: int
    """Offsets before it that were not known to be on stable storage; or `RUN_OF_A_FETCH`, `REST_OF_A_SET`."""
    stamp_checksum: int
    producer_id: int
    sequence: int
    records: int
    span: int

    @property
    def last_offset(self) -> Offset:
        """The offset of the last record that this batch occupies."""
        return Offset(self.base_offset + self.span - 1)

    @property
    def is_plain(self) -> bool:
        """Does the batch hold only plain puts, at consecutive offsets?"""
        return not self.flags & (ATTRIBUTES | DELTAS)


# A named tuple's own constructors are Python functions; this one is not, and a header is parsed for every batch.
_new_header: Final[Callable[[tuple[Any, ...]], BatchHeader]] = partial(tuple.__new__, BatchHeader)


def pack_batch(body: bytes, *, flags: int, producer_id: int, sequence: int, records: int, span: int) -> bytes:
    """Put an unstamped header before the columns."""
    tail = _TAIL.pack(producer_id, sequence, records, span)
    middle = _MIDDLE.pack(FORMAT_VERSION, flags, 0, HEADER_BYTES + len(body))
    checksum = _crc_extend(_crc_extend(_crc(middle), tail), body)
    return b"".join((MAGIC, middle, _U32.pack(checksum), bytes(24), tail, body))


def stamp_batch(
    batch: bytes, *, base_offset: Offset, timestamp_ms: int, unsynced: int, place: Place = NOWHERE
) -> bytes:
    """Give a batch its place: what the log writes. The producer's part of the bytes is not touched.

    A checked batch of version 1 becomes one of version 2 (its body checksum covers the version and is made anew).
    """
    if batch[4] == _UNPLACED_VERSION:
        batch = _renewed(batch)
    head = batch[:16] + _STAMP.pack(base_offset, timestamp_ms, unsynced)
    return b"".join((head, _U32.pack(_crc_extend(place, head)), batch[40:]))


def _renewed(batch: bytes) -> bytes:
    middle = bytes((FORMAT_VERSION,)) + batch[5:12]
    return b"".join((MAGIC, middle, _U32.pack(_crc_extend(_crc(middle), batch[40:])), batch[16:]))


def read_header(data: bytes, at: int = 0) -> BatchHeader:
    """Parse 64 bytes at `at`, checking only what determines where the batch ends: magic, version, length.

    Raises `BatchRefused`, or `UnknownFormat` for a version that this process cannot read.
    """
    if len(data) - at < HEADER_BYTES:
        raise _no_header(len(data) - at)
    header = _new_header(_HEADER.unpack_from(data, at))
    _check_extent(header.magic, header.version, header.length)
    return header


def _no_header(size: int) -> BatchRefused:
    return BatchRefused(f"a batch has at least {HEADER_BYTES} bytes, here are {size}")


def _check_extent(magic: bytes, version: int, length: int) -> None:
    """Check what determines where a batch ends. Raises as `read_header` does."""
    if magic != MAGIC:
        raise BatchRefused(f"no batch begins here: the first bytes are {magic!r}, not {MAGIC!r}")
    if not _UNPLACED_VERSION <= version <= FORMAT_VERSION:
        raise UnknownFormat(
            f"the batch has format version {version}, this process reads up to version {FORMAT_VERSION}: "
            "upgrade Duramen here"
        )
    if not HEADER_BYTES <= length <= BATCH_BYTES_MAX:
        raise BatchRefused(f"the batch claims {length} bytes; {HEADER_BYTES} to {BATCH_BYTES_MAX} are possible")


def span_of(batch: bytes) -> int:
    """How many offsets a batch occupies, of one that was checked. 0.1 µs."""
    span: int = _U32.unpack_from(batch, HEADER_BYTES - 4)[0]
    return span


def check_body(batch: bytes, header: BatchHeader) -> None:
    """Check the producer's checksum. Raises `BatchRefused` with both values."""
    found = _crc_extend(_crc(batch[4:12]), batch[40:])
    if found != header.checksum:
        raise BatchRefused(f"the batch says its checksum is {header.checksum:08x}, its bytes give {found:08x}")


def check_stored_at(data: bytes, at: int, place: Place | None = None) -> BatchHeader:
    """Check both checksums of the stored batch that begins at `at`, copying it once. Raises as `check_batch` does.

    Without `place`, for a caller that does not know the partition, the stamp of a batch of version 2 is not checked.
    """
    header = read_header(data, at)
    check_read_at(data, at, header, place)
    return header


def check_read_at(data: bytes, at: int, header: BatchHeader, place: Place | None = None) -> None:
    """The rest of `check_stored_at` for who has read the header: a header is parsed in 0.6 µs."""
    end = at + header.length
    if end > len(data):
        raise BatchRefused(f"the batch says it has {header.length} bytes, here are {len(data) - at}")
    if header.version == _UNPLACED_VERSION:
        place = NOWHERE
    if place is not None:
        found = _crc_extend(place, data[at : at + 36])
        if found != header.stamp_checksum:
            raise BatchRefused(
                f"the stamp's checksum is {header.stamp_checksum:08x}, its bytes give {found:08x} in this table and "
                "partition: it is damaged, or it is another partition's"
            )
    found = _crc_extend(_crc(data[at + 4 : at + 12]), data[at + 40 : end])
    if found != header.checksum:
        raise BatchRefused(f"the batch says its checksum is {header.checksum:08x}, its bytes give {found:08x}")


def check_stored(batch: bytes, place: Place | None = None) -> BatchHeader:
    """Check both checksums of a batch that was stored or shipped. About 1 µs. Raises as `check_batch` does."""
    header = check_stored_at(batch, 0, place)
    if len(batch) != header.length:
        raise BatchRefused(f"the batch says it has {header.length} bytes, here are {len(batch)}")
    return header


def split_batches(data: bytes) -> Iterator[bytes]:
    """Cut a run of whole batches, as a log stores and ships them, into batches. Raises `BatchRefused`."""
    at, size = 0, len(data)
    while at < size:
        if size - at < HEADER_BYTES:
            raise _no_header(size - at)
        magic, version, length = EXTENT.unpack_from(data, at)
        _check_extent(magic, version, length)
        if at + length > size:
            raise BatchRefused(f"a batch of {length} bytes is cut short: {size - at} are here")
        yield data if length == size else data[at : at + length]
        at += length


def offsets_in(data: bytes) -> tuple[Offset, Offset]:
    """The first and the last offset in a run of whole batches, from their headers. Raises `BatchRefused`."""
    header = first = read_header(data)
    at = header.length
    while at < len(data):
        header = read_header(data, at)
        at += header.length
    return first.base_offset, header.last_offset


def decoded_bytes(batch: bytes) -> int:
    """How many bytes a batch has, after decompression, as far as its header says. Some 0.3 µs."""
    if len(batch) <= HEADER_BYTES or not flags_of(batch) & COMPRESSION_MASK:
        return len(batch)
    try:
        size: int = zstandard.frame_content_size(batch[HEADER_BYTES : HEADER_BYTES + _FRAME_HEADER_BYTES])
    except zstandard.ZstdError:
        return len(batch)
    return max(len(batch), size)
