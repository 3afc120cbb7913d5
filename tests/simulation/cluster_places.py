"""Users of a simulated cluster who hold watches open, and the quotas of users and of a table that bound them.

Watches open and close at any server while an administrator sets, changes and removes the quotas, and `place_ledger.py`
judges each refusal. In the end, when nothing is at fault, exactly as many are let in at once as a quota gives; a watch
that was closed, whose connection is gone, or whose table was dropped gives its place back.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import aclosing
from functools import partial
from typing import Any, Final

from duramen import aio
from log_tier.model.errors import DuramenError, Overloaded
from router.remote.grpc_connection import GrpcConnection
from simulation.book import Broken
from simulation.cluster_callers import prove
from simulation.cluster_turns import ASK_S
from simulation.cluster_world import ClusterWorld
from simulation.place_ledger import GIVEN_BACK_S, HeldPlace, PlaceLedger
from simulation.place_quotas import BOUNDS, HAS_QUOTA, bind, set_bound
from simulation.trust_turns import TARGETS, administration, is_at

__all__ = ["check_places", "open_places", "use_places"]

WATCHED: Final = "watched"
_USERS: Final = ("niaj", "olivia")
_SUBJECTS: Final = (*(f"user:{name}" for name in _USERS), f"table:{WATCHED}")
_OPENED_S: Final = 5.0
"""Within which a watch begins or ends, where nothing is at fault."""


class _BoundedWatch:
    """One watch on a connection of its own. Belongs to the task that opens it."""

    def __init__(self, world: ClusterWorld, ledger: PlaceLedger, user: str, server: str) -> None:
        self._world, self._ledger, self.user, self.server = world, ledger, user, server
        self._answered: asyncio.Future[bool] = world.loop.create_future()
        self._place: HeldPlace | None = None
        self._serving = asyncio.create_task(self._serve())

    async def is_let_in(self) -> bool:
        """Has it begun? False: a quota has refused it, or it has ended with something else. Raises `Broken`."""
        either: list[asyncio.Future[Any]] = [self._answered, self._serving]
        await asyncio.wait(either, return_when="FIRST_COMPLETED")
        if self._serving.done():
            self._serving.result()
        return self._answered.done() and self._answered.result()

    @property
    def is_open(self) -> bool:
        """Has nothing ended it?"""
        return not self._serving.done()

    async def wait_ended(self) -> None:
        """Until its server or the network has ended it. Raises `Broken`."""
        await asyncio.wait([self._serving])
        self._serving.result()

    async def close(self) -> None:
        """End it, with its connection. Idempotent. Raises `Broken`."""
        self._serving.cancel()
        await asyncio.wait([self._serving])
        if not self._serving.cancelled():
            self._serving.result()

    async def _serve(self) -> None:
        prove(self._world, self._world.tokens[self.user])
        connection = GrpcConnection(f"{self.server}:7070", pass_on=True)
        try:
            table = await connection.find_table(WATCHED, timeout=1.0)
            self._place = self._ledger.ask("watches", self.server, self.user, WATCHED)
            async with aclosing(connection.watch(table.id, {})) as events:
                async for _ in events:
                    if not self._answered.done():
                        self._answered.set_result(True)
        except Overloaded as error:
            if self._place is not None and HAS_QUOTA in error.message:
                self._ledger.refused(self._place, error.message)
        except DuramenError:
            pass  # the server, the table or the network has gone
        finally:
            await connection.close()
            if self._place is not None:
                self._ledger.closed(self._place)


async def open_places(world: ClusterWorld) -> None:
    """Make the users, who have no quotas yet, and their table. No fault has begun."""
    if not world.has_places or world.has_endpoints:
        return
    await _create_table()
    async with administration("router") as users:
        for name in _USERS:
            added = await users.add_user(name, grants=[f"read {WATCHED}"], with_token=True)
            world.tokens[name] = added.token
    for catalog in world.catalogs.values():
        await catalog.wait_for(partial(is_at, added.version))


async def _create_table() -> None:
    async with await aio.connect("router:7070", timeout=ASK_S) as database:
        await database.create_table(WATCHED, partitions=1)


async def use_places(world: ClusterWorld, stop: asyncio.Event) -> None:
    """Users watch, and quotas come and go, until `stop` is set."""
    if not world.has_places or world.has_endpoints:
        return
    working = [asyncio.create_task(_change_quotas(world, stop))]
    working += [asyncio.create_task(_watch_on(world, name, stop)) for name in _USERS]
    try:
        await asyncio.gather(*working)
    finally:
        for task in working:
            task.cancel()


async def _change_quotas(world: ClusterWorld, stop: asyncio.Event) -> None:
    chance = random.Random(f"changes of places {world.plan.seed}")
    pause_s = chance.choice((0.3, 1.0))
    while not stop.is_set():
        await set_bound(world, "watches", chance.choice(_SUBJECTS), chance.choice(BOUNDS), chance.choice(TARGETS))
        await asyncio.sleep(chance.random() * 2 * pause_s)


async def _watch_on(world: ClusterWorld, user: str, stop: asyncio.Event) -> None:
    chance = random.Random(f"watches of {user} {world.plan.seed}")
    favourite = chance.choice(TARGETS)
    watches: list[_BoundedWatch] = []
    try:
        while not stop.is_set():
            if len(watches) > 3 or (watches and chance.random() < 0.3):
                await watches.pop(chance.randrange(len(watches))).close()
            else:
                server = favourite if chance.random() < 0.7 else chance.choice(TARGETS)
                watches.append(_BoundedWatch(world, world.places, user, server))
            await asyncio.sleep(chance.random() * 0.2)
    finally:
        for each in watches:
            await each.close()


async def check_places(world: ClusterWorld) -> None:
    """When all is level and nothing is at fault: as many watches are open at a server as a quota gives. Raises
    `Broken`.
    """
    if not world.has_places or world.has_endpoints:
        return
    chance = random.Random(f"places at the end {world.plan.seed}")
    for subject in _SUBJECTS:
        await bind(world, "watches", subject, 0, chance.choice(TARGETS))
    for number, subject in enumerate(chance.sample(_SUBJECTS, 2)):
        await _fill(world, chance, subject, drops=number == 1)


async def _fill(world: ClusterWorld, chance: random.Random, subject: str, *, drops: bool) -> None:
    """Take all places of a quota at a server, give some back, and take them again."""
    bound, name = chance.choice((1, 2, 3)), chance.choice(TARGETS)
    held: list[_BoundedWatch] = []

    async def take(most: int) -> None:
        """Open more than there is room for, all at once: so many are open then."""
        await asyncio.sleep(GIVEN_BACK_S)
        users = [chance.choice(_USERS) if subject.startswith("table:") else subject[5:] for _ in range(bound + 2)]
        opened = [_BoundedWatch(world, world.places, user, name) for user in users]
        async with asyncio.timeout_at(world.loop.time() + _OPENED_S):
            let_in = [each for each in opened if await each.is_let_in()]
        held.extend(let_in)
        if len(held) != most:
            said = "bounded" if len(held) > most else "given back"
            raise Broken(said, f"{name} has let in {len(held)} watches where {subject} has a quota of {most}")
        world.story.met["places: all taken"] += 1

    try:
        await bind(world, "watches", subject, bound, chance.choice(TARGETS))
        await take(bound)
        for _ in range(chance.randrange(1, bound + 1)):
            await held.pop(chance.randrange(len(held))).close()
        await take(bound)
        world.network.reset("clients", name)
        await asyncio.sleep(GIVEN_BACK_S)
        if any(each.is_open for each in held):
            raise Broken("ends", f"a watch at {name} goes on without its connection")
        held.clear()
        await take(bound)
        if drops:
            await _drop(world, held)
            await take(bound)
        await bind(world, "watches", subject, 0, chance.choice(TARGETS))
        await take(len(held) + bound + 2)
    finally:
        for each in held:
            await each.close()


async def _drop(world: ClusterWorld, held: list[_BoundedWatch]) -> None:
    """Drop the table under its watches, and make another one of that name, which has the same quota."""
    async with await aio.connect("router:7070", timeout=ASK_S) as database:
        await database.drop_table(WATCHED)
        async with asyncio.timeout_at(world.loop.time() + _OPENED_S):
            for each in held:
                await each.wait_ended()
        held.clear()
        await database.create_table(WATCHED, partitions=1)
    for name in TARGETS:
        await world.catalogs[name].wait_for(lambda cluster: cluster.named(WATCHED) is not None)
