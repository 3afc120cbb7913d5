"""Reading: librdkafka consumers that many readers share, and what they make of the messages.

    lane (a consumer and its thread) ──messages──▶ assembly of each partition ──stored batches──▶ its reader

A consumer follows any number of partitions over one connection to each broker, but each partition only once, at one
place. So readers share **lanes**: one that follows takes the first lane in which nobody reads its partition; one that
reads to an end takes an idle lane, because a fetch that is waiting for news would hold up its first one.

A reader that is not emptied is paused, so memory is bounded by what its queue and librdkafka's hold.

Positions are ours: no group, no commits, and an offset that is gone is an error and never another offset.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import groupby
from typing import Any, Final, Literal

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from log_tier.batch import BATCH_RECORDS_MAX
from log_tier.batch_header import read_header
from log_tier.errors import (
    DuramenError,
    InvalidKey,
    InvalidValue,
    LimitExceeded,
    Overloaded,
    ShuttingDown,
    UnknownFormat,
)
from log_tier.identifiers import Offset, Partition
from log_tier.kafka.address import KafkaAddress
from log_tier.kafka.assembly import Assembly, KafkaRecord
from log_tier.kafka.connection_news import CONNECTION_NEWS
from log_tier.kafka.header import HEADER_NAME, PLAIN_SET, RecordHeader
from log_tier.kafka.header import read_header as read_record_header

__all__ = ["Fetcher", "PartitionReader", "ReadTrouble"]

_logger = logging.getLogger(__name__)
_logger.addFilter(CONNECTION_NEWS)

# Each lane is a thread, and a connection to every broker. Only readers of one partition need several: a replica, and
# its watches and exports.
_LANES_MAX: Final = 64

# Lanes that are kept for the next reader to an end.
_IDLE_LANES_MAX: Final = 4

# A reader whose queue holds this much is paused, and goes on when half of it is gone: some 100 ms of a fast replica.
_QUEUE_BYTES: Final = 16 << 20

# Messages per call: some 10 ms of work between two looks at the world.
_MESSAGES: Final = 10_000

# How long a lane that reads waits for a message before it looks at its orders; an idle one is woken by them.
_POLL_S: Final = 0.02

# A broker answers what a topic is within a millisecond; one that is away must not hold up the other partitions.
_LEARN_S: Final = 0.2

_Order = Literal["start", "stop", "resume"]

_SETTINGS: Final[dict[str, object]] = {
    "group.id": "duramen",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    "check.crcs": True,
}

_DEFAULTS: Final[dict[str, object]] = {
    # A partition that joins a lane waits at most this long for the fetch that is under way.
    "fetch.wait.max.ms": 50,
    "fetch.error.backoff.ms": 50,
    # librdkafka's own queue: full after some 10,000 records, and looked at again soon.
    "queued.max.messages.kbytes": 32 << 10,
    "fetch.queue.backoff.ms": 5,
}


class ReadTrouble(Exception):
    """A partition cannot be read on; the engine finds out what that means."""

    def __init__(self, error: KafkaError) -> None:
        super().__init__(error.str())
        self.error = error


class PartitionReader:
    """One reader of one partition: a queue of stored batches, filled by a lane, emptied by its event loop."""

    def __init__(self, topic: str, partition: Partition, start: Offset) -> None:
        self.topic, self.partition = topic, partition
        self.assembly = Assembly(start)
        self.position = start
        """The lane's: the first offset that was not taken yet."""
        self.held: list[Any] = []
        """The lane's: messages of a set whose end is not here yet."""
        self.unreadable: UnknownFormat | None = None
        """The lane's: a record of a later version, at which reading ends."""
        self.latest = Offset(start - 1)
        """The partition's end, as far as fetches told: what may be read, so nothing behind an open transaction."""
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._batches: deque[bytes] = deque()
        self._bytes = 0
        self._arrived = asyncio.Event()
        self._told = False
        self._trouble: Exception | None = None
        self.given = start
        """The first offset that `take` has not given yet."""
        self.paused = False
        """Under the lock: the lane was told not to fetch."""

    @property
    def is_full(self) -> bool:
        """Fetching more has to wait."""
        return self._bytes > _QUEUE_BYTES

    def put(self, batches: Sequence[bytes], latest: Offset) -> None:
        """From the lane's thread."""
        with self._lock:
            if self._trouble is not None:
                return  # what comes behind it must not be taken for what comes next
            self._batches.extend(batches)
            self._bytes += sum(map(len, batches))
            self.latest = max(self.latest, latest)
            self._tell()

    def fail(self, trouble: Exception) -> None:
        """What was put is still given; then the reader raises `trouble`."""
        with self._lock:
            if self._trouble is None:
                self._trouble = trouble
            self._tell()

    def _tell(self) -> None:
        if not self._told:
            self._told = True
            with suppress(RuntimeError):  # the loop was closed: nobody reads
                self._loop.call_soon_threadsafe(self._arrived.set)

    async def take(self, chunk_bytes: int) -> tuple[bytes, bool]:
        """Whole batches of about `chunk_bytes`, one at least, and whether the lane may fetch again.

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
                self._told = False
                self._arrived.clear()
            await self._arrived.wait()

    def pause(self) -> bool:
        """From the lane: note that fetching stops, if the queue is still full."""
        with self._lock:
            if self.paused or not self.is_full:
                return False
            self.paused = True
            return True


class _Lane:
    """A consumer, its thread, and the readers that share it.

    librdkafka would let other threads assign partitions; its Python face waits for the answer without letting go of the
    interpreter, which the polling thread may need to give it. So the lane's thread does everything itself.
    """

    def __init__(self, address: KafkaAddress) -> None:
        self.taken: set[tuple[str, int]] = set()
        """What is read here, as the fetcher sees it."""
        self._readers: dict[tuple[str, int], PartitionReader] = {}
        """The same, as the consumer does."""
        self._consumer = Consumer(address.client({**_SETTINGS, "error_cb": _note}, defaults=_DEFAULTS), logger=_logger)
        self._known: set[str] = set()
        """The topics that the consumer has heard of."""
        self._changed = threading.Condition()
        self._orders: deque[tuple[_Order, PartitionReader]] = deque()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="duramen-kafka-lane", daemon=True)
        self._thread.start()

    def start(self, reader: PartitionReader) -> None:
        self.taken.add((reader.topic, reader.partition))
        self._order("start", reader)

    def stop(self, reader: PartitionReader) -> None:
        self.taken.remove((reader.topic, reader.partition))
        self._order("stop", reader)

    def resume(self, reader: PartitionReader) -> None:
        self._order("resume", reader)

    def close(self) -> None:
        """Returns at once; the thread ends within a moment."""
        with self._changed:
            self._closing = True
            self._changed.notify()

    def join(self) -> None:
        self._thread.join()

    def _order(self, order: _Order, reader: PartitionReader) -> None:
        with self._changed:
            self._orders.append((order, reader))
            self._changed.notify()

    # --- the lane's thread

    def _run(self) -> None:
        consumer = self._consumer
        while True:
            with self._changed:
                while not (self._readers or self._orders or self._closing):
                    self._changed.wait()
                orders = list(self._orders)
                self._orders.clear()
                if self._closing:
                    break
            for order, reader in orders:
                self._carry_out(order, reader)
            first = consumer.poll(_POLL_S)
            if first is None:
                continue
            messages = [first, *consumer.consume(_MESSAGES, 0)]
            for place, run in groupby(messages, _place_of):
                found = self._readers.get(place)
                if found is not None:  # else it has just ended
                    self._feed_safely(found, list(run))
        consumer.close()

    def _carry_out(self, order: _Order, reader: PartitionReader) -> None:
        place = (reader.topic, reader.partition)
        try:
            if order == "start":
                self._readers[place] = reader
                self._learn(reader.topic)
                self._consumer.incremental_assign([TopicPartition(*place, reader.position)])
            elif self._readers.get(place) is reader:
                if order == "stop":
                    del self._readers[place]
                    self._consumer.incremental_unassign([TopicPartition(*place)])
                else:
                    self._consumer.resume([TopicPartition(*place)])
        except KafkaException as error:
            reader.fail(ReadTrouble(error.args[0]))

    def _learn(self, topic: str) -> None:
        """Have the consumer ask for a topic that is new to it: by itself it looks for such ones once a second."""
        if topic in self._known:
            return
        with suppress(KafkaException):  # whoever is away tells so to the reader
            self._consumer.list_topics(topic, timeout=_LEARN_S)
            self._known.add(topic)

    def _feed_safely(self, reader: PartitionReader, messages: list[Any]) -> None:
        try:
            self._feed(reader, messages)
        except DuramenError as error:
            reader.fail(error)
        except Exception as error:
            reader.fail(DuramenError(f"reading {reader.topic}/{reader.partition} ended by a bug: {error!r}"))
            raise

    def _feed(self, reader: PartitionReader, messages: list[Any]) -> None:
        """Give a reader what its messages hold."""
        batches: list[bytes] = []
        trouble: KafkaError | None = None
        good: list[Any] = []
        end = -1
        for message in messages:
            error = message.error()
            if error is None:
                good.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                end = message.offset()
            else:
                trouble = error
                break
        if good:
            batches = _assemble(reader, good)
        if end >= reader.position and not reader.held:
            batches += reader.assembly.end(Offset(end))
            reader.position = max(reader.position, Offset(end))
        # Not librdkafka's high watermark: what lies behind an open transaction is not there yet for anybody.
        reader.put(batches, Offset(max(end, reader.assembly.next_offset) - 1))
        if reader.unreadable is not None:
            reader.fail(reader.unreadable)
        elif trouble is not None:
            reader.fail(ReadTrouble(trouble))
        elif reader.is_full and reader.pause():
            self._consumer.pause([TopicPartition(reader.topic, reader.partition)])


def _place_of(message: Any) -> tuple[str, int]:
    return message.topic() or "", message.partition()


def _note(error: KafkaError) -> None:
    _logger.info("%s", error.str())


def _assemble(reader: PartitionReader, fresh: list[Any]) -> list[bytes]:
    """Stored batches of the messages that were held and the fresh ones; holds what is not whole."""
    position = reader.position
    if fresh[0].offset() < position:  # from before a seek
        fresh = [message for message in fresh if message.offset() >= position]
        if not fresh:
            return []
    messages = reader.held + fresh if reader.held else fresh
    reader.held = []
    reader.position = Offset(messages[-1].offset() + 1)
    assembly, batches = reader.assembly, []
    offsets = [message.offset() for message in messages]
    loose: list[KafkaRecord] = []
    at, count = 0, len(messages)
    while at < count:
        try:
            header, bad = _header_of(messages[at])
        except UnknownFormat as error:
            reader.unreadable = UnknownFormat(
                f"{reader.topic}/{reader.partition} at offset {offsets[at]}: {error.message}", offset=offsets[at]
            )
            break
        if header is None or not header.flags & PLAIN_SET:
            loose.append(_record(messages[at], offsets[at], header, bad))
            at += 1
            continue
        last = at + header.after
        if last >= count and _may_become_whole(header, messages, offsets, at):
            reader.held = messages[at:]  # the rest of the set is on its way
            break
        if loose:
            batches += assembly.take(loose)
            loose = []
        whole = _plain_set(assembly, messages, offsets, at, last, header) if last < count else None
        if whole is None:
            loose.append(_record(messages[at], offsets[at], header, bad))
            at += 1
        else:
            batches += whole
            at = last + 1
    if loose:
        batches += assembly.take(loose)
    return batches


def _may_become_whole(header: RecordHeader, messages: list[Any], offsets: list[int], at: int) -> bool:
    """Whether the messages from `at` on are the beginning of the set that the first one's header tells of."""
    seen = len(messages) - 1 - at
    if offsets[-1] - offsets[at] != seen or header.after >= BATCH_RECORDS_MAX:
        return False
    if not seen:
        return True
    try:
        newest, _ = _header_of(messages[-1])
    except UnknownFormat:
        return False
    return newest == header._replace(
        before=header.before + seen, after=header.after - seen, sequence=header.sequence + seen
    )


