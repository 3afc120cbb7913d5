"""Readers of fields of a key: they return the element as well."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from log_tier.model.errors import InvalidKey
from log_tier.rows.avro.avro_types import AvroType, NamedTypes
from log_tier.rows.avro.logical_types import logical_of
from log_tier.rows.avro.plain_readers import Reader, check_uuid, index_at, plain_reader, sized_end
from log_tier.rows.avro.row_room import UNUSED_ROOM
from log_tier.rows.avro.varints import Misfit, int_value, long_value, unzigzag
from log_tier.rows.elements import encode_element

__all__ = ["KeyReader", "key_reader"]

KeyReader = Callable[[bytes, int, int], tuple[int, bytes]]
"""From the bytes, a place and their end: the place behind the value, and its element. Raises what a `Reader` raises."""

_NULL: Final = encode_element(None)
_FLOAT: Final = struct.Struct("<f")
_DOUBLE: Final = struct.Struct("<d")


def key_reader(type_: AvroType, named: NamedTypes, nan: bytes | None = None) -> KeyReader:
    """The reader of a field of a key: of a type that sorts, or of its union with null.

    `nan`: the element of what is no number; None: it is refused.
    """
    if isinstance(type_, list):
        readers = [None if each == "null" else key_reader(each, named, nan) for each in type_]
        count = len(readers)

        def read_union(data: bytes, at: int, end: int) -> tuple[int, bytes]:
            index, at = index_at(data, at, count, "types")
            read = readers[index]
            return (at, _NULL) if read is None else read(data, at, end)

        return read_union
    plain: Any = named.get(type_, type_) if isinstance(type_, str) else type_
    kind = plain if isinstance(plain, str) else plain["type"]
    logical = logical_of(plain)
    if logical == "uuid":
        return _read_uuid if kind == "string" else _fixed(b"\x30", plain["size"], b"")
    if logical is not None:
        return _time(logical, plain)
    if kind == "fixed":
        return _fixed(b"\x01", plain["size"], b"\0")
    if kind in ("int", "long"):
        return _integer(kind)
    if kind in ("float", "double"):
        return _number(_FLOAT if kind == "float" else _DOUBLE, nan)
    return _READERS[kind]


def _read_string(data: bytes, at: int, end: int) -> tuple[int, bytes]:
    at, stop = sized_end(data, at, end)
    text = data[at:stop]
    text.decode()
    if 0 in text:
        text = text.replace(b"\0", b"\0\xff")
    return stop, b"\x02" + text + b"\0"


def _read_bytes(data: bytes, at: int, end: int) -> tuple[int, bytes]:
    at, stop = sized_end(data, at, end)
    return stop, encode_element(data[at:stop])


def _read_uuid(data: bytes, at: int, end: int) -> tuple[int, bytes]:
    at, stop = sized_end(data, at, end)
    text = data[at:stop]
    check_uuid(text)
    return stop, b"\x30" + bytes.fromhex(text.replace(b"-", b"").decode())


def _read_boolean(data: bytes, at: int, end: int) -> tuple[int, bytes]:
    if data[at] > 1:
        raise Misfit(f"a boolean is 0 or 1, not {data[at]}")
    return at + 1, encode_element(data[at] == 1)


def _number(packed: struct.Struct, nan: bytes | None) -> KeyReader:
    def read_number(data: bytes, at: int, end: int) -> tuple[int, bytes]:
        stop = at + packed.size
        if stop > end:
            raise IndexError
        try:
            return stop, encode_element(packed.unpack_from(data, at)[0])
        except InvalidKey:
            if nan is not None:
                return stop, nan
            raise Misfit("it is NaN, which sorts nowhere among keys") from None

    return read_number


def _fixed(code: bytes, size: int, behind: bytes) -> KeyReader:
    def read_fixed(data: bytes, at: int, end: int) -> tuple[int, bytes]:
        stop = at + size
        if stop > end:
            raise IndexError
        raw = data[at:stop]
        return stop, code + (raw.replace(b"\0", b"\0\xff") if behind else raw) + behind

    return read_fixed


def _integer(kind: str) -> KeyReader:
    value_of = int_value if kind == "int" else long_value

    def read_integer(data: bytes, at: int, end: int) -> tuple[int, bytes]:
        value = data[at]
        at += 1
        if value > 127:
            value, at = value_of(data, value, at)
        # The element's code and its bytes in one: 0x14 and as many more, or fewer below zero, as there are bytes.
        if value & 1:
            value = ~(value >> 1)
            size = (value.bit_length() + 7) >> 3
            return at, (value + ((0x15 - size) << 8 * size) - 1).to_bytes(size + 1)
        value >>= 1
        size = (value.bit_length() + 7) >> 3
        return at, (value + ((0x14 + size) << 8 * size)).to_bytes(size + 1)

    return read_integer


def _time(logical: str, type_: Any) -> KeyReader:
    read = _plain(type_)
    factor = 1000 if logical.endswith("-millis") else 1
    if logical == "date":
        code, size, bias = b"\x40", 4, 1 << 31
    else:
        code, size, bias = b"\x42" if logical.startswith("local-") else b"\x41", 8, 1 << 63

    def read_time(data: bytes, at: int, end: int) -> tuple[int, bytes]:
        stop = read(data, at, end, UNUSED_ROOM)
        return stop, code + (_value_at(data, at) * factor + bias).to_bytes(size)

    return read_time


def _plain(type_: Any) -> Reader:
    read = plain_reader(type_)
    assert read is not None, f"{type_} has no bytes"
    return read


def _value_at(data: bytes, at: int) -> int:
    """An integer that its reader has accepted."""
    value = data[at]
    return unzigzag(value if value < 128 else long_value(data, value, at + 1)[0])


_READERS: Final[dict[str, KeyReader]] = {
    "string": _read_string,
    "bytes": _read_bytes,
    "boolean": _read_boolean,
}
