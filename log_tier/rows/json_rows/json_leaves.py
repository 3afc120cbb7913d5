"""Values of types that contain no others, as plain JSON has them, and back."""

from __future__ import annotations

import base64
import binascii
import math
import re
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from log_tier.rows.avro.logical_types import logical_of
from log_tier.rows.avro.plain_readers import MICROS

__all__ = ["Unfit", "decimal_text", "leaf_from_json", "leaf_to_json"]

_MICROSECOND: Final = timedelta(microseconds=1)
_EPOCH: Final = datetime(1970, 1, 1)
_EPOCH_UTC: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()

_LIMITS: Final = {"int": 1 << 31, "long": 1 << 63}
_FLOATS: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""What JSON has no numbers for, as texts. Protocol Buffers have the same."""
_SHORT_DIGITS: Final = (6, 7, 8, 9)

_DECIMAL: Final = re.compile(r"(-?)([0-9]{1,1000})(?:\.([0-9]{1,1000}))?", re.ASCII)
_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_CLOCK: Final = re.compile(r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?", re.ASCII)
_STAMP: Final = re.compile(rf"{_DAY.pattern}[T ]{_CLOCK.pattern}(Z|[+-][0-9]{{2}}:[0-9]{{2}})?", re.ASCII)


class Unfit(Exception):
    """A value of JSON that is not of the field's type. `path` is where, the innermost part first."""

    def __init__(self, value: Any, expected: str, fix: str = "") -> None:
        super().__init__(expected)
        self.value = value
        self.expected = expected
        self.fix = fix
        self.path: list[str] = []


def leaf_to_json(value: Any, type_: Any) -> Any:
    """A value as binary readers have it (an int, a float, bytes) as one of plain JSON."""
    kind = type_ if isinstance(type_, str) else type_["type"]
    logical = logical_of(type_)
    if logical is not None:
        return _FROM_LOGICAL[logical](value, type_)
    if kind in ("bytes", "fixed"):
        return base64.b64encode(value).decode()
    if kind in ("float", "double") and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return _shortest(value) if kind == "float" else value


def _shortest(value: float) -> float:
    """The shortest number that is this one in 32 bits: 0.1, not 0.10000000149011612."""
    packed = struct.pack("<f", value)
    for digits in _SHORT_DIGITS:
        short = float(f"{value:.{digits}g}")
        if abs(short) < 3.4028236e38 and struct.pack("<f", short) == packed:
            return short
    return value


def decimal_text(whole: int, scale: int) -> str:
    """The text of a decimal with all of its digits. (`scaleb` would round to the 28 of Python's context.)"""
    return format(Decimal((int(whole < 0), tuple(map(int, str(abs(whole)))), -scale)), "f")


def _decimal_text(value: bytes, type_: Any) -> str:
    return decimal_text(int.from_bytes(value, signed=True), type_.get("scale", 0))


def _clock_text(micros: int) -> str:
    return (_EPOCH + micros * _MICROSECOND).time().isoformat()


_FROM_LOGICAL: Final[dict[str, Callable[[Any, Any], str]]] = {
    "decimal": lambda value, type_: _decimal_text(value, type_),
    "uuid": lambda value, type_: str(UUID(value) if isinstance(value, str) else UUID(bytes=value)),
    "date": lambda value, type_: date.fromordinal(value + _EPOCH_DAY).isoformat(),
    "time-millis": lambda value, type_: _clock_text(value * 1000),
    "time-micros": lambda value, type_: _clock_text(value),
    "timestamp-millis": lambda value, type_: (_EPOCH + value * 1000 * _MICROSECOND).isoformat() + "Z",
    "timestamp-micros": lambda value, type_: (_EPOCH + value * _MICROSECOND).isoformat() + "Z",
    "local-timestamp-millis": lambda value, type_: (_EPOCH + value * 1000 * _MICROSECOND).isoformat(),
    "local-timestamp-micros": lambda value, type_: (_EPOCH + value * _MICROSECOND).isoformat(),
}


def leaf_from_json(value: Any, type_: Any) -> Any:
    """A value of plain JSON as binary writers take it. Raises `Unfit`."""
    kind = type_ if isinstance(type_, str) else type_["type"]
    logical = logical_of(type_)
    if logical is not None:
        return _TO_LOGICAL[logical](value, type_)
    if kind in _LIMITS:
        return _integer(value, kind)
    if kind in ("float", "double"):
        return _float(value, kind)
    if kind in ("bytes", "fixed"):
        return _bytes(value, type_, kind)
    if kind == "enum":
        if not isinstance(value, str) or value not in type_["symbols"]:
            raise Unfit(value, f"one of {', '.join(type_['symbols'])[:200]}")
        return value
    if type(value) is not {"null": type(None), "boolean": bool, "string": str}[kind]:
        raise Unfit(value, {"null": "null", "boolean": "true or false", "string": "a text"}[kind])
    return value


