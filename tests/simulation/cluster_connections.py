"""Users of the Redis protocol of a simulated cluster whose quotas bound the connections that they have open.

Connections open, change their user and end at any endpoint while an administrator sets, changes and removes the
quotas, and `place_ledger.py` judges each refusal. In the end, when nothing is at fault, exactly as many proofs are
taken at once as a quota gives, also after connections were closed, reset, or became another user's.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from functools import partial
from typing import Final

from duramen.testing.machine.resp_words import RawError
from duramen.testing.machine.simulated_wire import WireClient, WireCut
from simulation.book import Broken
from simulation.cluster_world import ClusterWorld, auth_of
from simulation.place_ledger import GIVEN_BACK_S, HeldPlace
from simulation.place_quotas import BOUNDS, HAS_QUOTA, bind, set_bound
from simulation.trust_turns import TARGETS, administration, is_at

__all__ = ["check_connections", "open_connections", "use_connections"]

_USERS: Final = ("peggy", "rupert")
_PATIENCE_S: Final = 2.0
"""Who waits for a server that is down, or for a reply over a cut link, tries another one."""


class _BoundedWire:
    """A connection to one endpoint that is nobody's yet."""

    def __init__(self, world: ClusterWorld, server: str, client: WireClient) -> None:
        self._world, self.server, self._client = world, server, client
        self._places: list[HeldPlace] = []
        """That it may have."""
        self.user = ""
        """Whose it is."""

    @classmethod
    async def connect(cls, world: ClusterWorld, chance: random.Random, server: str) -> _BoundedWire:
        """Connect, and prove nothing."""
        return cls(world, server, await world.wired(chance, server))

    @property
    def is_open(self) -> bool:
        """Has nothing ended it?"""
        return not self._client.ended.is_set()

    async def prove(self, chance: random.Random, user: str) -> bool:
        """Become a user's connection; False: a quota has refused that, and it stays whose it was. Raises `Broken`, and
        `WireCut`.
        """
        if user == self.user:
            (reply,) = await self._client.call([auth_of(chance, user, self._world.tokens[user])])
            self._world.story.met["places: proved anew"] += 1
            if isinstance(reply, RawError):
                raise Broken("given back", f"{self.server} refused another proof of {user}, whose it is: {reply.text}")
            return True
        place = self._world.places.ask("connections", self.server, user)
        self._places.append(place)
        (reply,) = await self._client.call([auth_of(chance, user, self._world.tokens[user])])
        if isinstance(reply, RawError):
            if HAS_QUOTA not in reply.text:
                raise Broken("granted", f"{self.server} refuses the token of {user}: {reply.text}")
            self._places.remove(place)
            self._world.places.refused(place, reply.text)
            return False
        for each in self._places:
            if each is not place:
                self._world.places.closed(each)
        self._places, self.user = [place], user
        return True

    def close(self) -> None:
        """End the connection. Idempotent."""
        self._client.close()
        for each in self._places:
            self._world.places.closed(each)


async def open_connections(world: ClusterWorld) -> None:
    """Make the users, who have no quotas yet. No fault has begun."""
    if not (world.has_places and world.has_endpoints):
        return
    async with administration("router") as users:
        for name in _USERS:
            added = await users.add_user(name, with_token=True)
            world.tokens[name] = added.token
    for catalog in world.catalogs.values():
        await catalog.wait_for(partial(is_at, added.version))


async def use_connections(world: ClusterWorld, stop: asyncio.Event) -> None:
    """Users connect, and quotas come and go, until `stop` is set."""
    if not world.has_places:
        return
    working = [asyncio.create_task(_change_quotas(world, stop))]
    working += [asyncio.create_task(_connect_on(world, number, stop)) for number in range(2)]
    try:
        await asyncio.gather(*working)
    finally:
        for task in working:
            task.cancel()


async def _change_quotas(world: ClusterWorld, stop: asyncio.Event) -> None:
    chance = random.Random(f"changes of connections {world.plan.seed}")
    pause_s = chance.choice((0.3, 1.0))
    while not stop.is_set():
        subject = f"user:{chance.choice(_USERS)}"
        await set_bound(world, "connections", subject, chance.choice(BOUNDS), chance.choice(TARGETS))
        await asyncio.sleep(chance.random() * 2 * pause_s)


async def _connect_on(world: ClusterWorld, number: int, stop: asyncio.Event) -> None:
    """Connections of both users, most of them at one server."""
    chance = random.Random(f"connections {number} {world.plan.seed}")
    favourite = chance.choice(TARGETS)
    wires: list[_BoundedWire] = []
    try:
        while not stop.is_set():
            with suppress(WireCut, TimeoutError):
                async with asyncio.timeout_at(world.loop.time() + _PATIENCE_S):
                    if len(wires) > 3 or (wires and chance.random() < 0.3):
                        wires.pop(chance.randrange(len(wires))).close()
                    elif wires and chance.random() < 0.3:
                        await chance.choice(wires).prove(chance, chance.choice(_USERS))
                    else:
                        server = favourite if chance.random() < 0.7 else chance.choice(TARGETS)
                        wires.append(await _BoundedWire.connect(world, chance, server))
                        await wires[-1].prove(chance, chance.choice(_USERS))
            for gone in [each for each in wires if not each.is_open]:
                gone.close()
                wires.remove(gone)
            await asyncio.sleep(chance.random() * 0.2)
    finally:
        for each in wires:
            each.close()


async def check_connections(world: ClusterWorld) -> None:
    """When all is level and nothing is at fault: as many connections are open as a quota gives. Raises `Broken`."""
    if not (world.has_places and world.has_endpoints):
        return
    chance = random.Random(f"connections at the end {world.plan.seed}")
    for user in _USERS:
        await bind(world, "connections", f"user:{user}", 0, chance.choice(TARGETS))
    for user in chance.sample(_USERS, 2):
        await _fill(world, chance, user)


async def _fill(world: ClusterWorld, chance: random.Random, user: str) -> None:
    """Take all places of a quota at a server, give some back, and take them again."""
    bound, name = chance.choice(BOUNDS[1:]), chance.choice(TARGETS)
    other = next(each for each in _USERS if each != user)
    held: list[_BoundedWire] = []
    opened: list[_BoundedWire] = []

    async def take(most: int) -> None:
        """Prove more than there is room for, all at once: so many are the user's then."""
        await asyncio.sleep(GIVEN_BACK_S)
        wires = [await _BoundedWire.connect(world, chance, name) for _ in range(bound + 2)]
        opened.extend(wires)
        proved = await asyncio.gather(*(each.prove(chance, user) for each in wires))
        held.extend(wire for wire, is_proved in zip(wires, proved, strict=True) if is_proved)
        if len(held) != most:
            said = "bounded" if len(held) > most else "given back"
            raise Broken(said, f"{name} has let in {len(held)} connections where {user} has a quota of {most}")
        world.story.met["places: all taken"] += 1

    try:
        await bind(world, "connections", f"user:{user}", bound, chance.choice(TARGETS))
        await take(bound)
        for _ in range(chance.randrange(1, bound + 1)):
            held.pop(chance.randrange(len(held))).close()
        await take(bound)
        await held[-1].prove(chance, user)
        await held.pop().prove(chance, other)
        await take(bound)
        world.network.reset("clients", name)
        held.clear()
        await take(bound)
        await bind(world, "connections", f"user:{user}", 0, chance.choice(TARGETS))
        await take(len(held) + bound + 2)
    finally:
        for each in opened:
            each.close()
