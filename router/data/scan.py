"""One page of a scan: read from every partition, merged in key order, and small enough for a reply."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from typing import Final, Protocol

from log_tier.access.user_turns import ITEM_BYTES, turns_of_loop
from log_tier.model.errors import IndexBuilding, InvalidRequest, LimitExceeded
from log_tier.model.identifiers import Offset, Partition
from log_tier.rows.definition import TableDefinition
from log_tier.rows.table_index import TableIndex
from router.data.merge import PartPage, read_merged
from router.data.requests import ScanRequest, ScanResult
from router.data.text.search import SearchedReplica, SearchesText, check_search, search_replicas
from serving_tier.index.index import PastPage, PastPoint, ScanPage

__all__ = ["SCAN_LIMIT_MAX", "PagedIndex", "Served", "check_scan", "found_pages", "read_index", "scan_replicas"]

# A page of a scan; the next one begins where it ended, so larger pages gain nothing.
SCAN_LIMIT_MAX: Final = 10_000

# To begin the read of a partition costs as much as so many entries.
_PART_ITEMS: Final = 10


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

    def scan_past(
        self,
        start: bytes,
        end: bytes | None,
        point: PastPoint,
        *,
        compared: PastPoint | None = ...,
        reverse: bool = ...,
        limit: int = ...,
        bytes_max: int = ...,
    ) -> PastPage: ...


class _DefinedIndex(PagedIndex, Protocol):
    def definition_now(self) -> TableDefinition: ...


class Served(Protocol):
    """Counts what a replica has served."""

    served: int


class _ScannedReplica(SearchedReplica, Protocol):
    @property
    def progress(self) -> Served: ...

    def reading(self, version: int | None = None) -> AbstractContextManager[_DefinedIndex]: ...


def check_scan(request: ScanRequest) -> None:
    """Raises `LimitExceeded` for a page of a size that is not served, `InvalidRequest` for a past that is not read."""
    if not 1 <= request.limit <= SCAN_LIMIT_MAX:
        raise LimitExceeded(
            f"a page of a scan has 1 to {SCAN_LIMIT_MAX} entries, not {request.limit}: ask for the next page",
            limit=SCAN_LIMIT_MAX,
            size=request.limit,
        )
    past = request.past
    if request.search is not None:
        check_search(request)
    if past is not None and request.index:
        raise InvalidRequest("an index has no past: scan the table as it was by its keys")
    if past is not None and past.compared is not None and len(request.partitions) != 1:
        raise InvalidRequest(f"two states of one partition are compared, not of {len(request.partitions)}: name one")


async def scan_replicas(replicas: Sequence[_ScannedReplica], request: ScanRequest) -> ScanResult:
    """Read a page of all partitions of a table in a thread, about 1 µs an entry, in a turn of the calling user."""
    items = request.limit + _PART_ITEMS * len(replicas)
    return await turns_of_loop().run(items * ITEM_BYTES, lambda: _merged(replicas, request))


async def found_pages(
    replicas: Sequence[_ScannedReplica],
    request: ScanRequest,
    newest: Callable[[], Awaitable[Sequence[_ScannedReplica]]],
    search: SearchesText,
    left_s: Callable[[], float],
) -> ScanResult:
    """`scan_replicas`, or `search_replicas`; where a replica does not have the index in service, once more with what
    `newest` returns: replicas that have come to the barriers that the catalog knows of.
    """

    async def found(replicas: Sequence[_ScannedReplica]) -> ScanResult:
        if request.search is not None:
            return await search_replicas(replicas, request, search, left_s)
        return await scan_replicas(replicas, request)

    try:
        return await found(replicas)
    except (IndexBuilding, InvalidRequest):
        if not request.index and request.search is None:
            raise
    return await found(await newest())


def _merged(replicas: Sequence[_ScannedReplica], request: ScanRequest) -> ScanResult:
    by_partition = {replica.id.partition: replica for replica in replicas}

    def read(partition: Partition, start: bytes, end: bytes | None, limit: int) -> tuple[PartPage, int]:
        replica = by_partition[partition]
        page: PartPage
        with replica.reading(request.table_versions.get(partition)) as index:
            if request.past is not None:
                page = _read_past(index, partition, request, start, end, limit)
                replica.progress.served += len(page.keys)
                return page, index.version
            definition = index.definition_now() if request.index else TableDefinition()
            page, version = read_index(index, definition, request, start, end, limit), index.version
        replica.progress.served += len(page.keys)  # for the load: two threads may lose some of it
        return page, version

    return read_merged(list(by_partition), request, read)


def _read_past(
    index: PagedIndex, partition: Partition, request: ScanRequest, start: bytes, end: bytes | None, limit: int
) -> PastPage:
    past = request.past
    assert past is not None, "a scan of the present"
    if not past.time_ms and partition not in request.after:
        raise InvalidRequest(
            f"a scan of the past names no offset of partition {partition}: name those of all partitions"
        )
    return index.scan_past(
        start,
        end,
        PastPoint(time_ms=past.time_ms) if past.time_ms else PastPoint(request.after[partition]),
        compared=None if past.compared is None else PastPoint(Offset(past.compared)),
        reverse=request.reverse,
        limit=limit,
        bytes_max=request.bytes_max,
    )


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
