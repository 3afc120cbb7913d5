"""What a table's past needs of its client."""

from __future__ import annotations

from typing import Protocol

from duramen.client.model.consistency import AsOf
from log_tier.model.errors import DuramenError, InvalidToken, PermissionDenied, TableNotFound
from router.data.past.asked_past import AskedPast
from router.data.requests import TableDescription
from router.data.seam import Connection

__all__ = ["AsksInTime", "StatesLookup"]


class AsksInTime(Protocol):
    """The client's `ClientContext`."""

    @property
    def connection(self) -> Connection: ...

    def timeout(self, timeout: float | None) -> float: ...

    def deadline(self, timeout: float | None) -> float: ...


class StatesLookup(Protocol):
    """A name, and the table behind it: the client's `TableLookup`."""

    @property
    def context(self) -> AsksInTime: ...

    async def asked_past(self, at: AsOf | None, deadline: float) -> AskedPast: ...

    async def refused_past(self, past: AskedPast, refused: InvalidToken, deadline: float) -> DuramenError: ...

    async def describe(self, *, timeout: float | None = None) -> TableDescription: ...

    def gone(self, error: TableNotFound | PermissionDenied) -> TableNotFound | PermissionDenied: ...
