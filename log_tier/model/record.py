"""What one record says: an operation on a key, perhaps under a condition, perhaps with an expiry.

A record has a key, a value (the operand of an update) and a 16-bit **attribute** that packs the rest:

    bits 0-7    operation
    bits 8-9    condition: 0 none, 1 absent, 2 present, 3 the version is N (N is in the `versions` column)
    bits 10-11  expiry: 0 none (a put removes an old one), 1 TTL in ms after the record's log time,
                2 at an absolute time in ms, 3 keep the one that is there
    bit 12      this record belongs to the same atomic group as the one before it

A plain put has attribute 0x0001, and a batch of nothing but plain puts carries no attribute column at all: that is the
common case, and it stays cheap in bytes and in time.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Any, Final

from log_tier.model.errors import InvalidKey, InvalidRequest, InvalidValue

__all__ = [
    "CONDITION_SHIFT",
    "EXPIRY_SHIFT",
    "GROUPED",
    "GROUP_RECORDS_MAX",
    "KEY_BYTES_MAX",
    "OPERATION_MASK",
    "PLAIN_PUT",
    "READ_CHANGES",
    "TTL_MS_MAX",
    "UPDATES",
    "UPDATES_BY_NAME",
    "VALUE_BYTES_MAX",
    "Condition",
    "Expiry",
    "Operation",
    "attribute_of",
    "check_key",
    "condition_of",
    "key_refusal",
    "unknown_attribute",
    "value_refusal",
]

# LMDB's limit for keys (mdb_env_get_maxkeysize of the stock build).
KEY_BYTES_MAX: Final = 511

# One value must fit in a batch, and a batch in a message of both endpoints. etcd stops at 1.5 MiB, Kafka at 1 MiB;
# larger things belong in an object store with their address here.
VALUE_BYTES_MAX: Final = 4 * 1024 * 1024

# A group is folded in one piece, and its effects are held until its last record is judged.
GROUP_RECORDS_MAX: Final = 10_000

# A thousand years: beyond it the caller has mistaken the unit.
TTL_MS_MAX: Final = 1000 * 365 * 86_400_000


class Operation(IntEnum):
    """What a record does to its key. The numbers are part of the format."""

    NOOP = 0
    """Nothing; it moves the log time on."""
    PUT = 1
    DELETE = 2
    ADD = 3
    """Number + operand; an absent key counts as 0."""
    MULTIPLY = 4
    """Number × operand; an absent key counts as 0."""
    MIN = 5
    """The smaller of both; an absent key takes the operand."""
    MAX = 6
    """The larger of both; an absent key takes the operand."""
    APPEND = 7
    """Bytes + operand; an absent key counts as empty."""
    VOID = 8
    """Nothing, on every replica alike: the log holds something here that no table can, and the value says why.

    Written by nobody: a log engine makes it of what others put into its topic."""
    BARRIER = 9
    """Nothing to any key: another version of the table is live from here on; see `log_tier.model.barrier`."""
    PATCH = 10
    """Some fields of a row: see `log_tier.rows.patches`. There has to be a row."""


class Condition(IntEnum):
    """What must hold for a record to take effect."""

    NONE = 0
    ABSENT = 1
    PRESENT = 2
    VERSION = 3


class Expiry(IntEnum):
    """What a record says about its key's expiry. Updates keep an expiry unless they say otherwise."""

    NONE = 0
    TTL = 1
    AT = 2
    KEEP = 3


OPERATION_MASK: Final = 0xFF
CONDITION_SHIFT: Final = 8
EXPIRY_SHIFT: Final = 10
GROUPED: Final = 1 << 12
PLAIN_PUT: Final = int(Operation.PUT)

UPDATES: Final = frozenset(
    {Operation.ADD, Operation.MULTIPLY, Operation.MIN, Operation.MAX, Operation.APPEND},
)
"""Operations on numbers and bytes whose result depends on what is there."""

READ_CHANGES: Final = UPDATES | {Operation.PATCH}
"""All operations whose result depends on what is there."""

UPDATES_BY_NAME: Final = {operation.name.lower(): operation for operation in sorted(UPDATES)}
"""The same by the names that calls have for them: `add`, `multiply`, `min`, `max`, `append`."""


def attribute_of(
    operation: Operation,
    *,
    condition: Condition = Condition.NONE,
    expiry: Expiry = Expiry.NONE,
    grouped: bool = False,
) -> int:
    """Pack an attribute."""
    return operation | condition << CONDITION_SHIFT | expiry << EXPIRY_SHIFT | (GROUPED if grouped else 0)


def check_key(key: bytes) -> bytes:
    """Return `key`, or raise `InvalidKey` with its size and the limit."""
    if not 0 < len(key) <= KEY_BYTES_MAX:
        raise key_refusal(key)
    return key


def key_refusal(key: bytes, named: str = "the key", **fields: Any) -> InvalidKey:
    """The error for a key that is empty or too long."""
    size = len(key)
    text = (
        f"{named} {key[:24]!r}… has {size} bytes; keys have 1 to {KEY_BYTES_MAX}: hash what is longer"
        if key
        else f"{named} is empty; keys have 1 to {KEY_BYTES_MAX} bytes"
    )
    return InvalidKey(text, size=size, limit=KEY_BYTES_MAX, **fields)


def value_refusal(value: bytes, named: str = "the value", **fields: Any) -> InvalidValue:
    """The error for a value that is too long."""
    size = len(value)
    return InvalidValue(
        f"{named} has {size} bytes; values have at most {VALUE_BYTES_MAX}: cut it in pieces, or store its address",
        size=size,
        limit=VALUE_BYTES_MAX,
        **fields,
    )


def condition_of(*, absent: bool, present: bool, version: int | None) -> Condition:
    """The condition that a call names. Raises `InvalidRequest` for two at once, or a version that no entry has."""
    if absent + present + (version is not None) > 1:
        raise InvalidRequest("give one of if_absent, if_present and if_version")
    if version is not None:
        if type(version) is not int or not -1 <= version < 1 << 63:
            raise InvalidRequest(f"if_version is an entry's version, or -1 for an absent key, not {version!r}")
        return Condition.VERSION
    return Condition.ABSENT if absent else Condition.PRESENT if present else Condition.NONE


_KNOWN_OPERATIONS: Final = frozenset(int(operation) for operation in Operation)
_KNOWN_BITS: Final = OPERATION_MASK | 3 << CONDITION_SHIFT | 3 << EXPIRY_SHIFT | GROUPED


def unknown_attribute(attributes: Iterable[int]) -> int | None:
    """The first attribute that this version cannot understand, or None. O(distinct attributes)."""
    for attribute in sorted(set(attributes)):
        if attribute & ~_KNOWN_BITS or attribute & OPERATION_MASK not in _KNOWN_OPERATIONS:
            return attribute
    return None
