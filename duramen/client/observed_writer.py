"""A writer whose flights are operations: `duramen.tracing`.

A put into the stream is over in a microsecond, and its record leaves later, with thousands of others. So the operation
is the flight, as OpenTelemetry's conventions have it for batches of messages: one span, with links to the spans of the
program that were current when its records were put. It is below the one that was current when it left.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial
from typing import Any

from duramen.client.context import ClientContext
from duramen.client.lookup import TableLookup
from duramen.client.table_writer import Flight, TableWriter
from duramen.tracing.operations import ClientOperation, Operations
from log_tier.model.identifiers import Partition
from log_tier.model.table_ref import TableRef
from log_tier.tracing.span import CALLERS_MAX

__all__ = ["ObservedWriter"]


class ObservedWriter(TableWriter):
    """The same stream. Up to `CALLERS_MAX` spans are linked to a flight."""

    def __init__(self, lookup: TableLookup, producer: str, operations: Operations, name: str) -> None:
        super().__init__(lookup, producer)
        self._operations = operations
        self._name = name
        self._origins: list[object] = []

    async def put_rows(self, rows: Iterable[tuple[bytes, bytes]]) -> None:
        origin = self._operations.current()
        if origin is None:
            await super().put_rows(rows)
            return
        self._note(origin)
        await super().put_rows(rows)
        if self._waiting:  # its first records may have left
            self._note(origin)

    def _note(self, origin: object) -> None:
        if len(self._origins) < CALLERS_MAX and origin not in self._origins:
            self._origins.append(origin)

    def _send(
        self, context: ClientContext, ref: TableRef, groups: Mapping[Partition, Flight]
    ) -> Coroutine[Any, Any, None]:
        origins, self._origins = self._origins, []
        send = super()._send
        if self._operations.skips() or (operation := self._operations.begin("writer", self._name)) is None:
            return send(context, ref, groups)
        operation.came_of(origins)
        return _as_operation(
            operation, partial(send, context, ref, groups), sum(len(group.columns.keys) for group in groups.values())
        )


async def _as_operation(
    operation: ClientOperation, send: Callable[[], Coroutine[Any, Any, None]], records: int
) -> None:
    with operation:
        operation.counted(records)
        await send()
