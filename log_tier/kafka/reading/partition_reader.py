"""One reader of one partition: a queue between a shared consumer's thread and an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from confluent_kafka import KafkaError

from log_tier.kafka.reading.record_filter import RecordFilter
from log_tier.model.batch_header import NOWHERE, Place, read_header
from log_tier.model.identifiers import Offset, Partition

__all__ = ["PartitionReader", "ReadTrouble"]

# A reader whose queue holds this much is paused, and goes on when half of it is gone: some 100 ms of a fast replica.
_QUEUE_BYTES: Final = 16 << 20


class ReadTrouble(Exception):
    """A partition cannot be read on; the engine finds out what that means."""

    def __init__(self, error: KafkaError) -> None:
        super().__init__(error.str())
        self.error = error


class PartitionReader:
    """One reader of one partition: a queue of stored batches, filled by a consumer, emptied by its event loop."""

    def __init__(self, topic: str, partition: Partition, start: Offset, place: Place = NOWHERE) -> None:
        self.topic, self.partition = topic, partition
        self.intake = RecordFilter(topic, partition, start, place)
        """Used by the consumer's thread: makes batches of the messages."""
        self.latest = Offset(start - 1)
        """The partition's end as fetches reported it: the readable end, so nothing behind an open transaction."""
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._batches: deque[bytes] = deque()
        self._bytes = 0
        self._arrived = asyncio.Event()
        self._notified = False
        self._trouble: Exception | None = None
        self.given = start
        """The first offset that `take` has not given yet."""
        self.paused = False
        """Under the lock: the consumer does not fetch for this reader."""

    @property
    def is_full(self) -> bool:
        """Fetching more has to wait."""
        return self._bytes > _QUEUE_BYTES

    @property
    def failed(self) -> bool:
        """The reader has ended by an error: it takes nothing more."""
        return self._trouble is not None

    def put(self, batches: Sequence[bytes], latest: Offset) -> None:
        """Queue batches, and note the partition's end. Called from the consumer's thread; dropped after `fail`."""
        with self._lock:
            if self._trouble is not None:
                return  # what comes behind it must not be taken for what comes next
            self._batches.extend(batches)
            self._bytes += sum(map(len, batches))
            self.latest = max(self.latest, latest)
            self._notify()

    def fail(self, trouble: Exception) -> None:
        """End the reader: `take` gives what was queued before, and then raises `trouble`."""
        with self._lock:
            if self._trouble is None:
                self._trouble = trouble
            self._notify()

    def _notify(self) -> None:
        if not self._notified:
            self._notified = True
            with suppress(RuntimeError):  # the loop was closed: nobody reads
                self._loop.call_soon_threadsafe(self._arrived.set)

    async def take(self, chunk_bytes: int) -> tuple[bytes, bool]:
        """Whole batches of about `chunk_bytes`, one at least, and whether the consumer may fetch again.

        Waits until there are some. Raises `ReadTrouble`, or what `fail` was given, when all before it was taken.
        """
        while True:
            with self._lock:
                if self._batches:
                    parts = [self._batches.popleft()]
                    size = len(parts[0])
                    while self._batches and size + len(self._batches[0]) <= chunk_bytes:
                        parts.append(self._batches.popleft())
                        size += len(parts[-1])
                    self._bytes -= size
                    self.given = Offset(read_header(parts[-1]).last_offset + 1)
                    resume = self.paused and self._bytes < _QUEUE_BYTES // 2
                    if resume:
                        self.paused = False
                    return (parts[0] if len(parts) == 1 else b"".join(parts)), resume
                if self._trouble is not None:
                    raise self._trouble
                self._notified = False
                self._arrived.clear()
            await self._arrived.wait()

    def pause(self) -> bool:
        """Called by the consumer: note that fetching stops, if the queue is still full."""
        with self._lock:
            if self.paused or not self.is_full:
                return False
            self.paused = True
            return True
