"""Readers of columns whose values contain no others: a few steps of numpy for all rows of a batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from log_tier.rows.avro.varints import Misfit
from log_tier.rows.columns.row_bytes import Places, RowBytes

__all__ = [
    "BooleanColumn",
    "ColumnReader",
    "FixedColumn",
    "IntegerColumn",
    "NullColumn",
    "SizedColumn",
    "column_of",
    "uuid_texts",
]

_HEX: Final = np.frombuffer(b"0123456789abcdef", np.uint8)
_UUID_TEXT: Final = 36
_DASHES: Final = (8, 13, 18, 23)


class ColumnReader(Protocol):
    """Reads one value of each row. Raises `Misfit`, and `IndexError` where bytes are missing."""

    def read(self, rows: RowBytes, at: Places) -> tuple[pa.Array, Places]:
        """The values at these places, and where they end."""
        ...

    def skip(self, rows: RowBytes, at: Places) -> Places:
        """Where the values at these places end."""
        ...


def column_of(type_: pa.DataType, values: NDArray[Any]) -> pa.Array:
    """An array without nulls whose values are these, bit by bit."""
    return pa.Array.from_buffers(type_, len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


@dataclass(frozen=True)
class NullColumn:
    """Values without bytes."""

    def read(self, rows: RowBytes, at: Places) -> tuple[pa.Array, Places]:
        return pa.nulls(len(at)), at

    def skip(self, rows: RowBytes, at: Places) -> Places:
        return at


@dataclass(frozen=True)
class IntegerColumn:
    """Integers, and what is one: dates, times, and the symbols of enums."""

    type: pa.DataType
    symbols: tuple[str, ...] = ()

    def read(self, rows: RowBytes, at: Places) -> tuple[pa.Array, Places]:
        values, ends = rows.longs(at)
        if not self.symbols:
            return column_of(self.type, values if self.type.bit_width == 64 else values.astype(np.int32)), ends
        if len(values) and not 0 <= values.min() <= values.max() < len(self.symbols):
            raise Misfit("an enum has no such symbol")
        codes = column_of(pa.int32(), values.astype(np.int32))
        return pa.DictionaryArray.from_arrays(codes, pa.array(self.symbols, pa.string())), ends

    def skip(self, rows: RowBytes, at: Places) -> Places:
        return rows.longs(at)[1]


@dataclass(frozen=True)
class BooleanColumn:
    """Truth values."""

    def read(self, rows: RowBytes, at: Places) -> tuple[pa.Array, Places]:
        return pa.array(rows.fixed(at, 1)[:, 0] == 1), at + 1

    def skip(self, rows: RowBytes, at: Places) -> Places:
        return at + 1


@dataclass(frozen=True)
class FixedColumn:
    """Values of one length: floats, fixed bytes, and UUIDs that are such."""

    type: pa.DataType
    size: int
    make: Callable[[NDArray[np.uint8]], pa.Array] | None = None
    """An array of a matrix of bytes; None: they are its values."""

    def read(self, rows: RowBytes, at: Places) -> tuple[pa.Array, Places]:
        found = rows.fixed(at, self.size)
        return (column_of(self.type, found) if self.make is None else self.make(found)), at + self.size

    def skip(self, rows: RowBytes, at: Places) -> Places:
        return at + self.size


@dataclass(frozen=True)
class SizedColumn:
    """Text and bytes, behind their lengths."""

    type: pa.DataType

    def read(self, rows: RowBytes, at: Places) -> tuple[pa.Array, Places]:
        sizes, begins = rows.sizes(at)
        parts, offsets = rows.parts(begins, sizes)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(parts)]
        return pa.Array.from_buffers(self.type, len(at), buffers), begins + sizes

    def skip(self, rows: RowBytes, at: Places) -> Places:
        sizes, begins = rows.sizes(at)
        return begins + sizes


def uuid_texts(found: NDArray[np.uint8]) -> pa.Array:
    """UUIDs of 16 bytes as text."""
    digits = np.empty((len(found), 32), np.uint8)
    digits[:, ::2], digits[:, 1::2] = _HEX[found >> 4], _HEX[found & 15]
    texts = np.full((len(found), _UUID_TEXT), ord("-"), np.uint8)
    texts[:, [place for place in range(_UUID_TEXT) if place not in _DASHES]] = digits
    offsets = np.arange(len(found) + 1, dtype=np.int32) * np.int32(_UUID_TEXT)
    return pa.Array.from_buffers(pa.string(), len(found), [None, pa.py_buffer(offsets), pa.py_buffer(texts)])
