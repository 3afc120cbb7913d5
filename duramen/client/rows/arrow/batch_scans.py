"""Scans in record batches, for modules that import no pyarrow."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, Protocol

from duramen.client.rows.arrow.arrow_extra import need_arrow
from duramen.client.rows.row_codec import RowCodec
from log_tier.model.errors import UnknownFormat
from log_tier.rows.tuple_key import ScanBounds

__all__ = ["BatchPages", "batch_scan", "batches_of", "reader_of", "table_of"]

Page = list[tuple[bytes, bytes]]
Newer = Callable[[UnknownFormat], RowCodec[Any]]


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

    def knows(self, codec: RowCodec[Any]) -> None:
        """From now on rows of the schemas that this codec knows are read too."""
        ...

    def batch(self, page: Page) -> Any:
        """The `pyarrow.RecordBatch` of a page. Raises `UnknownFormat` for a row of a schema that came later."""
        ...


def batch_scan(
    codec: RowCodec[Any], columns: Sequence[str] | None, where: Mapping[str, Any] | Any | None, limit: int | None
) -> BatchPages:
    """A scan in record batches. Raises `InvalidRequest`, `InvalidKey`, `InvalidSchema`."""
    need_arrow("a table as Arrow")
    from duramen.client.rows.arrow.batch_scan import BatchScan as Scan

    return Scan(codec, columns, where, limit)


def batches_of(scan: BatchPages, pages: Generator[Page, None, None], newer: Newer) -> Generator[Any, None, None]:
    """The batches of pages. Closes the pages. `newer`: finds the codec that knows a schema which came later."""
    try:
        for page in pages:
            yield _batch_of(scan, page, newer)
            if scan.is_done:
                return
    finally:
        pages.close()


def _batch_of(scan: BatchPages, page: Page, newer: Newer) -> Any:
    while True:
        try:
            return scan.batch(page)
        except UnknownFormat as unknown:
            scan.knows(newer(unknown))


def reader_of(batches: Iterable[Any], schema: Any) -> Any:
    """The batches as a `pyarrow.RecordBatchReader`, which reads a page when its batch is wanted."""
    import pyarrow as pa

    return pa.RecordBatchReader.from_batches(schema, batches)


def table_of(batches: Iterable[Any], schema: Any) -> Any:
    """The batches as a `pyarrow.Table`."""
    import pyarrow as pa

    return pa.Table.from_batches(batches, schema)
