"""Jobs as messages: what the map says of them, and the progress that their nodes report. Pure."""

from __future__ import annotations

from log_tier.catalog.jobs import FINISHED, Job, Task
from router.admin.answers.argument_messages import argument_messages
from router.admin.planners.cluster_view import Situation
from router.membership.views import TaskView
from router.proto import admin_pb2 as pb

__all__ = ["describe_job", "jobs_of", "list_jobs"]


def jobs_of(situation: Situation) -> list[Job]:
    """All jobs: unfinished ones first, then the newest."""
    jobs = situation.cluster.jobs.values()
    return sorted(jobs, key=lambda job: (job.state in ("done", "aborted"), -job.id))


def list_jobs(situation: Situation) -> list[pb.AdminJobSummary]:
    """All jobs that the catalog remembers, without their tasks."""
    return [_summary(situation, job) for job in jobs_of(situation)]


def describe_job(situation: Situation, job: Job) -> pb.AdminJob:
    """One job with its tasks."""
    progress = _progress(situation)
    tasks = []
    for number, task in enumerate(job.tasks):
        table = situation.cluster.tables.get(task.table)
        reported = progress.get((job.id, number))
        under_way = reported is not None and task.state not in FINISHED
        tasks.append(
            pb.AdminTask(
                task=number,
                action=task.action,
                table=table.name if table is not None else task.table,
                partition=task.partition,
                node=task.node,
                source=_source(task),
                state=task.state,
                phase=reported.phase if reported is not None and under_way else "",
                done=reported.done if reported is not None and under_way else 0,
                total=reported.total if reported is not None and under_way else 0,
                note=task.note,
            )
        )
    summary = _summary(situation, job)
    return pb.AdminJob(
        job=summary.job,
        kind=summary.kind,
        subject=summary.subject,
        state=summary.state,
        tasks=summary.tasks,
        done=summary.done,
        failed=summary.failed,
        waits_for=summary.waits_for,
        started_ms=summary.started_ms,
        arguments=argument_messages(job.arguments),
        task_list=tasks,
    )


def _source(task: Task) -> str | None:
    source = task.arguments.get("from")
    return None if source is None else str(source)


def _progress(situation: Situation) -> dict[tuple[int, int], TaskView]:
    return {(task.job, task.task): task for view in situation.nodes.values() if view.alive for task in view.tasks}


def _summary(situation: Situation, job: Job) -> pb.AdminJobSummary:
    waiting = {task.node for task in job.tasks if task.state in ("waiting", "ready")}
    stuck = sorted(node for node in waiting if job.state == "running" and not situation.is_alive(node))
    return pb.AdminJobSummary(
        job=job.id,
        kind=job.kind,
        subject=job.subject,
        state=job.state,
        tasks=len(job.tasks),
        done=sum(task.state == "done" for task in job.tasks),
        failed=sum(task.state == "failed" for task in job.tasks),
        waits_for=stuck,
        started_ms=job.started_ms,
    )
