"""The codec of a table, found with the first call that needs it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

from duramen.client.rows.asked_definition import AskedDefinition
from log_tier.model.identifiers import TableId
from log_tier.model.table_ref import TableRef
from log_tier.rows.definition import TableDefinition

__all__ = ["FindsDefinitions", "OpenedCodec"]

C = TypeVar("C")

_LEAST_S: Final = 0.001
"""What a call has left whose first request took all of its time. It fails by itself then."""


class FindsDefinitions(Protocol):
    """The name of a table, and the table behind it: the client's `TableLookup`."""

    @property
    def ref(self) -> TableRef | None:
        """The table, where it was found already."""

    async def definition(self, deadline: float) -> tuple[TableRef, TableDefinition | None]:
        """The table and its definition."""
        ...


class OpenedCodec(Generic[C]):
    """What a table's definition was made into. Invariant: it is of the table behind the name, as it was looked up
    last.
    """

    def __init__(self, lookup: FindsDefinitions, asked: AskedDefinition, make: Callable[[TableDefinition], C]) -> None:
        self._lookup = lookup
        self._asked = asked
        self._make = make
        self._codec: C | None = None
        self._of: TableId | None = None

    def now(self) -> C | None:
        """The codec, where no request is needed for it."""
        ref = self._lookup.ref
        return self._codec if ref is not None and ref.id == self._of else None

    async def find(self, deadline: float) -> tuple[C, float]:
        """The codec, and how many seconds are left until `deadline`, on the event loop's clock.

        Raises `TableNotFound`, and `InvalidSchema` where the table is not what was asked for.
        """
        codec = self.now()
        if codec is None:
            ref, found = await self._lookup.definition(deadline)
            codec = self._make(self._asked.check(found, ref.name))
            self._codec, self._of = codec, ref.id
        return codec, max(_LEAST_S, deadline - asyncio.get_running_loop().time())
