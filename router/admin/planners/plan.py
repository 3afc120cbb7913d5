"""A plan: what a command will do, what it will cost, and the command itself. Pure."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from log_tier.catalog.actions import COPIES_INDEX, GAINS_REPLICA, SHORTENS_LOG, Action, JobKind
from log_tier.catalog.catalog_fold import fold_command
from log_tier.catalog.cluster_map import ClusterMap
from log_tier.catalog.commands import AbortJob, ClearTable, Command, ResumeJob, StartJob, TaskPlan
from log_tier.catalog.jobs import ArgumentValue
from log_tier.model.errors import CommandRejected, InvalidName
from log_tier.model.identifiers import SERVERS_TABLES, Offset, PartitionId

__all__ = ["RATE_BYTES_S", "Plan", "Step", "check_content_may_change", "check_plan", "plan_of"]

# What a node copies, verifies and syncs in a second, on a plain disk; for the estimate only. Nodes do two tasks at a
# time and share one disk between them, so that a node's steps count one after the other.
RATE_BYTES_S: Final = 50 * 1024 * 1024

# What a step costs in addition to its bytes: an assignment to be seen, an index to be opened, a report.
_STEP_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Step:
    """One task of a plan, as an operator wants to see it."""

    action: str
    """The value of an `Action`; of a job that a newer version began, perhaps another name."""
    partition: PartitionId
    table_name: str
    node: str
    """Who does it; of a move and an add, the node that gets the replica; of a removal, the node that loses it."""
    source: str = ""
    """Of a move: the node that loses the replica."""
    bytes: int = 0
    """To be copied; 0 where nothing is, or nobody knows."""
    arguments: Mapping[str, ArgumentValue] = field(default_factory=dict)
    note: str = ""

    def task(self) -> TaskPlan:
        """As the catalog takes it."""
        arguments = {**self.arguments, "from": self.source} if self.source else dict(self.arguments)
        return TaskPlan(str(self.action), *self.partition, self.node, arguments)


@dataclass(frozen=True, slots=True)
class Plan:
    """Shown as it is, and begun as it was shown."""

    kind: str
    subject: str
    command: StartJob | ClearTable | ResumeJob | AbortJob
    steps: Sequence[Step] = ()
    notes: Sequence[str] = ()
    """What an operator should know before they say yes."""
    begins_empty: bool = False
    """The command is submitted even if no step is needed: it changes the catalog by itself."""

    @property
    def id(self) -> str:
        """Of what it would do, and not of what that would cost: two plans that do the same have the same id."""
        parts = [self.kind, self.subject, *(repr(_essence(step)) for step in self.steps)]
        return hashlib.blake2b("\n".join(parts).encode(), digest_size=8).hexdigest()

    @property
    def bytes(self) -> int:
        """Bytes that all steps of the plan copy."""
        return sum(step.bytes for step in self.steps if step.action in COPIES_INDEX)

    @property
    def replicas_moved(self) -> int:
        """Replicas that come to be where they were not."""
        return sum(step.action in GAINS_REPLICA for step in self.steps)

    @property
    def seconds(self) -> float:
        """The estimate: the time of the node that has most to do."""
        busy: Counter[str] = Counter()
        for step in self.steps:
            if step.action != Action.REMOVE:
                busy[step.node] += step.bytes if step.action in COPIES_INDEX else 0
        steps = Counter(step.node for step in self.steps if step.action != Action.REMOVE)
        return round(max((busy[node] / RATE_BYTES_S + steps[node] * _STEP_S for node in steps), default=0.0), 1)


def _essence(step: Step) -> tuple[Any, ...]:
    # A table that is yet to be made has no id: its name says which it is.
    number, arguments = step.partition.partition, sorted(step.arguments.items())
    return (str(step.action), step.table_name, number, step.node, step.source, arguments)


def plan_of(
    kind: str,
    subject: str,
    steps: Iterable[Step],
    *,
    arguments: Mapping[str, ArgumentValue] | None = None,
    notes: Sequence[str] = (),
    begins_empty: bool = False,
) -> Plan:
    """A plan that begins a job."""
    listed = tuple(steps)
    command = StartJob(str(kind), subject, tuple(step.task() for step in listed), dict(arguments or {}))
    return Plan(str(kind), subject, command, listed, tuple(notes), begins_empty)


_CHANGES_CONTENT: Final = frozenset(
    {JobKind.STAGE, JobKind.SWAP, JobKind.ROLLBACK, JobKind.DISCARD, JobKind.CLEAR, *SHORTENS_LOG}
)


def check_content_may_change(kind: str, table: str) -> None:
    """Raises `InvalidName` for a job that changes what a table of the servers holds, or its log."""
    if kind in _CHANGES_CONTENT and table in SERVERS_TABLES:
        raise InvalidName(f"{table} is written by the servers alone: nobody can {kind} it")


def check_plan(cluster: ClusterMap, command: Command) -> ClusterMap:
    """Try a command on a map (A2); the map as it would be. Raises `CommandRejected` with the fold's reason."""
    after, decision = fold_command(cluster, Offset(cluster.version + 1), 0, "a plan that is being tried", command)
    if decision.rejection:
        raise CommandRejected(decision.rejection, version=cluster.version)
    return after
