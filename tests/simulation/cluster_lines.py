"""A user of a simulated cluster who floods a server by the Redis protocol, and calls it by gRPC meanwhile.

Commands that came in a turn whose time was over wait in the server's line of turns, and calls of gRPC of the same user
join it behind them, before it is decided what they may do. Some of these calls are left by their client while they
wait. Grants come and go meanwhile, so a call that was let in must have had its grant when its turn came. In the end the
line is empty.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from functools import partial
from typing import Final

from duramen import aio
from duramen.client.database import Database
from duramen.testing.machine.simulated_wire import WireCut
from log_tier.model.errors import Disconnected, DuramenError
from simulation.book import Broken
from simulation.cluster_callers import REFUSED, TABLE, prove
from simulation.cluster_world import ClusterWorld
from simulation.trust_turns import TARGETS, administration, change_grant, has_grant, is_at, trust_of

__all__ = ["check_lines", "flood_lines", "open_lines"]

_USER: Final = "ursula"
_GRANT: Final = f"read {TABLE}"
_CONNECTIONS: Final = 3
_COMMANDS: Final = 400
"""Of a pipeline: more than a turn takes where turns are short."""
_PIPELINES_MAX: Final = 10
"""Of one flood; the next one follows a pause."""
_ENDED_S: Final = 5.0


async def open_lines(world: ClusterWorld) -> None:
    """Make the user. No fault has begun."""
    if not (world.has_users and world.has_endpoints):
        return
    async with administration("router") as users:
        added = await users.add_user(_USER, grants=[_GRANT], with_token=True)
    world.tokens[_USER] = added.token
    world.accesses.only_calls(_USER)
    for catalog in world.catalogs.values():
        await catalog.wait_for(partial(is_at, added.version))


async def flood_lines(world: ClusterWorld, stop: asyncio.Event) -> None:
    """Send floods of pipelines, and call, until `stop` is set."""
    if not (world.has_users and world.has_endpoints):
        return
    target = random.Random(f"flood {world.plan.seed}").choice(TARGETS)
    working = [asyncio.create_task(_flood(world, number, target, stop)) for number in range(_CONNECTIONS)]
    working += [asyncio.create_task(_call_on(world, number, target, stop)) for number in range(_CONNECTIONS)]
    working.append(asyncio.create_task(_change_grants(world, target, stop)))
    try:
        await asyncio.gather(*working)
    finally:
        for task in working:
            task.cancel()


async def _flood(world: ClusterWorld, number: int, target: str, stop: asyncio.Event) -> None:
    chance = random.Random(f"flood {number} {world.plan.seed}")
    while not stop.is_set():
        with suppress(WireCut, TimeoutError):
            async with asyncio.timeout_at(world.loop.time() + 1.0):
                client = await world.connected(chance, target, _USER)
                try:
                    for _ in range(chance.randint(1, _PIPELINES_MAX)):
                        await client.call([(b"PING",)] * _COMMANDS)
                        await asyncio.sleep(chance.random() * 0.02)
                finally:
                    client.close()
        await asyncio.sleep(chance.random() * 2.0)


async def _call_on(world: ClusterWorld, number: int, target: str, stop: asyncio.Event) -> None:
    chance = random.Random(f"calls next to a flood {number} {world.plan.seed}")
    prove(world, world.tokens[_USER])
    while not stop.is_set():
        with suppress(DuramenError):
            async with await aio.connect(f"{target}:7070", timeout=1.0, direct=False) as database:
                while not stop.is_set():
                    await asyncio.sleep(chance.random() * 0.02)
                    # Some of them are left while they wait.
                    await _judged_get(world, target, database, chance.choice((0.003, 0.02, 1.0)))
        await asyncio.sleep(chance.random() * 0.2)


async def _judged_get(world: ClusterWorld, target: str, database: Database, timeout_s: float) -> None:
    trust, code = trust_of(world, target), ""
    try:
        await database.table(TABLE).get(b"key", level="eventual", timeout=timeout_s)
    except DuramenError as error:
        code = error.code
    if trust is not None and trust is trust_of(world, target):
        granted = has_grant(trust, _USER, "read", TABLE)
        if granted and code in REFUSED:
            raise Broken("granted", f"{target} refused {_USER}'s {_GRANT!r} next to a flood: {code}")
        if not granted and not code:
            raise Broken("revoked", f"{target} served {_USER} without {_GRANT!r} next to a flood")
    world.story.met[f"turns: {code or 'served'}"] += 1
    if code == Disconnected.code:
        await asyncio.sleep(0.1)


async def _change_grants(world: ClusterWorld, target: str, stop: asyncio.Event) -> None:
    chance, gives = random.Random(f"grants next to a flood {world.plan.seed}"), True
    while not stop.is_set():
        await asyncio.sleep(chance.random())
        gives = not gives
        await change_grant(world, _USER, _GRANT, target, gives=gives)


async def check_lines(world: ClusterWorld) -> None:
    """When all is level: nothing waits for a turn any more. Raises `Broken`."""
    if not (world.has_users and world.has_endpoints):
        return
    ends_s = world.loop.time() + _ENDED_S
    for name, endpoint in world.endpoints.items():
        while waiting := endpoint.turns.calls_waiting:
            if world.loop.time() > ends_s:
                raise Broken("ends", f"{waiting} calls wait for their turn at {name}, and nobody calls")
            await asyncio.sleep(0.01)
