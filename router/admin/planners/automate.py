"""The plan that lets routers begin a kind of job by themselves, or no more. Pure."""

from __future__ import annotations

from log_tier.catalog.actions import AUTOMATIC, JobKind
from log_tier.model.errors import InvalidRequest
from router.admin.planners.cluster_view import Situation
from router.admin.planners.plan import Plan, plan_of

__all__ = ["plan_automate"]


def plan_automate(situation: Situation, *, what: str, off: bool = False) -> Plan:
    """Switch `what` off, or on again; nothing is moved by it. Raises `InvalidRequest` for what is not automatic."""
    if what not in AUTOMATIC:
        raise InvalidRequest(f"routers begin {' and '.join(AUTOMATIC)} by themselves, not {what!r}: name one of these")
    notes = [
        f"job {job.id} ({job.kind} {job.subject}) goes on: `duramen admin abort {job.id}` undoes it"
        for job in situation.cluster.jobs.values()
        if off and job.kind == what and job.state in ("running", "failed")
    ]
    subject = f"{what} off" if off else f"{what} on"
    notes.insert(
        0, f"routers begin no job of the kind {what} any more" if off else f"routers begin jobs of the kind {what}"
    )
    return plan_of(
        JobKind.AUTOMATE,
        subject,
        [],
        arguments={"what": what, "off": int(off)},
        notes=notes,
        begins_empty=off != (what in situation.cluster.by_hand),
    )
