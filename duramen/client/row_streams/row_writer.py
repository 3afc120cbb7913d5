"""A stream of rows that survives its own interruption."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from types import TracebackType
from typing import Generic, TypeVar

from duramen.client.model.call_records import iterator_of
from duramen.client.model.results import ManyDone
from duramen.client.rows.arrow.given_frames import ArrowArray, ArrowStream, frame_windows
from duramen.client.rows.encoded_rows import numbered_rows
from duramen.client.rows.row_codec import RowCodec
from duramen.client.table_writer import TableWriter

__all__ = ["RowWriter"]

R = TypeVar("R")


class RowWriter(Generic[R]):
    """A stream of rows, resumable by its producer's name: `TableWriter` for rows. Use it with `async with`.

    A row that does not fit raises `InvalidRow` with its place in the stream, before it leaves. It takes no place among
    the records, so the stream can go on behind it, and a later run that leaves it out meets the same records.
    """

    def __init__(
        self, stored: TableWriter, opened: Callable[[float | None], Awaitable[tuple[RowCodec[R], float | None]]]
    ) -> None:
        self.stored = stored
        """The same stream, in bytes: `written`, `skipped`."""
        self._opened = opened
        self._rows = 0

    async def __aenter__(self) -> RowWriter[R]:
        await self._opened(None)
        await self.stored.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stored.__aexit__(kind, error, trace)

    async def put(self, row: R) -> None:
        """Add one row. As `TableWriter.put`; raises also `InvalidRow`."""
        await self.put_rows((row,))

    async def put_rows(self, rows: Iterable[R] | ArrowStream | ArrowArray) -> None:
        """Add many rows, or a frame as `RowTable.put_many` takes it. As `TableWriter.put_rows`; raises also
        `InvalidRow`, and rows before that one are added.
        """
        codec, _ = await self._opened(None)
        if isinstance(rows, (ArrowStream, ArrowArray)):
            async for window in frame_windows(codec.definition, rows, "the writer", self._rows):
                self._rows += len(window)
                await self.stored.put_rows(window)
            return
        await self.stored.put_rows(numbered_rows(codec, self._counted(rows), "the writer", self._rows))

    def _counted(self, rows: Iterable[R]) -> Iterator[R]:
        for row in iterator_of(rows, "put_rows takes rows"):
            self._rows += 1
            yield row

    async def flush(self) -> ManyDone:
        """Send what has gathered and wait until it is on stable storage. As `TableWriter.flush`."""
        return await self.stored.flush()
