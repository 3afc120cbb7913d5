"""The batch: the unit that is encoded, sent, appended, synced, shipped and applied, with the same bytes everywhere.

`docs/FORMATS.md` has the layout with a worked example in hex; this file and `log_tier.model.batch_header` (the
first 64 bytes) are the only ones that build or parse it.

    0   4  magic "DuLb"                           16  8  base offset          ┐
    4   1  format version (2)                     24  8  timestamp, ms        │ stamped by the log
    5   1  flags                                  32  4  unsynced             │ when it appends
    6   2  zero                                   36  4  stamp checksum       ┘
    8   4  length of the whole batch              40  8  producer id (0: none)
    12  4  body checksum                          48  8  sequence of the first record
                                                  56  4  records present
                                                  60  4  span: offsets occupied
    64     columns: key lengths u16, value lengths u32, then those that the flags name: attributes u16, versions i64,
           expiries i64, deltas u32, then all keys, then all values; as a whole, zstd-compressed if the flags say so

All numbers are little-endian. The body checksum (CRC-32C) covers bytes 4-12 and everything from 40 on: it is the
producer's, and nobody between the producer and the reader recomputes it. The stamp checksum covers bytes 0-36: it is
the log's, made when the log gave the batch its place, so a flipped bit in an offset is noticed too. It goes on from the
checksum of table id and partition (`Place`), so a batch that lies in another partition is noticed as well.

`unsynced` says how many offsets before this batch were not yet known to be on stable storage when it was written. It
lets recovery distinguish a tear from damage: `base offset - unsynced` was acknowledged before these bytes were written,
so a hole below it is damage, and one above it is what a crash may leave (see `log_tier.embedded.recovery.segment_end`).

**Columns, not records**, because a Python process pays per object and not per byte: a thousand records are encoded or
decoded by about ten calls into C, 60 ns a record.

`records` and `span` differ only after compaction: the records that are left keep their offsets through `deltas`, and a
batch with no record left stays as an empty shell where it is its producer's newest, so that deduplication goes on.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Final

import zstandard

from log_tier.model.batch_header import (
    ATTRIBUTES,
    BATCH_BYTES_MAX,
    COMPRESSION_MASK,
    DELTAS,
    EXPIRIES,
    HEADER_BYTES,
    VERSIONS,
    ZSTD,
    BatchHeader,
    Place,
    check_body,
    check_stored,
    pack_batch,
    read_header,
)
from log_tier.model.errors import BatchRefused, LimitExceeded
from log_tier.model.record import (
    CONDITION_SHIFT,
    EXPIRY_SHIFT,
    GROUPED,
    KEY_BYTES_MAX,
    OPERATION_MASK,
    VALUE_BYTES_MAX,
    Condition,
    Expiry,
    Operation,
    key_refusal,
    unknown_attribute,
    value_refusal,
)

__all__ = [
    "BATCH_RECORDS_MAX",
    "Batch",
    "Columns",
    "SealedBatch",
    "check_batch",
    "checked_span",
    "decode_batch",
    "encode_batch",
    "seal_batch",
]

# Bounds the time that one apply, and so one LMDB write transaction, can take: 65,536 records are some 200 ms.
BATCH_RECORDS_MAX: Final = 65_536

_KNOWN_FLAGS: Final = ZSTD | ATTRIBUTES | VERSIONS | EXPIRIES | DELTAS

_KEYLESS: Final = frozenset({int(Operation.NOOP), int(Operation.VOID), int(Operation.BARRIER)})

# Level 1: the log must keep up with the disk; higher levels gain a few percent on records of this size.
# A compressor belongs to one call: the library's objects are not safe to share between threads.
_ZSTD_LEVEL: Final = 1


@dataclass(slots=True)
class Columns:
    """The records of a batch, column by column; all columns present have one entry per record."""

    keys: Sequence[bytes]
    values: Sequence[bytes]
    attributes: Sequence[int] | None = None
    """Operation, condition, expiry and group of each record in 16 bits; None: all are plain puts."""
    versions: Sequence[int] | None = None
    """The versions that VERSION conditions require; other records' entries mean nothing."""
    expiries: Sequence[int] | None = None
    """Milliseconds, after the record's timestamp (TTL) or since 1970 (AT)."""
    deltas: Sequence[int] | None = None
    """Offset minus base offset, rising; None: 0, 1, 2, …"""


