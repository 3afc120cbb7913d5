"""Relief: which node is relieved now of what it has too much, and what is in the way of it. Pure.

    a relief is under way   wait for it; undo it where a task failed, a target is lost for long, or a healing goes first
    none is                 move replicas away from one node: a full one before a slow one, and that before a hot one

A job relieves one node, and the next one is decided by what the nodes say when it is over.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from log_tier.catalog.actions import JobKind
from log_tier.catalog.commands import AbortJob, StartJob
from log_tier.catalog.jobs import ArgumentValue, Job
from router.admin.planners.cluster_view import Situation
from router.admin.planners.heal import JobDecision, cut_off, newest_of, why_stuck
from router.admin.planners.plan import plan_of
from router.admin.planners.relieve import MOVES_MAX, Relief
from router.admin.planners.strains import Strain

__all__ = ["NO_RELIEF", "HealingFirst", "ReliefBounds", "decide_relief"]


class ReliefBounds(NamedTuple):
    """When nodes that have too much are relieved, and how fast."""

    after_s: float = 600.0
    """Seconds for which a node has too much before it is relieved; 0: never."""
    copies: int = MOVES_MAX
    """Replicas that one job moves, at most `MOVES_MAX`."""
    bytes_s: int = 100 * 1024 * 1024
    """Bytes a second that reliefs and healings copy, on average from one job to the next; 0: as fast as nodes copy."""


NO_RELIEF: Final = ReliefBounds(after_s=0.0)
"""An operator decides."""


class HealingFirst(NamedTuple):
    """What lost nodes mean for a relief."""

    wait: str = ""
    """Why none begins; empty: nothing is in the way."""
    undo: str = ""
    """Why one that is under way is undone."""


def decide_relief(
    situation: Situation,
    strains: Sequence[Strain],
    lasting: Collection[str],
    *,
    healing: HealingFirst = HealingFirst(),  # noqa: B008  (immutable)
    lost: Collection[str] = (),
    copies: int = MOVES_MAX,
) -> JobDecision:
    """What to do about nodes that have too much (`strains`, the most urgent first), of which those in `lasting` have it
    for long enough. `lost`: nodes that are lost for long. O(replicas).
    """
    cut = cut_off(situation)
    if cut:
        return JobDecision(blocked=(cut,))
    relief = newest_of(situation.cluster, JobKind.RELIEVE)
    if relief is not None and not relief.is_over:
        reason = _why_undone(situation, relief, healing, lost)
        return JobDecision(AbortJob(relief.id) if reason else None, reason=reason, job=relief.id)
    chosen = [strain for strain in strains if strain.node in lasting]
    if not chosen:
        return JobDecision()
    if healing.wait:
        return JobDecision(blocked=(healing.wait,))
    other = next((job for job, _ in situation.cluster.changing()), None)
    if other is not None:
        return JobDecision(blocked=(f"job {other.id} ({other.kind} {other.subject}) moves replicas: it goes first",))
    return _begun(situation, strains, chosen, copies, after=-1 if relief is None else relief.id)


def _why_undone(situation: Situation, job: Job, healing: HealingFirst, lost: Collection[str]) -> str:
    stuck = why_stuck(situation, job, lost)
    if stuck:
        return stuck
    waiting = any(task.state == "waiting" for _, task in job.tasks.unfinished())
    return healing.undo if waiting else ""


def _begun(
    situation: Situation, strains: Sequence[Strain], chosen: Sequence[Strain], copies: int, *, after: int
) -> JobDecision:
    relief = Relief(situation, list(strains))
    for strain in chosen:
        steps = relief.steps_of(strain, min(copies, MOVES_MAX))
        if not steps:
            continue  # nothing can be done for this one: `relief.stuck` says why
        size = sum(step.bytes for step in steps)
        arguments: dict[str, ArgumentValue] = {
            "node": strain.node,
            "strain": strain.kind,
            "after": after,
            "bytes": size,
        }
        notes = (f"node {strain.node} {strain.why}", *relief.stuck)
        plan = plan_of(JobKind.RELIEVE, f"node {strain.node}", steps, arguments=arguments, notes=notes)
        assert isinstance(plan.command, StartJob), plan.command
        return JobDecision(plan.command, plan=plan, reason=strain.why, blocked=tuple(relief.stuck))
    return JobDecision(blocked=tuple(relief.stuck))
