"""Plans as messages. Pure."""

from __future__ import annotations

from log_tier.model.identifiers import Offset
from router.admin.answers.argument_messages import argument_messages
from router.admin.planners.plan import RATE_BYTES_S, Plan
from router.proto import admin_pb2 as pb

__all__ = ["describe_plan"]


def describe_plan(plan: Plan, seen: Offset | None = None, *, dry_run: bool, job: int | None = None) -> pb.AdminPlan:
    """The plan as an answer. `seen`: the catalog's version on which it was made; `job`: its id, once it has begun."""
    return pb.AdminPlan(
        kind=plan.kind,
        subject=plan.subject,
        plan=plan.id,
        dry_run=dry_run,
        job=job,
        steps=[
            pb.AdminStep(
                action=step.action,
                table=step.table_name,
                partition=step.partition.partition,
                node=step.node,
                source=step.source or None,
                bytes=step.bytes,
                arguments=argument_messages(step.arguments),
                note=step.note,
            )
            for step in plan.steps
        ],
        replicas_moved=plan.replicas_moved,
        bytes=plan.bytes,
        seconds=plan.seconds,
        rate_bytes_s=RATE_BYTES_S,
        notes=plan.notes,
        version=seen,
    )
