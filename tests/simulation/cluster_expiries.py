"""Tokens of a simulated cluster's users that expire while clocks are set.

Dave has no token that stays: each is good for a short while by the clock of the server that he calls, and the plan sets
clocks.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from log_tier.access.expiry_timer import LOOK_S
from log_tier.model.errors import CommandRejected, DuramenError
from router.admin.users.users_client import UsersConnection
from router.proto import users_pb2 as pb
from simulation.book import Broken
from simulation.cluster_callers import REFUSED, TABLE, one_call, watch_of
from simulation.cluster_turns import ASK_S
from simulation.cluster_world import NODES, ClusterWorld

__all__ = ["DAVE", "check_expiries", "open_expiries", "renew_tokens"]

DAVE: Final = "dave"
_VISITOR: Final = "visitor"
_TTLS_MS: Final = (500, 1500, 4000)
_TARGETS: Final = (*NODES, "router")
_CHECKED_TTL_S: Final = 8.0
_DAY_S: Final = 86_400.0
_SLACK_S: Final = 0.3
"""What a call and the turns of a loop take of virtual time."""


async def open_expiries(world: ClusterWorld, users: UsersConnection) -> None:
    """Make the user. No fault has begun."""
    grants = [f"{verb} {TABLE}" for verb in ("read", "write")]
    added = await users.add_user(DAVE, grants=grants, with_token=True, ttl_ms=max(_TTLS_MS))
    world.tokens[DAVE] = added.token


@asynccontextmanager
async def _changing(world: ClusterWorld, target: str, what: str) -> AsyncIterator[UsersConnection]:
    """What is done within may fail, and both is written down."""
    failure = ""
    try:
        with world.doing("users"):
            async with UsersConnection(f"{target}:7070", timeout=ASK_S) as users:
                yield users
    except DuramenError as error:
        failure = f": {type(error).__name__}: {error.message}"
    world.story.met[f"users: {what.partition(' of')[0]}{' failed' if failure else ''}"] += 1
    world.story.tell("administrator", f"{what} at {target}{failure}")


async def renew_tokens(world: ClusterWorld, stop: asyncio.Event) -> None:
    """Give Dave another token from time to time, often later than his last one ends."""
    chance = random.Random(f"tokens {world.plan.seed}")
    while not stop.is_set():
        target, ttl_ms = chance.choice(_TARGETS), chance.choice(_TTLS_MS)
        async with _changing(world, target, f"a token of {DAVE} for {ttl_ms} ms") as users:
            world.tokens[DAVE] = (await users.add_token(DAVE, ttl_ms=ttl_ms)).token
        await asyncio.sleep(ttl_ms / 1000 * chance.choice((0.5, 1.5)))


async def check_expiries(world: ClusterWorld) -> None:
    """When all is level and nothing is at fault: calls and open watches end with the token, by the clock of their
    server, which is set back or forward meanwhile. Raises `Broken`.
    """
    chance = random.Random(f"expiries {world.plan.seed}")
    for name in NODES:  # all by one clock first
        world.clock_of(name).step((world.clock_of("router").wall_ms() - world.clock_of(name).wall_ms()) / 1000)
    while (added := await _add_visitor(world, chance.choice(_TARGETS))) is None:
        # The log's time does not fall when its clock is set back, and a token must have an end to come.
        for name in _TARGETS:
            world.clock_of(name).step(_DAY_S)
    world.tokens[_VISITOR] = added.token
    for name in _TARGETS:
        await world.catalogs[name].wait_for(lambda cluster: cluster.version >= added.version)
    watches = {name: asyncio.create_task(watch_of(world, _VISITOR, name)) for name in _TARGETS}
    await asyncio.sleep(0.5)
    for name in _TARGETS:
        world.clock_of(name).step(chance.choice((0, 0, -5, -20, 60)))
    await asyncio.gather(*(_ends(world, name, watch, added.expires_ms) for name, watch in watches.items()))


async def _add_visitor(world: ClusterWorld, target: str) -> pb.AddUserResponse | None:
    """A user with a token that ends in `_CHECKED_TTL_S`; None where the log's time is beyond that end."""
    try:
        async with UsersConnection(f"{target}:7070", timeout=ASK_S) as users:
            ttl_ms = int(_CHECKED_TTL_S * 1000)
            return await users.add_user(_VISITOR, grants=[f"read {TABLE}"], with_token=True, ttl_ms=ttl_ms)
    except CommandRejected:
        return None


async def _ends(world: ClusterWorld, name: str, watch: asyncio.Task[str], expires_ms: int) -> None:
    def left_s() -> float:
        return (expires_ms - world.clock_of(name).wall_ms()) / 1000

    await one_call(world, _VISITOR, "read", name)
    if (before_s := left_s() - _SLACK_S) > 0:
        await asyncio.sleep(before_s)
        if watch.done():
            raise Broken("granted", f"a watch at {name} ended {left_s():.3f} s before its token: {watch.result()!r}")
        await asyncio.sleep(2 * _SLACK_S)
    else:
        await asyncio.sleep(LOOK_S + _SLACK_S)
    if not watch.done():
        raise Broken("expired", f"a watch at {name} goes on {-left_s():.3f} s after the end of its token")
    if (code := watch.result()) not in REFUSED:
        raise Broken("expired", f"the watch at {name} ended with {code!r}, and not as its token has expired")
    await one_call(world, _VISITOR, "read", name)
    world.story.met["users: watch ended with its token"] += 1
