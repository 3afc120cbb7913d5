"""What a healer would do now, as a message."""

from __future__ import annotations

from log_tier.catalog.commands import AbortJob
from router.admin.answers.plans import describe_plan
from router.admin.healing.healer import HealOutlook
from router.admin.planners.heal import JobDecision
from router.proto import admin_pb2 as pb

__all__ = ["action_of", "describe_healing"]


def describe_healing(outlook: HealOutlook) -> pb.AdminHealing:
    """The outlook as an answer; pure. With healing switched off it is what would be done if it were on."""
    bounds, decision = outlook.bounds, outlook.decision
    return pb.AdminHealing(
        after_s=bounds.after_s,
        copies=bounds.copies,
        bytes_s=bounds.bytes_s,
        lost=[
            pb.AdminLoss(
                node=node,
                reason=outlook.situation.lost(node),
                lost_s=lost_s,
                left_s=max(0.0, bounds.after_s - lost_s) if bounds.after_s and not outlook.is_off else None,
            )
            for node, lost_s in sorted(outlook.lost.items())
        ],
        short=decision.short,
        action=action_of(decision),
        job=decision.job,
        reason=decision.reason,
        plan=None if decision.plan is None else describe_plan(decision.plan, dry_run=True),
        pause_s=outlook.pause_s,
        blocked=decision.blocked,
        off=outlook.is_off,
    )


def action_of(decision: JobDecision) -> str:
    """In a word: nothing, begin, wait, undo."""
    if isinstance(decision.command, AbortJob):
        return "undo"
    if decision.command is not None:
        return "begin"
    return "nothing" if decision.job is None else "wait"
