"""What goes wrong with the disks of a cluster's nodes: drawn from a seed, and let happen."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import Final

from duramen.testing.machine.node_disk.failing_calls import FailingCalls
from duramen.testing.machine.node_disk.node_fault import NODE_FAULTS, NodeFault

__all__ = ["node_faults_of", "strike_nodes"]

_CHANCE: Final = 0.5
"""In so many runs the disks of nodes fail."""


def node_faults_of(chance: random.Random, nodes: tuple[str, ...], *, length_s: float) -> tuple[NodeFault, ...]:
    """The faults of a run, by time. Which kinds there are is drawn first."""
    if chance.random() > _CHANCE:
        return ()
    possible = [kind for kind in NODE_FAULTS if chance.random() < 0.5] or ["failed"]
    faults = [
        NodeFault(
            chance.random() * length_s,
            chance.choice(nodes),
            chance.choice(possible),
            steps=chance.choice((0, 1, 2, 3, chance.randrange(20))),
            seconds=chance.choice((0.3, 1.0, 3.0)) * (0.5 + chance.random()),
        )
        for _ in range(chance.choice((1, 2, 4, 8)))
    ]
    return tuple(sorted(faults, key=lambda fault: fault.at_s))


async def strike_nodes(disks: Mapping[str, FailingCalls], faults: tuple[NodeFault, ...], pace: float) -> None:
    """Arm each fault at its time, multiplied by `pace`."""
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    for fault in faults:
        await asyncio.sleep(max(0.0, began_s + fault.at_s * pace - loop.time()))
        disks[fault.node].arm(fault)
