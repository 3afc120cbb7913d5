"""What the halves of a table of rows ask of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable
from typing import Generic, Protocol, TypeVar

from duramen.client.model.consistency import AsOf, Level
from duramen.client.rows.row_codec import RowCodec
from log_tier.model.errors import UnknownFormat
from log_tier.model.tokens import Token
from log_tier.rows.alter_table import IndexChange
from log_tier.rows.finding.found_range import FindPlan
from router.data.requests import ScanResult, TextSearch

__all__ = ["CountsPartitions", "FindsPages", "OpenedRows"]

R = TypeVar("R")
T = TypeVar("T")


class CountsPartitions(Protocol):
    """The client's `TableLookup`."""

    async def change_indexes(self, change: IndexChange, timeout: float | None) -> None: ...

    async def partitions_asked(self, plan: FindPlan) -> int: ...


class FindsPages(Protocol):
    """The stored form of a table: its pages."""

    @property
    def lookup(self) -> CountsPartitions: ...

    def find_pages(
        self, plan: FindPlan, *, limit: int | None, after: str | Token | None, level: Level, timeout: float | None
    ) -> AsyncGenerator[list[tuple[bytes, bytes]], None]: ...

    async def search_page(
        self, search: TextSearch, limit: int, *, after: str | Token | None, level: Level, timeout: float | None
    ) -> ScanResult: ...

    def scan_pages(
        self,
        *,
        start: bytes | None,
        end: bytes | None,
        limit: int | None,
        at: AsOf | None,
        after: str | Token | None,
        level: Level,
        timeout: float | None,
    ) -> AsyncGenerator[list[tuple[bytes, bytes]], None]: ...


class OpenedRows(ABC, Generic[R]):
    """A table of rows, by what its halves need; `RowTable` is all of them."""

    _found_in: FindsPages

    @abstractmethod
    async def _opened(self, timeout: float | None) -> tuple[RowCodec[R], float | None]:
        """The codec, and how many seconds of the call are left."""
        ...

    @abstractmethod
    async def _decoded(
        self, codec: RowCodec[R], work: Callable[[RowCodec[R]], T], timeout: float | None
    ) -> tuple[RowCodec[R], T]:
        """What `work` makes of stored rows, by a codec that knows their schemas, and that codec."""
        ...

    @abstractmethod
    async def renewed_codec(self, timeout: float | None) -> RowCodec[R]:
        """A codec of the definition that the table has now."""
        ...

    @abstractmethod
    async def newer_codec(self, unknown: UnknownFormat, timeout: float | None) -> RowCodec[R]:
        """A codec that knows the schema which another one did not."""
        ...
