"""Jobs as documents: what the map says of them, and the progress that their nodes tell. Pure."""

from __future__ import annotations

from typing import Any

from log_tier.catalog.cluster_map import FINISHED, Job
from router.admin.planners.cluster_view import Situation
from router.membership.views import TaskView

__all__ = ["job_document", "job_documents", "jobs_of"]

Document = dict[str, Any]


def jobs_of(situation: Situation) -> list[Job]:
    """Those that are not over first, then the newest."""
    jobs = situation.cluster.jobs.values()
    return sorted(jobs, key=lambda job: (job.state in ("done", "aborted"), -job.id))


def job_documents(situation: Situation) -> list[Document]:
    """All jobs that the catalog remembers, without their tasks."""
    return [_summary(situation, job) for job in jobs_of(situation)]


def job_document(situation: Situation, job: Job) -> Document:
    """One job with its tasks."""
    progress = _progress(situation)
    tasks = []
    for number, task in enumerate(job.tasks):
        table = situation.cluster.tables.get(task.table)
        told = progress.get((job.id, number))
        under_way = told is not None and task.state not in FINISHED
        tasks.append(
            {
                "task": number,
                "action": task.action,
                "table": table.name if table is not None else task.table,
                "partition": task.partition,
                "node": task.node,
                "from": task.arguments.get("from"),
                "state": task.state,
                "phase": told.phase if told is not None and under_way else "",
                "done": told.done if told is not None and under_way else 0,
                "total": told.total if told is not None and under_way else 0,
                "note": task.note,
            }
        )
    return {**_summary(situation, job), "arguments": dict(job.arguments), "task_list": tasks}


def _progress(situation: Situation) -> dict[tuple[int, int], TaskView]:
    return {(task.job, task.task): task for view in situation.nodes.values() if view.alive for task in view.tasks}


def _summary(situation: Situation, job: Job) -> Document:
    waiting = {task.node for task in job.tasks if task.state in ("waiting", "ready")}
    stuck = sorted(node for node in waiting if job.state == "running" and not situation.is_alive(node))
    return {
        "job": job.id,
        "kind": job.kind,
        "subject": job.subject,
        "state": job.state,
        "tasks": len(job.tasks),
        "done": sum(task.state == "done" for task in job.tasks),
        "failed": sum(task.state == "failed" for task in job.tasks),
        "waits_for": stuck,
        "started_ms": job.started_ms,
    }
