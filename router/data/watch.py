"""Following a table's changes: one follower per partition, joined into one stream of events.

The log is the change feed, so a watch reads the log and sends its bytes on as they are. What it adds is the **void
offsets**: a record that was rejected, or is a retry's second copy, is in the log and changed nothing. The replica knows
which ones once it has applied them. So a watch follows the replica and not the end of the log, and a caller that sees a
change can read it here at once.

A watch holds one chunk for its subscriber, whatever the number of its partitions: the followers take turns, and whose
turn it is reads on when the subscriber has taken what it was given. What is not read stays in the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from itertools import count
from typing import Final, Literal

from log_tier.concurrency.sized_work import Turn, end_some
from log_tier.model.batch_header import BatchHeader
from log_tier.model.errors import DuramenError, InvalidRequest, OffsetTrimmed, Unavailable
from log_tier.model.identifiers import Offset, Partition
from log_tier.model.log import Log
from log_tier.tally.compare import log_time_at
from log_tier.tracing.indexes import begin_followed, end_followed
from router.data.requests import WatchEvent
from serving_tier.fold.verdicts import Verdict
from serving_tier.node.deliveries import Deliveries, Delivery, headers_of
from serving_tier.replica.replica import Replica

__all__ = ["watch_replicas"]

# The chunk that a watch holds for its subscriber. It is larger where a batch is.
_CHUNK_BYTES: Final = 256 * 1024

# What a follower passes on before it lets the other partitions have their turn, if one waits for it. Then it begins a
# new read of the log, since one that waits for its turn would hold two chunks.
_RUN_CHUNKS: Final = 16

# A follower that has the turn and waits for so long lends it to the others.
_SLOW_S: Final = 0.2

# To begin to follow a partition costs as much as so many keys: a task, and a look at the log.
_START_ITEMS: Final = 20

# A watch follows the replica for as long as it takes; only the replica's own failure ends the wait.
_PATIENCE_S: Final = 365 * 86_400.0


async def watch_replicas(
    log: Log, replicas: Sequence[Replica], start: Mapping[Partition, Offset], deliveries: Deliveries
) -> AsyncGenerator[WatchEvent, None]:
    """Yield a first event with the positions, then events with batches, in order within each partition. What was
    passed on is counted in `deliveries`.

    Raises `OffsetTrimmed` where a start is no longer in the log, `TokenAhead` where it is beyond its end, and whatever
    stops a replica or the log; `Unavailable` for a replica that a trim has overtaken.
    """
    positions: dict[Partition, Offset] = {}
    turn = Turn()
    for replica in replicas:
        if turn.is_full(_START_ITEMS):
            await turn.end()
        wanted = start.get(replica.id.partition)
        if wanted is None:
            bounds = await log.bounds(replica.id)
            wanted = Offset(bounds.latest + 1)
        positions[replica.id.partition] = wanted
    unknown = set(start) - set(positions)
    if unknown:
        raise InvalidRequest(f"the watch names partition {min(unknown)}, the table has {len(replicas)}")
    yield WatchEvent(Partition(0), b"", (), Offset(-1), positions)

    name = deliveries.begin()
    events: asyncio.Queue[WatchEvent | DuramenError] = asyncio.Queue(1)
    turns = _Turns()
    followers: list[asyncio.Task[None]] = []
    try:
        for replica in replicas:
            following = _follow(
                log, replica, positions[replica.id.partition], events, _Share(turns), _Count(deliveries, name, replica)
            )
            followers.append(asyncio.create_task(following, name=f"watch {replica.name}"))
            if turn.is_full(_START_ITEMS):
                await turn.end()
        while True:
            event = await events.get()
            if isinstance(event, DuramenError):
                raise event
            yield event
            del event
            events.task_done()
    finally:
        deliveries.left()
        await end_some(followers)


class _Turns(asyncio.Lock):
    """The watch's one turn."""

    waiting = 0
    """How many wait for it."""

    async def acquire(self) -> Literal[True]:
        self.waiting += 1
        try:
            return await super().acquire()
        finally:
            self.waiting -= 1


class _Share:
    """A follower's share in the watch's one turn: who has it may hold a chunk, so the watch holds one of them.

    What a follower waits for may take long: a broker that is away, a replica that is being restored. Meanwhile the
    others have the turn, so that no partition keeps the changes of another one back.
    """

    def __init__(self, turns: _Turns) -> None:
        self._turns = turns
        self._has = False

    @property
    def is_wanted(self) -> bool:
        """Has it the turn, and do others wait for that?"""
        return self._has and self._turns.waiting > 0

    async def take(self) -> None:
        """Wait for the turn. Idempotent."""
        if not self._has:
            await self._turns.acquire()
            self._has = True

    def give(self) -> None:
        """Let the others have it. Idempotent."""
        if self._has:
            self._has = False
            self._turns.release()

    @asynccontextmanager
    async def lent(self) -> AsyncIterator[None]:
        """Wait for something inside: for long without the turn, and with it afterwards."""
        timer = asyncio.get_running_loop().call_later(_SLOW_S, self.give) if self._has else None
        try:
            yield
        finally:
            if timer is not None:
                timer.cancel()
        await self.take()


