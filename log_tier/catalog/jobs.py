"""Jobs and their tasks, as the map holds them. Immutable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Final, Literal

from log_tier.catalog.actions import Action
from log_tier.concurrency.persistent_map import PersistentMap
from log_tier.model.identifiers import Partition, PartitionId, TableId, partition_id

__all__ = ["FINISHED", "SEEN", "ArgumentValue", "Job", "JobState", "JobTasks", "Task", "TaskState"]

TaskState = Literal["waiting", "ready", "done", "failed", "aborted"]
JobState = Literal["running", "done", "failed", "aborted"]
ArgumentValue = int | str

FINISHED: Final = frozenset({"done", "failed", "aborted"})
"""States of tasks and jobs in which nobody works on them."""

SEEN: Final = "seen"
"""The argument of a job that names the version of the map on which it was planned: no other job may have begun since.
Without it a job begins after others."""


@dataclass(frozen=True, slots=True)
class Task:
    """A piece of a job that one node works on."""

    action: str
    """The value of a `log_tier.catalog.actions.Action`."""
    table: TableId
    partition: Partition
    node: str
    """The node that does the task."""
    arguments: Mapping[str, ArgumentValue] = field(default_factory=dict)
    state: TaskState = "waiting"
    note: str = ""
    """The task's result, or why it failed."""

    @property
    def partition_id(self) -> PartitionId:
        """The task's partition."""
        return partition_id(self.table, self.partition)


_NONE: Final[PersistentMap[int, Task]] = PersistentMap()


class JobTasks:
    """The tasks of a job, by number. Immutable; a copy with another entry of one costs some µs, whatever their number.

    Invariants: `_unfinished` has each task that is not in a state of `FINISHED`, under its node, and no empty map;
    `_count` is how many tasks there are, which a copy has as many of.
    """

    __slots__ = ("_count", "_tasks", "_unfinished")

    def __init__(self, tasks: Iterable[Task]) -> None:
        """O(n)."""
        self._tasks = PersistentMap(enumerate(tasks))
        self._count = len(self._tasks)
        unfinished: dict[str, dict[int, Task]] = {}
        for number, task in self._tasks.items():
            if task.state not in FINISHED:
                unfinished.setdefault(task.node, {})[number] = task
        self._unfinished = {node: PersistentMap(its) for node, its in unfinished.items()}

    def with_task(self, number: int, task: Task) -> JobTasks:
        """The tasks with another entry of one. Raises `KeyError` for a number that they do not have."""
        before, unfinished = self._tasks[number], dict(self._unfinished)
        if before.state not in FINISHED and (task.state in FINISHED or task.node != before.node):
            unfinished[before.node] = unfinished[before.node].without(number)
        if task.state not in FINISHED:
            unfinished[task.node] = unfinished.get(task.node, _NONE).with_entry(number, task)
        made = JobTasks.__new__(JobTasks)
        made._tasks, made._count = self._tasks.with_entry(number, task), self._count
        made._unfinished = {node: its for node, its in unfinished.items() if its}
        return made

    def unfinished_of(self, node: str) -> PersistentMap[int, Task]:
        """The tasks that wait for a node, by their numbers. O(1)."""
        return self._unfinished.get(node, _NONE)

    def unfinished(self) -> Iterator[tuple[int, Task]]:
        """All tasks that wait for a node, by rising numbers. The first one costs a sort of all."""
        found = [pair for its in self._unfinished.values() for pair in its.items()]
        return iter(sorted(found, key=itemgetter(0)))

    @property
    def all_finished(self) -> bool:
        """Does none of them wait for a node? O(1)."""
        return not self._unfinished

    def __getitem__(self, number: int) -> Task:
        return self._tasks[number if number >= 0 else number + self._count]

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Task]:
        return iter(self._tasks.values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JobTasks) and self._tasks == other._tasks

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"JobTasks({list(self)!r})"


@dataclass(frozen=True, slots=True)
class Job:
    """Something that takes long. Its id is the catalog offset at which it began."""

    id: int
    kind: str
    subject: str
    """The subject of the job, for people: `flights/3`, `node n2`."""
    state: JobState
    tasks: JobTasks
    started_ms: int
    """The catalog's log time at its beginning; for people."""
    arguments: Mapping[str, ArgumentValue] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        """It is done, or was aborted: nothing of it is left to do or to undo."""
        return self.state in ("done", "aborted")

    @property
    def puts_barriers(self) -> bool:
        """May its barriers be in logs? A clearing gets its swap task last. O(1)."""
        return len(self.tasks) > 0 and self.tasks[-1].action == Action.SWAP

    def with_task(self, number: int, task: Task) -> Job:
        """The job with another entry of one of its tasks."""
        return replace(self, tasks=self.tasks.with_task(number, task))
