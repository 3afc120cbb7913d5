"""What goes wrong with the disks of a cluster's nodes: drawn from a seed, and let happen."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import Final

from duramen.testing.machine.node_disk.failing_calls import FailingCalls
from duramen.testing.machine.node_disk.node_fault import COMMIT, FILL_INDEX, NODE_FAULTS, NodeFault, NodeFaultKind
from serving_tier import names

__all__ = ["commit_faults_of", "node_faults_of", "strike_nodes"]

_CHANCE: Final = 0.5
"""In so many runs the disks of nodes fail."""
_AIMED_CHANCE: Final = 0.5
"""Of the faults, so many wait for one call, or for files of one use: an index that comes meets few faults by chance."""
_CALLS: Final = ("rename", "rename", "sync", "create", "make_folder", "remove_tree")
_COMMITS_CHANCE: Final = 0.35
"""In so many runs write transactions fail."""
_COMMITTED: Final = ("version", "incoming", "index", "")
_FILLED: Final = ("version", "version", "incoming", "incoming", "")
_USES: Final = ("incoming", "incoming", "version", "index", "replaced", names.SNAPSHOT_WORK_FOLDER)


def node_faults_of(chance: random.Random, nodes: tuple[str, ...], *, length_s: float) -> tuple[NodeFault, ...]:
    """The faults of a run, by time. Which kinds there are is drawn first."""
    if chance.random() > _CHANCE:
        return ()
    possible = [kind for kind in NODE_FAULTS if chance.random() < 0.5] or ["failed"]
    faults = [_fault(chance, nodes, possible, length_s) for _ in range(chance.choice((1, 2, 4, 8)))]
    return tuple(sorted(faults, key=lambda fault: fault.at_s))


def commit_faults_of(chance: random.Random, nodes: tuple[str, ...], *, length_s: float) -> tuple[NodeFault, ...]:
    """The faults of a run that meet write transactions of LMDB: most end the process between two of them."""
    if chance.random() > _COMMITS_CHANCE:
        return ()
    kinds: tuple[NodeFaultKind, ...] = ("end", "end", "end", "no room", "failed")

    def fault(call: str, use: str, steps: int) -> NodeFault:
        at_s, node = chance.random() * length_s, chance.choice(nodes)
        return NodeFault(at_s, node, chance.choice(kinds), steps=steps, call=call, use=use)

    commits = [fault(COMMIT, chance.choice(_COMMITTED), chance.randrange(20)) for _ in range(chance.choice((1, 2, 4)))]
    fills = [fault(FILL_INDEX, chance.choice(_FILLED), chance.randrange(3)) for _ in range(chance.choice((2, 4, 8)))]
    return (*commits, *fills)


def _fault(chance: random.Random, nodes: tuple[str, ...], possible: list[NodeFaultKind], length_s: float) -> NodeFault:
    kind = chance.choice(possible)
    only_call = kind in ("failed", "refused", "end") and chance.random() < _AIMED_CHANCE
    return NodeFault(
        chance.random() * length_s,
        chance.choice(nodes),
        kind,
        steps=chance.choice((0, 1, 2, 3, chance.randrange(20))),
        seconds=chance.choice((0.3, 1.0, 3.0)) * (0.5 + chance.random()),
        call=chance.choice(_CALLS) if only_call else "",
        use=chance.choice(_USES) if chance.random() < _AIMED_CHANCE else "",
    )


async def strike_nodes(disks: Mapping[str, FailingCalls], faults: tuple[NodeFault, ...], pace: float) -> None:
    """Arm each fault at its time, multiplied by `pace`."""
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    for fault in faults:
        await asyncio.sleep(max(0.0, began_s + fault.at_s * pace - loop.time()))
        disks[fault.node].arm(fault)
