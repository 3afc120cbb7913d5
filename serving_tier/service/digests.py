"""Digests that a node computes for others: at which offset, how many at a time, in which thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from log_tier.concurrency.tasks import to_the_end
from log_tier.model.errors import Overloaded, ShuttingDown
from log_tier.model.identifiers import Offset, Partition, PartitionId, table_id_from_bytes
from serving_tier.index.lmdb.pinned_read import PinnedRead
from serving_tier.node.node import Node
from serving_tier.proto import node_pb2
from serving_tier.replica.replica import Replica
from serving_tier.service.content_digest import ContentDigest, digest_pinned
from serving_tier.service.entry_check import NOTHING_CHECKED, WRONG_NAMED_MAX, CheckedEntries, check_entries
from serving_tier.service.past_check import check_past

__all__ = ["DIGESTS_MAX", "Digests", "digest_reply"]

# Digests that wait for their offset or their turn. Each keeps the pages of one index from being used again.
DIGESTS_MAX: Final = 16

_BUCKETS_DEFAULT: Final = 256


class Digests:
    """Computes digests one after the other: a second one at a time would only take the interpreter from the reads."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="duramen-digest")
        self._under_way = 0
        self._closed = False

    async def digest(
        self, replica: Replica, offset: Offset, *, buckets: int, listed: frozenset[int], timeout: float
    ) -> tuple[ContentDigest, CheckedEntries]:
        """Digest a replica at the first end of a batch from `offset` on, and look at the entries of its ordered indexes
        and at its past where nothing is `listed`. Some 0.8 µs a key, 1.5 µs for each row with indexes and each entry,
        and 3 µs for a past entry.

        Raises what `Replica.at_offset` and `digest_pinned` raise, `Overloaded`, and why the replica was closed.
        """
        if self._under_way >= DIGESTS_MAX:
            raise Overloaded(f"this node computes {DIGESTS_MAX} digests already: ask again later", limit=DIGESTS_MAX)
        self._under_way += 1
        try:
            pinned = await replica.at_offset(offset, timeout=timeout)
            if self._closed:
                pinned.close()
                raise ShuttingDown("this node is stopping and computes no digests: ask another one")
            unwanted = False

            def check() -> None:
                replica.check_open()
                if unwanted or self._closed:
                    raise ShuttingDown("all callers that wanted this digest have gone")

            def work() -> tuple[ContentDigest, CheckedEntries]:
                check()
                with replica.reading():
                    found = digest_pinned(pinned, buckets=buckets, listed=listed, check=check)
                    return found, NOTHING_CHECKED if listed else _checked(pinned, check)

            # The thread may be in the pinned read's transaction after the caller has gone: so the thread's end closes
            # the pinned read, and nothing else does.
            working = self._thread.submit(work)
            working.add_done_callback(lambda _: pinned.close())
            try:
                return await asyncio.wrap_future(working)
            except asyncio.CancelledError:
                unwanted = True
                raise
        finally:
            self._under_way -= 1

    async def close(self) -> None:
        """Compute no more, and end what is under way: within some ms, on a disk that answers. Idempotent.

        A caller that is cancelled gets its `CancelledError` when the thread has ended: it may be in an index.
        """
        self._closed = True
        await to_the_end(asyncio.to_thread(self._thread.shutdown, wait=True, cancel_futures=True))


def _checked(pinned: PinnedRead, check: Callable[[], None]) -> CheckedEntries:
    """What is wrong with the entries of ordered indexes, and with the past of a table that keeps a history."""
    of_rows, of_past = check_entries(pinned, check=check), check_past(pinned, check=check)
    named = [*of_rows.named, *of_past.named][:WRONG_NAMED_MAX]
    return CheckedEntries(of_rows.entries + of_past.entries, of_rows.wrong + of_past.wrong, named)


async def digest_reply(
    digests: Digests, node: Node, request: node_pb2.DigestRequest, *, timeout: float
) -> node_pb2.DigestReply:
    """Answer a `DigestRequest` about one of the node's replicas. Raises as `Digests.digest` and `Node.replica` do."""
    found, checked = await digests.digest(
        node.replica(PartitionId(table_id_from_bytes(request.table_id), Partition(request.partition))),
        Offset(request.offset),
        buckets=request.buckets or _BUCKETS_DEFAULT,
        listed=frozenset(request.list_buckets),
        timeout=timeout,
    )
    return node_pb2.DigestReply(
        offset=found.offset,
        keys=found.keys,
        digests=found.digests,
        listed_keys=[each.key for each in found.listed],
        listed_versions=[each.version for each in found.listed],
        listed_hashes=[each.hash for each in found.listed],
        entries=checked.entries,
        wrong=checked.wrong,
        wrong_entries=[
            node_pb2.WrongEntry(index=each.index, key=each.key, problem=each.problem) for each in checked.named
        ],
    )
