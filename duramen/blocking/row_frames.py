"""A table of rows as Arrow, for a program without an event loop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from duramen.blocking.row_indexes import IndexedRows
from duramen.client.model.consistency import AsOf, Level
from duramen.client.rows.arrow import row_frames
from duramen.client.rows.arrow.batch_scans import batch_scan, batches_of, reader_of, table_of
from duramen.client.rows.row_codec import RowCodec
from log_tier.model.errors import UnknownFormat
from log_tier.model.tokens import Token

__all__ = ["FramedRows"]

R = TypeVar("R")


class FramedRows(IndexedRows[R], ABC):
    """A table of rows, as far as it gives frames: batches are made in the caller's thread."""

    @abstractmethod
    def _opened(self, timeout: float | None) -> tuple[RowCodec[R], float | None]:
        """The codec, and how many seconds of the call are left."""
        ...

    def arrow_batches(
        self,
        columns: Sequence[str] | None = None,
        *,
        where: Mapping[str, Any] | Any | None = None,
        limit: int | None = None,
        at: AsOf | None = None,
        after: str | Token | None = None,
        level: Level = "session",
        timeout: float | None = None,
    ) -> Any:
        return reader_of(*self._begun(columns, where, limit, at=at, after=after, level=level, timeout=timeout))

    def to_arrow(
        self,
        columns: Sequence[str] | None = None,
        *,
        where: Mapping[str, Any] | Any | None = None,
        limit: int | None = None,
        at: AsOf | None = None,
        after: str | Token | None = None,
        level: Level = "session",
        timeout: float | None = None,
    ) -> Any:
        return table_of(*self._begun(columns, where, limit, at=at, after=after, level=level, timeout=timeout))

    arrow_batches.__doc__ = row_frames.RowFrames.arrow_batches.__doc__
    to_arrow.__doc__ = row_frames.RowFrames.to_arrow.__doc__

    def _begun(
        self,
        columns: Sequence[str] | None,
        where: Mapping[str, Any] | Any | None,
        limit: int | None,
        *,
        at: AsOf | None,
        after: str | Token | None,
        level: Level,
        timeout: float | None,
    ) -> tuple[Generator[Any, None, None], Any]:
        """The batches, and their schema."""
        codec, timeout = self._opened(timeout)
        scan = batch_scan(codec, columns, where, limit)
        pages = self._inner.value_pages(scan, at=at, after=after, level=level, timeout=timeout)

        def newer(unknown: UnknownFormat) -> RowCodec[R]:
            return self._loop.run(partial(self._inner.newer_codec, unknown, timeout))

        return batches_of(scan, self._loop.iterate(pages), newer), scan.schema

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows by Arrow's stream protocol: `polars.from_arrow(flights)`, `pyarrow.table(flights)`."""
        return self.arrow_batches().__arrow_c_stream__(requested_schema)
