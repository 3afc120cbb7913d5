"""Users of a simulated cluster: grants come and go while they call, and what is served is held against the grants."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from functools import partial
from typing import Final

from duramen import aio
from duramen.testing.machine.simulated_grpc import SimulatedTransport
from log_tier.catalog.cluster_map import ClusterMap
from log_tier.model.errors import DuramenError
from log_tier.rpc.credentials import bearer_header
from log_tier.rpc.transport import TRANSPORT
from log_tier.trust.grants import Grant
from log_tier.trust.users import TrustState
from router.admin.users.users_client import UsersConnection
from simulation.book import Broken
from simulation.cluster_turns import ASK_S
from simulation.cluster_world import NODES, ROOT, ClusterWorld

__all__ = [
    "IN_FORCE_S",
    "TARGETS",
    "USERS",
    "administer",
    "administration",
    "change_grant",
    "check_revocations",
    "is_at",
    "open_users",
    "trust_of",
    "use_grants",
    "version_at",
]

TARGETS: Final = (*NODES, "router")
USERS: Final = ("alice", "bob")
_VERBS: Final = ("read", "write")
_TABLE: Final = "shared"
_GRANTS: Final = tuple(f"{verb} {_TABLE}" for verb in _VERBS)
_REFUSED: Final = ("permission_denied", "unauthenticated")
IN_FORCE_S: Final = 0.1
"""Where nothing is at fault, a revocation is in force everywhere so long after it was answered."""
_ROUNDS: Final = 3


def _prove(world: ClusterWorld, token: str) -> None:
    """Have the calls of this task, and of those that it begins, carry a token."""
    TRANSPORT.set(SimulatedTransport(world.network, "clients", authorization=bearer_header(token)))


def administration(target: str) -> UsersConnection:
    """Manages users at a server, by the rights of this task."""
    return UsersConnection(f"{target}:7070", timeout=ASK_S)


async def open_users(world: ClusterWorld) -> None:
    """Make the users and their table; from then on this task calls as one who may do everything. No fault has begun."""
    if not world.has_users:
        return
    async with administration("router") as users:
        first = await users.add_user(ROOT, grants=["read,write,admin *"], with_token=True)
    world.tokens[ROOT] = first.token
    _prove(world, first.token)
    async with administration("router") as users:
        for name in USERS:
            added = await users.add_user(name, with_token=True)
            world.tokens[name] = added.token
    async with await aio.connect("router:7070", timeout=ASK_S) as database:
        await database.create_table(_TABLE, partitions=2)
    for catalog in world.catalogs.values():
        await catalog.wait_for(lambda cluster: cluster.named(_TABLE) is not None)


async def use_grants(world: ClusterWorld, stop: asyncio.Event) -> None:
    """Users call, and grants come and go, until `stop` is set."""
    if not world.has_users:
        return
    # In tasks of their own, as the proof of a call is its context's.
    working = [asyncio.create_task(administer(world, stop, _GRANTS))]
    working += [asyncio.create_task(_call_on(world, name, stop)) for name in USERS]
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


async def change_grant(world: ClusterWorld, user: str, grant: str, target: str, *, gives: bool) -> int:
    """Give a grant, or take it. The version; -1 where the answer is not known, or nothing had to be done.

    Raises `Broken` where the server that has answered does not act by that version.
    """
    what, version, words = "grant" if gives else "revocation", -1, ""
    try:
        with world.doing("users"):
            async with administration(target) as users:
                version = await (users.grant if gives else users.revoke)(user, grant)
        words = f"version {version}"
        if (acts := version_at(world, target, version)) < version:
            raise Broken("revoked", f"{target} answered a {what} of version {version}, and acts by {acts}")
    except DuramenError as error:
        words = f"{type(error).__name__}: {error.message}"
    world.story.met[f"users: {what}{' failed' if version < 0 else ''}"] += 1
    world.story.tell("administrator", f"{what} of {grant!r} for {user} at {target}: {words}")
    return version


def version_at(world: ClusterWorld, target: str, otherwise: int) -> int:
    """Of the catalog that a server has; `otherwise` where it is down by now."""
    catalog = world.catalogs.get(target)
    return otherwise if catalog is None else catalog.map.version


def trust_of(world: ClusterWorld, target: str) -> TrustState | None:
    """Users and grants by the map that a server has now; None where it is down. Another change, another object."""
    catalog = world.catalogs.get(target)
    return None if catalog is None else catalog.map.trust


async def _call_on(world: ClusterWorld, user: str, stop: asyncio.Event) -> None:
    _prove(world, world.tokens[user])
    chance = random.Random(f"{user} {world.plan.seed}")
    while not stop.is_set():
        await asyncio.sleep(chance.random() * 0.2)
        await _one_call(world, user, chance.choice(_VERBS), chance.choice(TARGETS))


async def _one_call(world: ClusterWorld, user: str, verb: str, target: str) -> None:
    """One call at one server. Where no grant has changed in its map meanwhile, the answer must follow it. Raises
    `Broken`.
    """
    trust, version = trust_of(world, target), version_at(world, target, -1)
    code = ""
    try:
        async with await aio.connect(f"{target}:7070", timeout=1.0, direct=False) as database:
            table = database.table(_TABLE)
            if verb == "read":
                await table.get(b"key", level="eventual")
            else:
                await table.put(b"key", user.encode())
    except DuramenError as error:
        code = error.code
    outcome = "refused" if code in _REFUSED else "failed" if code else "served"
    expected = "not sure"
    if trust is not None and trust is trust_of(world, target):
        granted = Grant.parse(f"{verb} {_TABLE}") in trust.users[user].grants
        expected = "granted" if granted else "not granted"
    world.story.met[f"users: {outcome}, {expected}"] += 1
    if expected == "not granted" and outcome == "served":
        raise Broken("revoked", f"{target} at version {version} served {user}, who may not {verb} {_TABLE}")
    if expected == "granted" and outcome == "refused":
        raise Broken("granted", f"{target} at version {version} refused {user}, who may {verb} {_TABLE}: {code}")


async def check_revocations(world: ClusterWorld) -> None:
    """When all is level and nothing is at fault: a revocation is in force everywhere within `IN_FORCE_S`, for calls
    and for open watches. Raises `Broken`.
    """
    if not world.has_users:
        return
    chance = random.Random(f"revocations {world.plan.seed}")
    for number in range(_ROUNDS):
        user = f"guest{number}"
        async with administration(chance.choice(TARGETS)) as users:
            added = await users.add_user(user, grants=[f"read {_TABLE}"], with_token=True)
        world.tokens[user] = added.token
        for name in TARGETS:
            await world.catalogs[name].wait_for(partial(is_at, added.version))
        watches = {name: asyncio.create_task(_watch(world, user, name)) for name in TARGETS}
        await asyncio.sleep(0.5)
        await asyncio.gather(*(_as_user(world, user, name) for name in TARGETS))
        version = await change_grant(world, user, f"read {_TABLE}", chance.choice(TARGETS), gives=False)
        if version < 0:
            raise Broken("ends", "a revocation failed when nothing was at fault")
        await asyncio.sleep(IN_FORCE_S)
        for name, watch in watches.items():
            if (acts := version_at(world, name, -1)) < version:
                raise Broken("revoked", f"{name} acts by {acts} {IN_FORCE_S:g} s after the revocation {version}")
            if not watch.done():
                raise Broken("revoked", f"a watch of {user} at {name} goes on {IN_FORCE_S:g} s after the revocation")
            if (code := watch.result()) not in _REFUSED:
                raise Broken("revoked", f"the watch of {user} at {name} ended with {code!r}")
        await asyncio.gather(*(_as_user(world, user, name) for name in TARGETS))
        world.story.met["users: watch ended by a revocation"] += len(watches)


def is_at(version: int, cluster: ClusterMap) -> bool:
    """Is the map of this version, or newer?"""
    return cluster.version >= version


async def _as_user(world: ClusterWorld, user: str, name: str) -> None:
    """A call in a task of its own (`gather` makes one), whose proof is the user's."""
    _prove(world, world.tokens[user])
    await _one_call(world, user, "read", name)


async def _watch(world: ClusterWorld, user: str, name: str) -> str:
    """Watch at one server until that ends; with which error."""
    _prove(world, world.tokens[user])
    try:
        async with await aio.connect(f"{name}:7070", timeout=1.0, direct=False) as database:
            async for _ in database.table(_TABLE).watch():
                pass
    except DuramenError as error:
        return error.code
    return ""
