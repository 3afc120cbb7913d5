"""Users of a simulated cluster: grants come and go while they call, and what is served is held against the grants."""

from __future__ import annotations

import asyncio
import random
from functools import partial
from typing import Final

from duramen import aio
from log_tier.catalog.cluster_map import ClusterMap
from log_tier.model.errors import DuramenError
from router.admin.users.users_client import UsersConnection
from simulation.book import Broken
from simulation.cluster_callers import REFUSED, TABLE, one_call, prove, version_at, watch_of
from simulation.cluster_proofs import CAROL, DAVE, change_role, check_expiries, open_proofs, renew_tokens
from simulation.cluster_turns import ASK_S
from simulation.cluster_world import NODES, ClusterWorld

__all__ = ["check_revocations", "open_users", "use_grants"]

_TARGETS: Final = (*NODES, "router")
_USERS: Final = ("alice", "bob")
_VERBS: Final = ("read", "write")
_ROOT: Final = "root"
_IN_FORCE_S: Final = 0.1
"""Where nothing is at fault, a revocation is in force everywhere so long after it was answered."""
_ROUNDS: Final = 3
_ROLES_CHANCE: Final = 0.4
"""Of the changes, so many are about roles."""


def _administration(target: str) -> UsersConnection:
    return UsersConnection(f"{target}:7070", timeout=ASK_S)


async def open_users(world: ClusterWorld) -> None:
    """Make the users and their table; from then on this task calls as one who may do everything. No fault has begun."""
    if not world.has_users:
        return
    async with _administration("router") as users:
        first = await users.add_user(_ROOT, grants=["read,write,admin *"], with_token=True)
    prove(world, first.token)
    async with _administration("router") as users:
        for name in _USERS:
            added = await users.add_user(name, with_token=True)
            world.tokens[name] = added.token
        await open_proofs(world, users)
    async with await aio.connect("router:7070", timeout=ASK_S) as database:
        await database.create_table(TABLE, partitions=2)
    for catalog in world.catalogs.values():
        await catalog.wait_for(lambda cluster: cluster.named(TABLE) is not None)


async def use_grants(world: ClusterWorld, stop: asyncio.Event) -> None:
    """Users call, and grants come and go, until `stop` is set."""
    if not world.has_users:
        return
    # In tasks of their own, as the proof of a call is its context's.
    working = [asyncio.create_task(_administer(world, stop))]
    working.append(asyncio.create_task(renew_tokens(world, stop)))
    working += [asyncio.create_task(_call_on(world, name, stop)) for name in (*_USERS, CAROL, DAVE)]
    try:
        await asyncio.gather(*working)
    finally:
        for task in working:
            task.cancel()


async def _administer(world: ClusterWorld, stop: asyncio.Event) -> None:
    chance = random.Random(f"administrator {world.plan.seed}")
    pause_s = chance.choice((0.1, 0.4))
    gives = dict.fromkeys(((user, verb) for user in _USERS for verb in _VERBS), False)
    while not stop.is_set():
        await asyncio.sleep(chance.random() * 2 * pause_s)
        user, verb, target = chance.choice(_USERS), chance.choice(_VERBS), chance.choice(_TARGETS)
        if chance.random() < _ROLES_CHANCE:
            await change_role(world, chance, target)
            continue
        gives[user, verb] = not gives[user, verb]
        await _change(world, user, verb, target, gives=gives[user, verb])


async def _change(world: ClusterWorld, user: str, verb: str, target: str, *, gives: bool) -> int:
    """Give a grant, or take it. The version; -1 where the answer is not known, or nothing had to be done.

    Raises `Broken` where the server that has answered does not act by that version.
    """
    what, version, words = "grant" if gives else "revocation", -1, ""
    try:
        with world.doing("users"):
            async with _administration(target) as users:
                version = await (users.grant if gives else users.revoke)(user, f"{verb} {TABLE}")
        words = f"version {version}"
        if (acts := version_at(world, target, version)) < version:
            raise Broken("revoked", f"{target} answered a {what} of version {version}, and acts by {acts}")
    except DuramenError as error:
        words = f"{type(error).__name__}: {error.message}"
    world.story.met[f"users: {what}{' failed' if version < 0 else ''}"] += 1
    world.story.tell("administrator", f"{what} of {verb} for {user} at {target}: {words}")
    return version


async def _call_on(world: ClusterWorld, user: str, stop: asyncio.Event) -> None:
    chance = random.Random(f"{user} {world.plan.seed}")
    while not stop.is_set():
        await asyncio.sleep(chance.random() * 0.2)
        await one_call(world, user, chance.choice(_VERBS), chance.choice(_TARGETS))


async def check_revocations(world: ClusterWorld) -> None:
    """When all is level and nothing is at fault: a revocation is in force everywhere within `_IN_FORCE_S`, for calls
    and for open watches. Raises `Broken`.
    """
    if not world.has_users:
        return
    chance = random.Random(f"revocations {world.plan.seed}")
    for number in range(_ROUNDS):
        user = f"guest{number}"
        async with _administration(chance.choice(_TARGETS)) as users:
            added = await users.add_user(user, grants=[f"read {TABLE}"], with_token=True)
        world.tokens[user] = added.token
        for name in _TARGETS:
            await world.catalogs[name].wait_for(partial(_is_at, added.version))
        watches = {name: asyncio.create_task(watch_of(world, user, name)) for name in _TARGETS}
        await asyncio.sleep(0.5)
        await asyncio.gather(*(_as_user(world, user, name) for name in _TARGETS))
        version = await _change(world, user, "read", chance.choice(_TARGETS), gives=False)
        if version < 0:
            raise Broken("ends", "a revocation failed when nothing was at fault")
        await asyncio.sleep(_IN_FORCE_S)
        for name, watch in watches.items():
            if (acts := version_at(world, name, -1)) < version:
                raise Broken("revoked", f"{name} acts by {acts} {_IN_FORCE_S:g} s after the revocation {version}")
            if not watch.done():
                raise Broken("revoked", f"a watch of {user} at {name} goes on {_IN_FORCE_S:g} s after the revocation")
            if (code := watch.result()) not in REFUSED:
                raise Broken("revoked", f"the watch of {user} at {name} ended with {code!r}")
        await asyncio.gather(*(_as_user(world, user, name) for name in _TARGETS))
        world.story.met["users: watch ended by a revocation"] += len(watches)
    await check_expiries(world)


def _is_at(version: int, cluster: ClusterMap) -> bool:
    return cluster.version >= version


async def _as_user(world: ClusterWorld, user: str, name: str) -> None:
    """A call in a task of its own (`gather` makes one), whose proof is the user's."""
    prove(world, world.tokens[user])
    await one_call(world, user, "read", name)
