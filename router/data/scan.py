"""One page of a scan: read from every partition, merged in key order, and small enough for a reply."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from log_tier.model.errors import IndexBuilding, InvalidRequest, LimitExceeded
from log_tier.model.identifiers import Offset, Partition
from router.data.merge import PageMerge, PartitionPage, merged_result, page_share
from router.data.requests import ScanRequest, ScanResult
from serving_tier.index.index import ScanPage
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.replica.replica import Replica

__all__ = ["SCAN_LIMIT_MAX", "check_scan", "found_pages", "scan_replicas"]

# A page of a scan; the next one begins where it ended, so larger pages gain nothing.
SCAN_LIMIT_MAX: Final = 10_000


def check_scan(request: ScanRequest) -> None:
    """Raises `LimitExceeded` for a page of a size that is not served."""
    if not 1 <= request.limit <= SCAN_LIMIT_MAX:
        raise LimitExceeded(
            f"a page of a scan has 1 to {SCAN_LIMIT_MAX} entries, not {request.limit}: ask for the next page",
            limit=SCAN_LIMIT_MAX,
            size=request.limit,
        )


async def scan_replicas(replicas: Sequence[Replica], request: ScanRequest) -> ScanResult:
    """Read a page of all partitions of a table in a thread, about 2 µs an entry."""
    return await asyncio.to_thread(_merged, replicas, request)


async def found_pages(
    replicas: Sequence[Replica], request: ScanRequest, newest: Callable[[], Awaitable[Sequence[Replica]]]
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


def _merged(replicas: Sequence[Replica], request: ScanRequest) -> ScanResult:
    share = page_share(request.limit, len(replicas))
    pages = PageMerge(limit=request.limit, bytes_max=request.bytes_max, reverse=request.reverse)
    applied: dict[Partition, Offset] = {}
    versions: dict[Partition, int] = {}
    start, end = request.start, request.end
    for replica in replicas:
        with replica.reading(request.table_versions.get(replica.id.partition)) as index:
            versions[replica.id.partition] = index.version
            page = _read(index, request, start, end, share)
        replica.progress.served += len(page.entries)  # for the load: two threads may lose some of it
        pages.add(PartitionPage(page.entries, page.more))
        applied[replica.id.partition] = page.applied
        if pages.frontier is None:
            continue
        if request.reverse:
            start = pages.frontier
        else:
            end = pages.frontier + b"\0"  # the first key behind it
    return merged_result(pages.merged(), applied, versions)


def _read(index: LmdbIndex, request: ScanRequest, start: bytes, end: bytes | None, limit: int) -> ScanPage:
    """A page of one partition: of its keys, or of an ordered index. Raises `InvalidRequest` where it has no such, and
    `IndexBuilding`.
    """
    if not request.index:
        return index.scan(start, end, reverse=request.reverse, limit=limit, bytes_max=request.bytes_max)
    named = index.definition_now().index_named(request.index)
    if request.index_number not in (0, named.number):
        raise InvalidRequest(f"the table's index {request.index} is another one by now: open the table again")
    return index.find(named, start, end, reverse=request.reverse, limit=limit, bytes_max=request.bytes_max)
