"""Readers of types that contain no others."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from log_tier.rows.avro.logical_types import logical_of
from log_tier.rows.avro.row_room import RowRoom
from log_tier.rows.avro.varints import Misfit, int_value, long_value, skip_int, skip_long, unzigzag

__all__ = ["DAYS", "MICROS", "Reader", "check_uuid", "fixed_size", "index_at", "plain_reader", "sized_end"]

Reader = Callable[[bytes, int, int, RowRoom], int]
"""From the bytes, a place, their end, and what the row still has room for: the place behind the value. It may be behind
the end: who reads the last value looks. Raises `Misfit`, `IndexError` where the bytes end, `UnicodeDecodeError`."""

_DAY_MS: Final = 86_400_000

DAYS: Final = (-719_162, 2_932_896)
"""0001-01-01 to 9999-12-31, since 1970: what ISO 8601 writes in four digits, and what Python and SQL have."""
MICROS: Final = (DAYS[0] * _DAY_MS * 1000, (DAYS[1] + 1) * _DAY_MS * 1000 - 1)
_MILLIS: Final = (DAYS[0] * _DAY_MS, (DAYS[1] + 1) * _DAY_MS - 1)

_LIMITS: Final = {
    "date": DAYS,
    "time-millis": (0, _DAY_MS - 1),
    "time-micros": (0, _DAY_MS * 1000 - 1),
    "timestamp-millis": _MILLIS,
    "timestamp-micros": MICROS,
    "local-timestamp-millis": _MILLIS,
    "local-timestamp-micros": MICROS,
}

_UUID: Final = re.compile(rb"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def plain_reader(type_: Any) -> Reader | None:
    """The reader of a primitive type, an enum or a fixed. None: its values take no bytes."""
    kind = type_ if isinstance(type_, str) else type_["type"]
    logical = logical_of(type_)
    if logical in _LIMITS:
        return _limited(logical, kind)
    if logical == "decimal":
        return _decimal(type_)
    if logical == "uuid" and kind == "string":
        return _read_uuid
    if kind == "enum":
        return _enum(len(type_["symbols"]))
    if kind == "fixed":
        return _fixed(type_["size"])
    return _READERS[kind]


def fixed_size(type_: Any, named: Mapping[str, Any]) -> int | None:
    """How many bytes each value of a type has, if all have as many and any bytes are a value."""
    found: Any = named.get(type_, type_) if isinstance(type_, str) else type_
    kind = found if isinstance(found, str) else found["type"] if isinstance(found, dict) else "union"
    if kind == "fixed" and logical_of(found) != "decimal":
        return int(found["size"])
    return {"float": 4, "double": 8}.get(kind)


def sized_end(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Where bytes begin and end whose length stands at `at`."""
    size = data[at]
    at += 1
    if size > 127:
        size, at = long_value(data, size, at)
    if size & 1:
        raise Misfit(f"its length is {unzigzag(size)}")
    stop = at + (size >> 1)
    if stop > end:
        raise Misfit(f"its length is {size >> 1}, and {max(end - at, 0)} bytes follow")
    return at, stop


def index_at(data: bytes, at: int, count: int, of: str) -> tuple[int, int]:
    """The index at `at` into `count` symbols or types, and where it ends."""
    index = data[at]
    at += 1
    if index > 127:
        index, at = int_value(data, index, at)
    if index & 1 or index >= 2 * count:
        raise Misfit(f"it is number {unzigzag(index)} of {count} {of}, counted from 0")
    return index >> 1, at


def _read_boolean(data: bytes, at: int, end: int, room: RowRoom) -> int:
    if data[at] > 1:
        raise Misfit(f"a boolean is 0 or 1, not {data[at]}")
    return at + 1


def _read_int(data: bytes, at: int, end: int, room: RowRoom) -> int:
    return at + 1 if data[at] < 128 else skip_int(data, at + 1)


def _read_long(data: bytes, at: int, end: int, room: RowRoom) -> int:
    return at + 1 if data[at] < 128 else skip_long(data, at + 1)


def _read_string(data: bytes, at: int, end: int, room: RowRoom) -> int:
    size = data[at]
    if size > 127 or size & 1:
        at, stop = sized_end(data, at, end)
    else:
        at += 1
        stop = at + (size >> 1)
        if stop > end:
            sized_end(data, at - 1, end)
    data[at:stop].decode()
    return stop


def _read_bytes(data: bytes, at: int, end: int, room: RowRoom) -> int:
    return sized_end(data, at, end)[1]


def _read_uuid(data: bytes, at: int, end: int, room: RowRoom) -> int:
    at, stop = sized_end(data, at, end)
    check_uuid(data[at:stop])
    return stop


def check_uuid(text: bytes) -> None:
    """Raise `Misfit` for what is no UUID's text."""
    if _UUID.fullmatch(text) is None:
        raise Misfit(f"{text[:40]!r} is no uuid: 32 hex digits, with - behind the 8th, 12th, 16th and 20th")


def _enum(count: int) -> Reader:
    def read_enum(data: bytes, at: int, end: int, room: RowRoom) -> int:
        return index_at(data, at, count, "symbols")[1]

    return read_enum


def _fixed(size: int) -> Reader | None:
    def read_fixed(data: bytes, at: int, end: int, room: RowRoom) -> int:
        return at + size

    return read_fixed if size else None


def _limited(logical: str, kind: str) -> Reader:
    """An integer from `low` to `high`."""
    low, high = _LIMITS[logical]
    # A value of so many bytes, or still zigzag so small, is within the limits.
    sure_bytes = 0 if low == 0 else (min(-low, high).bit_length()) // 7
    sure = -1 if low == 0 else 2 * min(-low, high) - 1

    def check(value: int) -> None:
        value = unzigzag(value)
        if not low <= value <= high:
            raise Misfit(f"a {logical} is from {low} to {high}, not {value}")

    def read_long(data: bytes, at: int, end: int, room: RowRoom) -> int:
        value = data[at]
        stop = at + 1
        if value > 127:
            stop = skip_long(data, stop)
            if stop - at <= sure_bytes:
                return stop
            value, stop = long_value(data, value, at + 1)
        if value > sure:
            check(value)
        return stop

    def read_int(data: bytes, at: int, end: int, room: RowRoom) -> int:
        value = data[at]
        at += 1
        if value > 127:
            value, at = int_value(data, value, at)
        if value > sure:
            check(value)
        return at

    return read_int if kind == "int" else read_long


def _decimal(type_: dict[str, Any]) -> Reader:
    limit: Final = 10 ** type_["precision"]
    size: int | None = type_.get("size")

    def read_decimal(data: bytes, at: int, end: int, room: RowRoom) -> int:
        if size is not None:
            stop = at + size
        elif data[at] > 127 or data[at] & 1:
            at, stop = sized_end(data, at, end)
        else:
            stop = at + 1 + (data[at] >> 1)
            if stop > end:
                sized_end(data, at, end)
            at += 1
        if at == stop:
            raise Misfit("a decimal has at least one byte")
        if not -limit < int.from_bytes(data[at:stop], signed=True) < limit:
            raise Misfit(f"a decimal of this field has at most {type_['precision']} digits")
        return stop

    return read_decimal


_READERS: Final[dict[str, Reader | None]] = {
    "null": None,
    "boolean": _read_boolean,
    "int": _read_int,
    "long": _read_long,
    "float": _fixed(4),
    "double": _fixed(8),
    "string": _read_string,
    "bytes": _read_bytes,
}
