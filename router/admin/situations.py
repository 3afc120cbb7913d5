"""Answers, plans and job reports about a whole cluster: made on the event loop where it is small, in a thread where it
has many partitions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeVar

from log_tier.catalog.jobs import Job
from log_tier.concurrency.sized_work import AT_ONCE_ITEMS_MAX, Turn, run_sized
from log_tier.model.identifiers import Offset, PartitionId
from router.admin.answers.jobs import describe_job, list_jobs
from router.admin.answers.plans import describe_plan
from router.admin.planners.cluster_view import Situation
from router.admin.planners.plan import Plan, check_content_may_change, check_plan
from router.membership.views import NodeView, ReplicaView
from router.proto import admin_pb2 as pb

__all__ = ["job_answer", "jobs_answer", "plan_answer", "plan_for", "said_of"]

T = TypeVar("T")

# A partition of a list costs as much as so many keys of a read: a look at each replica, and two messages.
_PARTITION_ITEMS: Final = 20

# And the look at a replica alone.
_LOOK_ITEMS: Final = 5

# A step of a plan, or a task of a job, as a message; and a look at one.
_STEP_ITEMS: Final = 5
_TASK_ITEMS: Final = 1


async def said_of(situation: Situation, make: Callable[[Situation], T], *, table: str = "") -> T:
    """What `make` says of a table, or of all; pure. Some 40 µs a partition. Raises `TableNotFound`."""
    tables = situation.tables(table)
    if sum([entry.partitions for entry in tables]) * _PARTITION_ITEMS <= AT_ONCE_ITEMS_MAX:
        return make(situation)
    turn = Turn()
    nodes: dict[str, NodeView] = {}
    for node, view in situation.nodes.items():
        # Copied here: a view may look a replica up when somebody reads it, and only the event loop may do that.
        replicas: dict[PartitionId, ReplicaView] = {}
        for entry in tables:
            for partition in entry.partition_ids():
                found = view.replicas.get(partition)
                if found is not None:
                    replicas[partition] = found
                if turn.is_full(_LOOK_ITEMS):
                    await turn.end()
        nodes[node] = replace(view, replicas=replicas)
    return await asyncio.to_thread(make, Situation(situation.cluster, nodes))


async def plan_for(situation: Situation, planner: Callable[[Situation], Plan]) -> Plan:
    """The plan that `planner` makes, if the map allows it (A2). Raises what the planner does, and `CommandRejected`."""

    def made(seen: Situation) -> Plan:
        plan = planner(seen)
        for table in dict.fromkeys((plan.subject.partition(" ")[0], *(step.table_name for step in plan.steps))):
            check_content_may_change(plan.kind, table)
        check_plan(seen.cluster, plan.command)
        return plan

    return await said_of(situation, made)


async def plan_answer(plan: Plan, seen: Offset, *, dry_run: bool, job: int | None = None) -> pb.AdminPlan:
    """The plan as an answer. `seen`: the catalog's version on which it was made; `job`: its id, once it has begun."""
    items = len(plan.steps) * _STEP_ITEMS
    return await run_sized(items, lambda: describe_plan(plan, seen, dry_run=dry_run, job=job))


async def job_answer(situation: Situation, job: Job) -> pb.AdminJob:
    """One job with its tasks."""
    return await run_sized(len(job.tasks) * _STEP_ITEMS, lambda: describe_job(situation, job))


async def jobs_answer(situation: Situation) -> list[pb.AdminJobSummary]:
    """The jobs that the catalog remembers."""
    tasks = sum([len(job.tasks) for job in situation.cluster.jobs.values()])
    return await run_sized(tasks * _TASK_ITEMS, lambda: list_jobs(situation))
