"""Arrow tables, and frames of pandas and Polars, as rows of a table."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator
from itertools import islice
from typing import Any, Final, Protocol, runtime_checkable

from duramen.client.model.results import ManyDone
from duramen.client.rows.arrow.arrow_extra import need_arrow
from log_tier.model.errors import DuramenError, InvalidKey, InvalidRow
from log_tier.rows.definition import TableDefinition

__all__ = ["ArrowArray", "ArrowStream", "frame_windows", "put_frames"]

_ROWS: Final = 4096
"""Encoded at a time."""
_WINDOW_ROWS: Final = 8192
"""Yielded at a time."""


@runtime_checkable
class ArrowStream(Protocol):
    """What streams record batches by Arrow's C interface: `pyarrow.Table` and readers, Polars, pandas from 2.2 on,
    DuckDB's relations, and tables of rows.
    """

    def __arrow_c_stream__(self, requested_schema: object = None, /) -> object:
        """A capsule with the stream."""


@runtime_checkable
class ArrowArray(Protocol):
    """What is one record batch."""

    def __arrow_c_array__(self, requested_schema: object = None, /) -> Any:
        """Capsules with its schema and its columns."""


class PutsMany(Protocol):
    """`Table.put_many`."""

    async def __call__(
        self, items: Iterable[tuple[bytes, bytes]], /, *, ttl: float | None, timeout: float | None
    ) -> ManyDone: ...


async def frame_windows(
    definition: TableDefinition, frame: ArrowStream | ArrowArray, of: str, first: int
) -> AsyncGenerator[list[tuple[bytes, bytes]], None]:
    """The keys and values of a frame's rows, in windows. `first`: the number of its first row in messages.

    All of it runs in threads: a stream may be a blocking table, or a query over one, which waits for the event loop.

    Raises `InvalidSchema` for columns that are not the table's, before the first row; `InvalidRow` and `InvalidKey`
    with the number of the row, when those before it were yielded.
    """
    pairs = _pairs(definition, frame, of, first)

    def following() -> tuple[list[tuple[bytes, bytes]], DuramenError | None]:
        window: list[tuple[bytes, bytes]] = []
        try:
            window.extend(islice(pairs, _WINDOW_ROWS))  # keeps what came before an error
        except DuramenError as error:
            return window, error
        return window, None

    while True:
        window, refused = await asyncio.to_thread(following)
        if window:
            yield window
        if refused is not None:
            raise refused
        if not window:
            return


def _pairs(
    definition: TableDefinition, frame: ArrowStream | ArrowArray, of: str, first: int
) -> Iterator[tuple[bytes, bytes]]:
    need_arrow("a frame of rows")
    import pyarrow as pa

    from log_tier.rows.columns.batch_writer import BatchWriter

    if isinstance(frame, ArrowStream):
        reader = pa.RecordBatchReader.from_stream(frame)
    else:
        batch = pa.record_batch(frame)
        reader = pa.RecordBatchReader.from_batches(batch.schema, [batch])
    writer = BatchWriter(definition, reader.schema)
    number = first
    for batch in reader:
        for start in range(0, batch.num_rows, _ROWS):
            for pair in writer.pairs(batch.slice(start, _ROWS)):
                if isinstance(pair, InvalidRow):
                    raise InvalidRow(f"row {number} of {of}: {pair.message}", **pair.fields)
                if isinstance(pair, InvalidKey):
                    raise InvalidKey(f"row {number} of {of}: {pair.message}", **pair.fields)
                yield pair
                number += 1


async def put_frames(
    put: PutsMany,
    definition: TableDefinition,
    rows: ArrowStream | ArrowArray,
    *,
    ttl: float | None,
    timeout: float | None,
) -> ManyDone:
    """Write a frame, window by window. Raises what `frame_windows` and `put` do; windows before that are written."""
    done = await put((), ttl=ttl, timeout=timeout)
    offsets, records = dict(done.offsets), 0
    async for window in frame_windows(definition, rows, "put_many", 0):
        part = await put(window, ttl=ttl, timeout=timeout)
        records += part.records
        offsets.update(part.offsets)
    return ManyDone(done.table_id, records, offsets)
