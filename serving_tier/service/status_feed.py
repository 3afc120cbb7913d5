"""The status feed: a node reports the status of its replicas, and how busy it is, to every subscriber.

    replicas, hosting ──compare──▶ what changed ──▶ one message ──▶ every subscriber

A subscriber gets everything first and then what changed: at most every 50 ms where something did, at least every
250 ms, so that one who hears nothing for a second knows that the node is lost. The comparison is made once for all
subscribers, and not at all when there is none. Between heartbeats a replica is looked at only where its counter of
changes has moved (a thousand idle ones cost some 0.1 ms); at a heartbeat each is looked at whole.

A subscriber that does not keep up is sent away (`Overloaded`): what it missed is not kept for it, and it may begin
anew.

**Load** is the number of requests under way, and what waits uncounted in the event loop: by how many milliseconds the
event loop was late since the last heartbeat. A process that serves from one loop is busy when its loop is.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from log_tier.catalog.catalog import Maps
from log_tier.concurrency.broadcast import Broadcast
from log_tier.concurrency.clocks import SYSTEM_CLOCK, Clock
from log_tier.concurrency.sized_work import Turn, run_sized
from log_tier.concurrency.tasks import end_tasks
from log_tier.model.errors import DuramenError, Overloaded
from log_tier.model.identifiers import PartitionId
from log_tier.tally.proof import NO_PROOF
from serving_tier.node.node import Node
from serving_tier.node.node_load import Load
from serving_tier.proto import node_pb2
from serving_tier.replica.replica import Replica
from serving_tier.service.replica_status import (
    Bootstrapping,
    ReplicaStatus,
    Sizes,
    changes_between,
    gone_message,
    status_message,
    status_of,
    status_of_pending,
)
from serving_tier.service.served_rates import ServedRates

__all__ = ["STATUS_SETTINGS", "Hosts", "NodeStatusFeed", "Running", "StatusSettings"]

logger = logging.getLogger(__name__)

# Messages that are kept for slow subscribers: some 3 s of them, after which a router counts the node as lost anyway.
_KEPT: Final = 64

# A status and its message cost as much as this many keys of a read.
_STATUS_ITEMS: Final = 5


class StatusSettings(NamedTuple):
    """How often a node reports its status, and to how many subscribers."""

    push_every_s: float = 0.05
    """A router that learns within 50 ms where a write is applied seldom sends a reader to wait; twenty small messages
    a second are nothing to either side."""
    heartbeat_s: float = 0.25
    sizes_every_s: float = 5.0
    """Sizes are for people, and each is a look into the file."""
    subscribers_max: int = 1000
    """Each is a router, or a client that connects to the nodes directly; a message to one costs some 50 µs."""


STATUS_SETTINGS: Final = StatusSettings()


class RunningTask(Protocol):
    """The progress of a task under way; `serving_tier.jobs.worker.TaskProgress` implements it."""

    phase: str
    done: int
    total: int


class Hosts(Protocol):
    """The source of a node's status; `serving_tier.node.hosting.Hosting` implements it."""

    node_id: str
    identity: str
    maps: Maps
    node: Node

    @property
    def pending(self) -> Mapping[PartitionId, Bootstrapping]:
        """The replicas that are being brought up."""
        ...


Running = Callable[[], Mapping[tuple[int, int], RunningTask]]
"""The tasks under way here, by job and number."""


def _no_tasks() -> Mapping[tuple[int, int], RunningTask]:
    return {}


