"""Bugs to plant in what heals lost nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from log_tier.catalog import catalog_fold
from log_tier.catalog.actions import Action
from router.admin.healing import healer
from router.admin.healing.absences import Absences
from router.admin.planners import heal
from router.admin.planners.plan import Step
from simulation.planted import Patches

__all__ = ["PLANTED_IN_HEALING"]


def _two_healings_of_one_loss() -> Patches:
    """The fold takes every healing, and routers do not look whether one is under way."""
    decide = heal.decide_healing

    def blind(situation: Any, lost: Any, *, copies: int) -> Any:
        jobs = {number: job for number, job in situation.cluster.jobs.items() if job.state in ("done", "aborted")}
        seen = replace(situation, cluster=replace(situation.cluster, jobs=jobs))
        held = {task.partition_id for _, _, task in situation.cluster.unfinished_tasks()}
        inner = heal._missed
        heal._missed = lambda *how: [each for each in inner(*how) if each.partition not in held]
        try:
            return decide(seen, lost, copies=copies)
        finally:
            heal._missed = inner

    return [(healer, "decide_healing", blind), (catalog_fold, "_check_automatic", lambda cluster, command: None)]


def _lost_copy_is_given_up_first() -> Patches:
    move_of = heal._Places.move_of

    def remove(self: Any, short: Any) -> Any:
        step = move_of(self, short)
        if isinstance(step, str):
            return step
        return Step(Action.REMOVE, step.partition, step.table_name, step.source)

    return [(heal._Places, "move_of", remove), (catalog_fold, "_check_automatic", lambda cluster, command: None)]


def _nobody_is_ever_lost_for_long() -> Patches:
    return [(Absences, "longer_than", lambda self, seconds: [])]


PLANTED_IN_HEALING: Final[dict[str, Callable[[], Patches]]] = {
    "one loss has two healings at once": _two_healings_of_one_loss,
    "a lost copy is given up before there is another one": _lost_copy_is_given_up_first,
    "no loss is ever long enough to be healed": _nobody_is_ever_lost_for_long,
}
