"""The text indexes of a node: those of each replica that it hosts, and the threads that they share."""

from __future__ import annotations

import asyncio

from log_tier.concurrency.tasks import to_the_end
from log_tier.concurrency.workers import Workers
from log_tier.model.errors import DuramenError, ShuttingDown
from log_tier.model.identifiers import Offset
from log_tier.model.log import Log
from log_tier.rows.text_index import TextIndex
from serving_tier.replica.replica import Replica
from serving_tier.text.replica_texts import ReplicaTexts
from serving_tier.text.text_page import TextPage, TextThreads

__all__ = ["NodeTexts"]

# Threads: tantivy lets the interpreter go while it works, what is around it does not.
_PUTS: int = 2
_DISK: int = 2
_SEARCHES: int = 4


class NodeTexts:
    """Belongs to a node and its event loop. A replica without a text index costs a comparison for each apply."""

    def __init__(self, log: Log, workers: Workers) -> None:
        self._log = log
        self._threads = TextThreads(
            workers.pool(_PUTS, name="duramen-text"),
            workers.pool(_DISK, name="duramen-text-disk"),
            workers.pool(_SEARCHES, name="duramen-search"),
        )
        self._watched: dict[Replica, ReplicaTexts] = {}

    def watch(self, replica: Replica) -> None:
        """Have the text indexes of a replica follow it."""
        texts = self._watched[replica] = ReplicaTexts(replica, self._log, self._threads)
        replica.observers.append(texts)
        if not replica.index.is_at_rest:
            texts.replica_applied(replica.index, ())

    async def forget(self, replica: Replica, reason: DuramenError) -> None:
        """Follow a replica no longer; return when nothing of it is used."""
        texts = self._watched.pop(replica, None)
        if texts is not None:
            replica.observers.remove(texts)
            await texts.close(reason)

    async def wait_built(self, replica: Replica, text: TextIndex) -> Offset:
        """Return when a text index is where its replica is now. Raises `InvalidRequest` without tantivy, and why the
        index failed.
        """
        with replica.reading() as index:
            follower = self._watched[replica].of(index, text)
        offset = replica.applied
        await follower.wait_applied(offset, timeout=None)
        return offset

    async def search(
        self, replica: Replica, text: TextIndex, query: str, limit: int, *, after: Offset, timeout: float
    ) -> TextPage:
        """The best rows of a partition, at `after` or later. Raises as `ReplicaTexts.of` and `FollowsText` do."""
        time = asyncio.get_running_loop().time
        ends_s = time() + timeout
        with replica.reading() as index:
            follower = self._watched[replica].of(index, text)
        await follower.wait_applied(after, timeout=timeout)
        return await follower.search(query, limit, timeout=max(0.0, ends_s - time()))

    async def close(self) -> None:
        """Follow nothing any more. A caller that is cancelled goes on when that is so."""
        await to_the_end(self._close())

    async def _close(self) -> None:
        reason = ShuttingDown("this node is stopping: ask another one")
        await asyncio.gather(*(self.forget(each, reason) for each in list(self._watched)))
        for threads in self._threads:
            await asyncio.to_thread(threads.shutdown)