def _plain_set(
    assembly: Assembly, messages: list[Any], offsets: list[int], at: int, last: int, header: RecordHeader
) -> list[bytes] | None:
    """The batch of a whole set of plain puts that lies at `at` to `last`; None where it is not one."""
    if offsets[last] - offsets[at] != header.after:
        return None
    if last > at:
        try:
            end, _ = _header_of(messages[last])
        except UnknownFormat:
            return None  # the loop comes to it
        if end != header._replace(
            before=header.before + header.after, after=0, sequence=header.sequence + header.after
        ):
            return None
    part = messages[at : last + 1]
    keys = [message.key() for message in part]
    values = [message.value() for message in part]
    if None in keys or None in values:
        return None
    timestamp_ms = max(_time_of(part[0]), _time_of(part[-1]))
    try:
        return assembly.take_plain_set(Offset(offsets[at]), timestamp_ms, header, keys, values)
    except (InvalidKey, InvalidValue, LimitExceeded):
        return None  # somebody forged the header: record by record, then


def _header_of(message: Any) -> tuple[RecordHeader | None, bool]:
    """The header of ours, and whether there is one of our name that is not ours."""
    for name, value in message.headers() or ():
        if name == HEADER_NAME:
            header = read_record_header(value) if isinstance(value, bytes) else None
            return header, header is None
    return None, False


