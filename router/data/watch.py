"""Following a table's changes: one follower per partition, joined into one stream of events.

The log is the change feed, so a watch reads the log and sends its bytes on as they are. What it adds is the **void
offsets**: a record that was rejected, or is a retry's second copy, is in the log and changed nothing. The replica knows
which ones once it has applied them. So a watch follows the replica and not the end of the log, and a caller that sees a
change can read it here at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Final

from log_tier.concurrency.sized_work import Turn, end_some
from log_tier.model.batch_header import read_header
from log_tier.model.errors import DuramenError, InvalidRequest, OffsetTrimmed
from log_tier.model.identifiers import Offset, Partition
from log_tier.model.log import Log, ReadChunk
from router.data.requests import WatchEvent
from serving_tier.fold.verdicts import Verdict
from serving_tier.replica.replica import Replica

__all__ = ["watch_replicas"]

# What a watch holds for a slow subscriber: a chunk of each partition, and one more. Behind a full queue the followers
# simply do not read on: the log keeps what they have not read.
_EVENTS_MAX: Final = 1
_HELD_BYTES: Final = 2 * 1024 * 1024

# A chunk is larger where a batch is, and smaller ones would cost more to hand over than to read.
_CHUNK_BYTES_MIN: Final = 16 * 1024
_CHUNK_BYTES_MAX: Final = 256 * 1024

# To begin to follow a partition costs as much as so many keys: a task, and a look at the log.
_START_ITEMS: Final = 20

# A watch follows the replica for as long as it takes; only the replica's own failure ends the wait.
_PATIENCE_S: Final = 365 * 86_400.0


async def watch_replicas(
    log: Log, replicas: Sequence[Replica], start: Mapping[Partition, Offset]
) -> AsyncGenerator[WatchEvent, None]:
    """Yield a first event with the positions, then events with batches, in order within each partition.

    Raises `OffsetTrimmed` where a start is no longer in the log, `TokenAhead` where it is beyond its end, and whatever
    stops a replica or the log.
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

    chunk_bytes = min(max(_HELD_BYTES // len(replicas), _CHUNK_BYTES_MIN), _CHUNK_BYTES_MAX)
    events: asyncio.Queue[WatchEvent | DuramenError] = asyncio.Queue(_EVENTS_MAX)
    followers: list[asyncio.Task[None]] = []
    try:
        for replica in replicas:
            following = _follow(log, replica, positions[replica.id.partition], events, chunk_bytes)
            followers.append(asyncio.create_task(following, name=f"watch {replica.name}"))
            if turn.is_full(_START_ITEMS):
                await turn.end()
        while True:
            event = await events.get()
            if isinstance(event, DuramenError):
                raise event
            yield event
    finally:
        await end_some(followers)


async def _follow(
    log: Log, replica: Replica, start: Offset, events: asyncio.Queue[WatchEvent | DuramenError], chunk_bytes: int
) -> None:
    topic, partition = replica.topic, replica.id.partition
    try:
        reader = log.read(topic.partition(partition), start, follow=True, chunk_bytes=chunk_bytes)
        async with aclosing(reader) as chunks:
            _check_remembered(replica, start)
            async for chunk in chunks:
                first, last = _span(chunk)
                await replica.wait_applied(last, timeout=_PATIENCE_S)
                outcomes = replica.index.outcomes(first, last)
                # Asked after the outcomes: what is remembered now was remembered when they were read.
                _check_remembered(replica, max(first, start))
                void = [
                    offset
                    for offset, outcome in outcomes.items()
                    if outcome.duplicate_of is not None or outcome.verdict is not Verdict.ACCEPTED
                ]
                await events.put(WatchEvent(partition, chunk.data, void, chunk.latest))
        raise AssertionError("the log ended a read that follows it")
    except DuramenError as error:
        await events.put(error)
    except Exception as error:
        # A bug of ours: the watch ends loudly and does not wait for an event that will not come.
        await events.put(DuramenError(f"the watch of {replica.name} ended by a bug: {error!r}"))
        raise


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


def _span(chunk: ReadChunk) -> tuple[Offset, Offset]:
    """The first and the last offset of a chunk, from its headers."""
    data = chunk.data
    header = first = read_header(data)
    at = header.length
    while at < len(data):
        header = read_header(data, at)
        at += header.length
    return first.base_offset, header.last_offset
