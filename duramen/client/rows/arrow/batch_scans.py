"""Scans in record batches, for modules that import no pyarrow."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any, Protocol

from duramen.client.rows.arrow.arrow_extra import need_arrow
from duramen.client.rows.row_codec import RowCodec
from log_tier.rows.tuple_key import ScanBounds

__all__ = ["BatchPages", "batch_scan", "batches_of", "reader_of", "table_of"]

Page = Sequence[tuple[bytes, bytes]]


class BatchPages(Protocol):
    """What `batch_scan.BatchScan` is."""

    @property
    def bounds(self) -> ScanBounds:
        """The keys to scan."""
        ...

    @property
    def limit(self) -> int | None:
        """Of the scan."""
        ...

    @property
    def schema(self) -> Any:
        """The `pyarrow.Schema` of the batches."""
        ...

    @property
    def is_done(self) -> bool:
        """No more rows are wanted."""
        ...

    def batch(self, page: Page) -> Any:
        """The `pyarrow.RecordBatch` of a page."""
        ...


def batch_scan(
    codec: RowCodec[Any], columns: Sequence[str] | None, where: Mapping[str, Any] | Any | None, limit: int | None
) -> BatchPages:
    """A scan in record batches. Raises `InvalidRequest`, `InvalidKey`, `InvalidSchema`."""
    need_arrow("a table as Arrow")
    from duramen.client.rows.arrow.batch_scan import BatchScan as Scan

    return Scan(codec, columns, where, limit)


def batches_of(scan: BatchPages, pages: Generator[Page, None, None]) -> Generator[Any, None, None]:
    """The batches of pages. Closes the pages."""
    try:
        for page in pages:
            yield scan.batch(page)
            if scan.is_done:
                return
    finally:
        pages.close()


def reader_of(scan: BatchPages, pages: Generator[Page, None, None]) -> Any:
    """The batches as a `pyarrow.RecordBatchReader`, which reads a page when its batch is wanted."""
    import pyarrow as pa

    return pa.RecordBatchReader.from_batches(scan.schema, batches_of(scan, pages))


def table_of(batches: Iterable[Any], schema: Any) -> Any:
    """The batches as a `pyarrow.Table`."""
    import pyarrow as pa

    return pa.Table.from_batches(batches, schema)
