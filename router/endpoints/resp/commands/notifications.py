"""Keyspace notifications: SUBSCRIBE to what happens to keys, told from the change feed.

    __keyspace@0__:user1     set, del, incrby …        what happened to a key
    __keyevent@0__:set       user1                     which keys it happened to

A table is watched while somebody listens to it, by one watch of the core for all who listen. So every node tells of
every change, whoever made it and by whatever endpoint, once and in order for each partition; a client that comes late
or is away misses what happened meanwhile, as in Redis (a program that must not uses the change feed itself).
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, cast

from log_tier.model.batch import decode_batch
from log_tier.model.batch_header import split_batches
from log_tier.model.errors import DuramenError, TableNotFound
from log_tier.model.identifiers import Offset, Partition
from log_tier.model.record import EXPIRY_SHIFT, OPERATION_MASK, PLAIN_PUT, Expiry, Operation
from router.data.requests import WatchEvent
from router.endpoints.resp.data.tables import DEFAULT_TABLE, NUMBERS
from router.endpoints.resp.wire.arguments import glob
from router.endpoints.resp.wire.replies import NO_REPLY, Problem, Push, encode

if TYPE_CHECKING:
    from router.endpoints.resp.connection.client import Client
    from router.endpoints.resp.server.resp_server import RespServer

__all__ = ["Notifications", "psubscribe", "punsubscribe", "subscribe", "unsubscribe"]

logger = logging.getLogger(__name__)

# Channels and patterns of one connection; each change is compared with each pattern.
_SUBSCRIPTIONS_MAX: Final = 1000

# After a watch has ended by an error, the next one begins from where it was.
_PAUSE_S: Final = 0.2

_CHANNEL: Final = re.compile(rb"__key(?:space|event)@(\d+)__:", re.DOTALL).match

_NAMES: Final = {
    Operation.PUT: b"set",
    Operation.DELETE: b"del",
    Operation.ADD: b"incrby",
    Operation.MULTIPLY: b"multiply",
    Operation.MIN: b"min",
    Operation.MAX: b"max",
    Operation.APPEND: b"append",
}


def subscribe(client: Client, args: Sequence[bytes]) -> Any:
    """SUBSCRIBE channel [channel …]: `__keyspace@N__:key` or `__keyevent@N__:event`"""
    for channel in args:
        if _CHANNEL(channel) is None:
            raise Problem(
                "ERR only keyspace notifications are here: __keyspace@0__:key and __keyevent@0__:event; messages "
                "between clients are not part of a database"
            )
    return _listen(client, b"subscribe", client.channels, args)


def psubscribe(client: Client, args: Sequence[bytes]) -> Any:
    """PSUBSCRIBE pattern [pattern …]"""
    return _listen(client, b"psubscribe", client.patterns, args)


def unsubscribe(client: Client, args: Sequence[bytes]) -> Any:
    """UNSUBSCRIBE [channel …]"""
    return _leave(client, b"unsubscribe", client.channels, args)


def punsubscribe(client: Client, args: Sequence[bytes]) -> Any:
    """PUNSUBSCRIBE [pattern …]"""
    return _leave(client, b"punsubscribe", client.patterns, args)


def _listen(client: Client, kind: bytes, chosen: set[bytes], names: Sequence[bytes]) -> Any:
    if len(client.channels) + len(client.patterns) + len(names) > _SUBSCRIPTIONS_MAX:
        raise Problem(f"ERR a connection listens to at most {_SUBSCRIPTIONS_MAX} channels and patterns")
    for name in names:
        chosen.add(name)
        _tell(client, kind, name)
    client.changed()
    client.server.notifications.compare()
    return NO_REPLY


def _leave(client: Client, kind: bytes, chosen: set[bytes], names: Sequence[bytes]) -> Any:
    left = list(names or sorted(chosen))
    for name in left:
        chosen.discard(name)
        _tell(client, kind, name)
    if not left:
        _tell(client, kind, None)
    client.changed()
    client.server.notifications.compare()
    return NO_REPLY


def _tell(client: Client, kind: bytes, name: bytes | None) -> None:
    listening = len(client.channels) + len(client.patterns)
    client.reply_queue.emit(encode(Push([kind, name, listening]), client.protocol))


class Notifications:
    """Who listens, and the watches that feed them."""

    def __init__(self, server: RespServer) -> None:
        self._server = server
        self._listeners: dict[int, Client] = {}
        self._matches: dict[bytes, Callable[[bytes], object]] = {}
        self._watches: dict[int, asyncio.Task[None]] = {}
        self._standing: set[int] = set()

    def compare(self) -> None:
        """Somebody began or ceased to listen: watch what is listened to, and nothing else."""
        self._listeners = {
            number: client for number, client in self._server.clients.items() if client.channels or client.patterns
        }
        patterns = {pattern for client in self._listeners.values() for pattern in client.patterns}
        self._matches = {pattern: self._matches.get(pattern) or glob(pattern) for pattern in patterns}
        wanted = set(self._wanted())
        for number in wanted - self._watches.keys():
            self._watches[number] = self._server.loop.create_task(
                self._watch(number), name=f"notifications of db{number}"
            )
        for number in self._watches.keys() - wanted:
            self._watches.pop(number).cancel()
            self._standing.discard(number)

    def _wanted(self) -> Iterator[int]:
        for client in self._listeners.values():
            for channel in client.channels:
                match = _CHANNEL(channel)
                if match is not None and int(match[1]) < NUMBERS:
                    yield int(match[1])
            for pattern in client.patterns:
                match = _CHANNEL(pattern)
                if match is not None:
                    if int(match[1]) < NUMBERS:
                        yield int(match[1])
                else:
                    # Any number may be meant: those that are in use are watched.
                    yield from (
                        n for n in range(NUMBERS) if n == 0 or self._server.tables.at_hand(f"db{n}") is not None
                    )

    def watching(self, number: int) -> bool:
        """Does the watch of a numbered table stand, so that nothing from now on is missed?"""
        return number in self._standing

    def forget(self, client: Client) -> None:
        """A connection listens no more."""
        if client.channels or client.patterns:
            client.channels, client.patterns = set(), set()
            self.compare()

    async def _watch(self, number: int) -> None:
        name = DEFAULT_TABLE if number == 0 else f"db{number}"
        positions: dict[Partition, Offset] = {}
        table_id = ""
        while True:
            try:
                table = await self._server.tables.open(name)
                if table.ref.id != table_id:
                    table_id, positions = table.ref.id, {}
                events: Any = self._server.connection.watch(table.ref.id, positions)
                async with aclosing(events) as stream:
                    async for event in cast("Any", stream):
                        if event.positions is not None:
                            for partition, position in event.positions.items():
                                positions.setdefault(partition, position)
                            self._standing.add(number)
                            continue
                        self._pass_on(number, event, positions)
            except DuramenError as error:
                if isinstance(error, TableNotFound):
                    table.gone = True
                logger.info("notifications of %s begin again: %s", name, error)
                await asyncio.sleep(_PAUSE_S)

    def _pass_on(self, number: int, event: WatchEvent, positions: dict[Partition, Offset]) -> None:
        void = set(event.void_offsets)
        start = positions.get(event.partition, Offset(0))
        for data in split_batches(event.batches):
            batch = decode_batch(data)
            columns = batch.columns
            attributes = columns.attributes or (PLAIN_PUT,) * len(columns.keys)
            for offset, key, attribute in zip(batch.offsets(), columns.keys, attributes, strict=True):
                if offset < start or offset in void:
                    continue
                for name in _events(attribute):
                    self._send(number, key, name)
            positions[event.partition] = Offset(batch.header.last_offset + 1)

    def _send(self, number: int, key: bytes, name: bytes) -> None:
        for channel, text in (
            (b"__keyspace@%d__:%b" % (number, key), name),
            (b"__keyevent@%d__:%b" % (number, name), key),
        ):
            for client in list(self._listeners.values()):
                if channel in client.channels:
                    client.reply_queue.push(encode(Push([b"message", channel, text]), client.protocol))
                for pattern in client.patterns:
                    if self._matches[pattern](channel):
                        client.reply_queue.push(encode(Push([b"pmessage", pattern, channel, text]), client.protocol))

    async def close(self) -> None:
        """End every watch."""
        watches, self._watches = list(self._watches.values()), {}
        for watch in watches:
            watch.cancel()
        await asyncio.gather(*watches, return_exceptions=True)


def _events(attribute: int) -> list[bytes]:
    """What happened, in Redis' words."""
    name = _NAMES.get(Operation(attribute & OPERATION_MASK))
    if name is None:
        return []
    if attribute >> EXPIRY_SHIFT & 3 in (Expiry.TTL, Expiry.AT):
        return [name, b"expire"]
    return [name]
