"""What `where=` says: the range of keys that is read, and what becomes of its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from duramen.client.rows.plans.refusals import shown
from duramen.client.rows.row_key import RowKey
from log_tier.model.errors import InvalidRequest
from log_tier.rows.columns.arrow_types import arrow_schema
from log_tier.rows.schema import RowSchema
from log_tier.rows.tuple_key import ScanBounds

__all__ = ["RowFilter"]


class RowFilter:
    """Of one call. Conditions on columns are:

    a value           the column is that; None: it is null
    (start, end)      from start (inclusive) to end (exclusive), None for an open end
    a list, a set     one of these
    """

    def __init__(self, where: Mapping[str, Any] | pc.Expression | None, key: RowKey, schema: RowSchema) -> None:
        """Raises `InvalidRequest` for a column that is none, and a value that is none of its column's; `InvalidKey` for
        one that is none of the key's.
        """
        self.expression: pc.Expression | None = None
        conditions: Mapping[str, Any] = {}
        if isinstance(where, Mapping):
            conditions = where
        elif isinstance(where, pc.Expression):
            self.expression = where
        elif where is not None:
            raise InvalidRequest(f"where= is a dict of columns, or a pyarrow Expression, not {type(where).__name__}")
        of_key = _leading(conditions, key.names)
        self.bounds: ScanBounds = key.bounds(of_key)
        """Of the keys that are read."""
        rest = {name: value for name, value in conditions.items() if name not in of_key}
        for name in rest:
            if schema.field_of(name) is None:
                known = ", ".join(each.name for each in schema.fields[:30])
                raise InvalidRequest(f"where= names {name!r}, which is no column; the table has {known}")
        types = arrow_schema(schema, list(rest))
        self._tests = [_Test(name, value, types.field(name).type) for name, value in rest.items()]
        self.columns: Sequence[str] | None = None if self.expression is not None else list(rest)
        """Those that the filter looks at; None: it may be any."""
        self.is_bounds_only = not self._tests and self.expression is None
        """The range of keys is all that was asked for."""

    def filtered(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that fit."""
        if self.expression is not None:
            table = pa.Table.from_batches([batch]).filter(self.expression).combine_chunks()
            batches = table.to_batches()
            return batches[0] if batches else batch.slice(0, 0)
        for test in self._tests:
            batch = batch.filter(test.mask(batch.column(test.name)))
        return batch


def _leading(conditions: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The conditions that a scan of keys can have: values of the first fields, and a range of the one behind them."""
    found: dict[str, Any] = {}
    for name in names:
        if name not in conditions or isinstance(conditions[name], (list, set, frozenset)):
            break
        found[name] = conditions[name]
        if isinstance(conditions[name], tuple):
            break
    return found


class _Test:
    """The condition of one column."""

    def __init__(self, name: str, value: Any, type_: pa.DataType) -> None:
        self.name = name
        self._type = pa.string() if pa.types.is_dictionary(type_) else type_
        if pa.types.is_nested(type_):
            raise InvalidRequest(f"where= names {name!r}, which has values inside: give a pyarrow Expression")
        self._value = value
        if isinstance(value, tuple):
            if len(value) != 2:
                raise InvalidRequest(f"a range of {name} is (start, end), with None for an open end, not {value!r}")
            self._range = [None if each is None else self._scalar(each) for each in value]
        elif isinstance(value, (list, set, frozenset)):
            self._set = pa.array([self._scalar(each).as_py() for each in value], self._type)
        else:
            self._one = self._scalar(value)

    def mask(self, column: pa.Array) -> pa.Array:
        """Which rows fit."""
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if isinstance(self._value, tuple):
            start, end = self._range
            mask = pa.array([True] * len(column)) if start is None and end is None else None
            if start is not None:
                mask = pc.greater_equal(column, start)
            if end is not None:
                below = pc.less(column, end)
                mask = below if mask is None else pc.and_(mask, below)
        elif isinstance(self._value, (list, set, frozenset)):
            mask = pc.is_in(column, self._set)
        else:
            mask = pc.is_null(column) if self._value is None else pc.equal(column, self._one)
        return pc.fill_null(mask, False)

    def _scalar(self, value: Any) -> pa.Scalar:
        plain = str(value) if isinstance(value, UUID) else value.name if isinstance(value, Enum) else value
        try:
            if isinstance(plain, bool) is not pa.types.is_boolean(self._type) and plain is not None:
                raise TypeError("a truth value is no number")
            return pa.scalar(plain, self._type)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            raise InvalidRequest(
                f"where= compares {self.name} with {shown(value)}, and the column is {self._type}"
            ) from None
