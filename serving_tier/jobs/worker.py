"""The worker: finds this node's tasks in the map, runs them, reports."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from log_tier.catalog.catalog import Catalog
from log_tier.catalog.cluster_map import ClusterMap
from log_tier.catalog.commands import Command, TaskDone, TaskFailed, TaskReady
from log_tier.catalog.jobs import Job, Task
from log_tier.catalog.map_follower import Leave, MapFollower
from log_tier.concurrency.background import Failed, only_logged
from log_tier.concurrency.backoff import Backoff
from log_tier.concurrency.tasks import end_tasks
from log_tier.model.errors import (
    AccessDenied,
    CommandRejected,
    DuramenError,
    InvalidRequest,
    ShuttingDown,
    WriteUnknown,
)
from log_tier.model.identifiers import Offset
from serving_tier.jobs.wanted_tasks import TaskKey, WantedTasks

__all__ = ["DoTask", "JobWorker", "RetryLimits", "TaskProgress", "TaskRun"]

logger = logging.getLogger(__name__)

# Tasks that run at the same time: each may read and write a whole index, and reads shall go on being fast.
_RUNNING_MAX: Final = 2


@dataclass(frozen=True, slots=True)
class RetryLimits:
    """How often, and with which pauses, a node tries an action or a command that fails for now."""

    tries: int = 7
    """Tries of an action, in some 12 s, before the job fails and shows why."""
    pause_first_s: float = 0.5
    pause_max_s: float = 8.0
    wait_s: float = 8.0
    """How long a try waits for a replica that is behind: one that is not level by then is held up."""

    def backoff(self) -> Backoff:
        """The pauses of one action, or of one command to the catalog."""
        return Backoff(self.pause_first_s, self.pause_max_s)


@dataclass(slots=True)
class TaskProgress:
    """How far a task is, for `duramen admin job`."""

    phase: str = "waiting"
    done: int = 0
    total: int = 0


class TaskRun:
    """One task under way: an action gets it as its argument."""

    def __init__(self, worker: JobWorker, job: Job, number: int, task: Task) -> None:
        self.job = job
        self.number = number
        self.task = task
        self.progress_now = TaskProgress()
        self.through: Offset | None = None
        """The log's end at the first try of a snapshot, which holds at least what is up to there."""
        self.wait_s = worker.retries.wait_s
        """For how long a try may wait for something of this node."""
        self._worker = worker

    @property
    def cluster(self) -> ClusterMap:
        """The newest map."""
        return self._worker.catalog.map

    def progress(self, phase: str, done: int = 0, total: int = 0) -> None:
        """Report how far the task is, in the unit of `total`."""
        self.progress_now = TaskProgress(phase, done, total)

    async def submit(self, command: Command) -> None:
        """Submit a command of this task, and repeat it until the log takes it."""
        await self._worker.submit(command)

    async def ready(self) -> None:
        """Say that a move's target may be read."""
        if self.task.state == "waiting":
            await self.submit(TaskReady(self.job.id, self.number, self.task.node))


DoTask = Callable[[TaskRun], Awaitable[str]]
"""Does a task and returns a note of what came of it."""


