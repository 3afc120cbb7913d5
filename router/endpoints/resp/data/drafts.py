"""The waiters for the records that the shared writer gathers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from copy import copy
from typing import Protocol

from log_tier.model.errors import DuramenError, Rejected
from log_tier.model.identifiers import NOTHING, Offset, Partition
from router.data.gather.columns_builder import ColumnsBuilder
from router.data.requests import WriteResult
from router.endpoints.resp.data.tables import ServedTable
from router.endpoints.resp.wire.limits import REQUEST_TIMEOUT_S

__all__ = ["Waiter", "Waiters"]


class Waiter(Protocol):
    """A caller that wants to know what became of its records."""

    def settle(self, error: DuramenError | None, offset: Offset) -> None:
        """They are on stable storage and have taken effect, the first of them at `offset`; or why not. Called once.

        For judged records that is the place of the copy that counts, which is their keys' version; for others of a
        batch that was sent again, the place of the last copy.
        """
        ...


class Waiters:
    """The waiters for the records of one batch: see `Callers`. No waiter has a deadline of its own; the batch has one
    from its first try on.
    """

    __slots__ = ("_columns", "_deadline_s", "_landed", "_partition", "_table", "firsts", "judging", "plain")

    def __init__(self, table: ServedTable, partition: Partition, columns: ColumnsBuilder) -> None:
        self.plain: list[Waiter] = []
        """Waiters that need no more than stable storage."""
        self.firsts: list[int] = []
        """The place of the first record of each of them in the batch."""
        self.judging: list[tuple[int, int, Waiter]] = []
        """First record, count and waiter of those that need the verdict."""
        self._table: ServedTable | None = table
        """None once the batch's fate is known: the table has noted its keys, or nothing was written."""
        self._partition = partition
        self._columns = columns
        self._deadline_s = 0.0
        self._landed: asyncio.Future[None] | None = None

    def want_verdict(self, *, repeated: bool) -> bool:
        """See `Callers`."""
        return bool(self.judging)

    @property
    def want_place(self) -> bool:
        """See `Callers`."""
        return bool(self.plain)

    def last_deadline(self, now_s: float) -> float | None:
        """See `Callers`. O(1)."""
        if not self._deadline_s:
            self._deadline_s = now_s + REQUEST_TIMEOUT_S
        return self._deadline_s if now_s < self._deadline_s else None

    def placed(self, result: WriteResult, *, repeated: bool) -> bool:
        """The table notes the keys before any caller is answered: every later read at this endpoint shows them."""
        self._land(result)
        plain, self.plain = self.plain, []
        for waiter, first in zip(plain, self.firsts, strict=True):
            waiter.settle(None, Offset(result.base_offset + first))
        self.firsts = []
        return bool(self.judging)

    def judged(self, result: WriteResult) -> None:
        """See `Callers`."""
        self.placed(result, repeated=False)
        rejected: dict[int, Rejected] = {}
        places: dict[int, Offset] = {}
        for each in result.outcomes:
            if each.rejected is not None:
                rejected[each.record] = each.rejected
            if each.original > NOTHING:
                places[each.record] = each.original
        judging, self.judging = self.judging, []
        for first, count, waiter in judging:
            refused = next((rejected[n] for n in range(first, first + count) if n in rejected), None)
            waiter.settle(refused, places.get(first, Offset(result.base_offset + first)))

    def fail(self, error: DuramenError) -> None:
        """See `Callers`."""
        everybody = [*self._everybody()]
        self.plain, self.firsts, self.judging = [], [], []
        for waiter in everybody:
            waiter.settle(copy(error), NOTHING)
        self._table = None
        self._end()

    def _everybody(self) -> Iterable[Waiter]:
        yield from self.plain
        for _, _, waiter in self.judging:
            yield waiter

    def _land(self, result: WriteResult) -> None:
        if self._table is not None:
            keys = self._columns.keys
            self._table.wrote(self._partition, keys, Offset(result.base_offset + len(keys) - 1))
            self._table = None
            self._end()

    async def landed(self) -> None:
        """Return when the batch's fate is known: its table has noted its keys, or its writers have got an error."""
        if self._landed is None:
            self._landed = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._landed)

    def _end(self) -> None:
        if self._landed is not None and not self._landed.done():
            self._landed.set_result(None)
