"""Stored rows as columns: those that meet a read's conditions, in the types that Spark has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from log_tier.model.errors import DuramenError, InvalidValue, UnknownFormat
from log_tier.rows.definition import TableDefinition
from log_tier.rows.finding.row_filter import row_filter
from log_tier.rows.framing import FRAME_BYTES
from log_tier.rows.table_index import FieldCondition
from spark_bulk.source.model.row_columns import row_fields
from spark_bulk.source.table.closed_index_file import Rows
from spark_bulk.source.table.schema_columns import SchemaColumns

__all__ = ["RowPages"]


class RowPages:
    """Reads rows of one partition by the table's newest schema: those of earlier ones get its defaults."""

    def __init__(
        self, definition: TableDefinition, schema: pa.Schema, rest: Sequence[FieldCondition], where: str
    ) -> None:
        """`schema`: of the read. `rest`: what each row is looked at for. `where`: the partition, for people."""
        self._definition = definition
        names = row_fields(schema, definition)
        self._kinds = {name: schema.field(name).type for name in names}
        self._readers: dict[bytes, SchemaColumns] = {}
        """By the frame of a value: of those schemas of which a row has come."""
        self._meets = row_filter(rest, definition) if rest else None
        self._where = where
        self.want_values = bool(names or rest)
        """Does it look at the rows' values?"""

    def read(self, rows: Rows) -> tuple[Rows, dict[str, pa.Array]]:
        """The rows that meet the conditions, and their fields as columns.

        Raises `InvalidValue` for bytes that are no row, `UnknownFormat` for a row of a schema that came after the
        read was planned, `InvalidRow` for one that the newest schema cannot read.
        """
        if not self.want_values:
            return rows, {}
        assert rows.values is not None, "values were wanted"
        values: Sequence[bytes] = rows.values.to_numpy(zero_copy_only=False).tolist()
        try:
            if self._meets is not None:
                kept = [row for row, value in enumerate(values) if self._meets(value)]
                values = [values[row] for row in kept]
                rows = _taken(rows, kept)
            return rows, self._columns(values)
        except UnknownFormat as error:
            raise UnknownFormat(
                f"{self._where}: {error.message}: the table was altered while it was read, read it again",
                **error.fields,
            ) from error
        except DuramenError as error:
            raise type(error)(f"{self._where}: {error.message}", **error.fields) from error

    def _columns(self, values: Sequence[bytes]) -> dict[str, pa.Array]:
        """The columns of rows of several schemas: those of one are read together."""
        heads = [value[:FRAME_BYTES] for value in values]
        found = set(heads)
        if len(found) == 1:
            return self._reader(found.pop()).read(values)
        if not found:
            return {name: pa.array([], kind) for name, kind in self._kinds.items()}
        order: list[int] = []
        parts: list[dict[str, pa.Array]] = []
        for head in found:
            rows = [row for row, each in enumerate(heads) if each == head]
            order += rows
            parts.append(self._reader(head).read([values[row] for row in rows]))
        places = pa.array(sorted(range(len(order)), key=order.__getitem__))
        return {name: pa.concat_arrays([part[name] for part in parts]).take(places) for name in self._kinds}

    def _reader(self, head: bytes) -> SchemaColumns:
        found = self._readers.get(head)
        if found is None:
            if len(head) < FRAME_BYTES or head[0]:
                raise InvalidValue(f"a stored value is no row of its table: {head!r} is no schema's number")
            found = SchemaColumns(self._definition, int.from_bytes(head[1:]), self._kinds)
            self._readers[head] = found
        return found


def _taken(rows: Rows, kept: Sequence[int]) -> Rows:
    places = pa.array(kept, pa.int64())
    return replace(
        rows,
        count=len(kept),
        keys=None if rows.keys is None else rows.keys.take(places),
        values=None,
        versions=rows.versions[kept],
        expiries=None if rows.expiries is None else rows.expiries[kept],
    )