class NodeStatusFeed:
    """The status of one node. Nothing runs while nobody subscribes; `close()` ends what runs."""

    def __init__(
        self,
        hosts: Hosts,
        load: Load,
        *,
        running: Running = _no_tasks,
        clock: Clock = SYSTEM_CLOCK,
        settings: StatusSettings = STATUS_SETTINGS,
        insecure: bool = False,
        is_reached: bool = False,
    ) -> None:
        """Every status carries the wall clock, so that a wrong one shows. `is_reached`: by other machines; `insecure`:
        in plain TCP.
        """
        self.settings = settings
        self._hosts, self._load, self._running = hosts, load, running
        self._clock = clock
        self._insecure, self._is_reached = insecure, is_reached
        self._started_s = clock.monotonic_s()
        self._statuses: dict[PartitionId, ReplicaStatus] = {}
        self._seen: dict[PartitionId, tuple[Replica, int]] = {}
        """The counter of changes up to which each open replica was looked at."""
        self._sizes: dict[PartitionId, tuple[int, tuple[int, int]]] = {}
        """By name: the applied offset at which bytes and keys were measured, and they."""
        self._rates = ServedRates()
        self._sized_s: float | None = None
        self._disk = (0, 0)
        self._map_version = -1
        self._late_s = 0.0
        self._number = 0
        self._kept: deque[node_pb2.NodeStatus] = deque(maxlen=_KEPT)
        """The last messages; the newest has the number `_number`."""
        self._moved = Broadcast()
        self._comparing = asyncio.Lock()
        self._subscribers = 0
        self._task: asyncio.Task[None] | None = None
        self._failure: DuramenError | None = None

    @property
    def maps(self) -> Maps:
        """The maps that the node follows."""
        return self._hosts.maps

    # --- listening

    async def once(self) -> node_pb2.NodeStatus:
        """The whole status, as it is now."""
        await self._measure()
        async with self._comparing:
            if self._task is None:
                await self._compare(whole=True)
        return await self._whole()

    def now(self) -> node_pb2.NodeStatus:
        """The node's status without its replicas, and with the disk as it was measured last. Waits for nothing."""
        return self._message((), ())

    def names(self) -> list[PartitionId]:
        """Every replica that the node has, or should have. O(replicas)."""
        return list(dict.fromkeys((*self._hosts.node.hosted(), *self._hosts.pending, *self._hosts.node.refusals)))

    def replica(self, name: PartitionId) -> ReplicaStatus:
        """One replica's status, with its size as it was measured last. Some 5 µs. Raises `KeyError`."""
        hosted = self._hosts.node.hosted().get(name)
        if hosted is not None:
            return self._status_of(name, hosted)
        pending, refusal = self._hosts.pending.get(name), self._hosts.node.refusals.get(name)
        if pending is None and refusal is None:
            raise KeyError(name)
        return status_of_pending(pending, refusal)

    async def measure(self) -> None:
        """Look up the sizes of those that moved, in a thread; not more often than every few seconds."""
        await self._measure()

    async def subscribe(self) -> AsyncIterator[node_pb2.NodeStatus]:
        """Everything, then what changed, for ever. The messages are shared: do not change them.

        Raises `Overloaded` for one subscriber too many, and for one that does not keep up.
        """
        if self._subscribers >= self.settings.subscribers_max:
            raise Overloaded(
                f"{self._subscribers} others follow this node's status already: ask a router instead",
                limit=self.settings.subscribers_max,
            )
        self._subscribers += 1
        try:
            await self._measure()
            async with self._comparing:
                if self._task is None:
                    await self._compare(whole=True)
                    self._task = asyncio.create_task(self._run(), name="node status")
                    self._task.add_done_callback(self._ended)
            sent = self._number
            yield await self._whole()
            while True:
                while sent == self._number:
                    if self._failure is not None:
                        raise self._failure
                    await self._moved.wait()
                if self._number - sent > len(self._kept):
                    raise Overloaded(
                        f"this follower of the node's status is {self._number - sent} messages behind, and "
                        f"{len(self._kept)} are kept: begin anew",
                        limit=_KEPT,
                    )
                sent += 1
                yield self._kept[sent - self._number - 1]
        finally:
            self._subscribers -= 1
            if not self._subscribers and self._task is not None:
                self._task.cancel()
                self._task = None

    async def close(self) -> None:
        """Stop. Idempotent; listeners get nothing more."""
        task, self._task = self._task, None
        await end_tasks(task)

    # --- reporting

    async def _run(self) -> None:
        pause_s, heartbeat_s = self.settings.push_every_s, self.settings.heartbeat_s
        beat_s = self._clock.monotonic_s() + heartbeat_s
        measuring: asyncio.Task[None] | None = None
        try:
            while True:
                slept_s = self._clock.monotonic_s()
                await asyncio.sleep(pause_s)
                now_s = self._clock.monotonic_s()
                self._late_s = max(self._late_s, now_s - slept_s - pause_s)
                if measuring is None or measuring.done():
                    if measuring is not None:
                        measuring.result()
                    measuring = asyncio.create_task(self._measure())
                beat = now_s >= beat_s
                await self._tick(beat=beat)
                if beat:
                    beat_s, self._late_s = now_s + heartbeat_s, 0.0
        finally:
            if measuring is not None:
                measuring.cancel()

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            error = task.exception()
            logger.error("the node's status ended by a bug", exc_info=error)
            self._failure = DuramenError(f"this node can no longer report its status: {error!r}; restart it")
            self._moved.notify_all()

    async def _tick(self, *, beat: bool) -> None:
        """Send what changed, if anything did, or if a heartbeat is due."""
        async with self._comparing:
            changed, gone = await self._compare(whole=beat)
        version = self._hosts.maps.map.version
        if changed or gone or beat or version != self._map_version:
            self._kept.append(self._message(changed, gone))
            self._number += 1
            self._moved.notify_all()

    async def _compare(self, *, whole: bool) -> tuple[list[PartitionId], list[PartitionId]]:
        """Look at every replica (`whole`), or at those that have moved; return what changed and what is gone.

        Some in each turn of the loop, and never twice at once: `_comparing` is held.
        """
        node, before, seen = self._hosts.node, self._statuses, self._seen
        hosted = node.hosted()
        after: dict[PartitionId, ReplicaStatus] = {}
        turn = Turn()
        for name, replica in list(hosted.items()):
            mark = (replica, replica.changes)
            if whole or name not in before or seen.get(name) != mark:
                seen[name] = mark
                after[name] = self._status_of(name, replica)
                if turn.is_full(_STATUS_ITEMS):
                    await turn.end()
            else:
                after[name] = before[name]
        for name in {**self._hosts.pending, **node.refusals}:
            if name not in hosted:
                after[name] = self.replica(name)
        changed, gone = changes_between(before, after)
        for name in gone:
            self._sizes.pop(name, None)
        for name in [name for name in seen if name not in hosted]:
            del seen[name]
        self._statuses = after
        return changed, gone

    def _status_of(self, name: PartitionId, replica: Replica) -> ReplicaStatus:
        return status_of(replica, self._sizes_of(name), self._hosts.node.proofs.get(name, NO_PROOF))

    def _sizes_of(self, name: PartitionId) -> Sizes:
        found = self._sizes.get(name)
        return Sizes(*(found[1] if found is not None else (0, 0)), self._rates.of(name), self._rates.reads_of(name))

    async def _whole(self) -> node_pb2.NodeStatus:
        message = self._message((), ())
        statuses = self._statuses  # as they are now: a comparison replaces them and changes nothing in them

        def filled() -> node_pb2.NodeStatus:
            message.replicas.extend([status_message(name, status) for name, status in statuses.items()])
            return message

        return await run_sized(_STATUS_ITEMS * len(statuses), filled)

    def _message(self, changed: Iterable[PartitionId], gone: Iterable[PartitionId]) -> node_pb2.NodeStatus:
        hosts = self._hosts
        self._map_version = hosts.maps.map.version
        return node_pb2.NodeStatus(
            node=hosts.node_id,
            identity=hosts.identity,
            map_version=self._map_version,
            load=self._load.under_way + int(self._late_s * 1000),
            replicas=[status_message(name, self._statuses[name]) for name in changed],
            gone=[gone_message(name) for name in gone],
            tasks=[
                node_pb2.TaskProgress(
                    job=job, task=task, phase=each.phase, done=max(0, each.done), total=max(0, each.total)
                )
                for (job, task), each in self._running().items()
            ],
            disk_free=self._disk[0],
            disk_used=self._disk[1],
            clock_ms=self._clock.wall_ms(),
            uptime_s=int(self._clock.monotonic_s() - self._started_s),
            insecure=self._insecure,
            without_users=self._is_reached and not hosts.maps.map.trust.is_closed,
        )

    # --- sizes

    async def _measure(self) -> None:
        """Look up the sizes of those that moved, in a thread; not more often than every few seconds."""
        now_s = self._clock.monotonic_s()
        if self._sized_s is not None and now_s - self._sized_s < self.settings.sizes_every_s:
            return
        self._sized_s = now_s
        node = self._hosts.node
        hosted = node.hosted()
        moved = [
            (name, replica)
            for name, replica in hosted.items()
            if name not in self._sizes or self._sizes[name][0] != replica.index.applied
        ]
        self._rates.measure(hosted, now_s)
        found, self._disk = await asyncio.to_thread(_measured, moved, node.folder)
        self._sizes.update(found)


def _measured(
    replicas: list[tuple[PartitionId, Replica]], folder: Path
) -> tuple[dict[PartitionId, tuple[int, tuple[int, int]]], tuple[int, int]]:
    found: dict[PartitionId, tuple[int, tuple[int, int]]] = {}
    for name, replica in replicas:
        with suppress(DuramenError):  # closed or damaged: its state says so
            with replica.reading() as index:
                statistics = index.statistics()
            found[name] = statistics.applied, (statistics.bytes_used, statistics.entries)
    try:
        disk = shutil.disk_usage(folder)
    except OSError as error:  # a disk that fails or is gone is no reason to say nothing of what is served
        logger.warning("the free space of %s is not known: %s", folder, error)
        return found, (0, 0)
    return found, (disk.free, disk.used)
