"""The entry: what an index holds for one key, and its stored form.

    0  7  version: the offset of the last write, little-endian
    7  1  flags: bit 0 an expiry follows; the others are zero
    8  8  only with bit 0: when the entry expires, ms since 1970, little-endian
    …     the value

Eight bytes before a value that never expires, and the flags are where one index into the bytes finds them. Both indexes
hold this form, and the fold works on it: a plain put is then one concatenation in C, with no object per record.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import repeat
from operator import add
from typing import Final, NamedTuple

from log_tier.model.errors import IndexDamaged
from log_tier.model.identifiers import NOTHING, Offset

__all__ = [
    "EXPIRES",
    "NEVER",
    "LiveEntry",
    "columns_of_entries",
    "columns_of_live",
    "entry_of",
    "expiry_of",
    "is_live",
    "plain_entries",
    "stored_entry",
    "stored_expiring_puts",
    "stored_puts",
    "unexpiring_versions",
    "value_begin",
    "value_of",
    "version_of",
]

EXPIRES: Final = 1
NEVER: Final = 0
"""The expiry of an entry that has none."""

_HEADER: Final = struct.Struct("<Q")
_EXPIRING: Final = struct.Struct("<Qq")
_FLAGS_SHIFT: Final = 56
_VERSION_MASK: Final = (1 << _FLAGS_SHIFT) - 1


class LiveEntry(NamedTuple):
    """A live key's value."""

    value: bytes
    version: Offset
    """The offset of the last write: what a VERSION condition compares."""
    expires_at_ms: int
    """The log time, in ms since 1970, from which the key counts as absent; 0 for never."""


# A named tuple's own constructor is a Python function; this one is not, and every read makes an entry.
_new_entry: Final[Callable[[tuple[bytes, int, int]], LiveEntry]] = partial(tuple.__new__, LiveEntry)


def stored_entry(value: bytes, version: int, expires_at_ms: int) -> bytes:
    """The stored form of one entry."""
    if expires_at_ms == NEVER:
        return _HEADER.pack(version) + value
    return _EXPIRING.pack(version | EXPIRES << _FLAGS_SHIFT, expires_at_ms) + value


def stored_puts(first: int, values: Sequence[bytes]) -> Iterator[bytes]:
    """The stored forms of plain puts at the offsets `first`, `first` + 1, … About 60 ns each, all of it in C."""
    count = len(values)
    if count == 1:
        return iter((_HEADER.pack(first) + values[0],))
    headers = struct.unpack("8s" * count, struct.pack(f"<{count}Q", *range(first, first + count)))
    return map(add, headers, values)


def stored_expiring_puts(first: int, values: Sequence[bytes], expiries: Sequence[int]) -> Iterator[bytes]:
    """The stored forms of puts that expire, at the offsets `first`, `first` + 1, … About 120 ns each."""
    versions = range(first | EXPIRES << _FLAGS_SHIFT, (first | EXPIRES << _FLAGS_SHIFT) + len(values))
    return map(add, map(_EXPIRING.pack, versions, expiries), values)


def unexpiring_versions(stored: Sequence[bytes | None]) -> list[int] | None:
    """The versions of entries; None where an entry is absent, or expires. About 120 ns each."""
    try:
        headers = struct.unpack(f"<{len(stored)}Q", b"".join([each[:8] for each in stored]))  # type: ignore[index]
    except TypeError:
        return None  # one of them is None
    return list(headers) if not headers or max(headers) <= _VERSION_MASK else None


def entry_of(stored: bytes) -> LiveEntry:
    """Read a stored form. Raises `IndexDamaged` for flags that nothing here writes."""
    flags = stored[7]
    if flags == 0:
        return _new_entry((stored[8:], _HEADER.unpack_from(stored)[0], NEVER))
    if flags != EXPIRES:
        raise IndexDamaged(f"an entry has the flags {flags:08b}, of which this version knows {EXPIRES:08b}")
    packed, expires_at_ms = _EXPIRING.unpack_from(stored)
    return _new_entry((stored[16:], packed & _VERSION_MASK, expires_at_ms))


def columns_of_entries(
    stored: Sequence[bytes | None], log_time_ms: int
) -> tuple[list[bytes | None], list[int], list[int] | None]:
    """Values, versions and expiries of stored forms, as `Found` has them. About 0.3 µs each. Raises `IndexDamaged`."""
    values: list[bytes | None] = []
    versions: list[int] = []
    expiries: list[int] = []  # as far as the last that expires
    for each in stored:
        if each is not None and not each[7]:
            values.append(each[8:])
            versions.append(_HEADER.unpack_from(each)[0])
        elif each is not None and is_live(each, log_time_ms):
            value, version, expires_at_ms = entry_of(each)
            expiries += [*[NEVER] * (len(values) - len(expiries)), expires_at_ms]
            values.append(value)
            versions.append(version)
        else:
            values.append(None)
            versions.append(NOTHING)
    return values, versions, [*expiries, *[NEVER] * (len(values) - len(expiries))] if expiries else None


def columns_of_live(stored: Sequence[bytes]) -> tuple[list[bytes], list[int], list[int] | None]:
    """Values, versions and expiries of the stored forms of live entries; no expiries where none expires. About 0.2 µs
    each. Raises `IndexDamaged`.
    """
    versions = unexpiring_versions(stored)
    if versions is not None:
        return [each[8:] for each in stored], versions, None
    entries = [entry_of(each) for each in stored]
    values, versions = [each.value for each in entries], [int(each.version) for each in entries]
    return values, versions, [each.expires_at_ms for each in entries]


def plain_entries(stored: Sequence[bytes | None]) -> list[LiveEntry] | None:
    """Read the stored forms of entries; None where an entry is absent, or expires. About 250 ns each."""
    versions = unexpiring_versions(stored)
    if versions is None:
        return None
    values = [each[8:] for each in stored]  # type: ignore[index]  # all of them are there
    return list(map(_new_entry, zip(values, versions, repeat(NEVER))))


def value_of(stored: bytes) -> bytes:
    """The value alone."""
    return stored[16:] if stored[7] else stored[8:]


def value_begin(stored: bytes) -> int:
    """Where the value begins in a stored form."""
    return 16 if stored[7] else 8


def version_of(stored: bytes) -> Offset:
    """The version alone."""
    return Offset(_HEADER.unpack_from(stored)[0] & _VERSION_MASK)


def expiry_of(stored: bytes) -> int:
    """The expiry alone, `NEVER` where there is none."""
    return int(_EXPIRING.unpack_from(stored)[1]) if stored[7] else NEVER


def is_live(stored: bytes, log_time_ms: int) -> bool:
    """Does the entry still count at this log time? Raises `IndexDamaged` for one that is too short for its flags."""
    if not stored[7]:
        return True
    try:
        return bool(_EXPIRING.unpack_from(stored)[1] > log_time_ms)
    except struct.error as error:
        raise IndexDamaged(f"an entry has the flags {stored[7]:08b} and {len(stored)} bytes: {error}") from error
