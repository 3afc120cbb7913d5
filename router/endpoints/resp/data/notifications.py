"""Keyspace notifications: SUBSCRIBE to changes of keys, from the change feed.

    __keyspace@0__:user1     set, del, incrby …        what happened to a key
    __keyevent@0__:set       user1                     which keys it happened to

Subscriptions are kept by name: a change costs two lookups, one comparison with each subscribed pattern, and what is
sent. While a long batch is passed on, others get their turn at the event loop.

A table is watched while it has listeners, by one watch of the data plane for all listeners. So every node reports every
change, of any client and any endpoint, once and in order for each partition; a client that comes late or is away misses
what happened meanwhile, as in Redis (a program that must not uses the change feed itself).

    N1  A subscription is confirmed when the position of every watch that it needs is fixed, at the log's current end
        and not at what a replica has applied. So every write that is acknowledged after the confirmation, at any node,
        is reported.
    N2  A watch that breaks goes on where it was. Where its table was dropped and made again, the new one is watched
        from its first record: all of it is younger than the confirmation. So is a numbered table that is made while a
        client listens to patterns that name no number.
    N3  Where a watch cannot go on (a damaged log, a record of a newer version), the connections that listen to its
        table are closed, and new subscriptions get the error: no client waits for changes that will not come. They are
        closed, too, where retention has overtaken a watch that was held up: what it has missed is gone, and a client
        that connects again knows that it may have missed something.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import aclosing, suppress
from copy import copy
from typing import Any, Final, Protocol, cast

from log_tier.catalog.catalog import Maps
from log_tier.catalog.cluster_map import ClusterMap
from log_tier.concurrency.backoff import Backoff
from log_tier.concurrency.tasks import end_tasks
from log_tier.model.batch import decode_batch
from log_tier.model.batch_header import place_of, split_batches
from log_tier.model.errors import DiskFailed, DuramenError, FolderReadOnly, IndexDamaged, InvalidKey, TableNotFound
from log_tier.model.identifiers import Offset, Partition, PartitionId
from log_tier.model.record import PLAIN_PUT
from router.data.requests import WatchEvent
from router.data.seam import DataPlane
from router.endpoints.resp.data.channels import ANY_NUMBER, events_of, numbers_of
from router.endpoints.resp.data.served_tables import DEFAULT_TABLE, NUMBERS, ServedTable, ServedTables
from router.endpoints.resp.wire.limits import REQUEST_TIMEOUT_S
from router.endpoints.resp.wire.patterns import Glob
from router.endpoints.resp.wire.replies import Problem, Push, encode
from router.endpoints.resp.wire.reply_queue import ReplyQueue

__all__ = ["Listener", "Notifications"]

logger = logging.getLogger(__name__)

# Patterns of all connections that differ: each change is compared with each of them.
_PATTERNS_MAX: Final = 10_000

# Work that is done for changes before others get their turn at the event loop, in bytes that may be compared with a
# pattern; at most some 3 ms.
_TURN_STEPS: Final = 200_000

# What compiling a pattern, a comparison of whatever length, looking at a change and sending a message cost, in that
# unit.
_COMPILE_STEPS: Final = 20_000
_COMPARE_STEPS: Final = 100
_CHANGE_STEPS: Final = 200
_SEND_STEPS: Final = 200

# After a watch has ended by an error, the next one begins from where it was. Where its table is not there, or the error
# lasts, a listener costs one look a second.
_PAUSE_FIRST_S: Final = 0.2
_PAUSE_MAX_S: Final = 2.0

# Errors that no retry of the call mends, and that pass by themselves: the index is built anew, the disk answers again,
# its folder can be written again.
_PASSING: Final = (IndexDamaged, DiskFailed, FolderReadOnly)


class Listener(Protocol):
    """A connection that may listen."""

    channels: set[bytes]
    patterns: set[bytes]

    @property
    def id(self) -> int: ...

    @property
    def protocol(self) -> int: ...

    @property
    def reply_queue(self) -> ReplyQueue: ...

    def close(self, reason: str) -> None: ...


class _Watch:
    """The watch of one numbered table."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.name = DEFAULT_TABLE if number == 0 else f"db{number}"
        self.positioned = asyncio.Event()
        """Set once its positions are fixed; they are kept whatever happens to the stream."""
        self.positions: dict[Partition, Offset] = {}
        """The next offset of each partition."""
        self.failure: DuramenError | None = None
        """Why it cannot go on."""
        self.task: asyncio.Task[None]