def _integer(value: Any, kind: str) -> int:
    limit = _LIMITS[kind]
    if type(value) is not int:
        raise Unfit(value, f"an {kind}" if kind == "int" else f"a {kind}", "a whole number without a point")
    if not -limit <= value < limit:
        raise Unfit(value, f"a number from {-limit} to {limit - 1}")
    return value


def _float(value: Any, kind: str) -> float:
    if isinstance(value, str) and value in _FLOATS:
        return _FLOATS[value]
    try:
        if type(value) in (int, float) and math.isfinite(float(value)):
            struct.pack("<f" if kind == "float" else "<d", value)
            return float(value)
    except OverflowError:
        raise Unfit(value, f"a {kind}", "it is too large for its bits") from None
    raise Unfit(value, f"a {kind}", 'a number, or the text "NaN", "Infinity" or "-Infinity"')


def _bytes(value: Any, type_: Any, kind: str) -> bytes:
    try:
        raw = base64.b64decode(_text(value, "bytes as base64 text"), validate=True)
    except (binascii.Error, ValueError):
        raise Unfit(value, "bytes as base64 text") from None
    if kind == "fixed" and len(raw) != type_["size"]:
        raise Unfit(value, f"{type_['size']} bytes as base64 text", f"these are {len(raw)}")
    return raw


def _text(value: Any, expected: str, fix: str = "") -> str:
    if not isinstance(value, str):
        raise Unfit(value, expected, fix)
    return value


def _decimal(value: Any, type_: Any) -> bytes:
    precision, scale = type_["precision"], type_.get("scale", 0)
    expected = f"a decimal of {precision} digits, {scale} of them behind the point, as text"
    found = _DECIMAL.fullmatch(_text(value, expected, "put it in quotation marks"))
    if found is None:
        raise Unfit(value, expected, "digits, a point, digits")
    sign, whole, part = found.groups(default="")
    if part[scale:].strip("0"):
        raise Unfit(value, expected, "round it")
    unscaled = int(sign + whole + part[:scale].ljust(scale, "0"))
    if abs(unscaled) >= 10**precision:
        raise Unfit(value, expected)
    size = type_["size"] if type_["type"] == "fixed" else unscaled.bit_length() // 8 + 1
    return unscaled.to_bytes(size, signed=True)


def _uuid(value: Any, type_: Any) -> Any:
    text = _text(value, "a uuid as text")
    try:
        found = UUID(text)
    except ValueError:
        raise Unfit(value, "a uuid as text") from None
    if len(text) != len(str(found)):
        raise Unfit(value, "a uuid as text", f"write {found}")
    return str(found) if type_["type"] == "string" else found.bytes


def _date(value: Any, type_: Any) -> int:
    text = _text(value, "a date as text", "2026-11-27")
    try:
        if _DAY.fullmatch(text):
            return date.fromisoformat(text).toordinal() - _EPOCH_DAY
    except ValueError:
        pass
    raise Unfit(value, "a date as text", "2026-11-27")


def _time(value: Any, type_: Any) -> int:
    text = _text(value, "a time as text", "18:30:00.000")
    try:
        if _CLOCK.fullmatch(text):
            found = time.fromisoformat(text)
            micros = (datetime.combine(_EPOCH.date(), found) - _EPOCH) // _MICROSECOND
            return _in_unit(micros, value, type_)
    except ValueError:
        pass
    raise Unfit(value, "a time as text", "18:30:00.000")


def _stamp(value: Any, type_: Any) -> int:
    local = type_["logicalType"].startswith("local-")
    example = "2026-11-27T18:30:00" + ("" if local else "Z")
    expected = f"a time with{'out' if local else ''} a time zone, as text"
    text = _text(value, expected, example)
    found = _STAMP.fullmatch(text)
    if found is None or (found[1] is None) != local:
        raise Unfit(value, expected, example)
    try:
        stamp = datetime.fromisoformat(text)
    except ValueError:
        raise Unfit(value, expected, example) from None
    micros = (stamp - (_EPOCH if local else _EPOCH_UTC)) // _MICROSECOND
    if not MICROS[0] <= micros <= MICROS[1]:
        raise Unfit(value, expected, "in UTC it is not in the years 1 to 9999")
    return _in_unit(micros, value, type_)


def _in_unit(micros: int, value: Any, type_: Any) -> int:
    if not type_["logicalType"].endswith("-millis"):
        return micros
    if micros % 1000:
        raise Unfit(value, "a time in milliseconds", "round it")
    return micros // 1000


_TO_LOGICAL: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "decimal": _decimal,
    "uuid": _uuid,
    "date": _date,
    "time-millis": _time,
    "time-micros": _time,
    "timestamp-millis": _stamp,
    "timestamp-micros": _stamp,
    "local-timestamp-millis": _stamp,
    "local-timestamp-micros": _stamp,
}
