"""The floors of one table at one server: what an answer must contain, whichever object serves the table.

    seen[p]    the highest offset of partition p that any connection has seen: the place of a write, or a state read
    floor[p]   no read of partition p is answered from before it, whatever its key
    fresh[p]   keys whose last acknowledged write the replica here may not have applied yet, with its offset

    FL1  Floors belong to a table id and only rise. They outlive the replicas, the caches and the `ServedTable` that
         read them: a replica that is replaced, a table that is looked for again, an error about another table change
         nothing here.
    FL2  A write that was begun while one object served the table, and is acknowledged while another one does, is
         noted here once, and both see it.
    FL3  What reader processes must know (`freshness_page.py`) is noted in their page before a reply leaves.

**Bounds.** One object for each table that this server's connections have used and that the catalog still has
(`ServedTables.open` lets go of the others; a table id never comes back). An object holds two numbers for each
partition, and in `fresh` the keys of the batches that were not applied when the last batch was acknowledged: at most
what the writer lets be under way, since each acknowledged batch first lets go of those that the replica has applied, of
a large batch some at a time.

Belongs to the server's event loop. Only `close` does I/O: it ends the freshness page, which has two small files.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice, repeat
from typing import Final

from log_tier.model.identifiers import NOTHING, Offset, Partition
from router.data.gather.own_offsets import OwnOffsets
from router.endpoints.resp.data.freshness_page import FreshnessPage

__all__ = ["LET_GO", "Floors"]

# Keys of applied batches that one call lets go of, in addition to as many as it notes: a small batch behind a large one
# must not take long. A key that stays longer costs memory, and its readers a comparison.
LET_GO: Final = 4096


class Floors:
    """The lowest offset, for each partition of one table, from which connections may be answered. `page`: the table's
    freshness page for reader processes; None without them.
    """

    __slots__ = ("_landed", "_let_go", "floor", "fresh", "own", "page", "seen")

    def __init__(self, partitions: int, page: FreshnessPage | None = None, *, let_go: int = LET_GO) -> None:
        self._let_go = let_go
        self.page = page
        self.seen: list[Offset] = [NOTHING] * partitions
        self.floor: list[Offset] = [NOTHING] * partitions
        """Invariant: `floor[p] <= seen[p]`."""
        self.fresh: list[dict[bytes, Offset]] = [{} for _ in range(partitions)]
        self.own: Final = [OwnOffsets() for _ in range(partitions)]
        """By partition: which offsets are writes of this endpoint."""
        self._landed: list[deque[tuple[Offset, Sequence[bytes]]]] = [deque() for _ in range(partitions)]
        """By partition: the batches behind `fresh`, the oldest first."""

    def saw(self, partition: Partition, offset: Offset) -> None:
        """A connection has seen `offset`. O(1)."""
        if offset > self.seen[partition]:
            self.seen[partition] = offset

    def raise_floor(self, partition: Partition, offset: Offset) -> None:
        """A state was shown that holds `offset`, of whatever key. O(1)."""
        self.saw(partition, offset)
        if offset > self.floor[partition]:
            self.floor[partition] = offset
            if self.page is not None:
                self.page.raise_floor(partition, offset)

    def wrote(self, partition: Partition, keys: Sequence[bytes], last: Offset, applied: Offset | None) -> None:
        """A batch with these keys is on stable storage; its last offset. O(keys), some 50 ns each.

        `applied`: how far the replica here is; None where there is none, and every later read waits for the batch.
        """
        self.saw(partition, last)
        if self.page is not None:
            self.page.wrote(keys, last)
        if applied is None:
            self.raise_floor(partition, last)
            return
        fresh, landed = self.fresh[partition], self._landed[partition]
        if landed and landed[-1][0] <= applied:
            fresh.clear()
            landed.clear()
        room = len(keys) + self._let_go
        while landed and landed[0][0] <= applied and room > 0:
            offset, old = landed.popleft()
            for key in islice(old, room):
                if fresh.get(key, last) <= offset:
                    del fresh[key]
            if len(old) > room:
                landed.appendleft((offset, old[room:]))
            room -= len(old)
        if applied < last:
            fresh.update(zip(keys, repeat(last)))
            landed.append((last, keys))

    def needed(self, partition: Partition, keys: Sequence[bytes]) -> Offset:
        """The offset that a replica here must have applied to answer for these keys. O(keys) while some are fresh."""
        fresh = self.fresh[partition]
        floor = self.floor[partition]
        if not fresh or fresh.keys().isdisjoint(keys):
            return floor
        return max(floor, *(fresh.get(key, NOTHING) for key in keys))

    def close(self) -> None:
        """The table is gone, or the server stops: readers get no more from its freshness page. Idempotent."""
        if self.page is not None:
            self.page.close()
