"""One turn of who administers the users of a simulated cluster, and what a server knows of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from log_tier.catalog.cluster_map import ClusterMap
from log_tier.model.errors import DuramenError
from log_tier.trust.grants import Grant
from log_tier.trust.users import TrustState
from router.admin.users.users_client import UsersConnection
from simulation.book import Broken
from simulation.cluster_turns import ASK_S
from simulation.cluster_world import NODES, ClusterWorld

__all__ = [
    "IN_FORCE_S",
    "TARGETS",
    "USERS",
    "administration",
    "change_grant",
    "change_trust",
    "has_grant",
    "is_at",
    "trust_of",
    "version_at",
]

TARGETS: Final = (*NODES, "router")
USERS: Final = ("alice", "bob")
IN_FORCE_S: Final = 0.1
"""Where nothing is at fault, a revocation is in force everywhere so long after it was answered."""


def administration(target: str) -> UsersConnection:
    """Manages users at a server, by the rights of this task."""
    return UsersConnection(f"{target}:7070", timeout=ASK_S)


async def change_trust(
    world: ClusterWorld, what: str, words: str, target: str, change: Callable[[UsersConnection], Awaitable[int]]
) -> int:
    """Change users, roles or grants at a server. The version; -1 where the answer is not known, or nothing had to be
    done.

    Raises `Broken` where the server that has answered does not act by that version.
    """
    version = -1
    try:
        with world.doing("users"):
            async with administration(target) as users:
                version = await change(users)
        came = f"version {version}"
        if (acts := version_at(world, target, version)) < version:
            raise Broken("revoked", f"{target} answered a {what} of version {version}, and acts by {acts}")
    except DuramenError as error:
        came = f"{type(error).__name__}: {error.message}"
    world.story.met[f"users: {what}{' failed' if version < 0 else ''}"] += 1
    world.story.tell("administrator", f"{what} of {words} at {target}: {came}")
    return version


async def change_grant(world: ClusterWorld, to: str, grant: str, target: str, *, gives: bool) -> int:
    """Give a user a grant, or take it. See `change_trust`."""

    async def change(users: UsersConnection) -> int:
        return await (users.grant if gives else users.revoke)(to, grant)

    return await change_trust(world, "grant" if gives else "revocation", f"{grant!r} for {to}", target, change)


def version_at(world: ClusterWorld, target: str, otherwise: int) -> int:
    """Of the catalog that a server has; `otherwise` where it is down by now."""
    catalog = world.catalogs.get(target)
    return otherwise if catalog is None else catalog.map.version


def trust_of(world: ClusterWorld, target: str) -> TrustState | None:
    """Users and grants by the map that a server has now; None where it is down. Another change, another object."""
    catalog = world.catalogs.get(target)
    return None if catalog is None else catalog.map.trust


def is_at(version: int, cluster: ClusterMap) -> bool:
    """Is the map of this version, or newer?"""
    return cluster.version >= version


def has_grant(trust: TrustState, user: str, verb: str, table: str, key: bytes = b"") -> bool:
    """Has a user a grant, or a role that has one? By the texts of the grants alone."""
    entry = trust.users.get(user)
    if entry is None:
        return False
    grants = [*entry.grants, *(grant for role in entry.roles for grant in trust.roles[role].grants)]
    return any(_covers(grant, verb, table, key) for grant in grants)


def _covers(grant: Grant, verb: str, table: str, key: bytes) -> bool:
    return verb in grant.rights and grant.table == table and key.startswith(grant.key)
