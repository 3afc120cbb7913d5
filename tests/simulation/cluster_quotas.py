"""Users of a simulated cluster with quotas, which an administrator sets, changes and removes while they call.

Each user has calls of gRPC at any server, and where there are endpoints of the Redis protocol, a connection there as
well: both take of the same quota. `quota_ledger.py` judges every answer. In the end, when nothing is at fault, users
use up quotas at some servers, and what a quota has refused must be nowhere.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from functools import partial
from typing import Final

from duramen import aio
from duramen.testing.machine.simulated_wire import WireCut
from log_tier.model.errors import DuramenError
from router.admin.users.users_client import UsersConnection
from router.proto import users_pb2 as pb
from simulation.book import Broken
from simulation.cluster_turns import ASK_S
from simulation.cluster_world import ClusterWorld
from simulation.metered_calls import MeteredCaller, MeteredWire
from simulation.quota_ledger import QuotaLedger
from simulation.trust_turns import IN_FORCE_S, TARGETS, administration, change_trust, is_at

__all__ = [
    "MeteredSession",
    "call_on",
    "check_effects",
    "check_quotas",
    "drawn_bounds",
    "open_quotas",
    "send_on",
    "use_quotas",
]

_METERED: Final = ("erin", "frank")
"""Who has a quota now and then."""
_FREE: Final = "grace"
"""Who never has one."""
_PATIENCE_S: Final = 3.0
"""More than the second for which a connection is not listened to."""
_ROUNDS: Final = 2


async def open_quotas(world: ClusterWorld) -> None:
    """Make the users, who have no quotas yet, and their table. No fault has begun."""
    if not world.has_quotas:
        return
    async with await aio.connect("router:7070", timeout=ASK_S) as database:
        await database.create_table(world.ledger.table, partitions=2)
    async with administration("router") as users:
        for name in (*_METERED, _FREE):
            added = await users.add_user(name, grants=[f"read,write {world.ledger.table}"], with_token=True)
            world.tokens[name] = added.token
    for catalog in world.catalogs.values():
        await catalog.wait_for(partial(is_at, added.version))


async def use_quotas(world: ClusterWorld, stop: asyncio.Event) -> None:
    """Users call, and quotas come and go, until `stop` is set."""
    if not world.has_quotas:
        return
    working = [asyncio.create_task(_change_quotas(world, stop))]
    for name in (*_METERED, _FREE):
        working.append(asyncio.create_task(call_on(world, world.ledger, name, stop)))
        if world.has_endpoints:
            working.append(asyncio.create_task(send_on(world, world.ledger, name, stop)))
    try:
        await asyncio.gather(*working)
    finally:
        for task in working:
            task.cancel()


def drawn_bounds(chance: random.Random) -> pb.QuotaBounds:
    """Of one kind or of several."""
    calls, size_in, size_out = (chance.random() < 0.5 for _ in range(3))
    return pb.QuotaBounds(
        calls_s=chance.choice((2, 5, 15)) if calls or not (size_in or size_out) else 0,
        bytes_in_s=chance.choice((100, 600)) if size_in else 0,
        bytes_out_s=chance.choice((100, 600)) if size_out else 0,
    )


async def _set_quota(world: ClusterWorld, user: str, bounds: pb.QuotaBounds, target: str) -> int:
    """The version; see `change_trust`."""

    async def change(users: UsersConnection) -> int:
        return await users.set_quota(user=user, quota=bounds)

    words = ", ".join(f"{field.name} {value}" for field, value in bounds.ListFields()) or "none"
    return await change_trust(world, "quota", f"{words} for {user}", target, change)


async def _change_quotas(world: ClusterWorld, stop: asyncio.Event) -> None:
    chance = random.Random(f"changes of quotas {world.plan.seed}")
    pause_s = chance.choice((0.3, 1.0))
    while not stop.is_set():
        user, target = chance.choice(_METERED), chance.choice(TARGETS)
        bounds = pb.QuotaBounds() if chance.random() < 0.3 else drawn_bounds(chance)
        await _set_quota(world, user, bounds, target)
        await asyncio.sleep(chance.random() * 2 * pause_s)


async def _pause(
    world: ClusterWorld, ledger: QuotaLedger, chance: random.Random, user: str, name: str, heeds: float
) -> None:
    """After a refusal a caller often waits as long as it was told; else it goes on soon."""
    over_s = ledger.wait_of(name, user)
    if over_s is not None and chance.random() < heeds:
        await asyncio.sleep(max(0.0, over_s - world.loop.time()))
    else:
        await asyncio.sleep(chance.choice((0.0, 0.005, 0.05)) * chance.random())


async def call_on(world: ClusterWorld, ledger: QuotaLedger, user: str, stop: asyncio.Event) -> None:
    """Call by gRPC at any server until `stop` is set. What is called is in the ledger."""
    chance = random.Random(f"metered calls of {user} {world.plan.seed}")
    while not stop.is_set():
        name, heeds = chance.choice(TARGETS), chance.choice((0.2, 0.9))
        with suppress(DuramenError):
            async with MeteredCaller(world, ledger, user, name) as caller:
                is_connected = chance.random() < 0.6
                if is_connected:
                    await caller.connect()
                for _ in range(chance.choice((5, 25))):
                    if stop.is_set():
                        return
                    what = chance.random()
                    if not is_connected or what < 0.4:
                        await caller.ask()
                    elif what < 0.5:
                        await caller.get()
                    else:
                        await caller.put(chance.choice((1, 50, 300)), timeout=chance.choice((0.03, 0.3)))
                    await _pause(world, ledger, chance, user, name, heeds)
        await asyncio.sleep(chance.random() * 0.5)


async def send_on(world: ClusterWorld, ledger: QuotaLedger, user: str, stop: asyncio.Event) -> None:
    """Send pipelines of the Redis protocol to any server until `stop` is set. What is sent is in the ledger."""
    chance = random.Random(f"metered pipelines of {user} {world.plan.seed}")
    while not stop.is_set():
        name, heeds = chance.choice(TARGETS), chance.choice((0.2, 0.9))
        # Who waits for a server that is down, or for a write that no log takes, tries another one.
        with suppress(WireCut, TimeoutError):
            async with asyncio.timeout_at(world.loop.time() + _PATIENCE_S):
                wire = await MeteredWire.connect(world, ledger, chance, user, name)
            try:
                for _ in range(chance.choice((5, 25))):
                    if stop.is_set():
                        return
                    async with asyncio.timeout_at(world.loop.time() + _PATIENCE_S):
                        await wire.call(chance, most=chance.choice((1, 1, 4)))
                    await _pause(world, ledger, chance, user, name, heeds)
            finally:
                wire.close()
        await asyncio.sleep(chance.random() * 0.5)


async def check_quotas(world: ClusterWorld) -> None:
    """When all is level and nothing is at fault: quotas are used up at some servers, and removed, and none is in force
    within `IN_FORCE_S` any more. What quotas have refused is nowhere. Raises `Broken`.
    """
    if not world.has_quotas:
        return
    chance = random.Random(f"quotas at the end {world.plan.seed}")
    for user in _METERED:
        await _changed(world, user, pb.QuotaBounds(), chance.choice(TARGETS))
    for name in chance.sample(TARGETS, _ROUNDS):
        await asyncio.gather(_use_one(world, chance, name), _be_free(world, chance, name))
    await check_effects(world, world.ledger)


async def _use_one(world: ClusterWorld, chance: random.Random, name: str) -> None:
    """A user gets a quota, uses it up at a server, and loses it again, over open connections."""
    user, bounds = chance.choice(_METERED), drawn_bounds(chance)
    async with MeteredSession(world, world.ledger, user, name) as session:
        await session.open(chance)
        version = await _changed(world, user, bounds, chance.choice(TARGETS))
        await world.catalogs[name].wait_for(partial(is_at, version))
        await session.use_up(chance, 25 + 2 * bounds.calls_s)
        await _changed(world, user, pb.QuotaBounds(), chance.choice(TARGETS))
        await asyncio.sleep(IN_FORCE_S)
        if refused := await session.use_up(chance, 20):
            raise Broken("unmetered", f"{name} has refused {user} {refused} times, whose quota was removed before")


async def _be_free(world: ClusterWorld, chance: random.Random, name: str) -> None:
    async with MeteredSession(world, world.ledger, _FREE, name) as session:
        await session.open(chance)
        await session.use_up(chance, 20)


async def _changed(world: ClusterWorld, user: str, bounds: pb.QuotaBounds, target: str) -> int:
    version = await _set_quota(world, user, bounds, target)
    if version < 0:
        raise Broken("ends", "a change of a quota failed when nothing was at fault")
    return version


class MeteredSession:
    """A user at one server, by all its protocols. Its calls may be made in any task."""

    def __init__(self, world: ClusterWorld, ledger: QuotaLedger, user: str, name: str) -> None:
        self._world, self._ledger, self._user, self._name = world, ledger, user, name
        self._caller = MeteredCaller(world, ledger, user, name)
        self._wire: MeteredWire | None = None

    async def __aenter__(self) -> MeteredSession:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._wire is not None:
            self._wire.close()
        await self._caller.__aexit__()

    async def open(self, chance: random.Random) -> None:
        """Connect everything, while the user has no quota."""
        await asyncio.create_task(self._open(chance))  # the proof is its context's

    async def _open(self, chance: random.Random) -> None:
        await self._caller.__aenter__()
        await self._caller.connect()
        await self._caller.get()  # the client library knows the table now
        if self._world.has_endpoints:
            self._wire = await MeteredWire.connect(self._world, self._ledger, chance, self._user, self._name)

    async def use_up(self, chance: random.Random, calls: int) -> int:
        """Call one by one, and wait as long as each refusal says. How many quotas have refused."""
        ledger, before = self._ledger, self._ledger.refusals_of(self._name, self._user)
        for _ in range(calls):
            if self._wire is not None and chance.random() < 0.5:
                await self._wire.call(chance, most=chance.choice((1, 4)))
            elif chance.random() < 0.4:
                await self._caller.put(chance.choice((1, 300)), timeout=0.01)
            else:
                await self._caller.ask()
            await _pause(self._world, ledger, chance, self._user, self._name, heeds=0.9)
        return ledger.refusals_of(self._name, self._user) - before


async def check_effects(world: ClusterWorld, ledger: QuotaLedger) -> None:
    """No write that a quota has refused is there, and those that were acknowledged are."""
    async with await aio.connect("router:7070", timeout=ASK_S) as database:
        keys = {key async for key, _ in database.table(ledger.table).scan(level="strong", timeout=ASK_S)}
    world.story.met["quotas: a refused write is not there"] += len(ledger.refused)
    for key, words in ledger.refused.items():
        if key in keys:
            raise Broken("untouched", f"{key.decode()} is there, whose write was refused: {words}")
    if lacking := [key.decode() for key in ledger.written if key not in keys]:
        raise Broken("metered", f"of what was let through and acknowledged, {lacking} is not there")
