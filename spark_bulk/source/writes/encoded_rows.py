"""Columns of a table of rows, as stored keys and values: what `drafted_rows.py` takes. Pure, over Arrow arrays.

    one column for each field     a field that has a default may be left out
    operation                     string: put or delete; without the column all are puts. A delete needs its key alone
    expires_at, ttl_ms            as for tables of bytes

Where the rows have a field of that name, it is the field's column. A row that does not fit is refused by name: the
task, the row's place in the task's input, the field, its value and the expected type.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

import pyarrow as pa

from log_tier.model.errors import DuramenError, InvalidKey, InvalidRequest, InvalidRow, InvalidValue
from log_tier.rows.columns.arrow_types import arrow_schema
from log_tier.rows.columns.batch_writer import BatchWriter
from log_tier.rows.definition import TableDefinition
from spark_bulk.source.model.row_columns import as_row_column, row_fields

__all__ = ["RowEncoder"]

_OURS: Final = ("operation", "expires_at", "ttl_ms")


class RowEncoder:
    """Encodes rows by the newest schema that their table had when the write was planned."""

    def __init__(self, definition: TableDefinition, schema: pa.Schema) -> None:
        """`schema`: of the rows. Raises `InvalidSchema` for a column that is no field, one that comes twice, and a
        field without a column and without a default; `InvalidRequest` for a table whose keys are no fields of its rows.
        """
        if not isinstance(definition.key, tuple):
            raise InvalidRequest(
                f"the keys of this table are {definition.key}, and no fields of its rows: write them through a client"
            )
        if definition.judge.unique is not None:
            raise InvalidRequest(
                "the table has a unique index, by which the log may reject a row, and a job of Spark does not wait for "
                "verdicts: write the rows through a client, as `duramen load` does"
            )
        self._definition = definition
        self._key = tuple(each.name for each in definition.key)
        self._is_uuid = [each.type == "uuid" for each in definition.key]
        self._entries = definition.judge.entries
        fields = row_fields(schema, definition)
        self._ours = [name for name in _OURS if name in schema.names and name not in fields]
        self._names = [name for name in schema.names if name not in self._ours]
        self._kinds = {each.name: each.type for each in arrow_schema(definition.schemas[-1].schema, sorted({*fields}))}
        self._is_key_only = "operation" in self._ours and set(self._names) == set(self._key)
        self._writer = (
            None
            if self._is_key_only
            else BatchWriter(definition, pa.schema([(name, schema.field(name).type) for name in self._names]))
        )

    def stored_schema(self, schema: pa.Schema) -> pa.Schema:
        """The schema of what `stored` makes of rows of `schema`."""
        ours = [schema.field(name) for name in self._ours]
        return pa.schema([("key", pa.large_binary()), ("value", pa.large_binary()), *ours])

    def stored(self, rows: pa.RecordBatch, *, where: str, first_row: int) -> pa.RecordBatch:
        """The rows as stored keys and values, and the columns that are no fields. Some 6 µs a row.

        `where` names the task, `first_row` is the place of the first row in its input: for people. Raises `InvalidRow`,
        `InvalidKey` or `InvalidValue` naming the row.
        """
        deletes = self._deletes(rows, where, first_row)
        columns = [self._given(rows, name, where) for name in self._names]
        given = pa.RecordBatch.from_arrays(columns, self._names)
        keys: list[bytes] = [b""] * rows.num_rows
        values: list[bytes | None] = [None] * rows.num_rows
        puts = [row for row, gone in enumerate(deletes) if not gone]
        if puts:
            self._put(given if len(puts) == rows.num_rows else given.take(puts), puts, keys, values, where, first_row)
        if len(puts) < rows.num_rows:
            gone = [row for row, each in enumerate(deletes) if each]
            for row, fields in zip(gone, given.select(self._key).take(gone).to_pylist(), strict=True):
                try:
                    keys[row] = self._key_of(fields)
                except DuramenError as error:
                    raise type(error)(f"{where}, row {first_row + row}: {error.message}", **error.fields) from None
        ours = [rows.column(name) for name in self._ours]
        return pa.RecordBatch.from_arrays(
            [pa.array(keys, pa.large_binary()), pa.array(values, pa.large_binary()), *ours],
            ["key", "value", *self._ours],
        )

    def _put(
        self,
        given: pa.RecordBatch,
        puts: Sequence[int],
        keys: list[bytes],
        values: list[bytes | None],
        where: str,
        first_row: int,
    ) -> None:
        if self._writer is None:
            raise InvalidRow(
                f"{where}, row {first_row + puts[0]}: it is put, and has no columns but those of its key: select the "
                "others too, or 'delete' as its `operation`",
                field="",
                expected="a row",
            )
        for row, pair in zip(puts, self._writer.pairs(given), strict=True):
            if isinstance(pair, InvalidRow | InvalidKey):
                raise type(pair)(f"{where}, row {first_row + row}: {pair.message}", **pair.fields)
            keys[row], values[row] = pair
        if self._entries is not None:
            for row in puts:
                value: Any = values[row]
                refusal = self._entries.refusal(keys[row], value)
                if refusal is not None:
                    raise InvalidRow(f"{where}, row {first_row + row}: {refusal}", field="", expected="a shorter row")

    def _given(self, rows: pa.RecordBatch, name: str, where: str) -> pa.Array:
        column = rows.column(name)
        if name not in self._kinds:
            return column
        try:
            return as_row_column(column, self._kinds[name])
        except pa.ArrowException as error:
            kind = str(self._kinds[name])
            raise InvalidRow(f"{where}: the field {name} is no {kind}: {error}", field=name, expected=kind) from None

    def _deletes(self, rows: pa.RecordBatch, where: str, first_row: int) -> Sequence[bool]:
        if "operation" not in self._ours:
            return [False] * rows.num_rows
        operations = rows.column("operation").to_pylist()
        for row, each in enumerate(operations):
            if each not in ("put", "delete"):
                raise InvalidValue(
                    f"{where}, row {first_row + row}: `operation` is {each!r}; rows are put or deleted, and their "
                    "fields are updated through a client"
                )
        return [each == "delete" for each in operations]

    def _key_of(self, fields: dict[str, Any]) -> bytes:
        """The key of a row that is deleted. Raises `InvalidKey`, which names the field."""
        elements = []
        for name, is_uuid in zip(self._key, self._is_uuid, strict=True):
            value = fields[name]
            if is_uuid and isinstance(value, str):
                try:
                    value = UUID(value)
                except ValueError:
                    raise InvalidKey(f"the key's field {name} is {value[:60]!r}, which is no UUID") from None
            elements.append(value)
        return self._definition.key_of(elements)
