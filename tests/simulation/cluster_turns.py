"""One turn of an operator of a simulated cluster: it is made, told and counted, whatever comes of it."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from log_tier.model.errors import DuramenError
from router.admin.client import AdminConnection
from router.admin.verbs import AdminChange, TakeSnapshots
from simulation.cluster_world import ClusterWorld

__all__ = ["ASK_S", "begin", "take_turn"]

ASK_S: Final = 3.0
"""The timeout of an operator's question."""


async def take_turn(world: ClusterWorld, who: str, verb: str, target: str, work: Awaitable[str]) -> None:
    """Await `work`, which is asked of `target` and says what has begun; a refusal is a part of the story too."""
    try:
        with world.doing(verb):
            words = await work
    except DuramenError as error:
        words = f"{type(error).__name__}: {error.message}"
        world.story.met[f"job {verb} refused: {error.code}"] += 1
    else:
        world.story.met[f"job {verb} begun"] += 1
    world.story.tell(who, f"{verb} at {target}: {words}")


async def begin(world: ClusterWorld, target: str, change: AdminChange) -> str:
    """Begin a change; the job. Raises what the server says."""
    acknowledged = world.asked_snapshots.acknowledged(world.sessions)
    async with AdminConnection(target, timeout=ASK_S) as admin:
        job = (await admin.start(change)).job
    if isinstance(change, TakeSnapshots):
        world.asked_snapshots.note(job, acknowledged)
    return f"job {job}"