@dataclass(slots=True)
class Batch:
    """A decoded batch."""

    header: BatchHeader
    columns: Columns

    def offsets(self) -> Sequence[int]:
        """The offset of each record."""
        base, deltas = self.header.base_offset, self.columns.deltas
        if deltas is None:
            return range(base, base + self.header.records)
        return [base + delta for delta in deltas]


def encode_batch(
    columns: Columns,
    *,
    producer_id: int = 0,
    sequence: int = 0,
    span: int | None = None,
    compress: bool = False,
) -> bytes:
    """Encode records as an unstamped batch. Compression is kept only where it makes the batch smaller.

    Raises `InvalidKey` or `InvalidValue` naming the record, `LimitExceeded` for too many records or bytes.
    Costs about 60 ns a record plus the copying.
    """
    keys, values = columns.keys, columns.values
    count = len(keys)
    if count > BATCH_RECORDS_MAX:
        raise LimitExceeded(
            f"a batch holds at most {BATCH_RECORDS_MAX} records, this one has {count}: split it",
            limit=BATCH_RECORDS_MAX,
            size=count,
        )
    assert len(values) == count, f"{count} keys, {len(values)} values"
    key_lengths = list(map(len, keys))
    value_lengths = list(map(len, values))
    if count and (max(key_lengths) > KEY_BYTES_MAX or max(value_lengths) > VALUE_BYTES_MAX or min(key_lengths) == 0):
        _refuse_lengths(columns, key_lengths, value_lengths)
    flags = 0
    parts = [struct.pack(f"<{count}H", *key_lengths), struct.pack(f"<{count}I", *value_lengths)]
    for flag, code, column in (
        (ATTRIBUTES, "H", columns.attributes),
        (VERSIONS, "q", columns.versions),
        (EXPIRIES, "q", columns.expiries),
        (DELTAS, "I", columns.deltas),
    ):
        if column is not None:
            flags |= flag
            parts.append(struct.pack(f"<{count}{code}", *column))
    parts += keys
    parts += values
    body = b"".join(parts)
    if compress:
        squeezed = zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress(body)
        if len(squeezed) < len(body):
            body, flags = squeezed, flags | ZSTD
    length = HEADER_BYTES + len(body)
    if length > BATCH_BYTES_MAX:
        raise LimitExceeded(
            f"a batch holds at most {BATCH_BYTES_MAX} bytes, this one would have {length}: split it",
            limit=BATCH_BYTES_MAX,
            size=length,
        )
    return pack_batch(
        body,
        flags=flags,
        producer_id=producer_id,
        sequence=sequence,
        records=count,
        span=count if span is None else span,
    )


class SealedBatch(bytes):
    """A batch that this process has made of columns that it checked: a log here takes it without checking its bytes.

    `seal_batch` alone makes one. What is cut from it, joined with it, or sent over a wire is plain bytes again.
    """

    __slots__ = ()


def seal_batch(columns: Columns, *, producer_id: int = 0, sequence: int = 0, compress: bool = False) -> SealedBatch:
    """`encode_batch` for a batch that goes to a log, with what `check_batch` would refuse refused here."""
    if not columns.keys:
        raise BatchRefused("a batch for a log has at least one record")
    if columns.attributes is not None:
        _check_attributes(columns)
    return SealedBatch(encode_batch(columns, producer_id=producer_id, sequence=sequence, compress=compress))


def _refuse_lengths(columns: Columns, key_lengths: list[int], value_lengths: list[int]) -> None:
    attributes = columns.attributes
    for index, length in enumerate(key_lengths):
        is_noop = attributes is not None and attributes[index] & OPERATION_MASK in _KEYLESS
        if length == 0 and not is_noop:
            raise key_refusal(b"", f"the key of record {index}", record=index)
        if length > KEY_BYTES_MAX:
            raise key_refusal(columns.keys[index], f"the key of record {index}", record=index)
    for index, length in enumerate(value_lengths):
        if length > VALUE_BYTES_MAX:
            named = f"the value of record {index} (key {columns.keys[index][:24]!r})"
            raise value_refusal(columns.values[index], named, record=index)


