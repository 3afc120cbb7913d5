"""What goes wrong with the disks of a cluster's nodes: drawn from a seed, and let happen."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Final

from duramen.testing.machine.node_disk.failing_calls import FailingCalls
from duramen.testing.machine.node_disk.node_fault import (
    COMMIT,
    FILL_INDEX,
    NODE_FAULTS,
    SHARED_STORE,
    NodeFault,
    NodeFaultKind,
    can_meet,
)
from serving_tier import names

__all__ = ["CALLS", "commit_faults_of", "node_faults_of", "strike_nodes"]

_CHANCE: Final = 0.5
"""In so many runs the disks of nodes fail."""
_USE_CHANCE: Final = 0.7
"""So many faults wait for a call for files of one use: else most would meet the files that are written most."""
_INDEXES: Final = ("index", "version", "incoming", "rebuild")
_STORES: Final = (names.SNAPSHOT_WORK_FOLDER, names.SNAPSHOTS_FOLDER, SHARED_STORE)
_PASSING: Final = (names.COPIES_FOLDER, names.POINT_IN_TIME_FOLDER)
CALLS: Final[Mapping[str, tuple[str, ...]]] = {
    "create": (*_INDEXES, *_STORES, *_PASSING),
    "write": (*_INDEXES, *_STORES, *_PASSING),
    "sync": (*_INDEXES, *_STORES, *_PASSING),
    "sync_folder": (*_INDEXES, *_STORES, *_PASSING),
    "rename": (*_INDEXES, *_STORES, *_PASSING),
    "link": (names.SNAPSHOTS_FOLDER, SHARED_STORE),
    "unlink": (*_INDEXES, "replaced", "old", *_PASSING),
    "make_folder": (*_INDEXES, names.SNAPSHOT_WORK_FOLDER, *_PASSING),
    "remove_folder": ("index",),
    "remove_tree": (*_INDEXES, "old", names.SNAPSHOT_WORK_FOLDER, *_PASSING),
}
"""By the kind of call, all alike often: what the files are for of which nodes make it. A draw over all calls would meet
little but writes.
"""
_COMMITS_CHANCE: Final = 0.35
"""In so many runs write transactions fail."""
_COMMITTED: Final = ("version", "incoming", "index", "")
_FILLED: Final = ("version", "version", "incoming", "incoming", "")


def node_faults_of(chance: random.Random, nodes: tuple[str, ...], *, length_s: float) -> tuple[NodeFault, ...]:
    """The faults of a run, by time. How calls fail, and which, is drawn first."""
    if chance.random() > _CHANCE:
        return ()
    kinds = [kind for kind in NODE_FAULTS if chance.random() < 0.5] or ["failed"]
    calls = [call for call in CALLS if chance.random() < 0.4 and _kinds(call, kinds)]
    if not calls:
        kinds, calls = ["failed"], list(CALLS)
    faults = [_fault(chance, nodes, chance.choice(calls), kinds, length_s) for _ in range(chance.choice((2, 4, 8, 16)))]
    return tuple(sorted(faults, key=lambda fault: fault.at_s))


def _kinds(call: str, kinds: Sequence[NodeFaultKind]) -> list[NodeFaultKind]:
    return [kind for kind in kinds if can_meet(kind, call)]


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


def _fault(
    chance: random.Random, nodes: tuple[str, ...], call: str, kinds: list[NodeFaultKind], length_s: float
) -> NodeFault:
    return NodeFault(
        chance.random() * length_s,
        chance.choice(nodes),
        chance.choice(_kinds(call, kinds)),
        steps=chance.choice((0, 0, 1, 2, 3, chance.randrange(20))),
        seconds=chance.choice((0.3, 1.0, 3.0)) * (0.5 + chance.random()),
        call=call,
        use=chance.choice(CALLS[call]) if chance.random() < _USE_CHANCE else "",
    )


async def strike_nodes(disks: Mapping[str, FailingCalls], faults: tuple[NodeFault, ...], pace: float) -> None:
    """Arm each fault at its time, multiplied by `pace`."""
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    for fault in faults:
        await asyncio.sleep(max(0.0, began_s + fault.at_s * pace - loop.time()))
        disks[fault.node].arm(fault)
