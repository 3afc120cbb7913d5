"""Bringing replicas up: each by a task of its own, tried again where it failed for now.

    there is an index in its folder      open it, follow the log
    there is none, or it is damaged      fetch a copy (`Bootstrap`), open that; the log alone is a copy too
    it stopped, or was damaged later     close it, pause, and the same from the beginning

What fails for now is a log that is away, a full disk, a store that does not answer. A replica that is under way is in
`pending`; the others do not wait for it. Code that replaces a replica's files holds its lock.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Final

from log_tier.catalog.cluster_map import TableEntry
from log_tier.concurrency.backoff import Backoff
from log_tier.concurrency.broadcast import Broadcast
from log_tier.concurrency.tasks import end_tasks, to_the_end
from log_tier.concurrency.threads import Progress
from log_tier.model.errors import (
    DeadlineExceeded,
    Disconnected,
    DuramenError,
    IndexDamaged,
    OffsetTrimmed,
    Overloaded,
    ShuttingDown,
    SnapshotStoreUnavailable,
    Unavailable,
)
from log_tier.model.identifiers import PartitionId, PartitionName
from log_tier.model.log import Topic
from serving_tier.folders import discard
from serving_tier.node.bootstrap import Bootstrap, PendingReplica
from serving_tier.node.bug_lines import BugLines
from serving_tier.node.node import Node
from serving_tier.node.restart_pauses import RestartPauses
from serving_tier.replica.replica import Replica
from serving_tier.replica.version_folders import promote

__all__ = ["BringUp"]

logger = logging.getLogger(__name__)

_RETRY_FIRST_S: Final = 0.5
_RETRY_MAX_S: Final = 30.0
# A log or a peer that is away, or busy, may be back at any time, and a try costs one request: so the pauses stay short.
_RETRY_AWAY_MAX_S: Final = 2.0

_AWAY: Final = (Disconnected, DeadlineExceeded, Overloaded, SnapshotStoreUnavailable)

# Copies that are fetched at the same time: one disk and one network serve them all, and reads as well.
_BOOTSTRAPS_MAX: Final = 2


class BringUp:
    """Brings up the replicas that the map assigns to this node. It belongs to one node and its event loop; `close()`
    ends what is under way.

    Invariant: a replica has at most one task, and is pending while it has one.
    """

    def __init__(
        self,
        node: Node,
        wanted: Mapping[PartitionId, tuple[TableEntry, int]],
        *,
        bootstrap: Bootstrap,
        moved: Broadcast,
        forget_versions: Callable[[PartitionId], Awaitable[None]],
        ended: Callable[[PartitionId], None],
    ) -> None:
        """`wanted`: the table and the rank of each replica that the node should have; the caller changes it. `moved`
        wakes the callers that wait for a replica. `forget_versions` ends the tasks of a replica's versions before the
        replica is replaced. `ended` is called when a task has ended: the replica is open or refused.
        """
        self.pending: dict[PartitionId, PendingReplica] = {}
        self._node = node
        self._wanted = wanted
        self._bootstrap = bootstrap
        self._moved = moved
        self._forget_versions = forget_versions
        self._ended = ended
        self._tasks: dict[PartitionId, asyncio.Task[None]] = {}
        self._locks: dict[PartitionId, asyncio.Lock] = {}
        self._pauses = RestartPauses(first_s=_RETRY_FIRST_S, max_s=_RETRY_MAX_S, clock=node.clock.monotonic_s)
        self._bugs = BugLines()
        self._bootstraps = asyncio.Semaphore(_BOOTSTRAPS_MAX)
        self._closed = False

    def __contains__(self, name: PartitionId) -> bool:
        """Is a replica being brought up?"""
        return name in self._tasks

    def __len__(self) -> int:
        return len(self._tasks)

    def lock(self, name: PartitionId) -> asyncio.Lock:
        """Held while a replica's files are replaced."""
        return self._locks.setdefault(name, asyncio.Lock())

    def is_locked(self, name: PartitionId) -> bool:
        """Has a task taken the lock of the replica's files since the replica is wanted? O(1)."""
        return name in self._locks

    def start(self, name: PartitionId, topic: Topic) -> None:
        """Begin to bring up a replica that is not under way."""
        self._run(name, topic, self._bring_up(name, topic))

    def begin_anew(self, replica: Replica, *, delete: bool) -> None:
        """Begin to replace a replica that cannot go on, unless that is under way, it was replaced already, or the node
        closes. `delete`: its index goes with it.
        """
        name = replica.id
        if self._closed or name in self._tasks or self._node.hosted().get(name) is not replica:
            return
        if replica.failure is None:
            logger.warning("%s cannot go on (%s): it is brought up again", replica.name, replica.awaits)
        self._run(name, replica.topic, self._replace(name, replica, delete=delete))

    def note_stop(self, replica: Replica) -> None:
        """Log why a replica stopped: one line, counted while the cause is the same, and the traceback of a bug once."""
        failure = replica.failure
        assert failure is not None, f"{replica.name} stopped without a reason"
        bug = failure.__cause__ if type(failure) is DuramenError else None
        what = failure.message if bug else f"replica {replica.name} stopped at {replica.applied}: {failure}"
        times = self._pauses.times(replica.id, what)
        again = f" ({times} times in a row)" if times > 1 else ""
        logger.error("%s%s", what, again, exc_info=bug if times == 1 else None)

    def _run(self, name: PartitionId, topic: Topic, work: Coroutine[Any, Any, None]) -> None:
        self.pending[name] = PendingReplica(topic, name)
        task = asyncio.create_task(work, name=f"bring up {topic.name}/{name[1]}")
        self._tasks[name] = task
        task.add_done_callback(lambda _: self._brought(name, task))

    def _brought(self, name: PartitionId, task: asyncio.Task[None]) -> None:
        if self._tasks.get(name) is task:
            del self._tasks[name]
            self.pending.pop(name, None)
        if not task.cancelled() and task.exception() is not None:
            # A bug of ours: log it with its traceback, and refuse the replica with it.
            error = task.exception()
            logger.error("bringing up %s ended by a bug", name, exc_info=error)
            self._node.refusals[name] = DuramenError(f"replica {name[0]}/{name[1]} could not be opened: {error!r}")
        self._ended(name)
        self._moved.notify_all()

    async def let_go(self, name: PartitionId, reason: Callable[[], DuramenError]) -> None:
        """End what is under way for a replica, close it, and delete its index. Its waiters get `reason`."""
        task = self._tasks.pop(name, None)
        self.pending.pop(name, None)
        await end_tasks(task)
        await self._forget_versions(name)
        self._pauses.forget(name)
        self._bugs.forget(name)
        async with self.lock(name):
            try:
                await self._node.unhost(name, reason())
            except (DuramenError, OSError) as error:  # its index was not closed cleanly, and is gone with its folder
                logger.warning("%s was let go: %s", name, error)
        self._locks.pop(name, None)

    async def _replace(self, name: PartitionId, replica: Replica, *, delete: bool) -> None:
        await self._forget_versions(name)
        async with self.lock(name):
            reason = replica.failure or replica.awaits or Unavailable(f"{replica.name} is damaged: ask another node")
            try:
                await self._node.unhost(name, reason, delete=delete)
            except (DuramenError, OSError) as error:
                logger.warning("%s could not be closed cleanly: %s", replica.name, error)
            if isinstance(reason, (IndexDamaged, OffsetTrimmed)):
                self._fetched_anew(name, reason)
            else:
                self._node.refusals[name] = reason
        await asyncio.sleep(self._pauses.after_stop(name))
        await self._bring_up(name, replica.topic)

    async def _bring_up(self, name: PartitionId, topic: Topic) -> None:
        backoff = Backoff(_RETRY_FIRST_S, _RETRY_MAX_S)
        while True:
            try:
                async with self.lock(name):
                    await self._open(name, topic)
            except Exception as error:  # noqa: BLE001 - callers get it as the refusal
                self._refuse(name, topic, error)
                backoff.max_s = _RETRY_AWAY_MAX_S if isinstance(error, _AWAY) else _RETRY_MAX_S
                await backoff.pause()
            else:
                self._bugs.forget(name)
                return

    def _refuse(self, name: PartitionId, topic: Topic, error: Exception) -> None:
        """A try has failed: log it, and refuse the replica with it until another try succeeds."""
        place = f"{topic.name}/{name[1]}"
        if isinstance(error, DuramenError):
            expected, refusal = isinstance(error, (Unavailable, ShuttingDown)), error
            logger.log(logging.INFO if expected else logging.ERROR, "%s is not served: %s", place, error)
        else:
            refusal = DuramenError(f"replica {place} could not be opened: {error!r}")
            self._bugs.note(name, f"bringing up {place}", error)
        self._node.refusals[name] = refusal
        self.pending[name].trouble = refusal.message
        self._moved.notify_all()

    async def _open(self, name: PartitionId, topic: Topic) -> None:
        if name in self._node.hosted():
            return  # a rebuild was faster
        pending = self.pending[name]
        folder = self._node.replica_folder(name)
        table, rank = self._wanted[name]
        start, definition = table.start(name[1]), table.definition
        source = "log"
        while await to_the_end(asyncio.to_thread(promote, folder)):
            try:
                await self._node.host(topic, name, start=start, rank=rank, repair=False, definition=definition)
            except (IndexDamaged, OffsetTrimmed) as error:
                logger.warning("%s: %s; it is fetched again", PartitionName(topic.name, name.partition), error)
                self._fetched_anew(name, error)
                await to_the_end(asyncio.to_thread(discard, folder))
            else:
                return
        source = await self.fetched(topic, name, folder, "auto", pending.progress)
        await self._node.host(topic, name, start=start, rank=rank, source=source, definition=definition)

    def _fetched_anew(self, name: PartitionId, reason: DuramenError) -> None:
        """From now on calls for the partition get `NotHosted`, and clients ask another node. The operator sees in this
        node's status what was wrong with the index.
        """
        self._node.refusals.pop(name, None)
        self.pending[name].trouble = reason.message

    async def fetched(self, topic: Topic, name: PartitionId, folder: Path, source: str, progress: Progress) -> str:
        """Fetch a copy of an index into `folder`; returns where it came from. Some are fetched at the same time."""
        progress("waiting for other bootstraps", 0, 0)
        async with self._bootstraps:
            progress("bootstrapping", 0, 0)
            return await self._bootstrap(topic, name, folder, source, progress)

    async def close(self) -> None:
        """End what is under way, and begin nothing more. Idempotent."""
        self._closed = True
        tasks, self._tasks = self._tasks, {}
        await end_tasks(*tasks.values())
