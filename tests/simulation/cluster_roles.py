"""Roles of the users of a simulated cluster: users get and lose them, and what a role may do changes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from functools import partial
from typing import Final

from router.admin.users.users_client import UsersConnection
from simulation.cluster_world import ClusterWorld
from simulation.trust_turns import TARGETS, USERS, administration, change_trust

__all__ = ["ROLE_WAYS", "change_roles", "give_by_role", "open_roles", "take_by_role"]

_ROLES: Final = ("callers", "keepers")
_CHANGES: Final = ("assignment", "assignment", "unassignment", "role's grant", "role's grant", "role's revocation")
_REMOVED_CHANCE: Final = 0.1
ROLE_WAYS: Final = ("role's grant", "role")
"""How what a user may do by a role is taken: the role loses the grant, or the user the role."""


async def open_roles() -> None:
    """Make the roles, which nobody has and which have no grants. No fault has begun."""
    async with administration("router") as users:
        for role in _ROLES:
            await users.add_role(role)


async def change_roles(world: ClusterWorld, stop: asyncio.Event, grants: Sequence[str]) -> None:
    """Change who has which role, and what a role may do, at any server, until `stop` is set. What is so already, or is
    not so, the catalog refuses.
    """
    chance = random.Random(f"roles {world.plan.seed}")
    pause_s = chance.choice((0.1, 0.4))
    while not stop.is_set():
        await asyncio.sleep(chance.random() * 2 * pause_s)
        role, user, grant = chance.choice(_ROLES), chance.choice(USERS), chance.choice(grants)
        what, target = chance.choice(_CHANGES), chance.choice(TARGETS)
        if chance.random() < _REMOVED_CHANCE:
            # Refused while somebody has it. Where the reply is lost, it may be gone: it is made again in any case.
            for gone in ("role's end", "new role"):
                await _turn(world, target, gone, role, user, grant)
        await _turn(world, target, what, role, user, grant)


async def _turn(world: ClusterWorld, target: str, what: str, role: str, user: str, grant: str) -> int:
    words = f"{role}, {user}, {grant!r}"
    return await change_trust(world, what, words, target, partial(_change, what, role, user, grant))


async def _change(what: str, role: str, user: str, grant: str, users: UsersConnection) -> int:
    if what == "role's end":
        return await users.remove_role(role)
    if what == "new role":
        return await users.add_role(role)
    if what == "assignment":
        return await users.assign_role(user, role)
    if what == "unassignment":
        return await users.unassign_role(user, role)
    return await (users.grant if what == "role's grant" else users.revoke)(role, grant)


async def give_by_role(users: UsersConnection, user: str, grant: str) -> int:
    """Give a user a grant by a role of its own; the version."""
    role = f"role-of-{user}"
    await users.add_role(role, [grant])
    return await users.assign_role(user, role)


async def take_by_role(world: ClusterWorld, user: str, grant: str, target: str, way: str) -> int:
    """Take it, in one of `ROLE_WAYS`. See `change_trust`."""
    what = "role's revocation" if way == "role's grant" else "unassignment"
    return await _turn(world, target, what, f"role-of-{user}", user, grant)
