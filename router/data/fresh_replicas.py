"""Replicas of this process, found and waited for: a read begins when its replica has what the read asks for.

One deadline bounds all of a wait: the look for a table that was not heard of yet, the question for the log's end, and
the replica's way there. Each step is given what the steps before it have left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from copy import copy

from log_tier.model.errors import DuramenError, TableNotFound
from log_tier.model.identifiers import NOTHING, Offset, PartitionId
from log_tier.model.log import Log
from log_tier.tracing.indexes import trace_wait
from log_tier.tracing.span import Span
from router.data.catalog_tables import CatalogTables
from router.data.freshness import ReadDecision, decide, may_answer, needed_offset
from router.data.in_time import in_time
from router.data.requests import ReadPart
from serving_tier.node.node import Node
from serving_tier.replica.refusals import end_unknown
from serving_tier.replica.replica import Replica

__all__ = ["FreshReplicas", "answers_now"]


class FreshReplicas:
    """Finds the replicas of `node`, and waits for them."""

    def __init__(self, log: Log, node: Node, tables: CatalogTables) -> None:
        self._log = log
        self._node = node
        self._tables = tables

    async def replica(self, partition: PartitionId, left_s: Callable[[], float]) -> Replica:
        """A replica of this process. Fetches the catalog's end before it reports a table as unknown.

        `left_s`: how many seconds of the call are left, whenever it is called (`router.data.in_time.time_left`).
        """
        try:
            return self._node.replica(partition)
        except TableNotFound:
            async with in_time(left_s(), "the table was not looked up"):
                await self._tables.known(partition.table)
            return self._node.replica(partition)

    async def fresh(
        self,
        partition: PartitionId,
        after: Offset,
        strong: bool,
        lag_max_ms: int = 0,
        *,
        left_s: Callable[[], float],
    ) -> Replica:
        """A replica that has applied `after`; `strong`: and what the log's end is now; `lag_max_ms` > 0: or was so many
        milliseconds ago. `left_s` as in `replica`.

        Raises `ReplicaBehind` when the time is over, why the replica stopped, and the log's errors.
        """
        replica = await self.replica(partition, left_s)
        needed = needed_offset(after, replica.floor, replica.lost, bounded=lag_max_ms > 0)
        decision = _decide(replica, needed, strong, lag_max_ms)
        if decision is ReadDecision.ASK_END:
            # A replica that has not been level for too long is level again with what the log holds now.
            try:
                async with asyncio.timeout(left_s()):
                    bounds = await self._log.bounds(partition)
            except DuramenError:
                raise
            except TimeoutError:
                applied, latest = replica.index.applied, replica.progress.latest
                raise end_unknown(replica.name, partition.partition, applied=applied, latest=latest) from None
            needed = max(needed, Offset(bounds.latest + bounds.lost))
        await replica.wait_applied(needed, timeout=left_s())
        if decision is ReadDecision.ASK_END:
            _decide(replica, needed, strong, lag_max_ms)
        return replica

    def trace_wait(self, callers: Iterable[Span], waited_s: float, partition: PartitionId, offset: Offset) -> None:
        """A wait for an offset was over now. Its span links to that of the apply, if the write was traced."""
        replica = self._node.hosted().get(partition)
        applies = () if replica is None else replica.applying.traces_of(offset)
        trace_wait(callers, waited_s, (partition.partition, offset), applies)


def answers_now(replica: Replica, part: ReadPart) -> bool:
    """Can the replica answer without a wait? Raises why it stopped, where it refuses the read."""
    _, _, after, strong, lag_max_ms, _ = part
    if after > NOTHING and not strong and not lag_max_ms:  # what nearly every read asks for: see `needed_offset`
        return may_answer(replica.index.applied, after, replica.failure)
    needed = needed_offset(after, replica.floor, replica.lost, bounded=lag_max_ms > 0)
    if strong or lag_max_ms:
        return _decide(replica, needed, strong, lag_max_ms) is ReadDecision.ANSWER
    return may_answer(replica.index.applied, needed, replica.failure)


def _decide(replica: Replica, needed: Offset, strong: bool, lag_max_ms: int) -> ReadDecision:
    """Raises why the replica stopped where it refuses the read."""
    decision = decide(
        replica.index.applied,
        needed,
        replica.failure,
        strong=strong,
        lag_max_ms=lag_max_ms,
        stale_ms=replica.progress.stale_s * 1000 if lag_max_ms else 0.0,
    )
    if decision is ReadDecision.REFUSE:
        assert replica.failure is not None, f"{replica.name} refuses a read and has not failed"
        raise copy(replica.failure)
    return decision
