"""Faults of the disks of nodes: each kind of call meets about as many, whatever nodes make most."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Final

from duramen.testing.machine.node_disk.node_fault import COMMIT, FILL_INDEX, NODE_FAULTS, can_meet
from serving_tier.disk import NodeDisk
from simulation.node_faults import CALLS
from simulation.plan import Plan, plan_of

SEEDS: Final = 500
LMDBS: Final = (COMMIT, FILL_INDEX)


@cache
def drawn() -> list[Plan]:
    return [plan_of(seed) for seed in range(SEEDS)]


def test_every_kind_of_call_that_a_node_makes_is_drawn() -> None:
    """`sync_file` is a sync of a file that nobody has open; what LMDB writes has a draw of its own."""
    calls = {name for name in vars(NodeDisk) if not name.startswith("_")} - {"open_environment", "sync_file"}
    assert set(CALLS) == calls


def test_the_kinds_of_calls_meet_faults_alike_often() -> None:
    counts = Counter(fault.call for plan in drawn() for fault in plan.node_faults if fault.call not in LMDBS)
    assert set(counts) == set(CALLS)
    assert max(counts.values()) < 4 * min(counts.values()), counts


def test_each_fault_can_meet_its_call() -> None:
    met = {(fault.call, fault.kind) for plan in drawn() for fault in plan.node_faults}
    assert all(can_meet(kind, call) for call, kind in met)
    assert {pair for pair in met if pair[0] in CALLS} == {
        (call, kind) for call in CALLS for kind in NODE_FAULTS if can_meet(kind, call)
    }


def test_what_the_files_are_for_is_drawn_too() -> None:
    """Some faults wait for files of one use, others meet whatever comes first."""
    uses = {call: {fault.use for plan in drawn() for fault in plan.node_faults if fault.call == call} for call in CALLS}
    assert uses == {call: {"", *of} for call, of in CALLS.items()}
