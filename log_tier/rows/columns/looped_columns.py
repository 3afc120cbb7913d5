"""Builders of columns whose values contain others: row by row, as each row has its own shape.

A builder adds one value after the other, nulls where a union has another branch, and is made into an array at the end.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa

from log_tier.rows.avro.avro_types import AvroType, NamedTypes
from log_tier.rows.avro.varints import Misfit, long_value, unzigzag
from log_tier.rows.columns.arrow_types import arrow_type, found_type, optional_branch
from log_tier.rows.json_rows.json_leaves import decimal_text

__all__ = ["ColumnBuilder", "column_builder"]

_FLOAT: Final = struct.Struct("<f")
_DOUBLE: Final = struct.Struct("<d")


class ColumnBuilder(Protocol):
    """Collects the values of a column."""

    def add(self, data: bytes, at: int) -> int:
        """Read one value, and return where it ends. Raises `Misfit`, `IndexError`."""
        ...

    def add_null(self) -> None:
        """A row that has no value of this type."""
        ...

    def finish(self) -> pa.Array:
        """All of them."""
        ...


def _long(data: bytes, at: int) -> tuple[int, int]:
    value = data[at]
    at += 1
    if value > 127:
        value, at = long_value(data, value, at)
    return unzigzag(value), at


def _sized(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = _long(data, at)
    if not 0 <= size <= len(data) - at:
        raise Misfit("a length is beyond the value")
    return data[at : at + size], at + size


def _items(data: bytes, at: int) -> tuple[int, int]:
    """How many items the next block has."""
    count, at = _long(data, at)
    if count < 0:
        count, at = -count, _long(data, at)[1]
    if count > len(data) - at:
        raise Misfit("a block has more items than bytes")
    return count, at


def _validity(valid: Sequence[bool]) -> pa.Buffer | None:
    return None if all(valid) else pa.array(valid, pa.bool_()).buffers()[1]


class _Leaves:
    """Values that contain no others."""

    def __init__(
        self, type_: pa.DataType, read: Callable[[bytes, int], tuple[Any, int]], symbols: Sequence[str] = ()
    ) -> None:
        """`symbols`: of an enum, whose values are read as their numbers."""
        self._type, self._read, self._symbols = type_, read, symbols
        self._values: list[Any] = []

    def add(self, data: bytes, at: int) -> int:
        value, at = self._read(data, at)
        self._values.append(value)
        return at

    def add_null(self) -> None:
        self._values.append(None)

    def finish(self) -> pa.Array:
        type_ = self._type
        if self._symbols:
            return pa.DictionaryArray.from_arrays(pa.array(self._values, pa.int32()), pa.array(self._symbols))
        if pa.types.is_decimal(type_):
            width = type_.bit_width // 8
            raw = b"".join((each or 0).to_bytes(width, "little", signed=True) for each in self._values)
            valid = _validity([each is not None for each in self._values])
            return pa.Array.from_buffers(type_, len(self._values), [valid, pa.py_buffer(raw)])
        if pa.types.is_temporal(type_):
            return pa.array(self._values, pa.int64() if type_.bit_width == 64 else pa.int32()).view(type_)
        return pa.array(self._values, type_)


class _Records:
    """Values with a child for each field; of a union, for each branch."""

    def __init__(self, type_: pa.DataType, children: Sequence[ColumnBuilder], branches: Sequence[int | None]) -> None:
        """`branches`: of a union, the child of each branch, None for null; empty: of a record."""
        self._type, self._children, self._branches = type_, children, branches
        self._valid: list[bool] = []

    def add(self, data: bytes, at: int) -> int:
        if not self._branches:
            for child in self._children:
                at = child.add(data, at)
            self._valid.append(True)
            return at
        number, at = _long(data, at)
        if not 0 <= number < len(self._branches):
            raise Misfit("a union has no such branch")
        chosen = self._branches[number]
        if chosen is None:
            self.add_null()
            return at
        for place, child in enumerate(self._children):
            if place == chosen:
                at = child.add(data, at)
            else:
                child.add_null()
        self._valid.append(True)
        return at

    def add_null(self) -> None:
        for child in self._children:
            child.add_null()
        self._valid.append(False)

    def finish(self) -> pa.Array:
        children = [each.finish() for each in self._children]
        return pa.Array.from_buffers(self._type, len(self._valid), [_validity(self._valid)], children=children)


class _Many:
    """Arrays and maps. The children: what an item has."""

    def __init__(self, type_: pa.DataType, children: Sequence[ColumnBuilder]) -> None:
        self._type, self._children = type_, children
        self._offsets = [0]
        self._valid: list[bool] = []

    def add(self, data: bytes, at: int) -> int:
        total = self._offsets[-1]
        while True:
            count, at = _items(data, at)
            if not count:
                break
            total += count
            for _ in range(count):
                for child in self._children:
                    at = child.add(data, at)
        self._offsets.append(total)
        self._valid.append(True)
        return at

    def add_null(self) -> None:
        self._offsets.append(self._offsets[-1])
        self._valid.append(False)

    def finish(self) -> pa.Array:
        children = [each.finish() for each in self._children]
        if pa.types.is_map(self._type):
            entry = pa.struct([self._type.key_field, self._type.item_field])
            children = [pa.Array.from_buffers(entry, self._offsets[-1], [None], children=children)]
        offsets = pa.py_buffer(np.array(self._offsets, np.int32))
        return pa.Array.from_buffers(self._type, len(self._valid), [_validity(self._valid), offsets], children=children)


class _Optional:
    """A union of null and one other type. The type itself says which rows are null."""

    def __init__(self, inner: ColumnBuilder, branch: int) -> None:
        self._inner, self._branch = inner, branch

    def add(self, data: bytes, at: int) -> int:
        number, at = _long(data, at)
        if number == self._branch:
            return self._inner.add(data, at)
        if number not in (0, 1):
            raise Misfit("a union has no such branch")
        self._inner.add_null()
        return at

    def add_null(self) -> None:
        self._inner.add_null()

    def finish(self) -> pa.Array:
        return self._inner.finish()


def column_builder(type_: AvroType, named: NamedTypes) -> ColumnBuilder:
    """The builder of a type that Arrow can have."""
    arrow = arrow_type(type_, named)
    if isinstance(type_, list):
        place = optional_branch(type_)
        if place is not None:
            return _Optional(column_builder(type_[place], named), place)
        others = [each for each in type_ if each != "null"]
        branches = [None if each == "null" else others.index(each) for each in type_]
        return _Records(arrow, [column_builder(each, named) for each in others], branches)
    found, kind, _ = found_type(type_, named)
    if kind == "record":
        return _Records(arrow, [column_builder(each["type"], named) for each in found["fields"]], ())
    if kind == "array":
        return _Many(arrow, [column_builder(found["items"], named)])
    if kind == "map":
        return _Many(arrow, [column_builder("string", named), column_builder(found["values"], named)])
    symbols = found["symbols"] if kind == "enum" else ()
    return _Leaves(arrow, _leaf_reader(type_, named), symbols)


def _leaf_reader(type_: AvroType, named: NamedTypes) -> Callable[[bytes, int], tuple[Any, int]]:
    found, kind, logical = found_type(type_, named)
    read = _LEAVES.get(kind)
    if read is None and kind == "fixed":
        size = found["size"]
        read = lambda data, at: (data[at : at + size], at + size)  # noqa: E731
    assert read is not None, f"{kind} contains no other values"
    inner = read
    if logical == "decimal":
        is_long, scale = pa.types.is_string(arrow_type(type_, named)), found.get("scale", 0)

        def decimal(data: bytes, at: int) -> tuple[Any, int]:
            raw, at = inner(data, at)
            whole = int.from_bytes(raw, signed=True)
            return decimal_text(whole, scale) if is_long else whole, at

        return decimal
    if logical == "uuid" and kind == "fixed":
        return lambda data, at: (_uuid(inner(data, at)[0]), at + 16)
    return inner


def _uuid(raw: bytes) -> str:
    text = raw.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def _text(data: bytes, at: int) -> tuple[str, int]:
    raw, at = _sized(data, at)
    return raw.decode(), at


_LEAVES: Final[dict[str, Callable[[bytes, int], tuple[Any, int]]]] = {
    "null": lambda data, at: (None, at),
    "boolean": lambda data, at: (data[at] == 1, at + 1),
    "enum": _long,
    "int": _long,
    "long": _long,
    "float": lambda data, at: (_FLOAT.unpack_from(data, at)[0], at + 4),
    "double": lambda data, at: (_DOUBLE.unpack_from(data, at)[0], at + 8),
    "string": _text,
    "bytes": _sized,
}
