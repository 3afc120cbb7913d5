"""What the service stands on: a way to the data, and who gathers the calls of many callers into few requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from log_tier.model.batch import Columns
from log_tier.model.identifiers import Offset, Partition
from log_tier.model.table_ref import TableRef
from router.data.requests import Connection, ReadResult

__all__ = ["OpenPlane", "Plane", "Reads", "Writes", "Written"]


class Written(Protocol):
    """What became of one call's records."""

    @property
    def offset(self) -> Offset:
        """Of the first record; of a repeated one, where its first copy took effect."""
        ...

    @property
    def last(self) -> Offset:
        """Of the last record."""
        ...

    @property
    def results(self) -> Sequence[bytes | None] | None:
        """What the updates among them gave, by record; None where nothing was asked or nothing is to be said."""
        ...


class Writes(Protocol):
    """Gathers writes: one batch per partition, one sync for all that came meanwhile."""

    def submit(
        self, table: TableRef, partition: Partition, records: Columns, *, outcomes: bool, deadline: float
    ) -> Awaitable[Written]:
        """Write checked records side by side in one batch; with `outcomes`, wait for their verdicts.

        `deadline` is on the event loop's clock. Raises what a write does; `WriteUnknown` where a copy may be in the
        log.
        """
        ...


class Reads(Protocol):
    """Gathers reads: one request for all that came meanwhile."""

    def submit(
        self,
        table: TableRef,
        partition: Partition,
        keys: Sequence[bytes],
        *,
        after: Offset | None,
        strong: bool,
        seen: bool,
        deadline: float,
        lag_max_ms: int = 0,
    ) -> Awaitable[ReadResult]:
        """Read keys of one partition from a state that has applied `after`. `seen` False: it remembers nothing."""
        ...


@dataclass(frozen=True, slots=True)
class Plane:
    """A server's way to the data."""

    connection: Connection
    writes: Writes
    reads: Reads


OpenPlane = Callable[[], Awaitable[Plane]]
"""Gives the plane, the same one each time; the first call may open it."""
