"""Plans of truth values, numbers, text, bytes and UUIDs."""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum
from typing import Any, Final
from uuid import UUID

from duramen.client.rows.plans.refusals import row_refusal
from duramen.client.rows.plans.value_plan import ValuePlan

__all__ = ["FLOAT_MAX", "fixed_plan", "scalar_plan"]

FLOAT_MAX: Final = 3.4028234663852886e38
"""Of 32 bits."""


def scalar_plan(name: str) -> ValuePlan:
    """The plan of a primitive type of Avro, or of `uuid`."""
    return _PLANS[name]


def fixed_plan(size: int) -> ValuePlan:
    """The plan of bytes of one length."""
    expected = f"{size} bytes"

    def refine(value: Any, path: str) -> bytes:
        if isinstance(value, (bytes, bytearray, memoryview)) and len(made := bytes(value)) == size:
            return made
        raise row_refusal(path, value, expected, f"it has {len(value)}" if isinstance(value, bytes) else "")

    return ValuePlan(
        expected,
        lambda value: type(value) is bytes and len(value) == size,
        refine,
        f"type({{v}}) is bytes and len({{v}}) == {size}",
    )


def _null(value: Any, path: str) -> None:
    if value is not None:
        raise row_refusal(path, value, "None")


def _bool(value: Any, path: str) -> bool:
    if type(value) is bool:
        return value
    raise row_refusal(path, value, "a bool", "give True or False")


def _int_of(bits: int) -> Callable[[Any, str], int]:
    least, most = -(1 << bits - 1), (1 << bits - 1) - 1

    def refine(value: Any, path: str) -> int:
        if isinstance(value, int) and not isinstance(value, bool):
            if least <= value <= most:
                return int(value)
            raise row_refusal(path, value, f"an int of {bits} bits", f"it is {least} to {most}")
        todo = "say int(…) if that is what you mean" if isinstance(value, (float, str)) else _none(value)
        raise row_refusal(path, value, f"an int of {bits} bits", todo)

    return refine


def _double(value: Any, path: str) -> float:
    if isinstance(value, float):
        return float(value)
    if isinstance(value, int) and not isinstance(value, (bool, Enum)):
        try:
            made = float(value)
        except OverflowError:
            made = math.nan
        if made == value:
            return made
        raise row_refusal(path, value, "a float", "no float is this int: say float(…) if the nearest one will do")
    raise row_refusal(path, value, "a float", _none(value))


def _float(value: Any, path: str) -> float:
    made = _double(value, path)
    if abs(made) > FLOAT_MAX and not math.isinf(made):
        raise row_refusal(path, value, "a float of 32 bits", f"it is at most {FLOAT_MAX:.4g}")
    return made


def _str(value: Any, path: str) -> str:
    if not isinstance(value, str):
        todo = "decode it" if isinstance(value, (bytes, bytearray)) else _none(value)
        raise row_refusal(path, value, "a str", todo)
    made = str.__str__(value)
    try:
        made.encode()
    except UnicodeEncodeError as error:
        todo = f"character {error.start} is half of a surrogate pair, which UTF-8 does not have: replace it"
        raise row_refusal(path, value, "a str", todo) from None
    return made


def _bytes(value: Any, path: str) -> bytes:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise row_refusal(path, value, "bytes", "encode it" if isinstance(value, str) else _none(value))


def _uuid(value: Any, path: str) -> UUID:
    if isinstance(value, UUID):
        return value
    raise row_refusal(path, value, "a UUID", "say uuid.UUID(…)" if isinstance(value, str) else _none(value))


def _none(value: Any) -> str:
    return "the field is not optional" if value is None else ""


def _plan(expected: str, refine: Callable[[Any, str], Any], fits: Callable[[Any], bool], test: str) -> ValuePlan:
    return ValuePlan(expected, fits, refine, test)


def _fits_int(value: Any) -> bool:
    return type(value) is int and -0x80000000 <= value <= 0x7FFFFFFF


def _fits_long(value: Any) -> bool:
    return type(value) is int and -0x8000000000000000 <= value <= 0x7FFFFFFFFFFFFFFF


def _fits_float(value: Any) -> bool:
    return type(value) is float and -FLOAT_MAX <= value <= FLOAT_MAX


_PLANS: Final = {
    "null": _plan("None", _null, lambda value: value is None, "{v} is None"),
    "boolean": _plan("a bool", _bool, lambda value: type(value) is bool, "type({v}) is bool"),
    "int": _plan("an int of 32 bits", _int_of(32), _fits_int, "type({v}) is int and -0x80000000 <= {v} <= 0x7FFFFFFF"),
    "long": _plan(
        "an int of 64 bits",
        _int_of(64),
        _fits_long,
        "type({v}) is int and -0x8000000000000000 <= {v} <= 0x7FFFFFFFFFFFFFFF",
    ),
    "float": _plan(
        "a float of 32 bits",
        _float,
        _fits_float,
        f"type({{v}}) is float and -{FLOAT_MAX!r} <= {{v}} <= {FLOAT_MAX!r}",
    ),
    "double": _plan("a float", _double, lambda value: type(value) is float, "type({v}) is float"),
    "string": _plan("a str", _str, lambda value: type(value) is str, "type({v}) is str"),
    "bytes": _plan("bytes", _bytes, lambda value: type(value) is bytes, "type({v}) is bytes"),
    "uuid": _plan("a UUID", _uuid, lambda value: type(value) is UUID, "type({v}) is UUID"),
}
