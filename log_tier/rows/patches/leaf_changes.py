"""What an operation makes of one value: numbers of all types, and appends.

Equal on every replica, whatever its processor: NaN has one form, as what a sum makes of its bits differs between them,
and floats of 32 bits are computed in 64 and rounded once, which is exact for a sum and a product of two.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any, Final

from log_tier.rows.avro.logical_types import logical_of
from log_tier.rows.avro.plain_readers import sized_end
from log_tier.rows.avro.varints import long_value, unzigzag
from log_tier.rows.avro.writing import long_bytes, sized_bytes
from log_tier.rows.patches.row_patch import FieldOperation

__all__ = ["changed_leaf", "plain_long"]

_LIMITS: Final = {"int": 1 << 31, "long": 1 << 63}
_FLOATS: Final = {"float": struct.Struct("<f"), "double": struct.Struct("<d")}
_NAN: Final = {"float": bytes.fromhex("0000c07f"), "double": bytes.fromhex("000000000000f87f")}


def changed_leaf(operation: FieldOperation, found: Any, old: bytes, operand: bytes) -> bytes | None:
    """The new bytes of a number, a text or bytes, of which both arguments are values. None: the number is beyond its
    type. `found`: the type, its name looked up.
    """
    kind = found if isinstance(found, str) else found["type"]
    if operation is FieldOperation.APPEND:
        return sized_bytes(_content(old) + _content(operand))
    if logical_of(found) == "decimal":
        return _decimal(operation, found, old, operand)
    if kind in _LIMITS:
        number = _integer(operation, plain_long(old), plain_long(operand))
        return long_bytes(number) if -_LIMITS[kind] <= number < _LIMITS[kind] else None
    return _float(operation, kind, old, operand)


def plain_long(data: bytes, at: int = 0) -> int:
    """An integer that its reader has accepted."""
    value = data[at]
    return unzigzag(value if value < 128 else long_value(data, value, at + 1)[0])


def _content(sized: bytes) -> bytes:
    at, end = sized_end(sized, 0, len(sized))
    return sized[at:end]


def _integer(operation: FieldOperation, old: int, operand: int) -> int:
    if operation is FieldOperation.ADD:
        return old + operand
    if operation is FieldOperation.MULTIPLY:
        return old * operand
    return min(old, operand) if operation is FieldOperation.MIN else max(old, operand)


def _decimal(operation: FieldOperation, found: Any, old: bytes, operand: bytes) -> bytes | None:
    is_fixed = found["type"] == "fixed"
    left, right = (int.from_bytes(each if is_fixed else _content(each), signed=True) for each in (old, operand))
    number = _integer(operation, left, right)
    if operation is FieldOperation.MULTIPLY:
        unit = 10 ** found.get("scale", 0)
        number, rest = divmod(number, unit)
        number += 2 * rest > unit or (2 * rest == unit and number & 1)
    if abs(number) >= 10 ** found["precision"]:
        return None
    if is_fixed:
        return number.to_bytes(found["size"], signed=True)
    return sized_bytes(number.to_bytes(number.bit_length() // 8 + 1, signed=True))


def _float(operation: FieldOperation, kind: str, old: bytes, operand: bytes) -> bytes | None:
    packed = _FLOATS[kind]
    (left,), (right,) = packed.unpack(old), packed.unpack(operand)
    number = _REALS[operation](left, right)
    if math.isnan(number):
        return _NAN[kind]
    try:
        new = packed.pack(number)
    except OverflowError:
        return None
    return None if math.isinf(number) and math.isfinite(left) and math.isfinite(right) else new


def _order(number: float) -> tuple[float, float]:
    return number, math.copysign(1.0, number)


def _smaller(left: float, right: float) -> float:
    if math.isnan(left) or math.isnan(right):
        return math.nan
    return min(left, right, key=_order)


def _larger(left: float, right: float) -> float:
    if math.isnan(left) or math.isnan(right):
        return math.nan
    return max(left, right, key=_order)


_REALS: Final[dict[FieldOperation, Callable[[float, float], float]]] = {
    FieldOperation.ADD: lambda left, right: left + right,
    FieldOperation.MULTIPLY: lambda left, right: left * right,
    FieldOperation.MIN: _smaller,
    FieldOperation.MAX: _larger,
}
