"""The topics of a cluster: making, finding, deleting them, and noticing when one is not the one it was.

A topic is known by its UUID; names are for people, and for Kafka's protocol, which mostly asks by name. So every topic
in use is looked at once a second: one that is missing or has another UUID, some times in a row, or has other
partitions, is refused from then on, with the reason (`on_gone` notifies readers and writers). In a row, because a
broker that just started reports a topic as it was before. A write that went to the new topic meanwhile shows by its
offset, which the engine compares with the end it knows.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from copy import copy
from typing import Final, TypeVar

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import ConfigResource, NewTopic, OffsetSpec, ResourceType, TopicDescription

from log_tier.concurrency.backoff import Backoff
from log_tier.kafka.cluster.client_log_filter import CLIENT_LOG_FILTER
from log_tier.kafka.cluster.cluster_access import ClusterAccess
from log_tier.kafka.cluster.cluster_client import ANSWER_S, ClusterClient
from log_tier.kafka.cluster.durability import weaknesses
from log_tier.kafka.cluster.failures import is_missing_topic
from log_tier.kafka.cluster.kafka_address import KafkaAddress, check_kafka_name
from log_tier.kafka.cluster.known_topic import MISSED_TIMES, KnownTopic, Looks, Sight
from log_tier.kafka.cluster.lost_topics import LostTopics
from log_tier.kafka.cluster.topic_watcher import LOOK_EVERY_S, TopicWatcher
from log_tier.model.errors import (
    DuramenError,
    InvalidRequest,
    LimitExceeded,
    TableExists,
    TableNotFound,
    Unavailable,
)
from log_tier.model.identifiers import PARTITIONS_MAX, Offset, Partition, TableId, check_name, table_id_from_bytes
from log_tier.model.log import Bounds, Topic

__all__ = ["Topics"]

_logger = logging.getLogger(__name__)
_logger.addFilter(CLIENT_LOG_FILTER)

_T = TypeVar("_T")

# A topic that was made is usable when every partition has a leader: some 100 ms, some seconds on a busy cluster.
_SETTLE_S: Final = 30.0
_PAUSE_FIRST_S: Final = 0.02
_PAUSE_MAX_S: Final = 0.5

# Pauses between looks for a topic that brokers may not know yet: they learn of it in 50 ms, some in a second.
_HEARD_PAUSES_S: Final = (0.05, 0.1, 0.2, 0.4, 0.8)

# A batch of ours is at most 16 MiB; its records' headers in Kafka take up to as much again for the smallest records.
_MESSAGE_BYTES: Final = 24 << 20

# Of `max.message.bytes`, what Kafka itself may need.
_SET_MARGIN: Final = 4096

_SETTINGS: Final[Mapping[str, str]] = {
    # Bounded by snapshots and trim, and by nothing else.
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    # The log's clock is the brokers', as everything that is stamped there.
    "message.timestamp.type": "LogAppendTime",
    "max.message.bytes": str(_MESSAGE_BYTES),
    "unclean.leader.election.enable": "false",
}

_BROKERS_WANTED: Final = 3


class Topics:
    """A cluster's topics. `open` makes one, `close` ends its thread. Callable from any event loop."""

    def __init__(
        self,
        address: KafkaAddress,
        on_gone: Callable[[KnownTopic, DuramenError], None],
        cluster: ClusterClient,
        look_every_s: float = LOOK_EVERY_S,
    ) -> None:
        self._address = address
        self._on_gone = on_gone
        self._cluster = cluster
        self._known: dict[TableId, KnownTopic] = {}
        self._gone = LostTopics()
        self._looks = Looks()
        self._watcher = TopicWatcher(self.look, every_s=look_every_s)

    @classmethod
    async def open(
        cls,
        address: KafkaAddress,
        on_gone: Callable[[KnownTopic, DuramenError], None],
        access: ClusterAccess,
        look_every_s: float = LOOK_EVERY_S,
    ) -> Topics:
        """Reach the cluster. Raises `Disconnected`, `AccessDenied`, or `InvalidRequest` for a property that is none."""
        topics = cls(address, on_gone, ClusterClient(address, access), look_every_s)
        try:
            await asyncio.to_thread(topics._cluster.metadata)
        except BaseException:
            topics._cluster.close()
            raise
        topics._watcher.start()
        return topics

    async def close(self) -> None:
        """Stop looking. Idempotent."""
        try:
            await asyncio.to_thread(self._watcher.close)
        finally:
            self._cluster.close()

    # --- topics

    async def create(self, name: str, partitions: int) -> KnownTopic:
        """Make a topic and wait until it can be used. Raises `TableExists`, `InvalidName`, `LimitExceeded`."""
        check_name(name, what="topic")
        if not 0 < partitions <= PARTITIONS_MAX:
            raise LimitExceeded(
                f"a topic has 1 to {PARTITIONS_MAX} partitions, not {partitions}", limit=PARTITIONS_MAX, size=partitions
            )
        kafka_name = self._address.topic_name(name)
        brokers = len((await asyncio.to_thread(self._cluster.metadata)).brokers)
        replication = self._address.replication or min(_BROKERS_WANTED, brokers)
        insync = self._address.min_insync or (2 if replication >= _BROKERS_WANTED else 1)
        settings = {**_SETTINGS, "min.insync.replicas": str(insync)}
        new = NewTopic(kafka_name, num_partitions=partitions, replication_factor=replication, config=settings)
        doing = f"making the topic {kafka_name} with replication {replication} on {brokers} brokers"
        try:
            answer = self._cluster.admin.create_topics([new])[kafka_name]
            await self._cluster.ask(answer, doing, needs=f"Create on topic {kafka_name}")
        except TableExists:
            await self._heard_of(kafka_name)  # so that the next call that asks for it finds it
            raise TableExists(f"the topic {kafka_name} exists") from None
        description = await self._settled(kafka_name, partitions)
        # Kafka names a partition's leader before it has begun to lead; asking for the end waits until it does.
        await self._cluster.offsets(kafka_name, list(map(Partition, range(partitions))), OffsetSpec.latest())
        return await self._know(kafka_name, description)

    async def adopt(self, kafka_name: str) -> KnownTopic:
        """Find a topic of others by its name in Kafka. Raises `TableNotFound`, `InvalidRequest` for one of ours."""
        if self._address.own_name(check_kafka_name(kafka_name)) is not None:
            raise InvalidRequest(
                f"{kafka_name} lies in the namespace {self._address.namespace}: those topics are made and named by "
                "Duramen; a table is laid over topics of others"
            )
        found = await self._heard_of(kafka_name)
        if found is None:
            raise TableNotFound(f"there is no topic {kafka_name} in {self._address.bootstrap}")
        return await self._know(kafka_name, found)

    async def delete(self, topic: TableId) -> None:
        """Delete a topic of ours with all its records. Raises `TableNotFound`, `InvalidRequest` for an adopted one."""
        known = await self.find(topic)
        if known.adopted:
            raise InvalidRequest(f"the topic {known.kafka_name} belongs to others: Duramen does not delete it")
        await self._cluster.ask(
            self._cluster.admin.delete_topics([known.kafka_name])[known.kafka_name],
            f"deleting the topic {known.kafka_name}",
            needs=f"Delete on topic {known.kafka_name}",
        )
        self._lose(known, TableNotFound(f"the topic {known.topic.name} ({topic}) was deleted"), level=logging.INFO)
        backoff = _settling()
        while True:
            (found,) = await self._cluster.describe([known.kafka_name])
            if found is None or _id_of(found) != topic:
                return
            if not await backoff.pause():
                break
        raise Unavailable(f"the topic {known.kafka_name} is marked for deletion, and {_SETTLE_S:g} s later still there")

    async def all(self) -> list[Topic]:
        """The topics of our namespace, by name."""
        metadata = await asyncio.to_thread(self._cluster.metadata)
        named = sorted((own, name) for name in metadata.topics if (own := self._address.own_name(name)) is not None)
        described = await self._cluster.describe([name for _, name in named])
        return [
            Topic(_id_of(found), own, len(found.partitions))
            for (own, _), found in zip(named, described, strict=True)
            if found is not None and _id_of(found) not in self._gone
        ]

    async def find(self, topic: TableId) -> KnownTopic:
        """The topic with this id. Raises `TableNotFound`, or why it is refused. Asks the cluster the first time.

        The search for a missing topic is repeated for 1.5 s: another process may just have made it, and not every
        broker has heard of it.
        """
        pauses = iter(_HEARD_PAUSES_S)
        while True:
            known = self._known.get(topic)
            if known is not None:
                return known
            self._check_here(topic)
            metadata = await asyncio.to_thread(self._cluster.metadata)
            names = sorted(metadata.topics, key=lambda name: self._address.own_name(name) is None)
            for name, found in zip(names, await self._cluster.describe(names), strict=True):
                if found is not None and not found.is_internal and _id_of(found) == topic:
                    return await self._know(name, found)
            pause = next(pauses, None)
            if pause is None:
                break
            await asyncio.sleep(pause)
        raise TableNotFound(
            f"no topic in {self._address.bootstrap} has the id {topic}: it was deleted, or this is another cluster"
        )

    def refusal(self, topic: TableId) -> DuramenError | None:
        """The error with which a topic that was in use is refused now; None: it is not refused."""
        error = self._gone.reason(topic)
        return None if error is None else copy(error)

    def _check_here(self, topic: TableId) -> None:
        """Raise the error with which a topic is refused, if it is."""
        error = self.refusal(topic)
        if error is not None:
            raise error

    async def recheck(self, known: KnownTopic) -> None:
        """Look at a topic now, and some times more where it is not found. Raises why it is refused, if it is."""
        for pause in (*_HEARD_PAUSES_S, 0.0):
            (found,) = await self._cluster.describe([known.kafka_name])
            self._judge(known, found, missed_times=1 if not pause else MISSED_TIMES)
            self._check_here(known.topic.id)
            if found is not None and _id_of(found) == known.topic.id:
                return
            await asyncio.sleep(pause)

    # --- offsets

    async def bounds(self, known: KnownTopic, partitions: Iterable[Partition]) -> list[Bounds]:
        """The bounds of partitions, in two questions. The end is what may be read: before open transactions.

        Only foreign writers have those, so of an adopted topic a third question asks for the end behind open
        transactions.
        """
        name = known.kafka_name
        wanted = list(partitions)
        questions = [
            self._cluster.offsets(name, wanted, OffsetSpec.earliest()),
            self._cluster.offsets(name, wanted, OffsetSpec.latest()),
        ]
        if known.adopted:
            questions.append(self._cluster.offsets(name, wanted, OffsetSpec.latest(), committed=False))
        lows, highs, *more = await asyncio.gather(*questions)
        self._check_here(known.topic.id)
        written = more[0] if more else highs
        return [
            Bounds(Offset(low), Offset(high - 1), max(0, end - high), cleaned=known.compacted)
            for low, high, end in zip(lows, highs, written, strict=True)
        ]

    async def trim(self, known: KnownTopic, partition: Partition, before: Offset) -> Offset:
        """Remove the records below `before`; return the earliest that is left."""
        return await self._cluster.delete_records(known.kafka_name, partition, before)

    async def first_since(self, known: KnownTopic, partition: Partition, time_ms: int) -> Offset | None:
        """The first record of that time (ms since 1970) or later; None where all are older."""
        return await self._cluster.offset_since(known.kafka_name, partition, time_ms)

    # --- what there is

    async def _heard_of(self, name: str) -> TopicDescription | None:
        """A description; for a topic that was just made, the request is repeated until the brokers know it."""
        for pause in _HEARD_PAUSES_S:
            (found,) = await self._cluster.describe([name])
            if found is not None:
                return found
            await asyncio.sleep(pause)
        return (await self._cluster.describe([name]))[0]

    async def _settled(self, name: str, partitions: int) -> TopicDescription:
        backoff = _settling()
        while True:
            (found,) = await self._cluster.describe([name])
            if (
                found is not None
                and len(found.partitions) == partitions
                and all(each.leader is not None and each.leader.id >= 0 for each in found.partitions)
                and _id_of(found) not in self._gone
            ):
                return found
            if not await backoff.pause():
                break
        raise Unavailable(f"the topic {name} was made, and {_SETTLE_S:g} s later not every partition has a leader")

    async def _know(self, name: str, description: TopicDescription) -> KnownTopic:
        resource = ConfigResource(ResourceType.TOPIC, name)
        answer = self._cluster.admin.describe_configs([resource], request_timeout=ANSWER_S)[resource]
        doing = f"asking for the settings of the topic {name}"
        entries = await self._cluster.ask(answer, doing, needs=f"DescribeConfigs on topic {name}")
        settings = {each.name: each.value for each in entries.values() if each.value is not None}
        own = self._address.own_name(name)
        topic = Topic(_id_of(description), own if own is not None else name, len(description.partitions))
        weak = weaknesses(
            settings,
            replication=min(len(each.replicas) for each in description.partitions),
            adopted=own is None,
        )
        known = KnownTopic(
            topic,
            name,
            adopted=own is None,
            compacted="compact" in settings.get("cleanup.policy", ""),
            set_bytes_max=min(int(settings.get("max.message.bytes", "1048588")), _MESSAGE_BYTES) - _SET_MARGIN,
            weaknesses=tuple(weak),
        )
        self._check_here(topic.id)
        if self._known.setdefault(topic.id, known) is known:
            for weakness in weak:
                _logger.warning("topic %s: %s", name, weakness)
        return known

    # --- noticing

    def look(self) -> None:
        """Look once at each topic in use. Blocks for an answer. Raises `KafkaException` where one topic could not be
        looked at, after it has looked at the others; `ShuttingDown`.
        """
        known = list(self._known.values())
        if not known:
            return
        answers = self._cluster.admin.describe_topics(
            TopicCollection([each.kafka_name for each in known]), request_timeout=ANSWER_S
        )
        trouble: KafkaException | None = None
        for each in known:
            try:
                found = _described(answers[each.kafka_name])
            except KafkaException as error:
                trouble = error
            else:
                self._cluster.access.answered()
                self._judge(each, found, missed_times=MISSED_TIMES)
        if trouble is not None:
            raise trouble

    def _judge(self, known: KnownTopic, found: TopicDescription | None, *, missed_times: int) -> None:
        sight = None if found is None else Sight(_id_of(found), len(found.partitions))
        error = self._looks.judge(known, sight, missed_times=missed_times)
        if error is not None:
            self._lose(known, error)

    def _lose(self, known: KnownTopic, error: DuramenError, *, level: int = logging.WARNING) -> None:
        if not self._gone.add(known.topic.id, error):
            return
        self._known.pop(known.topic.id, None)
        self._looks.forget(known.topic.id)
        _logger.log(level, "%s", error)
        self._on_gone(known, error)


def _settling() -> Backoff:
    return Backoff(_PAUSE_FIRST_S, _PAUSE_MAX_S, deadline_s=asyncio.get_running_loop().time() + _SETTLE_S)


def _described(answer: Future[TopicDescription]) -> TopicDescription | None:
    try:
        return answer.result()
    except KafkaException as error:
        if is_missing_topic(error.args[0]):
            return None
        raise


def _id_of(description: TopicDescription) -> TableId:
    uuid = description.topic_id
    high, low = uuid.get_most_significant_bits(), uuid.get_least_significant_bits()
    mask = (1 << 64) - 1
    return table_id_from_bytes(((high & mask) << 64 | low & mask).to_bytes(16, "big"))
