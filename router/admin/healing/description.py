"""What a healer would do now, as a message."""

from __future__ import annotations

from typing import Final

from log_tier.catalog.commands import AbortJob
from log_tier.concurrency.sized_work import run_sized
from router.admin.answers.plans import describe_plan
from router.admin.healing.healer import Healer, HealOutlook
from router.admin.planners.heal import HealDecision
from router.proto import admin_pb2 as pb

__all__ = ["describe_healing", "healing_answer"]

# A look at a lost node, and a step of the plan, as messages.
_NODE_ITEMS: Final = 5


async def healing_answer(healer: Healer) -> pb.AdminHealing:
    """What a healer would do now, and why."""
    outlook = await healer.outlook()
    steps = 0 if outlook.decision.plan is None else len(outlook.decision.plan.steps)
    return await run_sized((len(outlook.lost) + steps) * _NODE_ITEMS, lambda: describe_healing(outlook))


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
                left_s=max(0.0, bounds.after_s - lost_s) if bounds.after_s else None,
            )
            for node, lost_s in sorted(outlook.lost.items())
        ],
        short=decision.short,
        action=_action(decision),
        job=decision.job,
        reason=decision.reason,
        plan=None if decision.plan is None else describe_plan(decision.plan, dry_run=True),
        pause_s=outlook.pause_s,
        blocked=decision.blocked,
    )


def _action(decision: HealDecision) -> str:
    if isinstance(decision.command, AbortJob):
        return "undo"
    if decision.command is not None:
        return "begin"
    return "nothing" if decision.job is None else "wait"
