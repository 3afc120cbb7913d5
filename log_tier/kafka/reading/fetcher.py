"""Reading: librdkafka consumers that many readers share.

    shared consumer (and its thread) ──messages──▶ record filter of each partition ──stored batches──▶ its reader

A consumer follows any number of partitions over one connection to each broker, but each partition only once, at one
place. So readers share consumers (`SharedConsumer`; `_shared` lists them): a reader that follows takes the first
consumer in which nobody reads its partition. A reader that ends at an offset takes an idle consumer, because a fetch
that waits for new records would hold up its first one.

A reader that is not emptied is paused, so memory is bounded by what its queue and librdkafka's hold.

Positions are ours: no group, no commits, and an offset that is gone is an error and never another offset.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, Final

from log_tier.kafka.cluster.cluster_access import ClusterAccess
from log_tier.kafka.cluster.kafka_address import KafkaAddress
from log_tier.kafka.reading.partition_reader import PartitionReader
from log_tier.kafka.reading.shared_consumer import SharedConsumer, new_consumer
from log_tier.model.batch_header import NOWHERE, Place
from log_tier.model.errors import DuramenError, Overloaded, ShuttingDown
from log_tier.model.identifiers import Offset, Partition

__all__ = ["Fetcher"]

# Each shared consumer is a thread, and a connection to every broker. Only readers of one partition need several: a
# replica, and its watches and exports.
_CONSUMERS_MAX: Final = 64

# Idle shared consumers that are kept for the next reader that ends at an offset.
_IDLE_CONSUMERS_MAX: Final = 4


class Fetcher:
    """Owns all readers of one log and their shared consumers. Belongs to one process; readers belong to their event
    loops.
    """

    def __init__(
        self,
        address: KafkaAddress,
        access: ClusterAccess,
        connect: Callable[[KafkaAddress, ClusterAccess], Any] = new_consumer,
    ) -> None:
        """`access` hears of refused logins. `connect` makes a consumer; a test's may be its own."""
        self._address, self._access, self._connect = address, access, connect
        self._lock = threading.Lock()
        self._shared: list[SharedConsumer] = []
        self._idle: list[SharedConsumer] = []
        self._of: dict[PartitionReader, tuple[SharedConsumer, bool]] = {}
        self._closed = False

    def start(
        self, topic: str, partition: Partition, start: Offset, *, follow: bool, place: Place = NOWHERE
    ) -> PartitionReader:
        """A reader from `start` on; end it with `stop`. Raises `Overloaded`, `ShuttingDown`."""
        reader = PartitionReader(topic, partition, start, place)
        with self._lock:
            if self._closed:
                raise _closing()
            consumer = self._consumer_for(topic, partition) if follow else self._idle_consumer()
            self._of[reader] = (consumer, follow)
            consumer.start(reader)
        return reader

    def _consumer_for(self, topic: str, partition: Partition) -> SharedConsumer:
        self._shared = [consumer for consumer in self._shared if not consumer.ended]
        for consumer in self._shared:
            if (topic, partition) not in consumer.taken:
                return consumer
        consumer = self._new_consumer()
        self._shared.append(consumer)
        return consumer

    def _idle_consumer(self) -> SharedConsumer:
        self._idle = [consumer for consumer in self._idle if not consumer.ended]
        return self._idle.pop() if self._idle else self._new_consumer()

    def _new_consumer(self) -> SharedConsumer:
        if len({id(consumer) for consumer, _ in self._of.values()}) >= _CONSUMERS_MAX:
            raise Overloaded(
                f"{_CONSUMERS_MAX} readers of one partition are under way here: end some, or read at another router",
                limit=_CONSUMERS_MAX,
            )
        return SharedConsumer.open(self._connect(self._address, self._access))

    def resume(self, reader: PartitionReader) -> None:
        """The reader's queue has space again."""
        found = self._of.get(reader)
        if found is not None:
            found[0].resume(reader)

    def stop(self, reader: PartitionReader) -> None:
        """End a reader. Idempotent."""
        with self._lock:
            found = self._of.pop(reader, None)
            if found is None:
                return
            consumer, follow = found
            consumer.stop(reader)
            if follow or self._closed or consumer.ended:
                return
            if len(self._idle) < _IDLE_CONSUMERS_MAX:
                self._idle.append(consumer)
            else:
                consumer.close()

    def refuse(self, topic: str, error: DuramenError) -> None:
        """Fail the readers of a topic that is gone."""
        with self._lock:
            readers = [reader for reader in self._of if reader.topic == topic]
        for reader in readers:
            reader.fail(type(error)(error.message, **dict(error.fields)))

    async def close(self) -> None:
        """End every reader. Idempotent."""
        with self._lock:
            self._closed = True
            consumers = {*self._shared, *self._idle, *(consumer for consumer, _ in self._of.values())}
            readers = list(self._of)
        for reader in readers:
            reader.fail(_closing())
        for consumer in consumers:
            consumer.close()
        for consumer in consumers:
            await asyncio.to_thread(consumer.join)


def _closing() -> ShuttingDown:
    return ShuttingDown("the log is closing")
