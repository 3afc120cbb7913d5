"""The rows of a table as frames of Arrow: the reading half."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, TypeVar

from duramen.client.model.consistency import AsOf, Level
from duramen.client.rows.arrow.batch_scans import BatchPages, Page, batch_scan, table_of
from duramen.client.rows.opened_rows import OpenedRows
from log_tier.model.errors import UnknownFormat
from log_tier.model.tokens import Token

__all__ = ["RowFrames"]

R = TypeVar("R")


class RowFrames(OpenedRows[R]):
    """A table of rows, as far as it gives frames."""

    async def arrow_batches(
        self,
        columns: Sequence[str] | None = None,
        *,
        where: Mapping[str, Any] | Any | None = None,
        limit: int | None = None,
        at: AsOf | None = None,
        after: str | Token | None = None,
        level: Level = "session",
        timeout: float | None = None,
    ) -> AsyncGenerator[Any, None]:
        """The rows as `pyarrow.RecordBatch`es, in the order of the key, one for each page of the scan.

        `columns` are those wanted, in their order; None: all, as the newest schema has them that this client knows.
        `where` is a dict, `{"carrier": "UA", "flight": (1500, 1600), "delay": None}`: a value, None for null, (start,
        end) with None for an open end, or a list of values. What it says of the first fields of the key decides which
        keys are read, as in `scan`. It may be a `pyarrow.compute` expression, too, for which all rows are read. `limit`
        is of the rows that fit. `at` is a token, or a time with a time zone, of a table with `history=`: the rows as
        they were then, in the columns of the newest schema. The rest is as for `Table.scan`.

        The blocking table returns a `pyarrow.RecordBatchReader`, and has Arrow's stream protocol itself: pandas,
        Polars and DuckDB take it as it is. Needs `duramen[parquet]`. Raises what `scan` does, and `InvalidRequest` for
        a column that is none.
        """
        codec, timeout = await self._opened(timeout)
        scan = batch_scan(codec, columns, where, limit)
        pages = self.value_pages(scan, at=at, after=after, level=level, timeout=timeout)
        try:
            async for (page,) in pages:
                yield await self._batch_of(scan, page, timeout)
                if scan.is_done:
                    return
        finally:
            await pages.aclose()

    async def _batch_of(self, scan: BatchPages, page: Page, timeout: float | None) -> Any:
        while True:
            try:
                return await asyncio.to_thread(scan.batch, page)
            except UnknownFormat as unknown:
                scan.knows(await self.newer_codec(unknown, timeout))

    async def value_pages(
        self,
        scan: BatchPages,
        *,
        at: AsOf | None = None,
        after: str | Token | None = None,
        level: Level = "session",
        timeout: float | None = None,
    ) -> AsyncGenerator[list[list[tuple[bytes, bytes]]], None]:
        """For the blocking API: the pages of a scan, each in a list of its own."""
        pages = self._found_in.scan_pages(
            start=scan.bounds.start,
            end=scan.bounds.end,
            limit=scan.limit,
            at=at,
            after=after,
            level=level,
            timeout=timeout,
        )
        try:
            async for page in pages:
                yield [page]
        finally:
            await pages.aclose()

    async def to_arrow(
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
        """The rows as a `pyarrow.Table`. Arguments, cost and errors: as `arrow_batches`, all of it in memory."""
        codec, timeout = await self._opened(timeout)
        schema = batch_scan(codec, columns, where, limit).schema
        found = self.arrow_batches(columns, where=where, limit=limit, at=at, after=after, level=level, timeout=timeout)
        return table_of([each async for each in found], schema)
