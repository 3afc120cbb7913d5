"""The engine: a `Log` over the topics of a Kafka cluster."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from functools import partial
from itertools import pairwise
from types import TracebackType
from typing import Final, Self

from log_tier.concurrency.backoff import Backoff
from log_tier.concurrency.clocks import SYSTEM_CLOCK
from log_tier.concurrency.sized_work import Turn
from log_tier.concurrency.tasks import every_step
from log_tier.kafka.cluster.cluster_access import ClusterAccess
from log_tier.kafka.cluster.failures import failure, is_damage
from log_tier.kafka.cluster.kafka_address import KafkaAddress
from log_tier.kafka.cluster.known_topic import KnownTopic
from log_tier.kafka.cluster.topic_watcher import LOOK_EVERY_S
from log_tier.kafka.cluster.topics import Topics
from log_tier.kafka.reading.denied_reads import DeniedReads
from log_tier.kafka.reading.fetcher import Fetcher
from log_tier.kafka.reading.partition_reader import ReadTrouble
from log_tier.kafka.writing.batch_cuts import BatchCuts, Outgone, SendPart
from log_tier.kafka.writing.send_queue import SetPlace
from log_tier.kafka.writing.sender import Sender
from log_tier.model.batch_header import place_of
from log_tier.model.errors import (
    AccessDenied,
    DuramenError,
    InvalidRequest,
    LogDamaged,
    OffsetTrimmed,
    TokenAhead,
    Unavailable,
    WriteUnknown,
)
from log_tier.model.identifiers import Offset, Partition, PartitionId, PartitionName, TableId
from log_tier.model.log import Appended, Bounds, ReadChunk, Topic
from log_tier.model.retention import Retention, check_retention
from log_tier.tracing.appends import trace_append
from log_tier.tracing.span import TRACED

__all__ = ["KafkaLog"]

_logger = logging.getLogger(__name__)

# A reader whose partition has no leader, or has just moved, tries again after so long at first, and at most: a cluster
# elects within a second or two, and its readers should not come back in step.
_AGAIN_S: Final = 0.1
_AGAIN_MAX_S: Final = 1.0

# The outcome of a batch costs as much as so many keys of a read.
_SETTLE_ITEMS: Final = 5


class KafkaLog:
    """`Log` in Kafka; `open` makes one. Every method may be called from any event loop of the process."""

    def __init__(self, address: KafkaAddress, topics: Topics, sender: Sender, fetcher: Fetcher) -> None:
        self.address = address
        self._topics, self._sender, self._fetcher = topics, sender, fetcher
        self._cuts = BatchCuts(sender)
        self._denied = DeniedReads()

    @classmethod
    async def open(cls, address: KafkaAddress | str, *, look_every_s: float = LOOK_EVERY_S) -> KafkaLog:
        """Reach the cluster. `look_every_s`: how often the topics in use are looked at.

        Raises `Disconnected`, `AccessDenied`, `InvalidRequest`.
        """
        if isinstance(address, str):
            address = KafkaAddress.parse(address)
        access = ClusterAccess()
        fetcher = Fetcher(address, access)
        senders: list[Sender] = []

        def on_gone(known: KnownTopic, error: DuramenError) -> None:
            fetcher.refuse(known.kafka_name, error)
            for sender in senders:
                sender.refuse(known.kafka_name, error)

        topics = await Topics.open(address, on_gone, access, look_every_s)
        try:
            senders.append(Sender.open(address, access))
        except BaseException:
            await topics.close()
            raise
        return cls(address, topics, senders[0], fetcher)

    async def close(self) -> None:
        """Write what was accepted, end every reader, let go. Idempotent."""
        await every_step(
            partial(asyncio.to_thread, self._cuts.close), self._sender.close, self._fetcher.close, self._topics.close
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # --- topics

    async def create_topic(self, name: str, *, partitions: int) -> Topic:
        """Waits until every partition has a leader, some 100 ms."""
        return (await self._topics.create(name, partitions)).topic

    async def adopt_topic(self, name: str) -> Topic:
        """`name` is the topic's name in Kafka."""
        return (await self._topics.adopt(name)).topic

    async def delete_topic(self, topic: TableId) -> None:
        """Raises `InvalidRequest` for an adopted topic."""
        await self._topics.delete(topic)

    async def topics(self) -> list[Topic]:
        """The topics of our namespace."""
        return await self._topics.all()

    async def weaknesses(self, topic: TableId) -> tuple[str, ...]:
        """What this topic's settings take from the log's promises, in sentences; `docs/OPERATIONS.md` explains."""
        return (await self._topics.find(topic)).weaknesses

    async def _found(self, partition: PartitionId) -> tuple[KnownTopic, Partition]:
        """The topic, and the partition's number. Raises `TableNotFound` where either is not there."""
        topic, number = partition
        known = await self._topics.find(topic)
        known.check(number)
        return known, number

    # --- writing

    async def append(self, partition: PartitionId, batch: bytes) -> Appended:
        """One produce request, shared by all concurrent writes to the partition's broker."""
        known, number = await self._found(partition)
        (sent,) = await self._cuts.send([SendPart(known, number, batch)])
        return await self._settled(known, sent)

    async def append_many(
        self, parts: Sequence[tuple[PartitionId, bytes]], *, gathered: bool = False
    ) -> list[Appended | DuramenError]:
        began_s = asyncio.get_running_loop().time() if TRACED.get() else 0.0
        results: dict[int, Appended | DuramenError] = {}
        found: list[tuple[int, SendPart]] = []
        for place, (partition, batch) in enumerate(parts):
            try:
                found.append((place, SendPart(*await self._found(partition), batch)))
            except DuramenError as error:
                results[place] = error.as_value()
        sent = await self._cuts.send([part for _, part in found])
        turn = Turn()
        try:
            for (place, part), waiting in zip(found, sent, strict=True):
                try:
                    results[place] = await self._settled(part.known, waiting)
                except DuramenError as error:
                    results[place] = error.as_value()
                if turn.is_full(_SETTLE_ITEMS):
                    await turn.end()
        finally:
            for waiting in sent:
                _leave(waiting)
        outcomes = [results[place] for place in range(len(parts))]
        if callers := TRACED.get():
            done = [(part[0].partition, each) for part, each in zip(parts, outcomes, strict=True)]
            written = [(number, each.base_offset) for number, each in done if isinstance(each, Appended)]
            failed = next((each.code for _, each in done if isinstance(each, DuramenError)), "")
            trace_append(callers, asyncio.get_running_loop().time() - began_s, written, failed)
        return outcomes

    async def _settled(self, known: KnownTopic, waiting: Outgone) -> Appended:
        """What became of a batch that was queued, or was not. A caller that leaves takes what still waits with it."""
        if isinstance(waiting, DuramenError):
            raise waiting
        try:
            places = [await each for each in waiting]
        except DuramenError as error:
            return await self._explain_append(known, waiting, error)
        finally:
            _leave(waiting)
        if any(after.first != before.last + 1 for before, after in pairwise(places)):
            raise _half_written(known, "records of others came between its parts")
        return Appended(places[0].first, places[-1].timestamp_ms, places[-1].last)

    async def _explain_append(
        self, known: KnownTopic, waiting: Sequence[asyncio.Future[SetPlace]], error: DuramenError
    ) -> Appended:
        """Raise what a failed append means for its caller."""
        refusal = self._topics.refusal(known.topic.id)
        if refusal is not None:
            raise refusal from error
        if isinstance(error, LogDamaged):
            await self._topics.recheck(known)  # made again, perhaps: then it says so
        if waiting[0].done() and not waiting[0].cancelled() and waiting[0].exception() is None:
            raise _half_written(known, error.message) from error
        raise error

    # --- reading

    async def read(
        self, partition: PartitionId, start: Offset, *, follow: bool, chunk_bytes: int = 1 << 20
    ) -> AsyncGenerator[ReadChunk, None]:
        """A batch that begins before `start` is cut at `start`.

        While no broker answers, or Kafka denies a reader that has begun, it waits; `bounds` then raises the denial.
        """
        known, number = await self._found(partition)
        (bounds,) = await self._topics.bounds(known, [number])
        _check_start(known, number, start, bounds)
        end = bounds.latest
        if not follow and start > end:
            return
        next_offset = start
        backoff = Backoff(_AGAIN_S, _AGAIN_MAX_S)
        resumed = False
        while True:
            place = place_of(partition)
            reader = self._fetcher.start(known.kafka_name, number, next_offset, follow=follow, place=place)
            try:
                while follow or next_offset <= end:
                    data, resume = await reader.take(chunk_bytes)
                    if resume:
                        self._fetcher.resume(reader)
                    next_offset = reader.given
                    backoff.reset()
                    self._denied.over(partition)
                    yield ReadChunk(data, max(reader.latest, end), resumed)
                    resumed = False
                return
            except ReadTrouble as trouble:
                denial = await self._explain_read(known, number, next_offset, trouble)
                if denial is not None:
                    self._denied.note(partition, denial)
                resumed = True
            finally:
                self._fetcher.stop(reader)
            await backoff.pause()

    async def _explain_read(
        self, known: KnownTopic, partition: Partition, next_offset: Offset, trouble: ReadTrouble
    ) -> AccessDenied | None:
        """Raise why a partition cannot be read on; return where trying again can help. An operator may give back the
        ACL, or the password, that Kafka misses: then the denial is returned.
        """
        if is_damage(trouble.error):
            raise LogDamaged(
                f"{known.kafka_name}/{partition} at offset {next_offset}: {trouble}: Kafka has lost or damaged "
                "records; see OPERATIONS",
                offset=next_offset,
            ) from trouble
        try:
            await self._topics.recheck(known)
            (bounds,) = await self._topics.bounds(known, [partition])
        except Unavailable as silence:
            name, place = PartitionName(known.kafka_name, partition), {"offset": next_offset}
            _logger.info("%s waits at offset %d: %s; %s", name, next_offset, trouble, silence, extra=place)
            return None  # nobody answers: wait
        except AccessDenied as denial:
            return denial
        if next_offset > bounds.latest + 1:
            raise LogDamaged(
                f"{known.kafka_name}/{partition} ends at offset {bounds.latest}, and {next_offset - 1} was read "
                "before: Kafka has lost records (an unclean leader election?); see OPERATIONS",
                offset=next_offset,
            ) from trouble
        _check_start(known, partition, next_offset, bounds)
        doing, needs = f"reading {known.kafka_name}/{partition}", f"Read on topic {known.kafka_name}"
        error = failure(trouble.error, doing, needs=needs)
        if isinstance(error, AccessDenied):
            return error
        if isinstance(error, InvalidRequest):
            raise error from trouble
        return None

    async def bounds(self, partition: PartitionId) -> Bounds:
        """Two concurrent requests to the partition's leader. Raises `AccessDenied` while Kafka denies a reader here: it
        cannot come to the end.
        """
        known, number = await self._found(partition)
        denial = self._denied.reason(partition)
        if denial is not None:
            raise denial
        return (await self._topics.bounds(known, [number]))[0]

    async def all_bounds(self, topic: TableId) -> list[Bounds]:
        known = await self._topics.find(topic)
        return await self._topics.bounds(known, map(Partition, range(known.topic.partitions)))

    # --- retention

    async def trim(self, partition: PartitionId, before: Offset) -> Offset:
        """Trims to exactly `before`, or the end. Raises `InvalidRequest` for an adopted topic."""
        known, number = await self._found(partition)
        if known.adopted:
            raise InvalidRequest(f"the topic {known.kafka_name} belongs to others: Duramen does not trim it")
        (bounds,) = await self._topics.bounds(known, [number])
        if before <= bounds.earliest:
            return bounds.earliest
        return await self._topics.trim(known, number, Offset(min(before, bounds.latest + 1)))

    async def retain(self, partition: PartitionId, retention: Retention, *, below: Offset) -> Offset:
        """By age, to the record. Raises `InvalidRequest` for a bound by size, since a cluster reports none, and for an
        adopted topic.
        """
        known, number = await self._found(partition)
        check_retention(retention)
        if retention.bytes:
            raise InvalidRequest(
                f"the log of {known.topic.name} is in Kafka, which does not report how large a partition is: bound it "
                "by time (`retention_ms`), and leave its size out"
            )
        if not retention.ms or not below:
            return (await self.bounds(partition)).earliest
        oldest_ms = SYSTEM_CLOCK.wall_ms() - retention.ms
        young = await self._topics.first_since(known, number, oldest_ms)
        return await self.trim(partition, below if young is None else min(below, young))

    async def compact(self, partition: PartitionId, below: Offset) -> int:
        """Raises `InvalidRequest`: Kafka's cleaner knows keys only, and nothing of conditions, updates or retries."""
        known = await self._topics.find(partition.table)
        raise InvalidRequest(
            f"the log of {known.topic.name} is in Kafka, and cannot be compacted without losing what conditions and "
            "updates rest on: take a snapshot and trim the log below it"
        )


def _check_start(known: KnownTopic, partition: Partition, start: Offset, bounds: Bounds) -> None:
    name = f"{known.topic.name}/{partition}"
    if start < bounds.earliest:
        raise OffsetTrimmed(
            f"the log of {name} begins at offset {bounds.earliest}, {start} was requested: Kafka's retention, or a "
            f"trim, removed {bounds.earliest - start} offsets",
            partition=partition,
            asked=start,
            earliest=bounds.earliest,
        )
    if start > bounds.latest + bounds.unsettled + 1:
        raise TokenAhead(
            f"the log of {name} ends at offset {bounds.latest}, {start} was requested",
            partition=partition,
            asked=start,
            latest=bounds.latest,
        )


def _leave(waiting: Outgone) -> None:
    if not isinstance(waiting, DuramenError):
        for each in waiting:
            each.cancel()


def _half_written(known: KnownTopic, reason: str) -> WriteUnknown:
    return WriteUnknown(
        f"a batch for {known.kafka_name} was larger than the topic's max.message.bytes and is written in part "
        f"({reason}): send it again with its sequences, what came twice is void"
    )
