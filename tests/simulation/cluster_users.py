"""Users of a simulated cluster: grants come and go while they call, and what is served is held against the grants.

What a user may do by its roles counts as its own grants do.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from functools import partial
from typing import Final

from duramen import aio
from log_tier.model.identifiers import AUDIT_TABLE, HISTORY_TABLE
from simulation.book import Broken
from simulation.cluster_callers import REFUSED, TABLE, one_call, prove, watch_of
from simulation.cluster_connections import open_connections
from simulation.cluster_expiries import DAVE, check_expiries, open_expiries, renew_tokens
from simulation.cluster_passwords import open_passwords
from simulation.cluster_peers import open_peers
from simulation.cluster_places import open_places
from simulation.cluster_quotas import open_quotas
from simulation.cluster_roles import ROLE_WAYS, change_roles, give_by_role, open_roles, take_by_role
from simulation.cluster_table_quotas import open_table_quotas
from simulation.cluster_turns import ASK_S
from simulation.cluster_world import ROOT, ClusterWorld
from simulation.trust_turns import (
    IN_FORCE_S,
    TARGETS,
    USERS,
    administration,
    change_grant,
    is_at,
    version_at,
)

__all__ = ["administer", "check_revocations", "open_users", "use_grants"]

_VERBS: Final = ("read", "write")
_GRANTS: Final = tuple(f"{verb} {TABLE}" for verb in _VERBS)
_ROUNDS: Final = 3


async def open_users(world: ClusterWorld) -> None:
    """Make the users and their table; from then on this task calls as one who may do everything. No fault has begun."""
    if not world.has_users:
        return
    async with administration("router") as users:
        grants = ["read,write,admin *", *([f"read {AUDIT_TABLE}"] if world.has_audit else [])]
        grants += [f"read {HISTORY_TABLE}"] if world.has_history else []
        first = await users.add_user(ROOT, grants=grants, with_token=True)
    world.tokens[ROOT] = first.token
    prove(world, first.token)
    async with administration("router") as users:
        for name in USERS:
            added = await users.add_user(name, with_token=True)
            world.tokens[name] = added.token
            world.accesses.only_calls(name)
        await open_expiries(world, users)
    await open_roles()
    async with await aio.connect("router:7070", timeout=ASK_S) as database:
        await database.create_table(TABLE, partitions=2)
    for catalog in world.catalogs.values():
        await catalog.wait_for(lambda cluster: cluster.named(TABLE) is not None)
    await open_quotas(world)
    await open_table_quotas(world)
    await open_places(world)
    await open_peers(world)
    await open_connections(world)
    await open_passwords(world)


async def use_grants(world: ClusterWorld, stop: asyncio.Event) -> None:
    """Users call, and grants come and go, until `stop` is set."""
    if not world.has_users:
        return
    # In tasks of their own, as the proof of a call is its context's.
    working = [asyncio.create_task(administer(world, stop, _GRANTS))]
    working.append(asyncio.create_task(change_roles(world, stop, _GRANTS)))
    working += [asyncio.create_task(_call_on(world, name, stop)) for name in (*USERS, DAVE)]
    working.append(asyncio.create_task(renew_tokens(world, stop)))
    try:
        await asyncio.gather(*working)
    finally:
        for task in working:
            task.cancel()


async def administer(world: ClusterWorld, stop: asyncio.Event, grants: Sequence[str]) -> None:
    """Give users these grants, and take them, one by one at any server, until `stop` is set."""
    chance = random.Random(f"administrator {world.plan.seed}")
    pause_s = chance.choice((0.1, 0.4))
    gives = dict.fromkeys(((user, grant) for user in USERS for grant in grants), False)
    while not stop.is_set():
        await asyncio.sleep(chance.random() * 2 * pause_s)
        user, grant, target = chance.choice(USERS), chance.choice(grants), chance.choice(TARGETS)
        gives[user, grant] = not gives[user, grant]
        await change_grant(world, user, grant, target, gives=gives[user, grant])


async def _call_on(world: ClusterWorld, user: str, stop: asyncio.Event) -> None:
    chance = random.Random(f"{user} {world.plan.seed}")
    while not stop.is_set():
        await asyncio.sleep(chance.random() * 0.2)
        await one_call(world, user, chance.choice(_VERBS), chance.choice(TARGETS))


async def check_revocations(world: ClusterWorld) -> None:
    """When all is level and nothing is at fault: a revocation is in force everywhere within `IN_FORCE_S`, for calls
    and for open watches. Raises `Broken`.
    """
    if not world.has_users:
        return
    chance = random.Random(f"revocations {world.plan.seed}")
    for number in range(_ROUNDS):
        user, by_role = f"guest{number}", chance.choice((False, True))
        async with administration(chance.choice(TARGETS)) as users:
            added = await users.add_user(user, grants=[] if by_role else [_GRANTS[0]], with_token=True)
            given = await give_by_role(users, user, _GRANTS[0]) if by_role else added.version
        world.tokens[user] = added.token
        world.accesses.only_calls(user)
        for name in TARGETS:
            await world.catalogs[name].wait_for(partial(is_at, given))
        watches = {name: asyncio.create_task(watch_of(world, user, name)) for name in TARGETS}
        await asyncio.sleep(0.5)
        await asyncio.gather(*(_as_user(world, user, name) for name in TARGETS))
        target = chance.choice(TARGETS)
        if by_role:
            version = await take_by_role(world, user, _GRANTS[0], target, chance.choice(ROLE_WAYS))
        else:
            version = await change_grant(world, user, _GRANTS[0], target, gives=False)
        if version < 0:
            raise Broken("ends", "a revocation failed when nothing was at fault")
        await asyncio.sleep(IN_FORCE_S)
        for name, watch in watches.items():
            if (acts := version_at(world, name, -1)) < version:
                raise Broken("revoked", f"{name} acts by {acts} {IN_FORCE_S:g} s after the revocation {version}")
            if not watch.done():
                raise Broken("revoked", f"a watch of {user} at {name} goes on {IN_FORCE_S:g} s after the revocation")
            if (code := watch.result()) not in REFUSED:
                raise Broken("revoked", f"the watch of {user} at {name} ended with {code!r}")
        await asyncio.gather(*(_as_user(world, user, name) for name in TARGETS))
        world.story.met["users: watch ended by a revocation"] += len(watches)
    await check_expiries(world)


async def _as_user(world: ClusterWorld, user: str, name: str) -> None:
    """A call in a task of its own (`gather` makes one), whose proof is the user's."""
    await one_call(world, user, "read", name)
