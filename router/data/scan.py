"""One page of a scan: read from every partition, merged in key order, and small enough for a reply. And a search, whose
one page has the best rows of the text indexes of all partitions.

BM25 counts words by partition, and each partition holds a share of the keys by their hash. So the scores of two
partitions are comparable where both have many rows, and of few rows they are not.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from typing import Final, NamedTuple, Protocol

from log_tier.access.user_turns import ITEM_BYTES, turns_of_loop
from log_tier.model.errors import IndexBuilding, InvalidRequest, LimitExceeded
from log_tier.model.identifiers import Offset, Partition, PartitionId
from log_tier.rows.definition import TableDefinition
from log_tier.rows.definitions.checks import served_text
from log_tier.rows.table_index import TableIndex
from router.data.freshness import needed_offset
from router.data.merge import PartPage, read_merged
from router.data.requests import Highlight, ScanRequest, ScanResult
from serving_tier.index.index import PastPage, PastPoint, ScanPage

__all__ = [
    "SCAN_LIMIT_MAX",
    "SEARCH_LIMIT_MAX",
    "PagedIndex",
    "SearchedReplica",
    "SearchesText",
    "Served",
    "check_scan",
    "found_pages",
    "merge_found",
    "read_index",
    "scan_replicas",
    "search_replicas",
]

# A page of a scan; the next one begins where it ended, so larger pages gain nothing.
SCAN_LIMIT_MAX: Final = 10_000

# To begin the read of a partition costs as much as so many entries.
_PART_ITEMS: Final = 10


SEARCH_LIMIT_MAX: Final = 1000
"""Rows that one search finds at most: they come in one reply, and each partition looks for as many."""


class _FoundRow(Protocol):
    @property
    def value(self) -> bytes: ...

    @property
    def version(self) -> int: ...


class _Hit(Protocol):
    @property
    def score(self) -> float: ...

    @property
    def key(self) -> bytes: ...

    @property
    def row(self) -> _FoundRow: ...

    @property
    def highlights(self) -> Sequence[tuple[str, str, Sequence[tuple[int, int]]]]: ...


class _Point(Protocol):
    @property
    def applied(self) -> Offset: ...


class _Page(Protocol):
    @property
    def point(self) -> _Point: ...

    @property
    def hits(self) -> Sequence[_Hit]: ...


class _DefinedIndex(Protocol):
    version: int

    def definition_now(self) -> TableDefinition: ...


class SearchedReplica(Protocol):
    """What a search needs of a replica."""

    floor: Offset
    lost: int

    @property
    def id(self) -> PartitionId: ...

    @property
    def applied(self) -> Offset: ...

    def reading(self, version: int | None = None) -> AbstractContextManager[_DefinedIndex]: ...


SearchesText = Callable[..., Awaitable[_Page]]
"""`serving_tier.text.node_texts.NodeTexts.search` of the node here."""


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


class _DefinedPages(PagedIndex, Protocol):
    def definition_now(self) -> TableDefinition: ...


class Served(Protocol):
    """Counts what a replica has served."""

    served: int


class _ScannedReplica(SearchedReplica, Protocol):
    @property
    def progress(self) -> Served: ...

    def reading(self, version: int | None = None) -> AbstractContextManager[_DefinedPages]: ...


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


def check_search(request: ScanRequest) -> None:
    """Raise `LimitExceeded` for more rows than are served, `InvalidRequest` for a search of a range or of the past."""
    if request.limit > SEARCH_LIMIT_MAX:
        raise LimitExceeded(
            f"a search finds 1 to {SEARCH_LIMIT_MAX} rows, not {request.limit}: narrow the query",
            limit=SEARCH_LIMIT_MAX,
            size=request.limit,
        )
    if request.start or request.end is not None or request.index or request.past is not None or request.reverse:
        raise InvalidRequest("a search finds rows of the whole table as it is, by one text index, the best first")


async def search_replicas(
    replicas: Sequence[SearchedReplica],
    request: ScanRequest,
    search: SearchesText,
    left_s: Callable[[], float],
) -> ScanResult:
    """The best rows of all partitions, which are searched at the same time. Raises what `NodeTexts.search` does, and
    `LimitExceeded` where the rows have more bytes than a page may.
    """
    asked = request.search
    assert asked is not None, "no search"

    async def one(replica: SearchedReplica) -> ScanResult:
        with replica.reading() as index:
            text, version = served_text(index.definition_now(), asked.index_name, asked.number), index.version
        after = needed_offset(
            request.needed(replica.id.partition), replica.floor, replica.lost, bounded=request.lag_max_ms > 0
        )
        wanted = replica.applied if request.strong else min(after, replica.applied)
        page = await search(replica, text, asked.query, request.limit, after=wanted, timeout=left_s())
        return _result(page, replica, version)

    return merge_found(await asyncio.gather(*map(one, replicas)), request)


def _result(page: _Page, replica: SearchedReplica, version: int) -> ScanResult:
    return ScanResult(
        [hit.key for hit in page.hits],
        [hit.row.value for hit in page.hits],
        [hit.row.version for hit in page.hits],
        False,
        {replica.id.partition: page.point.applied},
        {replica.id.partition: version},
        scores=[hit.score for hit in page.hits],
        highlights=[[Highlight(*each) for each in hit.highlights] for hit in page.hits],
    )


def merge_found(answers: Sequence[ScanResult], request: ScanRequest) -> ScanResult:
    """The best rows of several answers; those of equal scores by key. Raises `LimitExceeded` where they have more bytes
    than a page may. O(rows × log rows).
    """
    rows = (
        _FoundHere(-score, key, value, version, pieces)
        for each in answers
        for score, key, value, version, pieces in zip(
            each.scores, each.keys, each.values, each.versions, each.highlights, strict=True
        )
    )
    best = heapq.nsmallest(request.limit, rows, key=_FoundHere.place)
    size = sum(len(each.key) + len(each.value) for each in best)
    if size > request.bytes_max:
        raise LimitExceeded(
            f"the {len(best)} rows that were found have {size} bytes, and a reply has at most {request.bytes_max}: ask "
            "for fewer",
            limit=request.bytes_max,
            size=size,
        )
    return ScanResult(
        [each.key for each in best],
        [each.value for each in best],
        [each.version for each in best],
        False,
        {partition: offset for each in answers for partition, offset in each.applied.items()},
        {partition: version for each in answers for partition, version in each.table_versions.items()},
        scores=[-each.negated for each in best],
        highlights=[each.pieces for each in best],
    )


class _FoundHere(NamedTuple):
    negated: float
    key: bytes
    value: bytes
    version: int
    pieces: Sequence[Highlight]

    def place(self) -> tuple[float, bytes]:
        return self.negated, self.key