def check_batch(batch: bytes) -> BatchHeader:
    """Check everything that a log needs to know before it takes a batch from outside, without building the records.

    Raises `BatchRefused` or `UnknownFormat`. About 3 µs, and 40 ns a record where lengths differ; 1 µs for a
    `SealedBatch`, which was checked when it was made.
    """
    header = read_header(batch)
    if isinstance(batch, SealedBatch):
        return header
    if len(batch) != header.length:
        raise BatchRefused(f"the batch says it has {header.length} bytes, here are {len(batch)}")
    check_body(batch, header)
    if header.flags & ~_KNOWN_FLAGS or header.reserved:
        raise BatchRefused(f"the batch has unknown flags {header.flags:08b}")
    if not 0 < header.span <= BATCH_RECORDS_MAX or header.records > header.span:
        raise BatchRefused(f"the batch claims {header.records} records in {header.span} offsets")
    body = _body(batch, header)
    if _is_even(body, header):
        return header
    lengths, at = _lengths(body, header)
    # Any version and any expiry is one, so the columns of those are passed over.
    attributes, versions, expiries, deltas, at = _optional_columns(body, header, at, numbers=False)
    keys, values = lengths
    if at + sum(keys) + sum(values) != len(body):
        raise BatchRefused(f"the columns need {at + sum(keys) + sum(values)} bytes, the body has {len(body)}")
    if header.records:
        # Few lengths differ: to compare those is cheaper.
        key_lengths, longest = set(keys), max(set(values))
        if max(key_lengths) > KEY_BYTES_MAX or longest > VALUE_BYTES_MAX:
            raise BatchRefused(f"a key of {max(key_lengths)} or a value of {longest} bytes is over the limit")
        if 0 in key_lengths and any(
            length == 0 and (attributes is None or attributes[index] & OPERATION_MASK not in _KEYLESS)
            for index, length in enumerate(keys)
        ):
            raise BatchRefused("a record that is no no-op has an empty key")
    if attributes is not None:
        _check_attributes(Columns((), (), attributes, versions, expiries))
    if deltas is not None and (any(a >= b for a, b in pairwise(deltas)) or (deltas and deltas[-1] >= header.span)):
        raise BatchRefused("the offset deltas do not rise, or pass the span")
    return header


def checked_span(batch: bytes) -> int:
    """How many offsets a batch occupies, after `check_batch`; raises as that does. 0.2 µs for a `SealedBatch`."""
    if type(batch) is SealedBatch:
        return int.from_bytes(batch[HEADER_BYTES - 4 : HEADER_BYTES], "little")
    return check_batch(batch).span


def _check_attributes(columns: Columns) -> None:
    """Refuse attributes that no writer may use, or whose columns are missing. O(records), some 10 ns each."""
    attributes = columns.attributes
    assert attributes is not None, "plain puts have no attributes"
    if attributes and attributes[0] & GROUPED:
        raise BatchRefused("the first record claims to continue an atomic group")
    _check_kinds(frozenset(attributes), columns.versions is not None, columns.expiries is not None)


# Writers use the same few sets of attributes all the time; one that is refused is not remembered.
@lru_cache(maxsize=1024)
def _check_kinds(kinds: frozenset[int], has_versions: bool, has_expiries: bool) -> None:
    unknown = unknown_attribute(kinds)
    if unknown is not None:
        raise BatchRefused(f"a record has the attribute {unknown:#06x}, which this version does not know")
    if any(kind & OPERATION_MASK == Operation.VOID for kind in kinds):
        raise BatchRefused("a record claims to be void: that is for the log to find, and not to be written")
    if not has_expiries and any(kind >> EXPIRY_SHIFT & 3 in (Expiry.TTL, Expiry.AT) for kind in kinds):
        raise BatchRefused("a record names an expiry, and the column of expiries is missing")
    if not has_versions and any(kind >> CONDITION_SHIFT & 3 == Condition.VERSION for kind in kinds):
        raise BatchRefused("a record names a version, and the column of versions is missing")


