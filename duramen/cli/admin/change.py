"""How a change is carried out: shown, asked for where it destroys, begun, and waited for."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Final

import typer

from duramen.cli.admin.answer import say_answer
from duramen.cli.admin.connection import ask
from duramen.cli.admin.figures import duration, place, size
from duramen.cli.admin.progress import follow, say_job_end
from duramen.cli.terminal.exits import ERROR, OK
from duramen.cli.terminal.output import say, say_table
from duramen.cli.terminal.text import counted
from log_tier.model.errors import InvalidRequest
from router.admin.client import AdminConnection
from router.admin.verbs import AdminChange
from router.proto.admin_pb2 import AdminPlan, AdminStep

__all__ = ["carry_out", "confirm", "say_plan", "wait_for"]

# Of one question; what is waited for is the job.
_CALL_S: Final = 30.0

_STEPS_SHOWN: Final = 40

_WITHOUT_STEPS: Final = ("automate", "undrain")
"""Plans that change something, and never have a step."""


def carry_out(
    change: AdminChange,
    *,
    at: str,
    json: bool,
    dry_run: bool,
    wait: bool,
    timeout: float | None,
    yes: bool = True,
    destroys: str = "",
    destroys_if: Sequence[str] = (),
) -> int:
    """Do `change` by way of the server at `at`; the exit code.

    `destroys`: what is lost; the command asks before it begins, unless `yes`. With `destroys_if` it asks only for plans
    that have a step with one of these actions.
    """

    async def carried(admin: AdminConnection) -> int:
        plan_id, seen = "", None
        if dry_run or not yes:
            plan = await admin.start(change, dry_run=True)
            if dry_run:
                _say(plan, json)
                return OK
            actions = {step.action for step in plan.steps}
            if not destroys_if or actions & set(destroys_if):
                plan_id, seen = plan.plan, plan.version if plan.HasField("version") else None
                await asyncio.to_thread(_confirm, plan, destroys, json)
        plan = await admin.start(change, plan_id=plan_id, seen=seen)
        _say(plan, json)
        if not plan.HasField("job"):
            return OK
        return await wait_for(admin, plan.job, json=json, wait=wait, timeout=timeout)

    return ask(at, _CALL_S, carried)


async def wait_for(admin: AdminConnection, job_id: int, *, json: bool, wait: bool, timeout: float | None) -> int:
    """Watch a job to its end, or say where it can be watched; the exit code."""
    if not wait:
        if not json:
            say(f"job {job_id} has begun: `duramen admin job {job_id}` shows how far it is")
        return OK
    job = await follow(admin, job_id, timeout=timeout, bar=not json)
    if json:
        say_answer(job)
    else:
        say_job_end(job)
    return OK if job.state == "done" else ERROR


def _confirm(plan: AdminPlan, destroys: str, json: bool) -> None:
    """Show a plan, and ask whether to go on; as `confirm`."""
    if not json and sys.stdin.isatty():
        say_plan(plan)
    confirm(f"{plan.kind} of {plan.subject}: {destroys}", json=json)


def confirm(what: str, *, json: bool) -> None:
    """Ask whether to go on. Raises `InvalidRequest` where nobody is there, `typer.Abort` for a no."""
    if json or not sys.stdin.isatty():
        raise InvalidRequest(f"{what}; say --yes, or look at it first with --dry-run")
    typer.confirm(f"{what}. Go on?", abort=True)


def _say(plan: AdminPlan, json: bool) -> None:
    if json:
        say_answer(plan, flush=True)
    else:
        say_plan(plan)


def say_plan(plan: AdminPlan) -> None:
    """A plan for people: its steps and what they cost."""
    steps = plan.steps
    if not steps:
        said = plan.kind in _WITHOUT_STEPS
        say(f"{plan.kind} {plan.subject}" if said else f"{plan.kind} {plan.subject}: nothing has to be done")
    else:
        columns = ["action", "partition", "node", "from", "bytes", "what"]
        rows = [
            (step.action, place(step), step.node, step.source, _bytes(step), step.note) for step in steps[:_STEPS_SHOWN]
        ]
        say_table(columns, rows, right=["bytes"])
        if len(steps) > _STEPS_SHOWN:
            say(f"… and {len(steps) - _STEPS_SHOWN} more")
        count = counted(len(steps), "step")
        cost = f"some {duration(plan.seconds)}"
        if plan.bytes:
            cost = f"{size(plan.bytes)} to copy, {cost} at {size(plan.rate_bytes_s)}/s a node"
        dry = " (not begun: a dry run)" if plan.dry_run else ""
        say(f"{plan.kind} {plan.subject}: {count}, {cost}{dry}")
    for note in plan.notes:
        say(f"note: {note}")


def _bytes(step: AdminStep) -> str:
    return size(step.bytes) if step.bytes else ""
