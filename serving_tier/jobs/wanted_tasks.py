"""The tasks that a newer map gives to a node, compared with the map before it. Pure."""

from __future__ import annotations

from log_tier.catalog.cluster_map import ClusterMap
from log_tier.catalog.jobs import Job, Task
from log_tier.concurrency.persistent_map import PersistentMap

__all__ = ["TaskKey", "WantedTasks"]

TaskKey = tuple[int, int]
"""Job id and number of the task in it."""

_NONE: PersistentMap[int, Task] = PersistentMap()


class WantedTasks:
    """The tasks of running jobs that wait for one node, in the map that was seen last."""

    def __init__(self, node_id: str) -> None:
        self._node_id = node_id
        self._seen: dict[int, PersistentMap[int, Task]] = {}

    def update(self, cluster: ClusterMap) -> tuple[list[TaskKey], list[TaskKey]]:
        """See a newer map: the tasks that are new or changed, and those that are wanted no more.

        O(running jobs + changes): a job of thousands of tasks is not gone through for each of them.
        """
        before = self._seen
        self._seen = {job.id: self._of(job) for job in cluster.jobs.values() if job.state == "running"}
        changed: list[TaskKey] = []
        gone: list[TaskKey] = []
        for job_id in {**before, **self._seen}:
            then, now = before.get(job_id, _NONE), self._seen.get(job_id, _NONE)
            if now is not then:
                new, old = now.since(then)
                changed += [(job_id, number) for number in new]
                gone += [(job_id, number) for number in old]
        return changed, gone

    def wants(self, job: Job, number: int) -> bool:
        """Does a job want this task of the node, as the job stands in some map?"""
        return job.state == "running" and number in self._of(job)

    def _of(self, job: Job) -> PersistentMap[int, Task]:
        return job.tasks.unfinished_of(self._node_id)
