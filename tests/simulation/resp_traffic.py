"""Clients of the Redis protocol at a database of the simulation: pipelines on shared keys, and what came of them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Final, Protocol

from kit.resp.raw_client import RawError

from duramen.testing.machine.simulated_loop import SimulatedLoop
from duramen.testing.machine.simulated_wire import WireClient, WireCut
from duramen.testing.machine.story import RunStory
from log_tier.model.identifiers import NOTHING
from simulation.database_rows import with_rows
from simulation.database_world import DatabaseWorld
from simulation.plan import Plan
from simulation.resp_ledger import Ledger, Versions
from simulation.resp_listeners import Listeners

__all__ = ["RespWorld", "finals", "pipelines", "resp_traffic"]

_SECONDS: Final = 6.0
_CALM_S: Final = 60.0
"""So long after the faults a call that is not answered never will be."""
_LEVEL_S: Final = 2.0
"""After so long an endpoint shows what was written at another one."""
_TAGS: Final = 2
"""Shared keys have so many tags: with several partitions, commands of one tag share one."""

OnReply = Callable[[Any], None]
"""What a reply means. None in its place: nobody knows."""


class _Unheard:
    """In the place of a reply that did not come."""


_UNHEARD: Final = _Unheard()


class RespWorld(Protocol):
    """What clients of the Redis protocol see of a world."""

    plan: Plan
    loop: SimulatedLoop
    story: RunStory

    async def connected(self, chance: random.Random, at: str = "") -> WireClient:
        """A connection to one of its endpoints, or to that of one process."""
        ...

    def stop(self) -> None:
        """An endpoint has said that its log takes no writes: its operator starts it again."""
        ...


async def resp_traffic(world: DatabaseWorld) -> None:
    """The clients, the plan's faults meanwhile, and the check at the end."""
    ledger = Ledger()
    async with pipelines(world, ledger, partial(with_rows, world), calm_s=_CALM_S) as chance:
        await asyncio.sleep(_LEVEL_S)
        ledger.check(await finals(world, ledger, chance))


@asynccontextmanager
async def pipelines(
    world: RespWorld, ledger: Ledger, faults: Callable[[asyncio.Event], Coroutine[Any, Any, None]], *, calm_s: float
) -> AsyncIterator[random.Random]:
    """Clients and faults until both are over; then the block, `calm_s` at most after the last pipeline began."""
    stop = asyncio.Event()
    happening = asyncio.create_task(faults(stop))
    chance = random.Random(f"resp {world.plan.seed}")
    count, watches = chance.choice((1, 2, 4)), chance.choice((0.0, 0.2, 0.9))
    listeners = Listeners(world)
    programs = [
        _RespClient(world, ledger, listeners, number, random.Random(chance.getrandbits(32)), watches=watches)
        for number in range(count)
    ]
    clients = [asyncio.create_task(program.run(stop)) for program in programs]
    try:
        await asyncio.sleep(_SECONDS)
        stop.set()
        async with asyncio.timeout_at(world.loop.time() + calm_s):
            await asyncio.gather(happening, *clients)
            await listeners.check()
            yield chance
    finally:
        await listeners.end()
        for task in (happening, *clients):
            task.cancel()
        await asyncio.gather(happening, *clients, return_exceptions=True)


async def finals(world: RespWorld, ledger: Ledger, chance: random.Random, at: str = "") -> dict[bytes, bytes | None]:
    """What the keys of the ledger hold, by one endpoint."""
    keys = ledger.keys()
    while True:
        client = await world.connected(chance, at)
        with suppress(WireCut):
            found = await client.call([(b"GET", key) for key in keys])
            client.close()
            if not any(isinstance(each, RawError) for each in found):
                return dict(zip(keys, found, strict=True))
        await asyncio.sleep(0.1)


