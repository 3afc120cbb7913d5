"""Quotas of what is open at once, as an administrator of a simulated cluster sets them."""

from __future__ import annotations

from functools import partial
from typing import Final

from router.admin.users.users_client import UsersConnection
from router.proto import users_pb2 as pb
from simulation.book import Broken
from simulation.cluster_world import ClusterWorld
from simulation.place_ledger import Kind
from simulation.trust_turns import TARGETS, change_trust, is_at

__all__ = ["BOUNDS", "HAS_QUOTA", "bind", "set_bound"]

BOUNDS: Final = (0, 1, 2, 3)
"""That quotas have; 0: none."""
HAS_QUOTA: Final = " has a quota of "
"""In the words of each refusal by a quota."""


async def set_bound(world: ClusterWorld, kind: Kind, subject: str, most: int, target: str) -> int:
    """Set the quota of `user:NAME` or `table:NAME` at a server. The version; see `change_trust`."""
    of, _, name = subject.partition(":")
    bounds = pb.QuotaBounds(**{kind: most})

    async def change(users: UsersConnection) -> int:
        if of == "user":
            return await users.set_quota(user=name, quota=bounds)
        return await users.set_quota(table=name, quota=bounds)

    return await change_trust(world, "quota", f"{kind} {most} for {subject}", target, change)


async def bind(world: ClusterWorld, kind: Kind, subject: str, most: int, target: str) -> None:
    """`set_bound` where nothing is at fault, and wait until every server has it. Raises `Broken`."""
    version = await set_bound(world, kind, subject, most, target)
    if version < 0:
        raise Broken("ends", "a change of a quota failed when nothing was at fault")
    for name in TARGETS:
        await world.catalogs[name].wait_for(partial(is_at, version))
