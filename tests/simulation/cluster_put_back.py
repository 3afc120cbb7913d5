"""A simulated cluster whose log is put back from an older copy of its disk, and is written on by clients."""

from __future__ import annotations

import asyncio
from typing import Final

from duramen.testing.machine.memory_disk import MemoryDisk
from simulation.cluster_world import NODES, ClusterWorld

__all__ = ["accept_loss", "copy_once", "put_back"]

_GONE: Final = "acknowledged records are gone from the log"
"""What a node says of an index that is ahead of its log; what to do about it follows."""


async def copy_once(world: ClusterWorld, copies: list[MemoryDisk], stop: asyncio.Event) -> None:
    """Copy the log's disk at the time that the plan says, and wait for `stop`."""
    assert world.plan.copied_s is not None
    await asyncio.sleep(world.plan.copied_s)
    copies.append(world.disk.copy())
    world.story.tell("operator", "copies the log's disk")
    await stop.wait()


async def put_back(world: ClusterWorld, copy: MemoryDisk) -> None:
    """Stop everything, replace the log's disk, and start again; the nodes keep their indexes."""
    world.disk.older = copy
    names = ("router", *NODES, "log")
    for name in names:
        world.keeps[name] = True
        world.processes[name].end(politely=name != "log")
    world.story.tell("operator", "puts the log back from the copy")
    world.story.met["log put back"] += 1
    for name in names:
        await world.processes[name].up.wait()


def accept_loss(world: ClusterWorld) -> None:
    """Remove the indexes of nodes that have applied what the log does not hold any more, as they ask for."""
    for name, (_, plane) in list(world.nodes.items()):
        if any(_GONE in each.trouble for each in plane.hosting.pending.values()):
            world.story.tell("operator", f"accepts the loss: removes the indexes of {name}")
            world.story.met["loss accepted"] += 1
            world.keeps[name] = False
            world.processes[name].end(politely=False)