def _is_even(body: bytes, header: BatchHeader) -> bool:
    """Nothing but plain puts with keys of one length and values of one length, all within the limits.

    The usual batch of a program that knows its data; two comparisons in C instead of 40 µs for 1000 lengths.
    """
    count = header.records
    if header.flags & ~COMPRESSION_MASK or not count or len(body) < count * 6:
        return False
    key_length, value_length = body[:2], body[count * 2 : count * 2 + 4]
    if not (body.startswith(key_length * count) and body.startswith(value_length * count, count * 2)):
        return False
    key_bytes, value_bytes = int.from_bytes(key_length, "little"), int.from_bytes(value_length, "little")
    return (
        0 < key_bytes <= KEY_BYTES_MAX
        and value_bytes <= VALUE_BYTES_MAX
        and count * (6 + key_bytes + value_bytes) == len(body)
    )


def _body(batch: bytes, header: BatchHeader) -> bytes:
    compression = header.flags & COMPRESSION_MASK
    if compression == 0:
        return batch[HEADER_BYTES:]
    if compression != ZSTD:
        raise BatchRefused(f"the batch is compressed by method {compression}, which this version does not know")
    try:
        size = zstandard.frame_content_size(batch[HEADER_BYTES:])
        if not 0 <= size <= BATCH_BYTES_MAX:
            raise BatchRefused(f"the compressed body claims {size} bytes; {BATCH_BYTES_MAX} are possible")
        return zstandard.ZstdDecompressor().decompress(batch[HEADER_BYTES:])
    except zstandard.ZstdError as error:
        raise BatchRefused(f"the body cannot be decompressed: {error}") from error


def _lengths(body: bytes, header: BatchHeader) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], int]:
    count = header.records
    if len(body) < count * 6:
        raise BatchRefused(f"{count} records need {count * 6} bytes of lengths, the body has {len(body)}")
    return (struct.unpack_from(f"<{count}H", body, 0), struct.unpack_from(f"<{count}I", body, count * 2)), count * 6


def _optional_columns(
    body: bytes, header: BatchHeader, at: int, *, numbers: bool = True
) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None, tuple[int, ...] | None, tuple[int, ...] | None, int]:
    flags, count = header.flags, header.records
    found: list[tuple[int, ...] | None] = []
    for flag, code, width in ((ATTRIBUTES, "H", 2), (VERSIONS, "q", 8), (EXPIRIES, "q", 8), (DELTAS, "I", 4)):
        if not flags & flag:
            found.append(None)
            continue
        if len(body) < at + count * width:
            raise BatchRefused(f"the body ends inside a column: {len(body)} bytes")
        # Without `numbers`, a column of eight bytes a record is not read, only known to be there.
        found.append(struct.unpack_from(f"<{count}{code}", body, at) if numbers or width < 8 else ())
        at += count * width
    return found[0], found[1], found[2], found[3], at


def decode_batch(batch: bytes, place: Place | None = None) -> Batch:
    """Decode a stored batch after checking both checksums. About 60 ns a record. Raises as `check_batch` does.

    `place`: of the partition to which the batch should belong; without it the stamp cannot be checked.
    """
    header = check_stored(batch, place)
    body = _body(batch, header)
    (key_lengths, value_lengths), at = _lengths(body, header)
    attributes = versions = expiries = deltas = None
    if header.flags > ZSTD:
        attributes, versions, expiries, deltas, at = _optional_columns(body, header, at)
    values_at = at + sum(key_lengths)
    if values_at + sum(value_lengths) != len(body):
        raise BatchRefused(f"the columns need {values_at + sum(value_lengths)} bytes, the body has {len(body)}")
    return Batch(
        header,
        Columns(
            _slices(body, key_lengths, at),
            _slices(body, value_lengths, values_at),
            attributes,
            versions,
            expiries,
            deltas,
        ),
    )


def _slices(body: bytes, lengths: tuple[int, ...], at: int) -> Sequence[bytes]:
    """Cut `body` from `at` into pieces. Equal lengths (the usual case for keys) are one call into C."""
    if not lengths:
        return ()
    first = lengths[0]
    if len(lengths) == 1:
        return (body[at : at + first],)
    if lengths.count(first) == len(lengths):
        return struct.unpack_from(f"{first}s" * len(lengths), body, at) if first else (b"",) * len(lengths)
    ends = list(accumulate(lengths, initial=at))
    return list(map(body.__getitem__, map(slice, ends, ends[1:])))
