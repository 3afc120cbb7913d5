"""One page of a scan: read from every partition, merged in key order, and small enough for a reply."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from typing import Final, Protocol

from log_tier.model.errors import IndexBuilding, InvalidRequest, LimitExceeded
from log_tier.model.identifiers import Partition, PartitionId
from log_tier.rows.definition import TableDefinition
from log_tier.rows.table_index import TableIndex
from router.data.merge import read_merged
from router.data.requests import ScanRequest, ScanResult
from serving_tier.index.index import ScanPage

__all__ = ["SCAN_LIMIT_MAX", "PagedIndex", "Served", "check_scan", "found_pages", "read_index", "scan_replicas"]

# A page of a scan; the next one begins where it ended, so larger pages gain nothing.
SCAN_LIMIT_MAX: Final = 10_000


class PagedIndex(Protocol):
    """What a scan needs of an `LmdbIndex`. A client that connects to a server imports this module, and not LMDB."""

    version: int

    def scan(
        self, start: bytes, end: bytes | None, *, reverse: bool = ..., limit: int = ..., bytes_max: int = ...
    ) -> ScanPage: ...

    def find(
        self,
        index: TableIndex,
        start: bytes,
        end: bytes | None,
        *,
        reverse: bool = ...,
        limit: int = ...,
        bytes_max: int = ...,
    ) -> ScanPage: ...


class _DefinedIndex(PagedIndex, Protocol):
    def definition_now(self) -> TableDefinition: ...


class Served(Protocol):
    """Counts what a replica has served."""

    served: int


class _ScannedReplica(Protocol):
    @property
    def id(self) -> PartitionId: ...

    @property
    def progress(self) -> Served: ...

    def reading(self, version: int | None = None) -> AbstractContextManager[_DefinedIndex]: ...


def check_scan(request: ScanRequest) -> None:
    """Raises `LimitExceeded` for a page of a size that is not served."""
    if not 1 <= request.limit <= SCAN_LIMIT_MAX:
        raise LimitExceeded(
            f"a page of a scan has 1 to {SCAN_LIMIT_MAX} entries, not {request.limit}: ask for the next page",
            limit=SCAN_LIMIT_MAX,
            size=request.limit,
        )


async def scan_replicas(replicas: Sequence[_ScannedReplica], request: ScanRequest) -> ScanResult:
    """Read a page of all partitions of a table in a thread, about 2 µs an entry."""
    return await asyncio.to_thread(_merged, replicas, request)


async def found_pages(
    replicas: Sequence[_ScannedReplica],
    request: ScanRequest,
    newest: Callable[[], Awaitable[Sequence[_ScannedReplica]]],
) -> ScanResult:
    """`scan_replicas`; where a replica does not have the index in service, once more with what `newest` returns:
    replicas that have come to the barriers that the catalog knows of.
    """
    try:
        return await scan_replicas(replicas, request)
    except (IndexBuilding, InvalidRequest):
        if not request.index:
            raise
    return await scan_replicas(await newest(), request)


def _merged(replicas: Sequence[_ScannedReplica], request: ScanRequest) -> ScanResult:
    by_partition = {replica.id.partition: replica for replica in replicas}

    def read(partition: Partition, start: bytes, end: bytes | None, limit: int) -> tuple[ScanPage, int]:
        replica = by_partition[partition]
        with replica.reading(request.table_versions.get(partition)) as index:
            definition = index.definition_now() if request.index else TableDefinition()
            page, version = read_index(index, definition, request, start, end, limit), index.version
        replica.progress.served += len(page.entries)  # for the load: two threads may lose some of it
        return page, version

    return read_merged(list(by_partition), request, read)


def read_index(
    index: PagedIndex, definition: TableDefinition, request: ScanRequest, start: bytes, end: bytes | None, limit: int
) -> ScanPage:
    """A page of one partition: of its keys, or of an ordered index. `definition`: that of the partition.

    Raises `InvalidRequest` where it has no such index, and `IndexBuilding`.
    """
    if not request.index:
        return index.scan(start, end, reverse=request.reverse, limit=limit, bytes_max=request.bytes_max)
    named = definition.index_named(request.index)
    if request.index_number not in (0, named.number):
        raise InvalidRequest(f"the table's index {request.index} is another one by now: open the table again")
    return index.find(named, start, end, reverse=request.reverse, limit=limit, bytes_max=request.bytes_max)
