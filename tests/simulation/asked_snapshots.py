"""Snapshots that were asked for: each holds what clients were acknowledged before the request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from log_tier.catalog.actions import Action
from log_tier.catalog.cluster_map import ClusterMap
from log_tier.model.identifiers import PartitionId
from router.data.gather.acknowledged import Acknowledged
from serving_tier.jobs import actions
from simulation.book import Broken
from simulation.planted import Patches

__all__ = ["PLANTED_IN_ASKED_SNAPSHOTS", "AskedSnapshots"]


class AskedSnapshots:
    """What had been acknowledged when each of the jobs was asked for."""

    def __init__(self) -> None:
        self._asked: dict[int, Mapping[PartitionId, int]] = {}

    def acknowledged(self, sessions: Iterable[Acknowledged]) -> dict[PartitionId, int]:
        """The last acknowledged offset of each partition."""
        last: dict[PartitionId, int] = {}
        for session in sessions:
            for run in session.runs():
                last[run.partition] = max(run.last, last.get(run.partition, -1))
        return last

    def note(self, job: int, acknowledged: Mapping[PartitionId, int]) -> None:
        """A job was begun; `acknowledged` is of before it was asked for."""
        self._asked[job] = acknowledged

    def forget(self) -> None:
        """The log was put back: what was acknowledged before is gone."""
        self._asked.clear()

    def check(self, cluster: ClusterMap) -> int:
        """Compare what the snapshots hold; how many were compared. Raises `Broken`."""
        compared = 0
        for number, acknowledged in self._asked.items():
            job = cluster.jobs.get(number)
            for task in () if job is None else job.tasks:
                if task.state != "done" or task.action != Action.SNAPSHOT:
                    continue
                offset, least = int(task.note.rsplit(" ", 1)[1]), acknowledged.get(task.partition_id, -1)
                compared += least >= 0
                if offset < least:
                    raise Broken(
                        "asked snapshots",
                        f"job {number} took partition {task.partition} at {offset}, and {least} was acknowledged",
                    )
        return compared


def _not_waited_for() -> Patches:
    async def at_once(run: Any, replica: Any, *, needed: str) -> None:
        """What the replica has by now is enough."""

    return [(actions, "reach_log_end", at_once)]


PLANTED_IN_ASKED_SNAPSHOTS: Final = {"a snapshot that is asked for does not wait for its replica": _not_waited_for}
