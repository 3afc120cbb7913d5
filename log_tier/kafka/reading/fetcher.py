"""Reading: librdkafka consumers that many readers share.

    shared consumer (and its thread) ──messages──▶ record filter of each partition ──stored batches──▶ its reader

A consumer follows any number of partitions over one connection to each broker, but each partition only once, at one
place. So readers share consumers (`SharedConsumer`; `_lanes` lists them): a reader that follows takes the first
consumer in which nobody reads its partition. A reader that ends at an offset takes an idle consumer, because a fetch
that waits for new records would hold up its first one.

A reader that is not emptied is paused, so memory is bounded by what its queue and librdkafka's hold.

Positions are ours: no group, no commits, and an offset that is gone is an error and never another offset.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Final

from log_tier.kafka.cluster.address import KafkaAddress
from log_tier.kafka.reading.partition_reader import PartitionReader
from log_tier.kafka.reading.shared_consumer import SharedConsumer
from log_tier.model.batch_header import NOWHERE, Place
from log_tier.model.errors import DuramenError, Overloaded, ShuttingDown
from log_tier.model.identifiers import Offset, Partition

__all__ = ["Fetcher"]

# Each shared consumer is a thread, and a connection to every broker. Only readers of one partition need several: a
# replica, and its watches and exports.
_LANES_MAX: Final = 64

# Idle shared consumers that are kept for the next reader that ends at an offset.
_IDLE_LANES_MAX: Final = 4


class Fetcher:
    """All readers of one log. Belongs to one process; readers belong to their event loops."""

    def __init__(self, address: KafkaAddress) -> None:
        self._address = address
        self._lock = threading.Lock()
        self._lanes: list[SharedConsumer] = []
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
            lane = self._lane(topic, partition) if follow else self._idle.pop() if self._idle else self._new_lane()
            self._of[reader] = (lane, follow)
            lane.start(reader)
        return reader

    def _lane(self, topic: str, partition: Partition) -> SharedConsumer:
        for lane in self._lanes:
            if (topic, partition) not in lane.taken:
                return lane
        lane = self._new_lane()
        self._lanes.append(lane)
        return lane

    def _new_lane(self) -> SharedConsumer:
        if len({id(lane) for lane, _ in self._of.values()}) >= _LANES_MAX:
            raise Overloaded(
                f"{_LANES_MAX} readers of one partition are under way here: end some, or read at another router",
                limit=_LANES_MAX,
            )
        return SharedConsumer.open(self._address)

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
            lane, follow = found
            lane.stop(reader)
            if follow or self._closed:
                return
            if len(self._idle) < _IDLE_LANES_MAX:
                self._idle.append(lane)
            else:
                lane.close()

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
            lanes = {*self._lanes, *self._idle, *(lane for lane, _ in self._of.values())}
            readers = list(self._of)
        for reader in readers:
            reader.fail(_closing())
        for lane in lanes:
            lane.close()
        for lane in lanes:
            await asyncio.to_thread(lane.join)


def _closing() -> ShuttingDown:
    return ShuttingDown("the log is closing")