def _time_of(message: Any) -> int:
    """Its timestamp, in ms since 1970; 0 where a producer wrote none, or one before that."""
    return max(0, int(message.timestamp()[1]))


def _record(message: Any, offset: int, header: RecordHeader | None, bad: bool) -> KafkaRecord:
    return KafkaRecord(Offset(offset), _time_of(message), message.key(), message.value(), header, bad)


class Fetcher:
    """All readers of one log. Belongs to one process; readers belong to their event loops."""

    def __init__(self, address: KafkaAddress) -> None:
        self._address = address
        self._lock = threading.Lock()
        self._lanes: list[_Lane] = []
        self._idle: list[_Lane] = []
        self._of: dict[PartitionReader, tuple[_Lane, bool]] = {}
        self._closed = False

    def start(self, topic: str, partition: Partition, start: Offset, *, follow: bool) -> PartitionReader:
        """A reader from `start` on; end it with `stop`. Raises `Overloaded`, `ShuttingDown`."""
        reader = PartitionReader(topic, partition, start)
        with self._lock:
            if self._closed:
                raise _closing()
            lane = self._lane(topic, partition) if follow else self._idle.pop() if self._idle else self._new_lane()
            self._of[reader] = (lane, follow)
            lane.start(reader)
        return reader

    def _lane(self, topic: str, partition: Partition) -> _Lane:
        for lane in self._lanes:
            if (topic, partition) not in lane.taken:
                return lane
        lane = self._new_lane()
        self._lanes.append(lane)
        return lane

    def _new_lane(self) -> _Lane:
        if len({id(lane) for lane, _ in self._of.values()}) >= _LANES_MAX:
            raise Overloaded(
                f"{_LANES_MAX} readers of one partition are under way here: end some, or read at another router",
                limit=_LANES_MAX,
            )
        return _Lane(self._address)

    def resume(self, reader: PartitionReader) -> None:
        """Its queue has room again."""
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
