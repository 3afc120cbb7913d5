"""A search in the text index of a table: each partition's best rows, merged by score.

    fresh replicas ──▶ their text indexes have applied the same offsets ──▶ the best rows of each ──▶ the best of all

BM25 counts words by partition, and each partition holds a share of the keys by their hash. So the scores of two
partitions are comparable where both have many rows, and of few rows they are not.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from typing import Final, NamedTuple, Protocol

from log_tier.model.errors import InvalidRequest, LimitExceeded
from log_tier.model.identifiers import Offset, PartitionId
from log_tier.rows.definition import TableDefinition
from log_tier.rows.definition_checks import served_text
from router.data.freshness import needed_offset
from router.data.requests import Highlight, ScanRequest, ScanResult

__all__ = ["SEARCH_LIMIT_MAX", "SearchedReplica", "SearchesText", "check_search", "merge_found", "search_replicas"]

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
