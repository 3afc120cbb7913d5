"""What a reliever would do now, as a message."""

from __future__ import annotations

from typing import Final

from log_tier.concurrency.sized_work import run_sized
from router.admin.answers.plans import describe_plan
from router.admin.healing.description import action_of, describe_healing
from router.admin.healing.healer import Healer
from router.admin.relief.reliever import ReliefOutlook, Reliever
from router.proto import admin_pb2 as pb

__all__ = ["automatic_answer", "describe_relief"]

# A look at a node, and a step of a plan, as messages.
_ITEMS: Final = 5


async def automatic_answer(healer: Healer, reliever: Reliever) -> pb.AdminHealing:
    """What a router would do by itself now, about lost nodes and about those that have too much, and why."""
    healing, relief = await healer.outlook(), await reliever.outlook()
    plans = [outlook.decision.plan for outlook in (healing, relief)]
    steps = sum(len(plan.steps) for plan in plans if plan is not None)

    def described() -> pb.AdminHealing:
        answer = describe_healing(healing)
        answer.relief.CopyFrom(describe_relief(relief))
        return answer

    return await run_sized((len(healing.lost) + len(relief.strains) + steps) * _ITEMS, described)


def describe_relief(outlook: ReliefOutlook) -> pb.AdminRelief:
    """The outlook as an answer; pure. With relief switched off it is what would be done if it were on."""
    bounds, decision = outlook.bounds, outlook.decision
    is_off = outlook.is_off or not bounds.after_s
    return pb.AdminRelief(
        after_s=bounds.after_s,
        off=outlook.is_off,
        strained=[
            pb.AdminStrain(
                node=strain.node,
                kind=strain.kind,
                reason=strain.why,
                seen_s=seen_s,
                left_s=None if is_off else max(0.0, bounds.after_s - seen_s),
            )
            for strain, seen_s in zip(outlook.strains, outlook.seen_s, strict=True)
        ],
        action=action_of(decision),
        job=decision.job,
        reason=decision.reason,
        plan=None if decision.plan is None else describe_plan(decision.plan, dry_run=True),
        pause_s=outlook.pause_s,
        blocked=decision.blocked,
    )
