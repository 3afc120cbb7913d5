"""Rows that are written together, and streams of rows: the atomic batch and the writer with a codec in front."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from types import TracebackType
from typing import Any, Generic, TypeVar

from duramen.client.atomic import AtomicBatch
from duramen.client.model.call_records import iterator_of
from duramen.client.model.results import Done, ManyDone
from duramen.client.rows.arrow.given_frames import ArrowArray, ArrowStream, frame_windows
from duramen.client.rows.encoded_rows import numbered_rows
from duramen.client.rows.row_codec import RowCodec
from duramen.client.rows.row_patches import PatchedFields
from duramen.client.table_writer import TableWriter

__all__ = ["AtomicRows", "RowWriter"]

R = TypeVar("R")


class AtomicRows(Generic[R]):
    """Collects rows; `commit()` writes them. If one row's condition fails, none takes effect. Calls can be chained.

    Rows are checked and encoded by `commit`, before anything leaves.
    """

    def __init__(
        self, batch: AtomicBatch, opened: Callable[[float | None], Awaitable[tuple[RowCodec[R], float | None]]]
    ) -> None:
        self._batch = batch
        self._opened = opened
        self._calls: list[Callable[[RowCodec[R]], Callable[[], object]]] = []
        """From a codec to what adds a record; first all are encoded."""

    def __len__(self) -> int:
        return len(self._calls) or len(self._batch)

    def put(
        self,
        row: R,
        *,
        ttl: float | None = None,
        if_absent: bool = False,
        if_present: bool = False,
        if_version: int | None = None,
    ) -> AtomicRows[R]:
        """Add a row; arguments as for `RowTable.put`."""

        def call(codec: RowCodec[R]) -> Callable[[], object]:
            put = partial(self._batch.put, ttl=ttl, if_absent=if_absent, if_present=if_present, if_version=if_version)
            return partial(put, *codec.encode(row))

        self._calls.append(call)
        return self

    def delete(self, *key: Any, if_present: bool = False, if_version: int | None = None) -> AtomicRows[R]:
        """Add a delete; arguments as for `RowTable.delete`."""

        def call(codec: RowCodec[R]) -> Callable[[], object]:
            stored = codec.key.of_fields(key)
            return partial(self._batch.delete, stored, if_present=if_present, if_version=if_version)

        self._calls.append(call)
        return self

    def update(
        self,
        *key: Any,
        set: PatchedFields = None,  # noqa: A002 - the operation's name
        add: PatchedFields = None,
        multiply: PatchedFields = None,
        min: PatchedFields = None,  # noqa: A002 - the operation's name
        max: PatchedFields = None,  # noqa: A002 - the operation's name
        append: PatchedFields = None,
        if_version: int | None = None,
    ) -> AtomicRows[R]:
        """Add an update of fields; arguments as for `RowTable.update`."""
        fields = {"set": set, "add": add, "multiply": multiply, "min": min, "max": max, "append": append}

        def call(codec: RowCodec[R]) -> Callable[[], object]:
            stored, value = codec.key.of_fields(key), codec.patches.encoded(fields)
            return partial(self._batch.patch, stored, value, if_version=if_version)

        self._calls.append(call)
        return self

    async def commit(self, *, timeout: float | None = None) -> list[Done]:
        """Write the rows; return one `Done` for each, in order. As `AtomicBatch.commit`; raises also `InvalidRow`, and
        nothing was written then.
        """
        codec, timeout = await self._opened(timeout)
        adds = [call(codec) for call in self._calls]
        self._calls = []
        for add in adds:
            add()
        return await self._batch.commit(timeout=timeout)


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
