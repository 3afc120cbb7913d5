"""A scan in record batches: which columns are read, and what becomes of a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from duramen.client.rows.arrow.row_filter import RowFilter
from duramen.client.rows.row_codec import RowCodec
from duramen.client.rows.shapes.shape import RowShape
from log_tier.model.errors import InvalidRequest
from log_tier.rows.columns.arrow_types import chosen_fields
from log_tier.rows.columns.batch_reader import BatchReader

__all__ = ["BatchScan"]


class BatchScan:
    """One call of `arrow_batches`. A page after the other goes through `batch`, until `is_done`."""

    def __init__(
        self,
        codec: RowCodec[Any],
        columns: Sequence[str] | None,
        where: Mapping[str, Any] | Any | None,
        limit: int | None,
    ) -> None:
        """Raises what `RowFilter` and `BatchReader` do, and `InvalidRequest` for a limit that is none."""
        if limit is not None and (type(limit) is not int or limit < 0):
            raise InvalidRequest(f"limit is a whole number, at least 0, or None, not {limit!r}")
        self._newest = newest = codec.definition.schemas[-1]
        self._dicts = codec.as_dicts()
        chosen = [each.name for each in chosen_fields(newest.schema, columns)]
        self._filter = RowFilter(where, codec.key, newest.schema)
        self.bounds = self._filter.bounds
        """The keys to scan."""
        extra = None if self._filter.columns is None else [each for each in self._filter.columns if each not in chosen]
        read = None if extra is None and columns is not None else [*chosen, *(extra or ())]
        self._reader = BatchReader(newest, read, self._by_newest)
        self._chosen = chosen
        self.schema: pa.Schema = pa.schema([self._reader.schema.field(name) for name in chosen])
        """Of the batches."""
        self._left = limit
        self.limit = limit if self._filter.is_bounds_only else None
        """Of the scan itself."""

    def knows(self, codec: RowCodec[Any]) -> None:
        """From now on rows of the schemas that this codec knows are read too, in the columns that the scan has."""
        schema = self._newest.schema
        self._dicts = RowCodec(codec.definition, RowShape(schema.name, schema))

    def _by_newest(self, value: bytes) -> bytes:
        """A value of another schema, by the one that was the newest when the scan began."""
        return self._dicts.encode(self._dicts.decode(value))[1]

    @property
    def is_done(self) -> bool:
        """No more rows are wanted."""
        return self._left == 0

    def batch(self, page: Sequence[tuple[bytes, bytes]]) -> pa.RecordBatch:
        """The rows of a page. Raises `InvalidValue` for bytes that are no row; `UnknownFormat` for a row of a schema
        that came later: give the scan a codec that knows it, and call again.
        """
        batch = self._filter.filtered(self._reader.batch([value for _, value in page]))
        if batch.schema.names != self._chosen:
            batch = batch.select(self._chosen)
        if self._left is not None:
            batch = batch.slice(0, self._left)
            self._left -= batch.num_rows
        return batch
