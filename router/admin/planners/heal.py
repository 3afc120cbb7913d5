"""Healing: what has to be done about nodes that are lost for long, and what is in the way of it. Pure.

    a healing is under way   wait for it; undo it where its node is back, a task failed, or a target is lost for long
    none is                  move replicas from one lost node to others: the partitions with fewest live copies first,
                             no more of them at once than the bounds say

Every replica is *moved*: the lost copy is given up when the new one is level, and until then the map has both. So at no
step has a partition fewer live copies than before, and a node that comes back in between is what it was. Where it comes
back before the last step of a move, that step goes on only if the partition is whole without it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from log_tier.catalog.actions import AUTOMATIC, Action, JobKind
from log_tier.catalog.cluster_map import ClusterMap, TableEntry
from log_tier.catalog.commands import AbortJob, StartJob
from log_tier.catalog.jobs import Job, Task
from log_tier.model.identifiers import PartitionId
from router.admin.planners.choices import Choices
from router.admin.planners.cluster_view import Situation
from router.admin.planners.plan import Plan, Step, plan_of

__all__ = [
    "NO_HEALING",
    "HealBounds",
    "JobDecision",
    "cut_off",
    "decide_healing",
    "failed_before",
    "newest_of",
    "why_stuck",
]

# A new copy may take so much of what is free on a disk.
_FILLED_PERCENT: Final = 90

# Of what is in the way, a decision names so many partitions; an operator sees what kind of trouble it is.
_NAMED_MAX: Final = 20


class HealBounds(NamedTuple):
    """When lost nodes are healed, and how fast."""

    after_s: float = 600.0
    """Seconds for which a node is lost before its replicas are placed elsewhere; 0: never."""
    copies: int = 8
    """Replicas that are copied at once, in the whole cluster."""
    bytes_s: int = 100 * 1024 * 1024
    """Bytes a second that healings copy, on average from one job to the next; 0: as fast as nodes copy."""


NO_HEALING: Final = HealBounds(after_s=0.0)
"""An operator decides."""


@dataclass(frozen=True, slots=True)
class JobDecision:
    """What to do now about jobs that routers begin by themselves, and why. Without a command: nothing."""

    command: StartJob | AbortJob | None = None
    plan: Plan | None = None
    """Of a command that begins a job."""
    reason: str = ""
    """Why a job is undone."""
    job: int | None = None
    """The healing, or the relief, under way."""
    short: int = 0
    """Of a healing: replicas that are missing, with nodes that are lost for long."""
    blocked: tuple[str, ...] = ()
    """What is in the way, for people."""


class _Short(NamedTuple):
    """A replica on a lost node, which its partition misses."""

    live: int
    table: TableEntry
    partition: PartitionId
    node: str


def newest_of(cluster: ClusterMap, *kinds: str) -> Job | None:
    """The last job of these kinds that the catalog remembers."""
    return max((job for job in cluster.jobs.values() if job.kind in kinds), key=lambda job: job.id, default=None)


def decide_healing(situation: Situation, lost: Collection[str], *, copies: int) -> JobDecision:
    """What to do about the nodes `lost`, which are lost for long enough. O(replicas of those nodes).

    Lost nodes that are not in it are waited for. `copies`: how many replicas are moved at once.
    """
    lost = {node for node in lost if node in situation.cluster.nodes and not situation.is_alive(node)}
    cut = cut_off(situation)
    if cut:
        return JobDecision(short=len(_missed(situation, lost)), blocked=(cut,))
    healing = newest_of(situation.cluster, JobKind.HEAL)
    if healing is not None and healing.state in ("running", "failed"):
        short = len(_missed(situation, lost))
        reason = _why_undone(situation, healing, lost)
        if reason:
            return JobDecision(AbortJob(healing.id), reason=reason, job=healing.id, short=short)
        return JobDecision(job=healing.id, short=short)
    return _begun(situation, lost, copies, after=-1 if healing is None else healing.id)


def cut_off(situation: Situation) -> str:
    """Why this process should not trust what it sees of the nodes; empty: it may."""
    judged = [node for node, entry in situation.cluster.nodes.items() if entry.address]
    away = sum(not situation.is_alive(node) for node in judged)
    if 2 * away <= len(judged):
        return ""
    return f"{away} of {len(judged)} nodes do not answer here: this server may be what is cut off, so it moves nothing"


def why_stuck(situation: Situation, job: Job, lost: Collection[str]) -> str:
    """Why a job that moves replicas does not come to its end; empty: it may. `lost`: who is lost for long."""
    if job.state == "failed":
        failed = next(task for task in job.tasks if task.state == "failed")
        return f"the copy of {_name(situation, failed)} to node {failed.node} failed: {failed.note}"
    away = sorted({task.node for _, task in job.tasks.unfinished() if task.node in lost})
    return f"node {away[0]}, which was to get copies, is lost itself" if away else ""


def _why_undone(situation: Situation, job: Job, lost: Collection[str]) -> str:
    node = str(job.arguments.get("node", ""))
    if job.state == "running" and situation.is_alive(node):
        unfinished = [task for _, task in job.tasks.unfinished()]
        if any(task.state == "waiting" or _is_short_without(situation, task, node) for task in unfinished):
            return f"node {node} is back, with what it had"
    return why_stuck(situation, job, lost)


def _is_short_without(situation: Situation, task: Task, node: str) -> bool:
    """Would a partition miss a live copy if the move that has copied it took away what `node` has?"""
    table = situation.cluster.tables.get(task.table)
    if table is None:
        return False
    members = {each.node for each in table.assignments[task.partition] if each.role == "member"} - {node}
    return sum(situation.is_alive(member) for member in members) < table.replicas


def _name(situation: Situation, task: Task) -> str:
    found = task.table in situation.cluster.tables
    return situation.cluster.name_of(task.partition_id) if found else "a dropped table"


def _missed(situation: Situation, lost: Collection[str]) -> list[_Short]:
    """The replicas that are missed on these nodes, those of the partitions with fewest live copies first."""
    found: list[_Short] = []
    for node in sorted(lost):
        for table, partition, replica in situation.held_by(node):
            if replica.role != "member":
                continue
            members = [each.node for each in table.assignments[partition.partition] if each.role == "member"]
            if sum(member not in lost for member in members) < table.replicas:
                live = sum(situation.is_alive(member) for member in members)
                found.append(_Short(live, table, partition, node))
    return sorted(found, key=lambda each: (each.live, each.table.name, each.partition.partition, each.node))


def _begun(situation: Situation, lost: Collection[str], copies: int, *, after: int) -> JobDecision:
    missed = _missed(situation, lost)
    places = _Places(situation)
    blocked: list[str] = []
    steps: list[Step] = []
    node = ""
    for short in missed:
        if len(steps) >= copies:
            break
        if node and short.node != node:
            continue  # a job heals one node: it is undone when that comes back
        step = places.move_of(short)
        if isinstance(step, str):
            blocked.append(step)
        else:
            node = short.node
            steps.append(step)
    left = len(blocked) - _NAMED_MAX
    named = (*blocked[:_NAMED_MAX], *([f"and {left} partitions more"] if left > 0 else []))
    if not steps:
        return JobDecision(short=len(missed), blocked=named)
    size = sum(step.bytes for step in steps)
    plan = plan_of(
        JobKind.HEAL, f"node {node}", steps, arguments={"node": node, "after": after, "bytes": size}, notes=named
    )
    assert isinstance(plan.command, StartJob), plan.command
    return JobDecision(plan.command, plan=plan, short=len(missed), blocked=named)


class _Places:
    """Where the replicas of one plan go."""

    def __init__(self, situation: Situation) -> None:
        self._situation = situation
        self._choices = Choices(situation)
        self._changing = {task.partition_id: job for job, task in situation.cluster.changing()}
        self._failed = set(failed_before(situation.cluster.jobs.values()))
        self._room = {
            node: situation.nodes[node].disk_free * _FILLED_PERCENT // 100
            for node in situation.takers()
            if situation.nodes[node].disk_free or situation.nodes[node].disk_used
        }
        """What may be copied to each node yet; not of one that has not said how full its disk is."""

    def move_of(self, short: _Short) -> Step | str:
        """The step that replaces a replica; a text where none can be."""
        partition, name = short.partition, self._situation.cluster.name_of(short.partition)
        job = self._changing.get(partition)
        if job is not None:
            return f"{name}: job {job.id} ({job.kind} {job.subject}) changes its replicas; see to that one"
        size = self._situation.bytes_of(partition)
        full = [node for node, room in self._room.items() if room < size]
        failed = [node for place, node in self._failed if place == partition]
        target = self._choices.taker(partition, without=(*full, *failed))
        if target is None and failed:
            target = self._choices.taker(partition, without=full)
        if target is None:
            return f"{name}: {self._why_nowhere(partition, full, size)}"
        if target in self._room:
            self._room[target] -= size
        return Step(Action.MOVE, partition, short.table.name, target, source=short.node, bytes=size)

    def _why_nowhere(self, partition: PartitionId, full: list[str], size: int) -> str:
        holders = {each.node for each in self._situation.cluster.tables[partition.table].assignments[partition[1]]}
        others = [node for node in self._situation.takers() if node not in holders]
        if not others:
            return "no live node takes replicas that holds none of it: start another node"
        return f"no room for its {size} bytes at {', '.join(node for node in others if node in full)}: make some"


def failed_before(jobs: Iterable[Job]) -> Iterator[tuple[PartitionId, str]]:
    """Partitions that an earlier healing or relief could not copy, and the node to which it could not."""
    for job in jobs:
        if job.kind in AUTOMATIC and job.state == "aborted":
            for task in job.tasks:
                if task.state == "aborted" and task.note:
                    yield task.partition_id, task.node
