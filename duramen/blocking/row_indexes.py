"""The indexes of a table of rows and its past, for a program without an event loop, and the plan of a find."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

from duramen.blocking.wrapped import wrapped
from duramen.client.model.consistency import AsOf
from duramen.client.model.results import KeyDifference
from duramen.client.row_table import RowTable
from duramen.client.rows import row_indexes, row_results
from duramen.client.rows.row_codec import RowCodec
from duramen.client.rows.row_finds import plan_of
from duramen.client.rows.texts import row_searches
from duramen.client.transport.loop_thread import LoopThread
from log_tier.model.errors import IndexBuilding, InvalidRequest
from log_tier.rows.finding.found_range import FindPlan

__all__ = ["IndexedRows"]

R = TypeVar("R")


class IndexedRows(Generic[R]):
    """The half of a table of rows that gives it indexes, and reads its past."""

    _inner: RowTable[R]
    _loop: LoopThread

    create_index = wrapped(row_indexes.RowIndexes.create_index)
    drop_index = wrapped(row_indexes.RowIndexes.drop_index)
    indexes = wrapped(row_indexes.RowIndexes.indexes)
    search = wrapped(row_searches.RowSearches.search)
    history = wrapped(row_results.RowHistory.history)

    def diff(
        self,
        before: AsOf,
        after: AsOf | None = None,
        fields: Mapping[str, Any] | None = None,
        /,
        *,
        timeout: float | None = None,
        **key_fields: Any,
    ) -> Generator[KeyDifference[tuple[Any, ...], R], None, None]:
        asked = {**(fields or {}), **key_fields}
        yield from self._loop.iterate(self._inner.diff_pages(before, after, asked, timeout=timeout))

    diff.__doc__ = row_results.RowHistory.diff.__doc__

    def _planned(
        self,
        codec: RowCodec[R],
        asked: Mapping[str, Any],
        order: str | Sequence[str] | None,
        limit: int | None,
        timeout: float | None,
    ) -> tuple[RowCodec[R], FindPlan]:
        """The plan of a find; a request only where none serves."""
        try:
            return codec, plan_of(codec.finds, asked, order, limit)
        except (InvalidRequest, IndexBuilding):
            return self._loop.run(partial(self._inner.planned, codec, asked, order, limit, timeout))

    def _sorted_rows(self, codec: RowCodec[R], plan: FindPlan, **how: Any) -> Generator[R, None, None]:
        """The rows of a plan whose index has not the order: they are asked for when the first one is."""
        yield from self._loop.run(partial(self._inner.sorted_rows, codec, plan, **how))