class JobWorker:
    """Does the tasks of one node. `open()` makes one, `close()` stops it: unfinished tasks stay in the catalog."""

    def __init__(
        self, catalog: Catalog, node_id: str, actions: Mapping[str, DoTask], retries: RetryLimits = RetryLimits()
    ) -> None:
        self.catalog = catalog
        self.retries = retries
        self._actions = actions
        self._tasks: dict[TaskKey, asyncio.Task[None]] = {}
        self._runs: dict[TaskKey, TaskRun] = {}
        self._wanted = WantedTasks(node_id)
        self._ended_runs: list[TaskKey] = []
        """The runs that could not report what came of their tasks, since the last map: they begin again with the next
        one. At most one entry for each task."""
        self._room = asyncio.Semaphore(_RUNNING_MAX)
        self._leave: Leave | None = None

    @classmethod
    async def open(
        cls,
        catalog: Catalog,
        follower: MapFollower,
        *,
        node_id: str,
        actions: Mapping[str, DoTask],
        failed: Failed = only_logged,
        retries: RetryLimits = RetryLimits(),
    ) -> JobWorker:
        """Begin to work. `follower`: of that catalog; `failed`: see `MapFollower.follow`."""
        worker = cls(catalog, node_id, actions, retries)
        worker._leave = await follower.follow(worker._compare, name=f"the jobs of {node_id}", failed=failed)
        return worker

    def running(self) -> Mapping[TaskKey, TaskProgress]:
        """The tasks under way and how far they are."""
        return {key: run.progress_now for key, run in self._runs.items()}

    def _compare(self, cluster: ClusterMap) -> None:
        changed, gone = self._wanted.update(cluster)
        for key in gone:
            self._tasks.pop(key).cancel()
        # What ended by an error that could not be reported, and is still wanted, begins again.
        again, self._ended_runs = [key for key in self._ended_runs if key in self._tasks], []
        for key in (*changed, *again):
            if key not in self._tasks or self._tasks[key].done():
                job = cluster.jobs[key[0]]
                self._start(key, TaskRun(self, job, key[1], job.tasks[key[1]]))

    def _start(self, key: TaskKey, run: TaskRun) -> None:
        running = asyncio.create_task(self._run(run), name=f"task {key[1]} of job {key[0]}")
        self._tasks[key], self._runs[key] = running, run
        running.add_done_callback(lambda _: self._ended(key, run, running))

    def _ended(self, key: TaskKey, run: TaskRun, task: asyncio.Task[None]) -> None:
        if self._runs.get(key) is run:
            del self._runs[key]
        if task.cancelled() or self._tasks.get(key) is not task:
            return
        error = task.exception()
        if isinstance(error, DuramenError):
            # The run logs a bug by itself; this one could not report what came of the task, which is tried again.
            logger.warning("task %s of job %s is not reported: %s", key[1], key[0], error)
            self._ended_runs.append(key)
            return
        # What came of the task is in the map. If it is wanted again, its job was resumed before this node saw the
        # report, and perhaps no newer map comes that says so.
        job = self.catalog.map.jobs.get(key[0])
        if job is not None and self._wanted.wants(job, key[1]):
            self._start(key, TaskRun(self, job, key[1], job.tasks[key[1]]))

    async def _run(self, run: TaskRun) -> None:
        job, number, task = run.job, run.number, run.task
        action = self._actions.get(task.action)
        if action is None:
            await self.submit(TaskFailed(job.id, number, task.node, f"node {task.node} cannot do a {task.action}"))
            return
        try:
            note = await self._tried(action, run)
        except DuramenError as error:
            place = task.partition_id
            logger.warning("job %s: %s of %s failed: %s", job.id, task.action, place, error, extra={"job": job.id})
            await self.submit(TaskFailed(job.id, number, task.node, f"{error.code}: {error.message}"))
        except Exception as error:
            # A bug of ours: the operator learns of it where the job is, and the traceback is in this node's log. It is
            # written first: the report makes the map, and so this task, end.
            logger.error("task %s of job %s ended by a bug", number, job.id, exc_info=error)
            await self.submit(TaskFailed(job.id, number, task.node, f"a bug: {error!r}"))
            raise
        else:
            await self.submit(TaskDone(job.id, number, task.node, note))

    async def _tried(self, action: DoTask, run: TaskRun) -> str:
        backoff = self.retries.backoff()
        for left in reversed(range(self.retries.tries)):
            try:
                async with self._room:
                    return await action(run)
            except CommandRejected:
                raise
            except DuramenError as error:
                if not (error.retryable or isinstance(error, WriteUnknown)) or not left:
                    raise
                run.progress(f"trying again: {error.message}")
            await backoff.pause()
        raise AssertionError("the last try raises or returns")

    async def submit(self, command: Command) -> None:
        """Submit a command, and repeat it until the log takes it. A rejection is logged: the map has no such task any
        more.

        An operator may mend and restart a log that stopped, or whose disk fails, or give back an ACL, while this node
        goes on. So only `ShuttingDown`, and other kinds of `InvalidRequest` than `AccessDenied`, are raised.
        """
        backoff = self.retries.backoff()
        while True:
            try:
                await self.catalog.submit(command)
                return
            except CommandRejected as error:
                logger.info("%s: %s", type(command).__name__, error)
                return
            except DuramenError as error:
                if isinstance(error, (ShuttingDown, InvalidRequest)) and not isinstance(error, AccessDenied):
                    raise
                logger.info("the catalog does not take %s yet: %s", type(command).__name__, error)
                await backoff.pause()

    async def close(self) -> None:
        """Stop working. Idempotent."""
        try:
            if self._leave is not None:
                await self._leave()
        finally:
            tasks, self._tasks = self._tasks, {}
            await end_tasks(*tasks.values())
