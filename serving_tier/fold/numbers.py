"""Numbers in values: what counts as one, how it is written, and what an update makes of two of them.

A number is text, so that every tool can read it and nothing in a record says "this is a counter":

    integer   -?digits, within signed 64 bits
    float     -?digits with a point or an exponent, finite, as IEEE 754 double

Nothing else is a number: no sign `+`, no spaces, no `inf` and `nan`, no `1_000`, and no integer beyond 64 bits (reading
it as a float would change it in silence). An integer with an integer gives an integer, or an overflow; anything with a
float gives a float. `MIN` and `MAX` choose one of the two and do not change it, so no precision is lost there.

Results are written in one canonical way: integers without leading zeros, floats as the shortest text that reads back as
the same double (David Gay's algorithm, which CPython has on every platform): two replicas write equal bytes.
"""

from __future__ import annotations

import math
import re
from typing import Final

from log_tier.model.record import Operation

__all__ = ["INTEGER_MAX", "INTEGER_MIN", "NUMBER_BYTES_MAX", "Number", "combine", "format_number", "parse_number"]

Number = int | float

INTEGER_MIN: Final = -(1 << 63)
INTEGER_MAX: Final = (1 << 63) - 1

# The longest canonical number has 24 bytes ("-2.2250738585072014e-308"). The rest is for zeros that people write; the
# limit keeps a value of megabytes of digits from costing seconds in one record.
NUMBER_BYTES_MAX: Final = 64

_INTEGER: Final = re.compile(rb"-?[0-9]+")
_FLOAT: Final = re.compile(rb"-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def parse_number(text: bytes) -> Number | None:
    """The number that `text` is, or None.

    >>> parse_number(b"-12"), parse_number(b"1e3"), parse_number(b"twelve")
    (-12, 1000.0, None)
    """
    if len(text) > NUMBER_BYTES_MAX:
        return None
    if _INTEGER.fullmatch(text):
        integer = int(text)
        return integer if INTEGER_MIN <= integer <= INTEGER_MAX else None
    if _FLOAT.fullmatch(text):
        real = float(text)
        return real if math.isfinite(real) else None
    return None


def format_number(number: Number) -> bytes:
    """The canonical text of `number`.

    >>> format_number(-0), format_number(0.1 + 0.2), format_number(1e22)
    (b'0', b'0.30000000000000004', b'1e+22')
    """
    return repr(number).encode("ascii")


def combine(operation: Operation, current: Number | None, operand: Number) -> Number | None:
    """What `operation` makes of `current` (None: absent) and `operand`; None where that is no number any more.

    >>> combine(Operation.ADD, 40, 2), combine(Operation.MIN, None, 7), combine(Operation.MULTIPLY, 1 << 62, 2)
    (42, 7, None)
    """
    if operation is Operation.MIN:
        return operand if current is None or operand < current else current
    if operation is Operation.MAX:
        return operand if current is None or operand > current else current
    assert operation in (Operation.ADD, Operation.MULTIPLY), f"{operation!r} is no arithmetic"
    left = 0 if current is None else current
    result = left + operand if operation is Operation.ADD else left * operand
    if isinstance(result, float):
        return result if math.isfinite(result) else None
    return result if INTEGER_MIN <= result <= INTEGER_MAX else None
