"""A task that needs what was acknowledged before it: it waits until its replica has applied what the log holds."""

from __future__ import annotations

from log_tier.model.errors import ReplicaBehind
from serving_tier.jobs.worker import TaskRun
from serving_tier.replica.replica import Replica

__all__ = ["reach_log_end"]


async def reach_log_end(run: TaskRun, replica: Replica, *, needed: str) -> None:
    """Return when a replica has applied what the log held at the task's first try. `needed`: what for, for the error.

    Raises `ReplicaBehind` after some seconds, and the task is tried again; what keeps the log from saying where it
    ends; and why the replica was closed.
    """
    run.progress("waiting for the log's end")
    if run.through is None:
        run.through = await replica.progress.log_end()
    try:
        await replica.wait_applied(run.through, timeout=run.wait_s)
    except ReplicaBehind as error:
        raise ReplicaBehind(
            f"replica {replica.name} has applied {replica.applied}, and the log held offset {run.through} when the "
            f"task began; {needed}: see what keeps the replica behind (`duramen admin lag`), then resume the job "
            f"(`duramen admin resume {run.job.id}`)",
            **error.fields,
        ) from error
