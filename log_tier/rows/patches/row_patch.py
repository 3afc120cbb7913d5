"""A patch as bytes.

    0  1  1, which no row begins with
    1  4  number of the schema that the writer knows, big-endian, as in a row
    5  …  how many changes; of each: the operation u8, how many steps, the steps, the operand behind its length

Counts, steps and lengths are Avro's integers. A step is the index of a record's field, or of a union's type: a path
goes from the row to what is changed. `set` has the path of a field, and any value of that field's type as its operand;
the others go into the union, if there is one, to the type that the operand is of. `docs/FORMATS.md` has an example.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from log_tier.rows.avro.plain_readers import sized_end
from log_tier.rows.avro.varints import Misfit, int_value, unzigzag
from log_tier.rows.avro.writing import long_bytes, sized_bytes
from log_tier.rows.patches.hindrance import Hindrance

__all__ = [
    "CHANGES_MAX",
    "STEPS_MAX",
    "FieldChange",
    "FieldOperation",
    "NotPatched",
    "RowPatch",
    "encode_patch",
    "read_patch",
]

CHANGES_MAX: Final = 1024
"""Of one patch: a record has no more fields."""

STEPS_MAX: Final = 128
"""Of one path: values are nested 64 deep, each behind a union."""

_MARK: Final = 1
_HEAD_BYTES: Final = 5


class FieldOperation(IntEnum):
    """What is done to a field. The numbers are part of the format, and those of the log's operations of that name."""

    SET = 1
    ADD = 3
    MULTIPLY = 4
    MIN = 5
    MAX = 6
    APPEND = 7


_OPERATIONS: Final = {int(each): each for each in FieldOperation}


class FieldChange(NamedTuple):
    """What is done to one field."""

    path: tuple[int, ...]
    operation: FieldOperation
    operand: bytes
    """In Avro's binary, of the type at the end of the path."""


class RowPatch(NamedTuple):
    """All changes of one record."""

    schema: int
    """The number of the schema that paths and operands are of."""
    changes: tuple[FieldChange, ...]


class NotPatched(Exception):
    """The patch is one of the table, and the row that is there cannot be changed by it."""

    def __init__(self, why: Hindrance, change: int) -> None:
        super().__init__(why.name, change)
        self.why = why
        self.change = change
        """The number of the change at fault, from 0 on; -1: all of them."""


def encode_patch(schema: int, changes: Sequence[FieldChange]) -> bytes:
    """The value of a record. O(its size)."""
    parts = [bytes((_MARK,)), schema.to_bytes(4), long_bytes(len(changes))]
    for path, operation, operand in changes:
        parts += (bytes((operation,)), long_bytes(len(path)), *map(long_bytes, path), sized_bytes(operand))
    return b"".join(parts)


def read_patch(value: bytes) -> RowPatch:
    """Read a value, whatever its schema has. Raises `Misfit` for what is no patch. O(its size)."""
    if len(value) <= _HEAD_BYTES or value[0] != _MARK:
        raise Misfit("the value is no patch: it begins with a one and the number of a schema in four bytes")
    try:
        count, at = _count(value, _HEAD_BYTES, CHANGES_MAX, "changes")
        if not count:
            raise Misfit("the patch changes nothing")
        changes = []
        for _ in range(count):
            change, at = _change(value, at)
            changes.append(change)
    except IndexError:
        raise Misfit("the patch ends before its end") from None
    if at != len(value):
        raise Misfit(f"the patch goes on {len(value) - at} bytes behind its last change")
    return RowPatch(int.from_bytes(value[1:_HEAD_BYTES]), tuple(changes))


def _change(value: bytes, at: int) -> tuple[FieldChange, int]:
    operation = _OPERATIONS.get(value[at])
    if operation is None:
        raise Misfit(f"the patch has the operation {value[at]}, which there is none of")
    count, at = _count(value, at + 1, STEPS_MAX, "steps")
    path = []
    for _ in range(count):
        step, at = _count(value, at, 1 << 31, "fields")
        path.append(step)
    start, end = sized_end(value, at, len(value))
    return FieldChange(tuple(path), operation, value[start:end]), end


def _count(value: bytes, at: int, most: int, of: str) -> tuple[int, int]:
    count = value[at]
    at += 1
    if count > 127:
        count, at = int_value(value, count, at)
    if count & 1 or count >> 1 > most:
        raise Misfit(f"the patch names {unzigzag(count)} {of}; 0 to {most} are possible")
    return count >> 1, at
