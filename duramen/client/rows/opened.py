"""The codec of a table, found with the first call that needs it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

from duramen.client.rows.asked_definition import AskedDefinition
from log_tier.model.errors import DeadlineExceeded, InvalidSchema, UnknownFormat
from log_tier.model.identifiers import TableId
from log_tier.model.table_ref import TableRef
from log_tier.rows.definition import NEWEST_SCHEMA, TableDefinition

__all__ = ["FindsDefinitions", "OpenedCodec"]

C = TypeVar("C")

_LEAST_S: Final = 0.001
"""What a call has left whose first request took all of its time. It fails by itself then."""


class FindsDefinitions(Protocol):
    """The name of a table, and the table behind it: the client's `TableLookup`."""

    @property
    def ref(self) -> TableRef | None:
        """The table, where it was found already."""

    async def definition(self, deadline: float, schema: int = 0) -> tuple[TableRef, TableDefinition | None]:
        """The table and its definition; with the schema of that number, if the table has it anywhere."""
        ...


class OpenedCodec(Generic[C]):
    """What a table's definition was made into. Invariant: it is of the table behind the name, as it was looked up
    last.

    A stored row may have a schema that came after the codec was made. The first caller who meets one asks for the
    definition anew; those who meet it meanwhile wait for that answer. So a program that was started before a change of
    its table's schema goes on.
    """

    def __init__(self, lookup: FindsDefinitions, asked: AskedDefinition, make: Callable[[TableDefinition], C]) -> None:
        self._lookup = lookup
        self._asked = asked
        self._make = make
        self._codec: C | None = None
        self._of: TableId | None = None
        self._schemas: frozenset[int] = frozenset()
        """The numbers that the codec knows."""
        self._looking: tuple[asyncio.AbstractEventLoop | None, asyncio.Lock] = (None, asyncio.Lock())
        """Held while the definition is asked for anew, in that loop: a forked process has another one."""
        self._looks = 0

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
            try:
                codec = self._made(ref, found)
            except InvalidSchema:
                if found is None or not found.schemas:
                    raise
                # The server may not have heard yet of the schema that this type has.
                codec = self._made(*await self._lookup.definition(deadline, NEWEST_SCHEMA))
        return codec, max(_LEAST_S, deadline - asyncio.get_running_loop().time())

    async def knowing(self, unknown: UnknownFormat, deadline: float) -> C:
        """A codec that knows the schema of which an older one said that it does not. One request, which concurrent
        callers share. Raises `unknown` where the table does not have that schema either.
        """
        number = unknown.fields.get("schema")
        if not isinstance(number, int):
            raise unknown
        looks, loop = self._looks, asyncio.get_running_loop()
        if self._looking[0] is not loop:
            self._looking = (loop, asyncio.Lock())
        try:
            async with asyncio.timeout_at(deadline), self._looking[1]:
                if looks == self._looks and (number not in self._schemas or self.now() is None):
                    self._made(*await self._lookup.definition(deadline, number))
                    self._looks += 1
        except TimeoutError:
            raise DeadlineExceeded(
                f"the table's definition with schema {number} was not found in time: ask again with more time"
            ) from None
        codec = self.now()
        if codec is None or number not in self._schemas:
            raise unknown
        return codec

    async def renew(self, deadline: float) -> C:
        """A codec of the definition that the table has now. One request. Raises as `find`."""
        return self._made(*await self._lookup.definition(deadline, NEWEST_SCHEMA))

    def _made(self, ref: TableRef, found: TableDefinition | None) -> C:
        codec = self._make(self._asked.check(found, ref.name))
        self._codec, self._of = codec, ref.id
        self._schemas = frozenset(() if found is None else [each.number for each in found.schemas])
        return codec
