"""What the shared writer gathers: records, who waits for them, and the batch in the making that holds both."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from copy import copy
from typing import NamedTuple, Protocol

from log_tier.model.batch import Columns
from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import NOTHING, Offset, Partition
from router.data.requests import WritePart
from router.endpoints.resp.data.tables import ServedTable
from router.endpoints.resp.data.views import Record

__all__ = ["Draft", "Record", "Sent", "Waiter"]


class Waiter(Protocol):
    """Who wants to know what became of records."""

    def settle(self, error: DuramenError | None, offset: Offset) -> None:
        """They are on stable storage and have taken effect, the first of them at `offset`; or why not. Called once.

        For judged records that is the place of the copy that counts, which is their keys' version; for others of a
        batch that was sent again, the place of the last copy.
        """
        ...


class Draft:
    """A batch in the making."""

    __slots__ = (
        "_landed",
        "attributes",
        "expiries",
        "firsts",
        "judged",
        "keys",
        "partition",
        "size",
        "table",
        "values",
        "versions",
        "waiters",
    )

    def __init__(self, table: ServedTable, partition: Partition) -> None:
        self.table = table
        self.partition = partition
        self.keys: list[bytes] = []
        self.values: list[bytes] = []
        self.attributes: list[int] | None = None
        self.versions: list[int] = []
        self.expiries: list[int] = []
        self.waiters: list[Waiter] = []
        self.firsts: list[int] = []
        """The place of each waiter's first record in the batch."""
        self.judged: list[tuple[int, int, Waiter]] = []
        """First record and count of those whose verdict is asked."""
        self.size = 0
        self._landed: asyncio.Future[None] | None = None

    def columns(self) -> Columns:
        """Its records, as a batch is made of them."""
        if self.attributes is None:
            return Columns(self.keys, self.values)
        return Columns(self.keys, self.values, self.attributes, self.versions, self.expiries)

    def everybody(self) -> Iterable[Waiter]:
        """All who wait for some of its records."""
        yield from self.waiters
        for _, _, waiter in self.judged:
            yield waiter

    async def landed(self) -> None:
        """Return when its fate is known: its table was told of its keys, or its writers of an error."""
        if self._landed is None:
            self._landed = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._landed)

    def end(self) -> None:
        """Its fate is known."""
        if self._landed is not None and not self._landed.done():
            self._landed.set_result(None)

    def fail(self, error: DuramenError) -> None:
        """Report an error to everybody who waits."""
        for waiter in self.everybody():
            waiter.settle(copy(error), NOTHING)
        self.end()


class Sent(NamedTuple):
    """A draft with its final bytes."""

    draft: Draft
    part: WritePart
