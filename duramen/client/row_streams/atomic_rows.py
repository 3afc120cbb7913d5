"""Rows that take effect together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Generic, TypeVar

from duramen.client.atomic import AtomicBatch
from duramen.client.model.results import Done
from duramen.client.rows.row_codec import RowCodec
from duramen.client.rows.row_patches import PatchedFields

__all__ = ["AtomicRows"]

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
