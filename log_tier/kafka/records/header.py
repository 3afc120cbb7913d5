"""The header that a record of ours carries in Kafka: what key and value do not say.

Its name is `duramen`, its value, little-endian:

    0   1  format version: 1; 2 of a patch, which a process that does not know patches must not pass over
    1   1  flags: 1 the whole set is plain puts; 2 a version follows; 4 an expiry follows; 8 the record after this one
           belongs to the same atomic group
    2   2  attribute: operation, condition, expiry kind, group (see `log_tier.model.record`)
    4   4  before: how many records of its set lie before it
    8   4  after: how many records of its set lie after it
    12  8  producer id (0: none)
    20  8  sequence of this record
    28  8  the version that a condition asks for, with flag 2
    ..  8  the expiry in ms, with flag 4

A **set** is what was appended together: consecutive offsets of one partition, sequences rising by one. A record without
the header is a foreign producer's: a plain put, or a delete if it has no value. `docs/FORMATS.md` has an example.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import repeat
from typing import Final, NamedTuple

from log_tier.model.errors import UnknownFormat
from log_tier.model.record import OPERATION_MASK, PLAIN_PUT, Operation

__all__ = [
    "HAS_EXPIRY",
    "HAS_VERSION",
    "HEADER_BYTES",
    "HEADER_NAME",
    "OPEN_GROUP",
    "PLAIN_SET",
    "RecordHeader",
    "pack_header",
    "pack_plain_headers",
    "read_header",
]

HEADER_NAME: Final = "duramen"

_VERSION: Final = 1
_PATCH_VERSION: Final = 2
"""Of records with an operation that version 1 does not have. What version 1 says of it is void, as it always was."""

_PATCH: Final = int(Operation.PATCH)

PLAIN_SET: Final = 1
HAS_VERSION: Final = 2
HAS_EXPIRY: Final = 4
OPEN_GROUP: Final = 8
_KNOWN_FLAGS: Final = PLAIN_SET | HAS_VERSION | HAS_EXPIRY | OPEN_GROUP

_FIXED: Final = struct.Struct("<BBHIIQQ")
_MORE: Final = struct.Struct("<q")
HEADER_BYTES: Final = _FIXED.size
"""Without the optional parts."""


class RecordHeader(NamedTuple):
    """A record's header, read."""

    flags: int
    attribute: int
    before: int
    after: int
    producer_id: int
    sequence: int
    version: int = 0
    expiry: int = 0
    is_known: bool = True
    """False: its operation is none of its format version, so the record is void."""


def pack_header(
    attribute: int,
    before: int,
    after: int,
    producer_id: int,
    sequence: int,
    *,
    plain_set: bool = False,
    open_group: bool = False,
    version: int | None = None,
    expiry: int | None = None,
) -> bytes:
    """The bytes of a header. `version` and `expiry`: None where the attribute needs none."""
    flags = (PLAIN_SET if plain_set else 0) | (OPEN_GROUP if open_group else 0)
    more = b""
    if version is not None:
        flags, more = flags | HAS_VERSION, _MORE.pack(version)
    if expiry is not None:
        flags, more = flags | HAS_EXPIRY, more + _MORE.pack(expiry)
    format_version = _PATCH_VERSION if attribute & OPERATION_MASK == _PATCH else _VERSION
    return _FIXED.pack(format_version, flags, attribute, before, after, producer_id, sequence) + more


def pack_plain_headers(count: int, producer_id: int, sequence: int) -> Iterator[bytes]:
    """The headers of a set of `count` plain puts whose first record has `sequence`. Half the cost of one by one."""
    return map(
        _FIXED.pack,
        repeat(_VERSION),
        repeat(PLAIN_SET),
        repeat(PLAIN_PUT),
        range(count),
        range(count - 1, -1, -1),
        repeat(producer_id),
        range(sequence, sequence + count),
    )


def read_header(data: bytes) -> RecordHeader | None:
    """Read a header; None for bytes that are none (another program uses the name: the record is void).

    Raises `UnknownFormat` for one of a later version: a replica that skipped it would part from those that do not.
    """
    if len(data) < HEADER_BYTES:
        return None
    format_version, flags, attribute, before, after, producer_id, sequence = _FIXED.unpack_from(data)
    if _PATCH_VERSION < format_version < 16 and len(data) < 256:
        raise UnknownFormat(
            f"a record's `duramen` header has version {format_version}, this process reads up to {_PATCH_VERSION}: "
            "upgrade it here"
        )
    wanted = HEADER_BYTES + (8 if flags & HAS_VERSION else 0) + (8 if flags & HAS_EXPIRY else 0)
    if format_version not in (_VERSION, _PATCH_VERSION) or flags & ~_KNOWN_FLAGS or len(data) != wanted:
        return None
    version = expiry = 0
    if flags & HAS_VERSION:
        (version,) = _MORE.unpack_from(data, HEADER_BYTES)
    if flags & HAS_EXPIRY:
        (expiry,) = _MORE.unpack_from(data, wanted - 8)
    is_known = (attribute & OPERATION_MASK == _PATCH) == (format_version == _PATCH_VERSION)
    return RecordHeader(flags, attribute, before, after, producer_id, sequence, version, expiry, is_known)
