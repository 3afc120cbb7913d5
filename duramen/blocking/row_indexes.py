"""The indexes of a table of rows, for a program without an event loop, and the plan of a find by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

from duramen.blocking.wrapped import wrapped
from duramen.client.row_table import RowTable
from duramen.client.rows import row_indexes
from duramen.client.rows.row_codec import RowCodec
from duramen.client.rows.row_finds import plan_of
from duramen.client.transport.loop_thread import LoopThread
from log_tier.model.errors import IndexBuilding, InvalidRequest
from log_tier.rows.finding.found_range import FindPlan

__all__ = ["IndexedRows"]

R = TypeVar("R")


class IndexedRows(Generic[R]):
    """The half of a table of rows that gives it indexes."""

    _inner: RowTable[R]
    _loop: LoopThread

    create_index = wrapped(row_indexes.RowIndexes.create_index)
    drop_index = wrapped(row_indexes.RowIndexes.drop_index)
    indexes = wrapped(row_indexes.RowIndexes.indexes)

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
