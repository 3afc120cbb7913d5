"""Tables of a simulated cluster with quotas of calls and bytes, which all of their callers share.

Two users, who have no quotas, call on two tables at any server, by gRPC and where there are endpoints by the Redis
protocol. An administrator sets, changes and removes the quota of one table, and the other one never has any. Each
table has a ledger of its own (`quota_ledger.py`), in which its callers share an account for each server. In the end,
when nothing is at fault, the quota is used up by one user, refuses the other one too, and goes.
"""

from __future__ import annotations

import asyncio
import random
from functools import partial
from typing import Final

from duramen import aio
from router.admin.users.users_client import UsersConnection
from router.proto import users_pb2 as pb
from simulation.book import Broken
from simulation.cluster_quotas import MeteredSession, call_on, check_effects, drawn_bounds, send_on
from simulation.cluster_turns import ASK_S
from simulation.cluster_world import ClusterWorld
from simulation.quota_ledger import QuotaLedger
from simulation.trust_turns import IN_FORCE_S, TARGETS, administration, change_trust, is_at

__all__ = ["check_table_quotas", "open_table_quotas", "use_table_quotas"]

_USERS: Final = ("peggy", "rupert")
_ROUNDS: Final = 2


def _ledgers(world: ClusterWorld) -> tuple[QuotaLedger, QuotaLedger]:
    """Of the table that has a quota now and then, and of the one that never has."""
    rated, unrated = world.table_ledgers.values()
    return rated, unrated


async def open_table_quotas(world: ClusterWorld) -> None:
    """Make the tables, which have no quotas yet, and their users. No fault has begun."""
    if not world.has_table_quotas:
        return
    async with await aio.connect("router:7070", timeout=ASK_S) as database:
        for name in world.table_ledgers:
            await database.create_table(name, partitions=2)
    grants = [f"read,write {name}" for name in world.table_ledgers]
    async with administration("router") as users:
        for name in _USERS:
            added = await users.add_user(name, grants=grants, with_token=True)
            world.tokens[name] = added.token
    for catalog in world.catalogs.values():
        await catalog.wait_for(partial(is_at, added.version))


async def use_table_quotas(world: ClusterWorld, stop: asyncio.Event) -> None:
    """Users call, and the quota comes and goes, until `stop` is set."""
    if not world.has_table_quotas:
        return
    rated, unrated = _ledgers(world)
    working = [asyncio.create_task(_change_quota(world, rated, stop))]
    for number, name in enumerate(_USERS):
        working.append(asyncio.create_task(call_on(world, rated, name, stop)))
        if number == 0:
            working.append(asyncio.create_task(call_on(world, unrated, name, stop)))
        elif world.has_endpoints:
            working += [asyncio.create_task(send_on(world, each, name, stop)) for each in (rated, unrated)]
    try:
        await asyncio.gather(*working)
    finally:
        for task in working:
            task.cancel()


async def _set_quota(world: ClusterWorld, table: str, bounds: pb.QuotaBounds, target: str) -> int:
    """The version; see `change_trust`."""

    async def change(users: UsersConnection) -> int:
        return await users.set_quota(table=table, quota=bounds)

    words = ", ".join(f"{field.name} {value}" for field, value in bounds.ListFields()) or "none"
    return await change_trust(world, "quota", f"{words} for the table {table}", target, change)


async def _change_quota(world: ClusterWorld, rated: QuotaLedger, stop: asyncio.Event) -> None:
    chance = random.Random(f"changes of quotas of tables {world.plan.seed}")
    pause_s = chance.choice((0.5, 1.5))
    while not stop.is_set():
        bounds = pb.QuotaBounds() if chance.random() < 0.25 else drawn_bounds(chance)
        await _set_quota(world, rated.table, bounds, chance.choice(TARGETS))
        await asyncio.sleep(chance.random() * 2 * pause_s)


async def check_table_quotas(world: ClusterWorld) -> None:
    """When all is level and nothing is at fault: the quota is used up at some servers, and removed, and is not in force
    any more within `IN_FORCE_S`. What it has refused is nowhere. Raises `Broken`.
    """
    if not world.has_table_quotas:
        return
    chance = random.Random(f"quotas of tables at the end {world.plan.seed}")
    rated, unrated = _ledgers(world)
    await _changed(world, rated.table, pb.QuotaBounds(), chance.choice(TARGETS))
    for name in chance.sample(TARGETS, _ROUNDS):
        await asyncio.gather(_use_up(world, rated, chance, name), _be_free(world, unrated, chance, name))
    for ledger in (rated, unrated):
        await check_effects(world, ledger)


async def _use_up(world: ClusterWorld, rated: QuotaLedger, chance: random.Random, name: str) -> None:
    """Both users call in turn, under one quota; then it goes, over their open connections."""
    bounds = drawn_bounds(chance)
    async with (
        MeteredSession(world, rated, _USERS[0], name) as one,
        MeteredSession(world, rated, _USERS[1], name) as two,
    ):
        for session in (one, two):
            await session.open(chance)
        version = await _changed(world, rated.table, bounds, chance.choice(TARGETS))
        await world.catalogs[name].wait_for(partial(is_at, version))
        for _ in range(3):
            for session in (one, two):
                await session.use_up(chance, 4 + bounds.calls_s)
        await _changed(world, rated.table, pb.QuotaBounds(), chance.choice(TARGETS))
        await asyncio.sleep(IN_FORCE_S)
        for session in (one, two):
            if refused := await session.use_up(chance, 10):
                what = f"{name} has refused {refused} calls on {rated.table}, whose quota was removed before"
                raise Broken("unmetered", what)


async def _be_free(world: ClusterWorld, unrated: QuotaLedger, chance: random.Random, name: str) -> None:
    async with MeteredSession(world, unrated, _USERS[0], name) as session:
        await session.open(chance)
        await session.use_up(chance, 20)


async def _changed(world: ClusterWorld, table: str, bounds: pb.QuotaBounds, target: str) -> int:
    version = await _set_quota(world, table, bounds, target)
    if version < 0:
        raise Broken("ends", "a change of a quota failed when nothing was at fault")
    return version
