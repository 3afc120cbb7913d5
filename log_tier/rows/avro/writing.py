"""Avro's binary: the parts of a value as bytes, and the default of a field."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Any, Final

__all__ = ["BODY_BYTES_MAX", "default_bytes", "leaf_bytes", "long_bytes", "sized_bytes"]

BODY_BYTES_MAX: Final = 1 << 22
"""A value has no more bytes. A default of few characters can stand for more: a list of records with defaults."""

_FLOAT: Final = struct.Struct("<f")
_DOUBLE: Final = struct.Struct("<d")


def long_bytes(value: int) -> bytes:
    """An int, a long, an index, a count or a length."""
    value = value << 1 if value >= 0 else (~value << 1) | 1
    if value < 128:
        return value.to_bytes()
    out = bytearray()
    while value > 127:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def sized_bytes(raw: bytes) -> bytes:
    """Bytes or a text behind its length."""
    return long_bytes(len(raw)) + raw


def leaf_bytes(value: Any, type_: Any) -> bytes:
    """A value of a type that contains no others: a boolean, int, float, str, bytes, or an enum's symbol.

    Raises `OverflowError` for a float that has no 32 bits, `UnicodeEncodeError` for half of a surrogate pair.
    """
    kind = type_ if isinstance(type_, str) else type_["type"]
    if kind in ("int", "long"):
        return long_bytes(value)
    if kind == "string":
        return sized_bytes(value.encode())
    if kind == "bytes":
        return sized_bytes(value)
    if kind == "fixed":
        return bytes(value)
    if kind == "boolean":
        return b"\1" if value else b"\0"
    if kind == "enum":
        return long_bytes(type_["symbols"].index(value))
    if kind == "null":
        return b""
    return _FLOAT.pack(value) if kind == "float" else _DOUBLE.pack(value)


def default_bytes(default: Any, type_: Any, named: Mapping[str, Mapping[str, Any]]) -> bytes:
    """The default of a field, which is one of its type. Raises `OverflowError` for one of more than 4 MiB."""
    if isinstance(type_, list):
        return b"\0" + default_bytes(default, type_[0], named)
    found: Any = named.get(type_, type_) if isinstance(type_, str) else type_
    kind = found if isinstance(found, str) else found["type"]
    if kind == "record":
        return _joined(
            default_bytes(default.get(each["name"], each.get("default")), each["type"], named)
            for each in found["fields"]
        )
    if kind == "array":
        items = _joined(default_bytes(each, found["items"], named) for each in default)
        return long_bytes(len(default)) + items + b"\0" if default else b"\0"
    if kind == "map":
        pairs = _joined(
            sized_bytes(name.encode()) + default_bytes(each, found["values"], named) for name, each in default.items()
        )
        return long_bytes(len(default)) + pairs + b"\0" if default else b"\0"
    return leaf_bytes(default.encode("latin-1") if kind in ("bytes", "fixed") else default, found)


def _joined(parts: Iterable[bytes]) -> bytes:
    joined = bytearray()
    for each in parts:
        joined += each
        if len(joined) > BODY_BYTES_MAX:
            raise OverflowError(f"a default has more than {BODY_BYTES_MAX} bytes")
    return bytes(joined)
