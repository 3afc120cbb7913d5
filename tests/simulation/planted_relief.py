"""Bugs to plant in what relieves nodes that have too much."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from log_tier.catalog import catalog_fold
from router.admin.healing.own_jobs import OwnJobs
from router.admin.planners import strains
from router.admin.planners.relieve import Relief
from router.admin.relief import decision, reliever
from router.admin.relief.strain_times import StrainTimes
from simulation.planted import Patches

__all__ = ["PLANTED_IN_RELIEF"]


def _two_reliefs_at_once() -> Patches:
    """The fold takes every relief, and routers do not look whether one is under way."""
    decide = decision.decide_relief

    def blind(situation: Any, strains: Any, lasting: Any, **how: Any) -> Any:
        over = {number: job for number, job in situation.cluster.jobs.items() if job.is_over}
        moving.update(situation.changing())
        return decide(replace(situation, cluster=replace(situation.cluster, jobs=over)), strains, lasting, **how)

    moving: set[Any] = set()
    movable = Relief._movable
    return [
        (reliever, "decide_relief", blind),
        (Relief, "_movable", lambda self, node: [each for each in movable(self, node) if each not in moving]),
        (catalog_fold, "_check_automatic", lambda cluster, command: None),
    ]


def _nobody_looks_for_room() -> Patches:
    return [(Relief, "_has_room", lambda self, node, size: True)]


def _who_has_too_much_gets_more() -> Patches:
    made = Relief.__init__

    def begin(self: Any, situation: Any, strained: Any) -> None:
        made(self, situation, strained)
        self._loaded = set()
        self._has_room = lambda node, size: True

    return [(Relief, "__init__", begin)]


def _nobody_has_too_much_for_long() -> Patches:
    return [(StrainTimes, "seconds", lambda self, node: 0.0)]


def _the_switch_is_not_heeded() -> Patches:
    check = catalog_fold._check_automatic

    def unheeded(cluster: Any, command: Any) -> None:
        check(replace(cluster, by_hand=()), command)

    return [(OwnJobs, "is_off", lambda self: False), (catalog_fold, "_check_automatic", unheeded)]


def _the_last_copy_goes_first() -> Patches:
    step = Relief._step

    def removed(self: Any, *where: Any, **how: Any) -> Any:
        found = step(self, *where, **how)
        return None if found is None else replace(found, action="remove", node=found.source)

    return [(Relief, "_step", removed), (catalog_fold, "_check_automatic", lambda cluster, command: None)]


def _nobody_is_hot() -> Patches:
    return [(strains, "_hot", lambda situation, alive: iter(()))]


def _heat_goes_anywhere() -> Patches:
    step = Relief._step
    return [(Relief, "_step", lambda self, node, partition, below=None: step(self, node, partition))]


PLANTED_IN_RELIEF: Final[dict[str, Callable[[], Patches]]] = {
    "two reliefs are under way at once": _two_reliefs_at_once,
    "a node is filled to relieve another": _nobody_looks_for_room,
    "a full node relieves a full one": _who_has_too_much_gets_more,
    "no node has too much for long enough": _nobody_has_too_much_for_long,
    "relief that is switched off goes on": _the_switch_is_not_heeded,
    "a copy is given up before there is another one": _the_last_copy_goes_first,
    "a hot node is not seen": _nobody_is_hot,
    "what makes a node hot goes where it makes another one as hot": _heat_goes_anywhere,
}
