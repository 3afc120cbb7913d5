"""Rows that are written together, and streams of rows, for a program without an event loop."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from types import TracebackType
from typing import Any, Generic, TypeVar

from duramen.blocking.wrapped import wrapped
from duramen.client import row_writes
from duramen.client.rows.arrow.given_frames import ArrowArray, ArrowStream
from duramen.client.rows.row_patches import PatchedFields
from duramen.client.transport.loop_thread import LoopThread

__all__ = ["AtomicRows", "RowWriter"]

R = TypeVar("R")


class AtomicRows(Generic[R]):
    """Collects rows of one partition; `commit()` writes them: all take effect, or none."""

    def __init__(self, inner: row_writes.AtomicRows[R], loop: LoopThread) -> None:
        self._inner = inner
        self._loop = loop

    def put(
        self,
        row: R,
        *,
        ttl: float | None = None,
        if_absent: bool = False,
        if_present: bool = False,
        if_version: int | None = None,
    ) -> AtomicRows[R]:
        self._inner.put(row, ttl=ttl, if_absent=if_absent, if_present=if_present, if_version=if_version)
        return self

    def delete(self, *key: Any, if_present: bool = False, if_version: int | None = None) -> AtomicRows[R]:
        self._inner.delete(*key, if_present=if_present, if_version=if_version)
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
        self._inner.update(
            *key, set=set, add=add, multiply=multiply, min=min, max=max, append=append, if_version=if_version
        )
        return self

    for _method in (put, delete, update):
        _method.__doc__ = getattr(row_writes.AtomicRows, _method.__name__).__doc__
    del _method

    def __len__(self) -> int:
        return len(self._inner)

    commit = wrapped(row_writes.AtomicRows.commit)


class RowWriter(Generic[R]):
    """A stream of rows that resumes after an interruption: each row is written exactly once."""

    def __init__(self, inner: row_writes.RowWriter[R], loop: LoopThread) -> None:
        self._inner = inner
        self._loop = loop

    def __enter__(self) -> RowWriter[R]:
        self._loop.run(self._inner.__aenter__)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.run(partial(self._inner.__aexit__, kind, error, trace))

    @property
    def written(self) -> int:
        """Rows that this run wrote."""
        return self._inner.stored.written

    @property
    def skipped(self) -> int:
        """Rows that an earlier run had written."""
        return self._inner.stored.skipped

    def put(self, row: R) -> None:
        """Add one row; a row that does not fit raises `InvalidRow`."""
        self._loop.run(partial(self._inner.put, row))

    def put_rows(self, rows: Iterable[R] | ArrowStream | ArrowArray) -> None:
        """Add many rows, or a frame of them. A row that does not fit raises `InvalidRow` with its place; rows before it
        are added.
        """
        self._loop.run(partial(self._inner.put_rows, rows))

    flush = wrapped(row_writes.RowWriter.flush)
