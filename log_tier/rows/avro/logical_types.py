"""What Avro's logical types say of the values of a type, and which types they may be of."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["DECIMAL_DIGITS_MAX", "logical_of", "logical_refusal"]

DECIMAL_DIGITS_MAX: Final = 1000
"""Spark and Arrow stop at 76 digits. A power of ten of so many is compared with each value."""

_TYPES: Final[dict[str, tuple[str, ...]]] = {
    "decimal": ("bytes", "fixed"),
    "uuid": ("string", "fixed"),
    "date": ("int",),
    "time-millis": ("int",),
    "time-micros": ("long",),
    "timestamp-millis": ("long",),
    "timestamp-micros": ("long",),
    "local-timestamp-millis": ("long",),
    "local-timestamp-micros": ("long",),
}
"""Those that this process knows, and of which types they are. It takes a value of any other as what it is of, which is
Avro's rule."""

_UUID_BYTES: Final = 16


def logical_of(type_: Any) -> str | None:
    """The logical type of a normalised type, if this process knows it."""
    name = type_.get("logicalType") if isinstance(type_, dict) else None
    return name if name in _TYPES else None


def logical_refusal(type_: dict[str, Any]) -> str | None:
    """Why the logical type of a type is wrong. None: it is right, or there is none."""
    name = type_.get("logicalType")
    if name is None:
        return None
    if not isinstance(name, str):
        return "`logicalType` is text"
    kinds = _TYPES.get(name)
    if kinds is None:
        return None
    kind = type_["type"]
    if kind not in kinds:
        return f"the logical type {name} is of {' or '.join(kinds)}, not of {kind}"
    if name == "uuid" and kind == "fixed" and type_["size"] != _UUID_BYTES:
        return f"a uuid has {_UUID_BYTES} bytes, not {type_['size']}"
    return _decimal_refusal(type_) if name == "decimal" else None


def _decimal_refusal(type_: dict[str, Any]) -> str | None:
    precision, scale = type_.get("precision"), type_.get("scale", 0)
    if type(precision) is not int or not 0 < precision <= DECIMAL_DIGITS_MAX:
        return f"a decimal has a `precision` of 1 to {DECIMAL_DIGITS_MAX} digits"
    if type(scale) is not int or not 0 <= scale <= precision:
        return f"the `scale` of a decimal is 0 to its precision, {precision}"
    if type_["type"] == "fixed" and 10**precision > 1 << (8 * type_["size"] - 1 if type_["size"] else 0):
        return f"a fixed of {type_['size']} bytes has no room for {precision} digits"
    return None
