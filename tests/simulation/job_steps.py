"""Which faults met which step of which job: counted in every run, and over many seeds each step must have been met."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from simulation.cluster_jobs import unfinished
from simulation.cluster_world import ClusterWorld

__all__ = ["ACTIONS", "KINDS", "TASKLESS", "meets_jobs", "never_met", "steps_met"]

ACTIONS: Final = ("add", "compact", "copy", "move", "rebuild", "snapshot", "stage", "swap", "trim")
"""Of tasks, whatever job they belong to. A replica is removed in no time."""
KINDS: Final = ("build", "clear", "discard", "retention", "rollback", "users")
"""Jobs of which it is not enough that another job has tasks like theirs, and what has no tasks."""
TASKLESS: Final = {"build": "n1", "discard": "n2", "retention": "n3", "users": "router"}
"""Of those that have no tasks: a node that a fault may strike."""
_NAME: Final = "step of "


def meets_jobs(world: ClusterWorld, fault: str) -> None:
    """A fault happens: count the steps that it meets."""
    steps = {f"{job.kind}, {task.action} {task.state}" for job, task in unfinished(world)}
    steps |= {f"{what}, under way" for what, count in world.under_way.items() if count}
    for name in sorted(steps):
        world.story.met[f"{_NAME}{name}: {fault}"] += 1


def steps_met(met: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """By step, an action or a kind, and by fault: how often it was met, by what runs have counted."""
    found: dict[str, dict[str, int]] = {step: {} for step in (*ACTIONS, *KINDS)}
    for name, count in met.items():
        if name.startswith(_NAME):
            step, _, fault = name.removeprefix(_NAME).rpartition(": ")
            kind, _, task = step.partition(", ")
            for each in dict.fromkeys((kind, task.partition(" ")[0])):
                if each in found:
                    found[each][fault] = found[each].get(fault, 0) + count
    return found


def never_met(met: Mapping[str, int]) -> list[str]:
    """Which steps no fault has met."""
    return [step for step, faults in steps_met(met).items() if not faults]