class _Count:
    """The count of what was passed on of one partition. It begins with the first run of batches."""

    def __init__(self, deliveries: Deliveries, name: str, replica: Replica) -> None:
        self._deliveries, self._name, self._replica = deliveries, name, replica
        self._delivery: Delivery | None = None

    async def passed_on(self, position: Offset, data: bytes, headers: Sequence[BatchHeader]) -> None:
        """Batches were passed on to a subscriber who had what is below `position`."""
        if self._delivery is None:
            # The replica has applied these batches, so it knows the minute in which the log was before them.
            before_ms = log_time_at([self._replica.index.tally()], position)
            self._delivery = Delivery(self._replica.id, position, before_ms)
            self._deliveries.note(self._name, self._delivery)
        await self._delivery.passed_on(data, headers)

    @property
    def is_traced(self) -> bool:
        """Has the span of a write place for this delivery of it?"""
        return self._deliveries.is_traced(self._replica.id, self._name)

    def taken(self, offsets: int, waited_s: float) -> None:
        """The subscriber has taken them, `waited_s` after they were ready for it."""
        self._deliveries.taken(offsets, waited_s)

    def end(self) -> None:
        if self._delivery is not None:
            self._deliveries.end(self._name, self._delivery)


async def _follow(
    log: Log,
    replica: Replica,
    start: Offset,
    events: asyncio.Queue[WatchEvent | DuramenError],
    share: _Share,
    counted: _Count,
) -> None:
    position = start
    try:
        while True:
            position = await _pass_on_run(log, replica, position, events, share, counted)
            share.give()
    except DuramenError as error:
        await events.put(error)
    except Exception as error:
        # A bug of ours: the watch ends loudly and does not wait for an event that will not come.
        await events.put(DuramenError(f"the watch of {replica.name} ended by a bug: {error!r}"))
        raise
    finally:
        share.give()
        counted.end()


async def _pass_on_run(
    log: Log,
    replica: Replica,
    position: Offset,
    events: asyncio.Queue[WatchEvent | DuramenError],
    share: _Share,
    counted: _Count,
) -> Offset:
    """Pass chunks on from `position` until others want the turn; the position behind them."""
    partition = replica.id.partition
    time_s = asyncio.get_running_loop().time
    reader = log.read(replica.topic.partition(partition), position, follow=True, chunk_bytes=_CHUNK_BYTES)
    async with aclosing(reader) as chunks:
        _check_remembered(replica, position)
        for number in count(1):
            if replica.applied >= position:
                await share.take()  # before the read, as there is something to read; at the end, when it has come
            async with share.lent():
                chunk = await anext(chunks)
                headers = headers_of(chunk.data)
                first, last = headers[0].base_offset, headers[-1].last_offset
                await _applied(replica, last)
            outcomes = replica.index.outcomes(first, last)
            # Asked after the outcomes: what is remembered now was remembered when they were read.
            _check_remembered(replica, max(first, position))
            void = [
                offset
                for offset, outcome in outcomes.items()
                if outcome.duplicate_of is not None or outcome.verdict is not Verdict.ACCEPTED
            ]
            put_s = time_s()
            await events.put(WatchEvent(partition, chunk.data, void, chunk.latest))
            await counted.passed_on(position, chunk.data, headers)
            traced = chunk.traced and counted.is_traced and begin_followed("watch delivery", chunk.traced, partition)
            del chunk, headers
            await events.join()
            counted.taken(last + 1 - first, time_s() - put_s)
            if traced:
                end_followed(traced)
            position = Offset(last + 1)
            if replica.applied < position:
                share.give()
            elif number >= _RUN_CHUNKS and share.is_wanted:
                break
    return position


async def _applied(replica: Replica, offset: Offset) -> None:
    """Wait for the replica. Raises why it stopped; `Unavailable` where it is itself behind where the log begins, and is
    fetched again: what the watch asked for has been read, so its own start is not trimmed.
    """
    try:
        await replica.wait_applied(offset, timeout=_PATIENCE_S)
    except OffsetTrimmed as error:
        raise Unavailable(f"{replica.name} has to be fetched again: {error.message}; ask another node") from error


def _check_remembered(replica: Replica, start: Offset) -> None:
    remembered = replica.index.verdicts_from
    if start < remembered:
        raise OffsetTrimmed(
            f"the watch of {replica.name} asks for offset {start}; which records were rejected is known from "
            f"{remembered} on: begin there",
            partition=replica.id.partition,
            asked=start,
            earliest=remembered,
        )
