"""Watches over several nodes: each partition is followed at some replica, and at another one when that is lost.

The position of every partition is kept here; a new stream begins exactly there. So the reader of the events sees what
one node that lives for ever would have sent, give or take a batch that is sent again because the new stream begins in
its middle, which every reader of events skips by its position anyway.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Final

from log_tier.concurrency.backoff import Backoff
from log_tier.concurrency.tasks import TaskSet
from log_tier.model.batch_header import offsets_in
from log_tier.model.errors import Disconnected, DuramenError, InvalidRequest, NotHosted, OffsetTrimmed, Unavailable
from log_tier.model.identifiers import NOTHING, Offset, Partition, PartitionId, TableId
from router.data.requests import ReadPart, WatchEvent
from router.routing.choice import Candidate, Fitness
from router.routing.retry_policy import worth_failover
from router.routing.routes import Routes
from router.routing.targets import Askable

__all__ = ["watch_nodes"]

# Events that wait for a slow subscriber; behind a full queue the nodes' streams are not read on.
_EVENTS_MAX: Final = 16

# If no replica of a partition can be followed, the others' events wait so long for one.
_MAP_WAIT_S: Final = 1.0
_PAUSE_FIRST_S: Final = 0.05
_PAUSE_MAX_S: Final = 0.2

_FIRST: Final = WatchEvent(Partition(0), b"", (), Offset(-1))


async def watch_nodes(
    routes: Routes, table_id: TableId, start: Mapping[Partition, Offset], partitions: Sequence[Partition] = ()
) -> AsyncGenerator[WatchEvent, None]:
    """The changes of a table from `start` on, over all nodes.

    Raises `Disconnected` where no replica of a partition can be followed any more: then the caller goes on from its
    positions, when it likes; `OffsetTrimmed` where every replica says so, with the earliest offset that one of them
    still has.
    """
    table = await routes.known(table_id)
    wanted = partitions or [Partition(number) for number in range(table.partitions)]
    unknown = set(start) - set(wanted)
    if unknown:
        raise InvalidRequest(f"the watch names partition {min(unknown)}, {table.name} has {table.partitions}")
    watch = _Watch(routes, table_id, start)
    try:
        watch.place(wanted)
        early: list[WatchEvent] = []
        while len(watch.positions) < len(wanted):
            early.extend(await watch.step())
        yield _FIRST._replace(positions=dict(watch.positions))
        while True:
            for event in early:
                yield event
            early = await watch.step()
    finally:
        await watch.close()


class _Lost(Exception):
    """A stream ended: these partitions are to be followed at other nodes."""

    def __init__(self, member: Askable, partitions: Sequence[Partition], error: DuramenError) -> None:
        super().__init__(error.message)
        self.member = member
        self.partitions = partitions
        self.error = error


class _Watch:
    """The streams of one watch."""

    def __init__(self, routes: Routes, table_id: TableId, start: Mapping[Partition, Offset]) -> None:
        self._routes = routes
        self._table_id = table_id
        self.positions: dict[Partition, Offset] = dict(start)
        """The next offset of each partition; those without a start get theirs from the first stream."""
        self._events: asyncio.Queue[WatchEvent | _Lost | BaseException] = asyncio.Queue(_EVENTS_MAX)
        self._tasks = TaskSet()
        self._tried: dict[Partition, dict[str, DuramenError]] = {}
        """Who could not be followed, and why, since the partition's last event."""
        self._lost_s: dict[Partition, float] = {}
        """When the partitions that no stream follows now lost theirs, on the event loop's clock."""
        self._backoff = Backoff(_PAUSE_FIRST_S, _PAUSE_MAX_S)

    def place(self, partitions: Iterable[Partition]) -> None:
        """Follow these at replicas that were not tried. Raises where there is none left."""
        placed: list[tuple[int, list[Candidate]]] = []
        for partition in partitions:
            tried = self._tried.get(partition, {})
            part = ReadPart(PartitionId(self._table_id, partition), (), self.positions.get(partition, NOTHING))
            candidates = [
                each
                for each in self._routes.candidates(part)
                if each.node not in tried and each.fitness <= Fitness.THROUGH
            ]
            if not candidates:
                raise self._nowhere(partition, tried)
            placed.append((partition, candidates))
        groups, _ = self._routes.assign(placed)
        for member, mine in groups:
            self._tasks.start(
                self._follow(member, [Partition(each) for each in mine]), name=f"watch at node {member.id}"
            )

    async def _place_again(self, partitions: Sequence[Partition]) -> None:
        """`place`, repeated for some time: until the map shows where the replicas went, or a node comes back.

        The time is counted from when the partitions were last followed: nodes that take them and lose them at once do
        not begin it anew.
        """
        loop = asyncio.get_running_loop()
        lost_s = min(self._lost_s.setdefault(partition, loop.time()) for partition in partitions)
        while True:
            try:
                self.place(partitions)
                return
            except Unavailable:
                if loop.time() >= lost_s + _MAP_WAIT_S:
                    raise
            await self._routes.wait_for_change(self._backoff.next_s())
            for partition in partitions:
                self._tried.pop(partition, None)

    def _nowhere(self, partition: Partition, tried: Mapping[str, DuramenError]) -> DuramenError:
        errors = list(tried.values())
        trimmed = [error for error in errors if isinstance(error, OffsetTrimmed)]
        if trimmed and len(trimmed) == len(errors):
            return min(trimmed, key=lambda error: int(error.fields.get("earliest", 0)))
        lasting = [error for error in errors if not error.retryable and not isinstance(error, OffsetTrimmed)]
        if lasting and len(lasting) == len(errors):
            return lasting[-1]
        reasons = "; ".join(f"{node}: {error.message}" for node, error in tried.items()) or "no node of it is there"
        return Disconnected(f"partition {partition} cannot be watched now ({reasons})")

    async def _follow(self, member: Askable, partitions: Sequence[Partition]) -> None:
        """Pass one node's events on, until it is lost."""
        start = {each: self.positions[each] for each in partitions if each in self.positions}
        stream = member.follow(lambda connection: connection.watch(self._table_id, start, partitions))
        try:
            async with aclosing(stream) as events:
                async for event in events:
                    await self._events.put(event)
            error: DuramenError = Disconnected(f"node {member.id} ended the watch")
        except DuramenError as failure:
            error = failure
        except Exception as bug:
            await self._events.put(bug)  # the watch ends loudly and does not wait for events that will not come
            raise
        await self._events.put(_Lost(member, partitions, error))

    async def step(self) -> list[WatchEvent]:
        """Take one event, note where it leads, and return it where it is one for the subscriber."""
        event = await self._events.get()
        if isinstance(event, _Lost):
            if not worth_failover(event.error):
                raise event.error
            for partition in _blamed(event):
                self._tried.setdefault(partition, {})[event.member.id] = event.error
            await self._place_again(event.partitions)
            return []
        if isinstance(event, BaseException):
            raise event
        if event.positions is not None:
            for partition, position in event.positions.items():
                self.positions.setdefault(partition, position)
                self._lost_s.pop(partition, None)
            self._backoff.reset()
            return []
        _, last = offsets_in(event.batches)
        if last >= self.positions[event.partition]:
            self.positions[event.partition] = Offset(last + 1)
        self._tried.pop(event.partition, None)
        return [event]

    async def close(self) -> None:
        """End every stream."""
        await self._tasks.close()


def _blamed(lost: _Lost) -> Sequence[Partition]:
    """The partitions that the node cannot be followed for: of one that it does not hold, it says which one that is."""
    named = lost.error.fields.get("partition")
    if isinstance(lost.error, NotHosted) and isinstance(named, int) and named in lost.partitions:
        return [Partition(named)]
    return lost.partitions
