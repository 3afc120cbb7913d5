"""Scans: each node reads its share of the partitions; the pages are merged in key order."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import Offset, Partition, PartitionId
from router.data.in_time import in_time
from router.data.merge import merge_pages, merged_result, page_share
from router.data.requests import ReadPart, ScanRequest, ScanResult
from router.data.scan import merge_found
from router.routing.routes import Routes
from router.routing.scatter import Scatter
from router.routing.targets import Askable

__all__ = ["RoutedScans"]


class RoutedScans:
    """Scans a table wherever its partitions are."""

    def __init__(self, routes: Routes, scatter: Scatter) -> None:
        self._routes = routes
        self._scatter = scatter
        self._loop = asyncio.get_running_loop()

    async def scan(self, request: ScanRequest, *, timeout: float) -> ScanResult:
        """`Connection.scan` over all nodes. A page that comes from one node is passed on unchanged."""
        deadline = self._loop.time() + timeout
        async with in_time(timeout, "the table was not looked up"):
            table = await self._routes.known(request.table_id)
        partitions = request.partitions_asked(table.partitions, table.partitioner)
        parts = [
            ReadPart(
                PartitionId(table.id, partition),
                (),
                request.needed(partition),
                request.strong,
                request.lag_max_ms,
            )
            for partition in partitions
        ]
        pages: list[ScanResult] = []

        async def ask(member: Askable, numbers: Sequence[int], timeout: float, _: float) -> Mapping[int, DuramenError]:
            mine = [parts[number].partition.partition for number in numbers]
            asked = replace(
                request,
                partitions=mine,
                limit=_share(request, len(mine), len(parts)),
                bytes_max=_share_of_bytes(request, len(mine), len(parts)),
                after={partition: request.after[partition] for partition in mine if partition in request.after},
                table_versions={
                    partition: version for partition, version in request.table_versions.items() if partition in mine
                },
            )
            pages.append(await member.ask(lambda connection: connection.scan(asked, timeout=timeout)))
            return {}

        failed = await self._scatter.run(parts, ask, deadline=deadline)
        for error in failed.values():
            raise error
        return pages[0] if len(pages) == 1 else _merged(pages, request)


def _share(request: ScanRequest, mine: int, total: int) -> int:
    """How many entries to ask of a node that reads `mine` of `total` partitions. All of the best rows of a search may
    be at one node.
    """
    limit = request.limit
    if mine == total or request.search is not None:
        return limit
    return min(limit, mine * page_share(limit, total))


def _share_of_bytes(request: ScanRequest, mine: int, total: int) -> int:
    return request.bytes_max if request.search is not None else max(1, request.bytes_max * mine // total)


def _merged(answers: Sequence[ScanResult], request: ScanRequest) -> ScanResult:
    if request.search is not None:
        return merge_found(answers, request)
    applied: dict[Partition, Offset] = {}
    versions: dict[Partition, int] = {}
    for answer in answers:
        applied.update(answer.applied)
        versions.update(answer.table_versions)
    merged = merge_pages(answers, limit=request.limit, bytes_max=request.bytes_max, reverse=request.reverse)
    return merged_result(merged, applied, versions)