class _RespClient:
    """One program: it connects again when its connection ends, and writes keys of its own from then on."""

    def __init__(
        self,
        world: RespWorld,
        ledger: Ledger,
        listeners: Listeners,
        number: int,
        chance: random.Random,
        *,
        watches: float,
    ) -> None:
        """`watches`: how many of its calls are optimistic increments, of one. By WATCH, or by versions."""
        self._optimistic = (self._watched, self._versioned)[number % 2]
        self._versions = Versions()
        self._world, self._ledger, self._listeners = world, ledger, listeners
        self._number, self._chance = number, chance
        self._watches = watches
        self._connection = 0
        self._written = 0
        self._most = chance.choice((1, 4, 30))
        self._pause_s = chance.choice((0.0, 0.01, 0.2))
        kinds = (self._incr, self._append, self._lock, self._set, self._get, self._delete, self._pair, self._both)
        self._weights = [chance.choice((0, 1, 3)) for _ in kinds]
        self._weights[0] += 1
        self._kinds = kinds

    async def run(self, stop: asyncio.Event) -> None:
        """Pipelines until `stop`."""
        while not stop.is_set():
            self._connection += 1
            client = await self._world.connected(self._chance)
            try:
                while not stop.is_set():
                    if self._chance.random() < self._watches:
                        await self._optimistic(client)
                    else:
                        await self._pipeline(client)
                    if self._chance.random() < 0.01:
                        break  # a client that goes away with nothing under way
                    await asyncio.sleep(self._pause_s * self._chance.random())
            except WireCut:
                self._world.story.met["connection cut"] += 1
            client.close()

    # --- pipelines

    async def _pipeline(self, client: WireClient) -> None:
        commands: list[tuple[bytes, ...]] = []
        on_replies: list[OnReply] = []
        for _ in range(self._chance.randrange(1, self._most + 1)):
            for command, on_reply in self._chance.choices(self._kinds, self._weights)[0]():
                commands.append(command)
                on_replies.append(on_reply)
        await self._call(client, commands, on_replies)

    async def _call(self, client: WireClient, commands: list[tuple[bytes, ...]], on_replies: list[OnReply]) -> None:
        """Send, and tell the ledger what each reply means; what was not answered is unknown."""
        if self._chance.random() < 0.02:
            self._world.loop.call_later(self._chance.random() * 0.005, client.close)
        slow_s = self._chance.random() if self._chance.random() < 0.02 else 0.0
        cut: WireCut | None = None
        sent_s = self._world.loop.time()
        try:
            replies = await client.call(commands, slow_s=slow_s)
        except WireCut as error:
            cut, replies = error, error.replies
        replies = [*replies, *[_UNHEARD] * (len(commands) - len(replies))]
        in_transaction = False
        for command, reply, on_reply in zip(commands, replies, on_replies, strict=True):
            in_transaction = command[0] == b"MULTI" or (in_transaction and command[0] != b"EXEC")
            self._world.story.tell(f"client {self._number}", f"{b' '.join(command)!r} {_said(reply)}")
            self._world.story.met[f"answer {_kind(reply)}"] += 1
            on_reply(reply)
            if not in_transaction:
                self._listeners.wrote(command, sent_s, _outcome(reply), reply)
        if any(_kind(reply) in ("MISCONF", "WRITEUNKNOWN") for reply in replies):
            self._world.stop()
        if cut is not None:
            raise cut

    # --- commands: what is sent, and what a reply to it means

    def _key(self, kind: str) -> bytes:
        return b"%s{%d}" % (kind.encode(), self._chance.randrange(_TAGS))

    def _value(self) -> bytes:
        self._written += 1
        return b"%d.%d" % (self._number, self._written)

    def _incr(self) -> list[tuple[tuple[bytes, ...], OnReply]]:
        key = self._key("count")

        def on_reply(reply: Any) -> None:
            if isinstance(reply, int):
                self._ledger.counted(key, reply)
            elif _outcome(reply) == "unknown":
                self._ledger.count_unknown(key)

        return [((b"INCR", key), on_reply)]

    def _append(self) -> list[tuple[tuple[bytes, ...], OnReply]]:
        key, token = self._key("log"), self._value()
        return [((b"APPEND", key, token + b";"), lambda reply: self._ledger.appended(key, token, _outcome(reply)))]

    def _lock(self) -> list[tuple[tuple[bytes, ...], OnReply]]:
        key, who = b"lock{%d}%d" % (self._chance.randrange(_TAGS), self._world.loop.time() * 20), self._value()
        return [((b"SETNX", key, who), lambda reply: self._ledger.locked(key, who, _outcome(reply, denied=0)))]

    def _own(self) -> bytes:
        return b"own%d.%d.%d" % (self._number, self._connection, self._chance.randrange(3))

    def _set(self) -> list[tuple[tuple[bytes, ...], OnReply]]:
        key, value = self._own(), self._value()
        return [((b"SET", key, value), lambda reply: self._ledger.wrote(key, value, _outcome(reply)))]

    def _delete(self) -> list[tuple[tuple[bytes, ...], OnReply]]:
        key = self._own()

        def on_reply(reply: Any) -> None:
            if reply == 0:
                self._ledger.read(key, None)  # nothing was there, and nothing was written
            else:
                self._ledger.wrote(key, None, _outcome(reply))

        return [((b"DEL", key), on_reply)]

    def _get(self) -> list[tuple[tuple[bytes, ...], OnReply]]:
        key = self._own()

        def on_reply(reply: Any) -> None:
            if not isinstance(reply, RawError | _Unheard):
                self._ledger.read(key, reply)

        return [((b"GET", key), on_reply)]

    def _pair(self) -> list[tuple[tuple[bytes, ...], OnReply]]:
        """Two keys in one transaction."""
        tag, value = self._chance.randrange(_TAGS), self._value()
        keys = [b"%b{%d}" % (side, tag) for side in (b"left", b"right")]
        return [
            ((b"MULTI",), _nothing),
            *(((b"SET", key, value), _nothing) for key in keys),
            ((b"EXEC",), _nothing),
        ]

    def _both(self) -> list[tuple[tuple[bytes, ...], OnReply]]:
        tag = self._chance.randrange(_TAGS)
        keys = [b"%b{%d}" % (side, tag) for side in (b"left", b"right")]

        def on_reply(reply: Any) -> None:
            if isinstance(reply, list):
                self._ledger.pair(keys, reply)

        return [((b"MGET", *keys), on_reply)]

    async def _watched(self, client: WireClient) -> None:
        """Add one to what was read, if nobody wrote it meanwhile."""
        key = self._key("optimistic")
        found: list[Any] = []
        await self._call(client, [(b"WATCH", key), (b"GET", key)], [found.append] * 2)
        if any(isinstance(each, RawError) for each in found):
            return
        value = int(found[1] or 0) + 1

        def on_reply(reply: Any) -> None:
            if isinstance(reply, list):
                self._ledger.counted(key, value)
            elif _outcome(reply, denied=None) == "unknown":
                self._ledger.count_unknown(key)

        commands = [(b"MULTI",), (b"SET", key, b"%d" % value), (b"EXEC",)]
        await self._call(client, commands, [_nothing, _nothing, on_reply])

    async def _versioned(self, client: WireClient) -> None:
        """Add one to each of some keys, under the versions that were read. And write a key of its own under the version
        that its last write was given, by two connections in turn.
        """
        keys = [self._key("versioned"), self._key("versioned")]
        found: list[Any] = []
        await self._call(client, [(b"DURAMEN.GETV", key) for key in keys], [found.append] * 2)
        if not any(isinstance(each, RawError) for each in found):
            commands: list[tuple[bytes, ...]] = []
            on_replies: list[OnReply] = []
            for key, each in zip(keys, found, strict=True):
                value, version = (int(each[0]) + 1, each[1]) if each else (1, NOTHING)
                commands.append((b"DURAMEN.SETV", key, b"%d" % value, b"%d" % version))
                on_replies.append(partial(self._counted_by_version, key, value))
            await self._call(client, commands, on_replies)
        other = await self._world.connected(self._chance)
        try:
            for each in (client, other) * 3:
                await self._write_over(each)
        finally:
            other.close()

    async def _write_over(self, client: WireClient) -> None:
        """Write a key that nobody else writes, under its version as far as that is known."""
        mine = b"mine%d" % self._number
        found: list[Any] = []
        if self._versions.version is None:
            await self._call(client, [(b"DURAMEN.GETV", mine)], [found.append])
        shown = found[0][1] if found and isinstance(found[0], list) else NOTHING
        version, is_sure = self._versions.asks(shown)
        asked = (b"DURAMEN.SETV", mine, self._value(), b"%d" % version)
        outcome = partial(_outcome, denied=None)
        await self._call(client, [asked], [lambda reply: self._versions.answered(reply, outcome(reply), sure=is_sure)])

    def _counted_by_version(self, key: bytes, value: int, reply: Any) -> None:
        outcome = _outcome(reply, denied=None)
        if outcome == "granted":
            self._ledger.counted(key, value)
        elif outcome == "unknown":
            self._ledger.count_unknown(key)


def _nothing(reply: Any) -> None:
    """A reply from which nothing follows."""


def _outcome(reply: Any, *, denied: Any = _UNHEARD) -> str:
    """What a reply says of a write: granted, denied, refused (nothing was written) or unknown."""
    if isinstance(reply, _Unheard):
        return "unknown"
    if isinstance(reply, RawError):
        return "unknown" if _kind(reply) == "WRITEUNKNOWN" else "refused"
    return "denied" if reply == denied else "granted"


def _kind(reply: Any) -> str:
    if isinstance(reply, _Unheard):
        return "nothing"
    return reply.text.partition(" ")[0] if isinstance(reply, RawError) else "ok"


def _said(reply: Any) -> str:
    return "is not answered" if isinstance(reply, _Unheard) else repr(reply)