class Notifications:
    """Who listens, and the watches that feed them."""

    def __init__(self, connection: DataPlane, maps: Maps, tables: ServedTables) -> None:
        self._connection = connection
        self._maps = maps
        self._tables = tables
        self._loop = asyncio.get_running_loop()
        self._channels: dict[bytes, dict[int, Listener]] = {}
        """Who listens to a channel, by the connections' ids."""
        self._patterns: dict[bytes, dict[int, Listener]] = {}
        self._globs: dict[bytes, Glob] = {}
        """Compiled when the first change is compared with it."""
        self._counts: Counter[int] = Counter()
        """How many confirmed names mean each numbered table."""
        self._watches: dict[int, _Watch] = {}
        self._subscribing: list[Sequence[bytes]] = []
        """The names of subscriptions that are not confirmed yet."""
        self._any = False
        """A client listens to all numbered tables, or is about to."""
        self._spent = 0
        """Work since others had their turn."""
        self._closed = False

    @property
    def channels(self) -> int:
        """The number of different channels that have listeners."""
        return len(self._channels)

    @property
    def patterns(self) -> int:
        """And how many patterns."""
        return len(self._patterns)

    async def follow(self, names: Sequence[bytes]) -> None:
        """Return when the positions of all watches that these channels or patterns need are fixed.

        Asks the log once for each partition of a table that nobody listened to before, and nothing else.
        Raises `Problem` where a watch has no position in time, and why one of them cannot go on.
        """
        if self._closed:
            raise Problem("LOADING this server is stopping; subscribe at another one")
        self._subscribing.append(names)
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                # Again and again, because a table may be made meanwhile. Nothing is awaited between the last look and
                # the caller's next line.
                while waiting := self._unpositioned(names):
                    for watch in waiting:
                        await watch.positioned.wait()
                        if watch.failure is not None:
                            raise copy(watch.failure)
        except BaseException as error:
            self._subscribing.remove(names)
            self.compare()
            if not isinstance(error, TimeoutError):
                raise
            raise Problem(
                f"TRYAGAIN the changes could not be followed within {REQUEST_TIMEOUT_S:g} s; nothing is subscribed"
            ) from None
        self._subscribing.remove(names)

    def _unpositioned(self, names: Sequence[bytes]) -> list[_Watch]:
        """The watches that these channels or patterns need, and whose positions are not fixed yet."""
        self.compare()
        needed = [self._watches.get(number) for number in self._numbers(names)]
        for watch in needed:
            if watch is not None and watch.failure is not None:
                raise copy(watch.failure)
        return [watch for watch in needed if watch is not None and not watch.positioned.is_set()]

    def check_room(self, patterns: Sequence[bytes]) -> None:
        """Raises `Problem` where all connections together listen to too many patterns."""
        if len(self._patterns) + len(patterns) > _PATTERNS_MAX:
            raise Problem(
                f"ERR all connections together listen to at most {_PATTERNS_MAX} patterns, and to "
                f"{len(self._patterns)} now"
            )

    def add(self, client: Listener, name: bytes, *, pattern: bool) -> None:
        """A connection listens to a channel or a pattern, which it did not before. O(1)."""
        listeners = (self._patterns if pattern else self._channels).setdefault(name, {})
        if not listeners:
            self._counts.update(numbers_of(name))
        listeners[client.id] = client

    def remove(self, client: Listener, name: bytes, *, pattern: bool) -> None:
        """A connection listens to it no more. O(1)."""
        names = self._patterns if pattern else self._channels
        del names[name][client.id]
        if not names[name]:
            del names[name]
            self._counts.subtract(numbers_of(name))
            if pattern:
                self._globs.pop(name, None)

    def compare(self) -> None:
        """A subscription came or went, or a table was made: watch the tables that have listeners, and no others."""
        if self._closed:
            return
        # Who listens to all databases was confirmed when all were watched that were there.
        made_since = self._counts[ANY_NUMBER] > 0
        asked = {number for names in self._subscribing for name in names for number in numbers_of(name)}
        wanted = asked | {number for number in range(NUMBERS) if self._counts[number] > 0}
        self._any = made_since or ANY_NUMBER in asked
        wanted.discard(ANY_NUMBER)
        if self._any:
            wanted |= {0, *self._numbers_there()}
        for number in sorted(wanted - self._watches.keys()):
            watch = self._watches[number] = _Watch(number)
            if made_since:
                watch.positioned.set()
            watch.task = self._loop.create_task(self._watch(watch), name=f"notifications of db{number}")
        for number in sorted(self._watches.keys() - wanted):
            self._watches.pop(number).task.cancel()

    def _numbers(self, names: Sequence[bytes]) -> set[int]:
        """The databases that channels or patterns may be about. One that names no number is about all that are
        there.
        """
        numbers = {number for name in names for number in numbers_of(name)}
        if ANY_NUMBER in numbers:
            numbers.remove(ANY_NUMBER)
            numbers |= {0, *self._numbers_there()}
        return numbers

    def _numbers_there(self) -> list[int]:
        cluster = self._maps.map
        return [number for number in range(1, NUMBERS) if cluster.named(f"db{number}") is not None]

    def map_changed(self, _: ClusterMap) -> None:
        """Called with each newer map: watch numbered tables that were created while a client listens to all of them."""
        if self._any and not self._watches.keys() >= set(self._numbers_there()):
            self.compare()

    def watching(self, number: int) -> bool:
        """Does the watch of a numbered table have its positions, so that it misses nothing from now on?"""
        watch = self._watches.get(number)
        return watch is not None and watch.positioned.is_set()

    def forget(self, client: Listener) -> None:
        """A connection listens no more."""
        if client.channels or client.patterns:
            self._remove_all(client)
            self.compare()

    def _remove_all(self, client: Listener) -> None:
        for name in client.channels:
            self.remove(client, name, pattern=False)
        for name in client.patterns:
            self.remove(client, name, pattern=True)
        client.channels, client.patterns = set(), set()

    async def _watch(self, watch: _Watch) -> None:
        table_id = ""
        backoff = Backoff(_PAUSE_FIRST_S, _PAUSE_MAX_S)
        while True:
            try:
                table = await self._tables.open(watch.name)
                if table.ref.id != table_id:
                    # A table that was made after the confirmation is reported from its first record.
                    first = dict.fromkeys(map(Partition, range(table.partitions)), Offset(0))
                    table_id, watch.positions = table.ref.id, first if watch.positioned.is_set() else {}
                events: Any = self._connection.watch(table.ref.id, watch.positions)
                async with aclosing(events) as stream:
                    async for event in cast("Any", stream):
                        if event.positions is not None:
                            for partition, position in event.positions.items():
                                watch.positions.setdefault(partition, position)
                            watch.positioned.set()
                            backoff.heard()
                            continue
                        await self._pass_on(watch.number, table, event, watch.positions)
            except TableNotFound as error:
                found = self._tables.at_hand(watch.name)
                if found is not None and found.ref.id == table_id:
                    found.gone = True
                logger.info("notifications of %s begin again: %s", watch.name, error)
                await backoff.pause()
            except DuramenError as error:
                if not error.retryable and not isinstance(error, _PASSING):
                    await self._end(watch, error)
                    return
                logger.info("notifications of %s begin again: %s", watch.name, error)
                await backoff.pause()

    async def _end(self, watch: _Watch, error: DuramenError) -> None:
        """N3: close the connections that listen to a table whose watch cannot go on."""
        watch.failure = error
        watch.positioned.set()
        logger.error("notifications of %s end, its listeners are disconnected: %s", watch.name, error)
        while listeners := self._listeners(watch.number):
            for client in listeners:
                self._remove_all(client)
                client.close(f"notifications of {watch.name} have ended")
                await self._spend(_SEND_STEPS)
        if self._watches.get(watch.number) is watch:
            del self._watches[watch.number]
        self.compare()

    def _listeners(self, number: int) -> list[Listener]:
        """The connections that listen to channels or patterns of a numbered table."""
        found: dict[int, Listener] = {}
        for names in (self._channels, self._patterns):
            for name, listeners in names.items():
                if {number, ANY_NUMBER}.intersection(numbers_of(name)):
                    found |= listeners
        return list(found.values())

    async def _pass_on(
        self, number: int, table: ServedTable, event: WatchEvent, positions: dict[Partition, Offset]
    ) -> None:
        place = place_of(PartitionId(table.ref.id, event.partition))
        void = set(event.void_offsets)
        start = positions.get(event.partition, Offset(0))
        for data in split_batches(event.batches):
            batch = decode_batch(data, place)
            columns = batch.columns
            attributes = columns.attributes or (PLAIN_PUT,) * len(columns.keys)
            for offset, key, attribute in zip(batch.offsets(), columns.keys, attributes, strict=True):
                if offset < start or offset in void:
                    continue
                names = events_of(attribute)
                if names and table.form is not None:
                    with suppress(InvalidKey):  # a DEL of what was never a key is reported as it is
                        key = table.form.key_text(key)
                for name in names:
                    await self._send(b"__keyspace@%d__:%b" % (number, key), name)
                    await self._send(b"__keyevent@%d__:%b" % (number, name), key)
            positions[event.partition] = Offset(batch.header.last_offset + 1)

    async def _send(self, channel: bytes, text: bytes) -> None:
        """Send to the listeners of a channel, and of the patterns that match it."""
        await self._spend(_CHANGE_STEPS)
        listeners = self._channels.get(channel)
        if listeners is not None:
            await self._send_all(listeners, Push([b"message", channel, text]))
        size = len(channel)
        for pattern in list(self._patterns):
            if self._spent > _TURN_STEPS:
                await self._spend(0)
            glob = self._globs.get(pattern)
            if glob is None:
                if pattern not in self._patterns:
                    continue  # the last listener has just gone
                glob = self._globs[pattern] = Glob(pattern)
                self._spent += _COMPILE_STEPS
            self._spent += _COMPARE_STEPS + glob.steps(size)
            if glob.matches(channel):
                await self._send_all(self._patterns.get(pattern, {}), Push([b"pmessage", pattern, channel, text]))

    async def _send_all(self, listeners: Mapping[int, Listener], message: Push) -> None:
        encoded = {protocol: encode(message, protocol) for protocol in (2, 3)}
        for client in list(listeners.values()):
            client.reply_queue.push(encoded[client.protocol])
            await self._spend(_SEND_STEPS)

    async def _spend(self, steps: int) -> None:
        """Note work that was done; after `_TURN_STEPS` others get their turn."""
        self._spent += steps
        if self._spent > _TURN_STEPS:
            self._spent = 0
            await asyncio.sleep(0)

    async def close(self) -> None:
        """End every watch."""
        tasks = [watch.task for watch in self._watches.values()]
        self._watches, self._closed = {}, True
        await end_tasks(*tasks)
