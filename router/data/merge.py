"""Merging pages of several partitions into one page in key order. Pure.

Every partition gives its next keys and says whether it has more. A partition that has more may hold, right after its
last key, something smaller than another partition's keys; so the merged page ends at the **frontier**: the smallest
last key among the partitions that have more (the largest, in reverse). What lies beyond is left for the next page.

A merged page is itself such a page: it ends somewhere, and more may follow. So pages can be merged as they are read,
and what the whole will not show is dropped at once (`PageMerge`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from heapq import merge
from math import isqrt
from typing import NamedTuple

from log_tier.model.identifiers import Offset, Partition
from router.data.requests import ScanRequest, ScanResult
from serving_tier.fold.entry import LiveEntry
from serving_tier.index.index import ScanPage

__all__ = ["MergedPage", "PageMerge", "PartitionPage", "merge_pages", "merged_result", "page_share", "read_merged"]

ReadsPart = Callable[[Partition, bytes, bytes | None, int], tuple[ScanPage, int]]
"""Reads so many entries of one partition, from a start to an end; returns them, and the version that they are of."""


class PartitionPage(NamedTuple):
    """One partition's next entries, in the order of the scan."""

    entries: Sequence[tuple[bytes, LiveEntry]]
    more: bool


class MergedPage(NamedTuple):
    """One page of entries, merged over all partitions."""

    entries: list[tuple[bytes, LiveEntry]]
    more: bool


def page_share(limit: int, partitions: int) -> int:
    """How many entries to ask of each partition for a page of `limit`.

    Slots spread keys evenly, so each holds about limit / partitions of the next keys, give or take the square root of
    that: asking for twice the root more nearly always fills the page, and asking everybody for all of it would read
    `partitions` times too much.
    """
    share = -(-limit // partitions)
    return min(limit, share + 2 * isqrt(share) + 4)


def merge_pages(pages: Sequence[PartitionPage], *, limit: int, bytes_max: int, reverse: bool) -> MergedPage:
    """Merge sorted pages up to the frontier, at most `limit` entries. O(entries × log partitions).

    The page ends when its keys and values together have reached `bytes_max`. Every partition gives at least one entry,
    and a reply could not carry one large value from each of many partitions.

    Progress: if any page holds an entry, so does the result.
    """
    last_keys = [page.entries[-1][0] for page in pages if page.more and page.entries]
    merged = list(merge(*(page.entries for page in pages), key=lambda item: item[0], reverse=reverse))
    if last_keys:
        frontier = max(last_keys) if reverse else min(last_keys)
        merged = [item for item in merged if (item[0] >= frontier if reverse else item[0] <= frontier)]
    fitting = _fitting(merged, limit, bytes_max)
    return MergedPage(merged[:fitting], bool(last_keys) or len(merged) > fitting)


class PageMerge:
    """`merge_pages` of pages that come one after the other: it holds two merged pages' bytes and the last page.

    One large value from each of a thousand partitions would be some GiB.
    """

    def __init__(self, *, limit: int, bytes_max: int, reverse: bool) -> None:
        self._limit, self._bytes_max, self._reverse = limit, bytes_max, reverse
        self._pages: list[PartitionPage] = []
        self._room = 2 * bytes_max
        self.held_bytes = 0
        """Of all entries held now."""
        self.frontier: bytes | None = None
        """What lies beyond this key will not be shown, and need not be read. None: everything may be."""

    def add(self, page: PartitionPage) -> None:
        """Take one more partition's page."""
        self._pages.append(page)
        self.held_bytes += _bytes_of(page.entries)
        self._narrow(page)
        if self.held_bytes > self._room:
            merged = self.merged()
            self._pages = [PartitionPage(*merged)]
            self._narrow(self._pages[0])
            self.held_bytes = _bytes_of(merged.entries)
            # Each entry is looked at again only when as much has come as there is.
            self._room = 2 * max(self._bytes_max, self.held_bytes)

    def _narrow(self, page: PartitionPage) -> None:
        if page.more and page.entries:
            last = page.entries[-1][0]
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
        merged = MergedPage(page.entries, page.more)  # no larger than asked for
        return merged_result(merged, {only: page.applied}, {only: version})
    share = page_share(request.limit, len(partitions))
    pages = PageMerge(limit=request.limit, bytes_max=request.bytes_max, reverse=request.reverse)
    applied: dict[Partition, Offset] = {}
    versions: dict[Partition, int] = {}
    start, end = request.start, request.end
    for partition in partitions:
        page, versions[partition] = read(partition, start, end, share)
        pages.add(PartitionPage(page.entries, page.more))
        applied[partition] = page.applied
        if pages.frontier is None:
            continue
        if request.reverse:
            start = pages.frontier
        else:
            end = pages.frontier + b"\0"  # the first key behind it
    return merged_result(pages.merged(), applied, versions)


def merged_result(
    merged: MergedPage, applied: Mapping[Partition, Offset], table_versions: Mapping[Partition, int]
) -> ScanResult:
    """The answer to a request, from what its partitions' pages were merged to."""
    return ScanResult(
        [key for key, _ in merged.entries],
        [entry.value for _, entry in merged.entries],
        [entry.version for _, entry in merged.entries],
        merged.more,
        applied,
        table_versions,
    )


def _bytes_of(entries: Sequence[tuple[bytes, LiveEntry]]) -> int:
    return sum([len(key) + len(entry.value) for key, entry in entries])


def _fitting(entries: Sequence[tuple[bytes, LiveEntry]], limit: int, bytes_max: int) -> int:
    """How many of the entries go into a page: at least one, if there is one."""
    size = 0
    for number, (key, entry) in enumerate(entries[:limit]):
        if size >= bytes_max:
            return number
        size += len(key) + len(entry.value)
    return min(limit, len(entries))
