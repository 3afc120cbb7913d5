"""Watching a job: a progress bar for people, and its end for everybody."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import ExitStack, aclosing
from typing import Any, Final, cast

from duramen.cli.admin.figures import place
from duramen.cli.terminal.console import console
from duramen.cli.terminal.output import say
from log_tier.concurrency.backoff import Backoff
from log_tier.model.errors import DeadlineExceeded, DuramenError
from router.admin.client import AdminConnection
from router.proto.admin_pb2 import AdminJob, AdminTask

__all__ = ["follow", "say_job_end"]

# A server that restarts, or a router that is replaced, is back within this; the job goes on anyway.
_LOST_S: Final = 30.0
_PAUSE_FIRST_S: Final = 0.3
_PAUSE_MAX_S: Final = 2.0


async def follow(admin: AdminConnection, job_id: int, *, timeout: float | None, bar: bool) -> AdminJob:
    """The job when it is over. Raises `DeadlineExceeded` where that takes longer than `timeout` seconds, which changes
    nothing about the job. Where the server goes away it asks again, for half a minute.
    """
    with ExitStack() as shown:
        tell = _bar(shown, job_id) if bar and sys.stderr.isatty() else lambda job: None
        try:
            async with asyncio.timeout(timeout):
                return await _ended(admin, job_id, tell)
        except TimeoutError as error:
            if isinstance(error, DuramenError):
                raise
            raise DeadlineExceeded(
                f"job {job_id} is not over after {timeout:g} s and goes on: `duramen admin job {job_id}` watches it"
            ) from None


async def _ended(admin: AdminConnection, job_id: int, tell: Callable[[AdminJob], None]) -> AdminJob:
    loop = asyncio.get_running_loop()
    heard = loop.time()
    backoff = Backoff(_PAUSE_FIRST_S, _PAUSE_MAX_S)
    job: AdminJob
    while True:
        try:
            async with aclosing(cast("Any", admin.follow_job(job_id))) as answers:
                async for job in answers:
                    heard = loop.time()
                    backoff.reset()
                    tell(job)
                    if job.state != "running":
                        return job
        except DuramenError as error:
            if not error.retryable or loop.time() - heard > _LOST_S:
                raise
        await backoff.pause()


def _bar(shown: ExitStack, job_id: int) -> Callable[[AdminJob], None]:
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    progress = shown.enter_context(
        Progress(
            TextColumn(f"job {job_id}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.description}"),
            console=console(stderr=True),
            transient=True,
        )
    )
    line = progress.add_task("", total=None)

    def tell(job: AdminJob) -> None:
        tasks = job.task_list
        progress.update(line, total=max(1, len(tasks)), completed=sum(map(_share, tasks)), description=_doing(job))

    return tell


def _share(task: AdminTask) -> float:
    """How much of a task is done, 0 to 1."""
    if task.state in ("done", "failed", "aborted"):
        return 1.0
    return float(task.done / task.total) if 0 < task.done <= task.total else 0.0


def _doing(job: AdminJob) -> str:
    """What is going on, in a few words."""
    if job.waits_for:
        return f"waits for {', '.join(job.waits_for)}, which cannot be reached"
    busy = [task for task in job.task_list if task.phase]
    if not busy:
        return f"{job.done} of {job.tasks} done"
    return f"{place(busy[0])} at {busy[0].node}: {busy[0].phase}"


def say_job_end(job: AdminJob) -> None:
    """Print how a job ended and which of its tasks failed."""
    say(f"job {job.job} ({job.kind} {job.subject}) is {job.state}: {job.done} of {job.tasks} done")
    failed = [task for task in job.task_list if task.state == "failed"]
    for task in failed:
        say(f"  {task.action} of {place(task)} at {task.node}: {task.note}")
    if failed:
        say(f"`duramen admin resume {job.job}` tries these again, `duramen admin abort {job.job}` undoes them")
