"""The reader of a type's columns: by steps for all rows where a type has one shape, else row by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from log_tier.rows.avro.avro_types import AvroType, NamedTypes
from log_tier.rows.avro.plain_readers import Reader
from log_tier.rows.avro.row_reader import ReaderTree
from log_tier.rows.avro.row_room import RowRoom
from log_tier.rows.avro.varints import Misfit
from log_tier.rows.columns.arrow_types import arrow_type, found_type, optional_branch
from log_tier.rows.columns.decimal_columns import DecimalColumn
from log_tier.rows.columns.looped_columns import column_builder
from log_tier.rows.columns.plain_columns import (
    BooleanColumn,
    ColumnReader,
    FixedColumn,
    IntegerColumn,
    NullColumn,
    SizedColumn,
    uuid_texts,
)
from log_tier.rows.columns.row_bytes import Places, RowBytes

__all__ = ["column_reader"]


@dataclass(frozen=True)
class _OptionalColumn:
    """A union of null and one other type: what the rows have that are not null, spread out."""

    inner: ColumnReader
    branch: int
    branches: int

    def read(self, rows: RowBytes, at: Places) -> tuple[pa.Array, Places]:
        valid, ends = self._valid(rows, at)
        if valid.all():
            return self.inner.read(rows, ends)
        # An enum that is null in every row has its symbols all the same: files take one dictionary for all batches.
        found, ends[valid] = self.inner.read(rows, ends[valid])
        places = pa.array(np.cumsum(valid) - 1, mask=~valid)
        return found.take(places), ends

    def skip(self, rows: RowBytes, at: Places) -> Places:
        valid, ends = self._valid(rows, at)
        ends[valid] = self.inner.skip(rows, ends[valid])
        return ends

    def _valid(self, rows: RowBytes, at: Places) -> tuple[np.ndarray[tuple[int], np.dtype[np.bool_]], Places]:
        branches, ends = rows.longs(at)
        if len(branches) and not 0 <= branches.min() <= branches.max() < self.branches:
            raise Misfit("a union has no such branch")
        return branches == self.branch, ends


@dataclass(frozen=True)
class _RecordColumn:
    """Nested records: a column for each field."""

    type: pa.DataType
    fields: Sequence[ColumnReader]

    def read(self, rows: RowBytes, at: Places) -> tuple[pa.Array, Places]:
        columns = []
        count = len(at)
        for each in self.fields:
            column, at = each.read(rows, at)
            columns.append(column)
        return pa.Array.from_buffers(self.type, count, [None], children=columns), at

    def skip(self, rows: RowBytes, at: Places) -> Places:
        for each in self.fields:
            at = each.skip(rows, at)
        return at


@dataclass(frozen=True)
class _LoopedColumn:
    """What has a shape of its own in each row. `pass_over`: a reader of one value, None where it has no bytes."""

    avro: AvroType
    named: NamedTypes
    pass_over: Reader | None

    def read(self, rows: RowBytes, at: Places) -> tuple[pa.Array, Places]:
        builder = column_builder(self.avro, self.named)
        add = partial(builder.add, rows.raw)
        ends = np.fromiter(map(add, at.tolist()), np.int64, len(at))
        return builder.finish(), ends

    def skip(self, rows: RowBytes, at: Places) -> Places:
        read = self.pass_over
        if read is None:
            return at
        raw, size = rows.raw, rows.size
        return np.fromiter((read(raw, each, size, RowRoom()) for each in at.tolist()), np.int64, len(at))


def column_reader(type_: AvroType, named: NamedTypes, inside: frozenset[str] = frozenset()) -> ColumnReader:
    """The reader of a type. `inside`: the records around it; one that comes again is read row by row."""
    if isinstance(type_, list):
        place = optional_branch(type_)
        if place is None or _recurs(type_[place], named, inside):
            return _looped(type_, named)
        inner = column_reader(type_[place], named, inside)
        if isinstance(inner, _LoopedColumn):
            return _looped(type_, named)
        return _OptionalColumn(inner, place, len(type_))
    found, kind, logical = found_type(type_, named)
    if kind in ("array", "map") or _recurs(type_, named, inside):
        return _looped(type_, named)
    if kind == "record":
        deeper = inside | {found["name"]}
        fields = [column_reader(each["type"], named, deeper) for each in found["fields"]]
        if any(isinstance(each, _LoopedColumn) for each in fields):
            return _looped(type_, named)
        return _RecordColumn(arrow_type(type_, named), fields)
    arrow = arrow_type(type_, named)
    if logical == "decimal":
        return DecimalColumn(arrow, found["size"] if kind == "fixed" else None, found.get("scale", 0))
    if kind == "fixed":
        return FixedColumn(arrow, found["size"], uuid_texts if logical == "uuid" else None)
    if kind in ("int", "long", "enum"):
        return IntegerColumn(arrow, tuple(found["symbols"]) if kind == "enum" else ())
    if kind in ("float", "double"):
        return FixedColumn(arrow, 4 if kind == "float" else 8)
    if kind in ("string", "bytes"):
        return SizedColumn(arrow)
    return BooleanColumn() if kind == "boolean" else NullColumn()


def _looped(type_: AvroType, named: NamedTypes) -> _LoopedColumn:
    return _LoopedColumn(type_, named, ReaderTree(named).reader(type_))


def _recurs(type_: AvroType, named: NamedTypes, inside: frozenset[str]) -> bool:
    found, kind, _ = found_type(type_, named)
    return kind == "record" and found["name"] in inside
