"""Merging pages of several partitions into one page in key order. Pure.

Every partition gives its next keys and says whether it has more. A partition that has more may hold, right after its
last key (or the key that it has come to), something smaller than another partition's keys; so the merged page ends at
the **frontier**: the smallest last key among the partitions that have more (the largest, in reverse). What lies beyond
is left for the next page.

A merged page is itself such a page: it ends somewhere, and more may follow. So pages can be merged as they are read,
and what the whole will not show is dropped at once (`PageMerge`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from math import isqrt
from typing import NamedTuple, Protocol

from log_tier.model.identifiers import Offset, Partition
from router.data.requests import ScanRequest, ScanResult
from serving_tier.index.index import PastPage

__all__ = ["MergedPage", "PageMerge", "merge_pages", "merged_result", "page_share", "read_merged"]


class ScannedPage(Protocol):
    """One partition's next entries, or those of some partitions, column by column and in the order of the scan."""

    @property
    def keys(self) -> Sequence[bytes]: ...

    @property
    def values(self) -> Sequence[bytes]: ...

    @property
    def versions(self) -> Sequence[int]: ...

    @property
    def more(self) -> bool: ...

    @property
    def reached(self) -> bytes:
        """Where `more`: it has all up to this key; empty: up to its last one."""
        ...


class PartPage(ScannedPage, Protocol):
    """That of one partition."""

    @property
    def applied(self) -> Offset: ...


ReadsPart = Callable[[Partition, bytes, bytes | None, int], tuple[PartPage, int]]
"""Reads so many entries of one partition, from a start to an end; returns them, and the version that they are of."""


class MergedPage(NamedTuple):
    """One page of entries, merged over all partitions."""

    keys: Sequence[bytes]
    values: Sequence[bytes]
    versions: Sequence[int]
    more: bool
    reached: bytes = b""
    """See `ScanResult.reached`."""


def page_share(limit: int, partitions: int) -> int:
    """How many entries to ask of each partition for a page of `limit`.

    Slots spread keys evenly, so each holds about limit / partitions of the next keys, give or take the square root of
    that: asking for twice the root more nearly always fills the page, and asking everybody for all of it would read
    `partitions` times too much.
    """
    share = -(-limit // partitions)
    return min(limit, share + 2 * isqrt(share) + 4)


def merge_pages(pages: Sequence[ScannedPage], *, limit: int, bytes_max: int, reverse: bool) -> MergedPage:
    """Merge sorted pages up to the frontier, at most `limit` entries. O(entries × log partitions).

    The page ends when its keys and values together have reached `bytes_max`. Every partition gives at least one entry,
    and a reply could not carry one large value from each of many partitions.

    Progress: if any page holds an entry, so does the result, or it has come further than the scan had.
    """
    last_keys = [end for page in pages if page.more and (end := _end_of(page))]
    keys = [key for page in pages for key in page.keys]
    # Sorted runs, one for each page: the sort merges them.
    order = sorted(range(len(keys)), key=keys.__getitem__)
    if last_keys and reverse:
        order = order[bisect_left(order, max(last_keys), key=keys.__getitem__) :]
    elif last_keys:
        order = order[: bisect_right(order, min(last_keys), key=keys.__getitem__)]
    if reverse:
        order.reverse()
    values = [value for page in pages for value in page.values]
    versions = [version for page in pages for version in page.versions]
    found = order[:limit]
    found = found[: _fitting([len(keys[each]) + len(values[each]) for each in found], bytes_max)]
    reached = b""
    if len(found) == len(order) and any(page.more and page.reached for page in pages):
        reached = max(last_keys) if reverse else min(last_keys)
    return MergedPage(
        [keys[each] for each in found],
        [values[each] for each in found],
        [versions[each] for each in found],
        more=bool(last_keys) or len(order) > len(found),
        reached=reached,
    )


class PageMerge:
    """`merge_pages` of pages that come one after the other: it holds two merged pages' bytes and the last page.

    One large value from each of a thousand partitions would be some GiB.
    """

    def __init__(self, *, limit: int, bytes_max: int, reverse: bool) -> None:
        self._limit, self._bytes_max, self._reverse = limit, bytes_max, reverse
        self._pages: list[ScannedPage] = []
        self._room = 2 * bytes_max
        self.held_bytes = 0
        """Of all entries held now."""
        self.frontier: bytes | None = None
        """What lies beyond this key will not be shown, and need not be read. None: everything may be."""

    def add(self, page: ScannedPage) -> None:
        """Take one more partition's page."""
        self._pages.append(page)
        self.held_bytes += _bytes_of(page)
        self._narrow(page)
        if self.held_bytes > self._room:
            merged = self.merged()
            self._pages = [merged]
            self._narrow(merged)
            self.held_bytes = _bytes_of(merged)
            # Each entry is looked at again only when as much has come as there is.
            self._room = 2 * max(self._bytes_max, self.held_bytes)

    def _narrow(self, page: ScannedPage) -> None:
        if page.more and (last := _end_of(page)):
            nearer = max if self._reverse else min
            self.frontier = last if self.frontier is None else nearer(last, self.frontier)

    def merged(self) -> MergedPage:
        """The page of all that came so far."""
        return merge_pages(self._pages, limit=self._limit, bytes_max=self._bytes_max, reverse=self._reverse)


def read_merged(partitions: Sequence[Partition], request: ScanRequest, read: ReadsPart) -> ScanResult:
    """The page of a request, read partition by partition; of each only what the page can show."""
    if len(partitions) == 1:
        (only,) = partitions
        page, version = read(only, request.start, request.end, request.limit)
        return merged_result(page, {only: page.applied}, {only: version})  # no larger than asked for
    share = page_share(request.limit, len(partitions))
    pages = PageMerge(limit=request.limit, bytes_max=request.bytes_max, reverse=request.reverse)
    applied: dict[Partition, Offset] = {}
    versions: dict[Partition, int] = {}
    start, end = request.start, request.end
    for partition in partitions:
        page, versions[partition] = read(partition, start, end, share)
        pages.add(page)
        applied[partition] = page.applied
        if pages.frontier is None:
            continue
        if request.reverse:
            start = pages.frontier
        else:
            end = pages.frontier + b"\0"  # the first key behind it
    return merged_result(pages.merged(), applied, versions)


def merged_result(
    page: ScannedPage, applied: Mapping[Partition, Offset], table_versions: Mapping[Partition, int]
) -> ScanResult:
    """The answer to a request, from what its partitions' pages were merged to."""
    result = ScanResult(page.keys, page.values, page.versions, page.more, applied, table_versions, page.reached)
    if isinstance(page, PastPage) and page.before_versions:
        return result._replace(before=page.before, before_versions=page.before_versions)
    return result


def _end_of(page: ScannedPage) -> bytes:
    return page.reached or (page.keys[-1] if page.keys else b"")


def _bytes_of(page: ScannedPage) -> int:
    return sum(map(len, page.keys)) + sum(map(len, page.values))


def _fitting(sizes: Sequence[int], bytes_max: int) -> int:
    """How many entries of such sizes go into a page: at least one, if there is one."""
    return bisect_left(list(accumulate(sizes)), bytes_max) + 1
