"""Which offsets are missing or were counted twice, when two tallies of the same minute differ. Pure.

Both checksums are sums over batches. So what is in one of them alone adds up to their difference, and a run of
batches that does is found by the sums up to each batch: one look in a dict for each.
"""

from __future__ import annotations

from collections.abc import Iterable

from log_tier.model.batch_header import BatchHeader
from log_tier.model.identifiers import Offset
from log_tier.tally.period import CHECKSUM_MASK, Period, weight_of

__all__ = ["find_missing"]


def find_missing(
    headers: Iterable[BatchHeader], *, written: Period, counted: Period | None
) -> tuple[Offset, Offset] | None:
    """The one run of batches, as its first and last offset, without which `written` would be `counted`; where more was
    counted than was written, with which twice it would be.

    `headers`: the batches of the log that reach into `written`. None if no run explains the difference: several runs
    are missing, or other batches were counted. O(batches).
    """
    if counted is None:
        return written.first, written.last
    offsets = written.offsets - counted.offsets
    checksum = (written.checksum - counted.checksum) & CHECKSUM_MASK
    if offsets < 0:
        offsets, checksum = -offsets, -checksum & CHECKSUM_MASK
    if not offsets:
        return None
    sums: dict[tuple[int, int], Offset] = {(0, 0): written.first}
    count = total = 0
    for header in headers:
        if header.base_offset < written.first or header.last_offset > written.last:
            continue
        count += header.span
        total = (total + weight_of(header.base_offset, header.stamp_checksum)) & CHECKSUM_MASK
        first = sums.get((count - offsets, (total - checksum) & CHECKSUM_MASK))
        if first is not None:
            return first, header.last_offset
        sums[count, total] = Offset(header.last_offset + 1)
    return None
