"""Clients that listen to keyspace notifications, and what they must hear: N1 of `router/endpoints/resp/data`."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any, Final, NamedTuple

from kit.resp.raw_client import RawError

from duramen.testing.machine.simulated_wire import WireClient, WireCut
from simulation.book import Broken

__all__ = ["Listeners"]

_LEVEL_S: Final = 60.0
"""So long after the last write a change that was not reported never will be."""
_LOOK_S: Final = 0.1
_AGAIN_S: Final = 0.2

_PATTERNS: Final = (b"__keyspace@0__:*", b"__keyevent@0__:*", b"__keyspace@*")

_EVENTS: Final = {b"INCR": b"set", b"SET": b"set", b"SETNX": b"set", b"APPEND": b"set", b"DEL": b"del"}

Change = tuple[bytes, bytes]
"""A key, and what happened to it."""


class _Write(NamedTuple):
    """One command that was sent."""

    change: Change
    sent_s: float
    is_certain: bool
    """It was acknowledged; else nobody knows."""


class Listeners:
    """The listeners of one run, and the writes that they may hear of."""

    def __init__(self, world: Any) -> None:
        self._world = world
        chance = random.Random(f"listeners {world.plan.seed}")
        self._writes: list[_Write] = []
        self._listeners = [
            _Listener(world, number, random.Random(chance.getrandbits(32)))
            for number in range(chance.choice((0, 1, 3)))
        ]
        self._tasks = [asyncio.create_task(each.run()) for each in self._listeners]

    def wrote(self, command: tuple[bytes, ...], sent_s: float, outcome: str, reply: Any) -> None:
        """A command was sent; `outcome` as of a write: granted, denied, refused or unknown."""
        event = _EVENTS.get(command[0])
        if event is None or outcome in ("denied", "refused") or (command[0] == b"SETNX" and reply == 0):
            return
        is_certain = outcome == "granted" and not (event == b"del" and reply == 0)
        self._writes.append(_Write((command[1], event), sent_s, is_certain))

    async def check(self) -> None:
        """Wait until everybody has heard of everything. Raises `Broken`."""
        until_s = self._world.loop.time() + _LEVEL_S
        while missing := [words for each in self._listeners if (words := each.missing(self._writes))]:
            if self._world.loop.time() > until_s:
                raise Broken("notified", missing[0])
            await asyncio.sleep(_LOOK_S)
        for each in self._listeners:
            each.check_true(self._writes)
        await self.end()

    async def end(self) -> None:
        """Listen no more. Idempotent."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class _Listener:
    """One program that listens. It connects again when its connection ends; what came meanwhile it misses."""

    def __init__(self, world: Any, number: int, chance: random.Random) -> None:
        self._world, self._number, self._chance = world, number, chance
        self._confirmed_s: float | None = None
        """When the present subscription was confirmed."""
        self._heard: Counter[Change] = Counter()
        """Since then."""

    async def run(self) -> None:
        """Listen for ever."""
        while True:
            client = await self._world.connected(self._chance)
            try:
                await self._listen(client, self._chance.choice(_PATTERNS))
            except WireCut:
                self._world.story.tell(f"listener {self._number}", "is cut off")
            finally:
                self._confirmed_s = None
                self._heard.clear()
                client.close()
            await asyncio.sleep(_AGAIN_S)

    async def _listen(self, client: WireClient, pattern: bytes) -> None:
        (confirmed,) = await client.call([(b"PSUBSCRIBE", pattern)])
        if isinstance(confirmed, RawError):
            return
        self._confirmed_s = self._world.loop.time()
        self._world.story.tell(f"listener {self._number}", f"listens to {pattern!r}")
        lasts_s = self._world.loop.time() + self._chance.choice((2.0, 1e9, 1e9))
        while self._world.loop.time() < lasts_s:
            _, _, channel, text = await client.heard()
            name = channel.partition(b":")[2]
            key, event = (name, text) if channel.startswith(b"__keyspace@") else (text, name)
            # An APPEND that makes the key is a `set`.
            self._heard[key, b"set" if event == b"append" else event] += 1
            self._world.story.met["notified"] += 1

    def missing(self, writes: list[_Write]) -> str:
        """What was acknowledged after the confirmation and is not reported; empty: nothing."""
        if self._confirmed_s is None:
            return ""
        due = Counter(each.change for each in writes if each.is_certain and each.sent_s >= self._confirmed_s)
        missing = sorted((due - self._heard).items())
        return f"listener {self._number} has not heard of {missing[:3]}" if missing else ""

    def check_true(self, writes: list[_Write]) -> None:
        """Each write is reported at most once, also those that a server which lags reports late. Raises `Broken`."""
        possible = Counter(each.change for each in writes)
        heard = Counter({change: count for change, count in self._heard.items() if _is_counted(change)})
        if more := sorted((heard - possible).items()):
            raise Broken("notified", f"listener {self._number} has heard of {more[:3]}, which nobody wrote so often")


def _is_counted(change: Change) -> bool:
    """Keys that are written in transactions are not counted."""
    return change[0].startswith((b"count", b"log", b"lock", b"own"))
