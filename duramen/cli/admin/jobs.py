"""`duramen admin jobs | job | abort | resume`."""

from __future__ import annotations

from typing import Annotated

import typer

from duramen.cli.admin.arguments import DryRun, Wait, WaitTimeout
from duramen.cli.admin.figures import local_time
from duramen.cli.terminal.exits import OK
from duramen.cli.terminal.options import AT_DEFAULT, At, Json, Timeout
from duramen.cli.terminal.output import say, say_table

__all__ = ["abort", "job", "jobs", "resume"]

_JobId = Annotated[int, typer.Argument(metavar="ID", help="The job's id, as `duramen admin jobs` shows it.")]


def jobs(
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Only the first so many.")] = 30,
    at: At = AT_DEFAULT,
    timeout: Timeout = 10.0,
    json: Json = False,
) -> None:
    """List the jobs: those that are not over first, then the newest.

    \b
      duramen admin jobs
      duramen admin jobs --json | jq 'select(.state == "failed") | .job'
    """
    from duramen.cli.admin.answer import say_answer
    from duramen.cli.admin.connection import ask

    found = ask(at, timeout, lambda admin: admin.jobs())[:limit]
    if json:
        for each in found:
            say_answer(each)
        return
    if not found:
        say("no jobs yet")
        return
    columns = ["job", "kind", "subject", "state", "tasks", "done", "failed", "begun", "waits for"]
    say_table(
        columns,
        [
            (
                each.job,
                each.kind,
                each.subject,
                each.state,
                each.tasks,
                each.done,
                each.failed,
                local_time(each.started_ms),
                ", ".join(each.waits_for),
            )
            for each in found
        ],
        right=["job", "tasks", "done", "failed"],
    )


def job(
    job_id: _JobId,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Watch it until it is over.")] = False,
    timeout: WaitTimeout = None,
    at: At = AT_DEFAULT,
    json: Json = False,
) -> int:
    """Show a job and its tasks.

    With --follow the exit code is 1 where it failed, or was aborted.

    \b
      duramen admin job 4711
      duramen admin job 4711 --follow
    """
    from duramen.cli.admin.answer import say_answer
    from duramen.cli.admin.change import wait_for
    from duramen.cli.admin.connection import ask
    from duramen.cli.admin.rendering import say_job
    from router.admin.client import AdminConnection

    async def shown(admin: AdminConnection) -> int:
        if follow:
            return await wait_for(admin, job_id, json=json, wait=True, timeout=timeout)
        found = await admin.job(job_id)
        if json:
            say_answer(found)
        else:
            say_job(found)
        return OK

    return ask(at, 10.0 if timeout is None else timeout, shown)


def abort(job_id: _JobId, dry_run: DryRun = False, at: At = AT_DEFAULT, json: Json = False) -> int:
    """Give a job up: what it began and did not finish is undone, what is done stays.

    \b
      duramen admin abort 4711 --dry-run
      duramen admin abort 4711
    """
    return _go_on("abort", job_id, dry_run, False, None, at, json)


def resume(
    job_id: _JobId,
    dry_run: DryRun = False,
    wait: Wait = True,
    timeout: WaitTimeout = None,
    at: At = AT_DEFAULT,
    json: Json = False,
) -> int:
    """Take up a job again: failed tasks are tried anew, and those of lost nodes go to nodes that are there.

    \b
      duramen admin resume 4711 --dry-run
      duramen admin resume 4711
    """
    return _go_on("resume", job_id, dry_run, wait, timeout, at, json)


def _go_on(name: str, job_id: int, dry_run: bool, wait: bool, timeout: float | None, at: str, json: bool) -> int:
    from duramen.cli.admin.answer import say_answer
    from duramen.cli.admin.change import say_plan, wait_for
    from duramen.cli.admin.connection import ask
    from router.admin.client import AdminConnection

    async def gone_on(admin: AdminConnection) -> int:
        plan = await (admin.abort if name == "abort" else admin.resume)(job_id, dry_run=dry_run)
        if json:
            say_answer(plan, flush=True)
        elif plan.steps or plan.notes:
            say_plan(plan)
        if dry_run:
            return OK
        if name == "abort":
            if not json:
                say(f"job {job_id} is aborted")
            return OK
        return await wait_for(admin, job_id, json=json, wait=wait, timeout=timeout)

    return ask(at, 30.0, gone_on)
