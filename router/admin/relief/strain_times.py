"""For how long nodes have too much, as one process has seen it. Pure: the caller says what time it is."""

from __future__ import annotations

from collections.abc import Sequence

from log_tier.catalog.actions import CHANGES_HOLDERS
from log_tier.catalog.cluster_map import ClusterMap
from router.admin.planners.strains import Strain

__all__ = ["StrainTimes"]


class StrainTimes:
    """How long each node has had too much without a break, on the clock of this process, which only rises.

    It begins with the process, and anew for all nodes when a job that moves replicas is over: how full and how busy its
    nodes are now has to show first, and an operator who aborted it shall be left alone for a while. Nodes look at their
    disks every few seconds.
    """

    def __init__(self, look_s: float) -> None:
        """`look_s`: how often the caller looks. A process that was held up saw nothing meanwhile: so much of the time
        between two looks counts, thrice.
        """
        self._seen_max_s = 3 * look_s
        self._strained_s: dict[str, float] = {}
        self._last_s: float | None = None
        self._over: set[int] | None = None
        """The jobs that are over and were seen; None: none was looked for."""

    def look(self, cluster: ClusterMap, strains: Sequence[Strain], now_s: float) -> None:
        """Take in who has too much at `now_s`, in seconds. O(nodes and jobs)."""
        passed_s = 0.0 if self._last_s is None else min(self._seen_max_s, max(0.0, now_s - self._last_s))
        self._last_s = now_s
        before = self._strained_s
        self._strained_s = {each.node: before[each.node] + passed_s if each.node in before else 0.0 for each in strains}
        over = {job.id: job for job in cluster.jobs.values() if job.is_over}
        ended = [] if self._over is None else [job for number, job in over.items() if number not in self._over]
        if any(task.action in CHANGES_HOLDERS for job in ended for task in job.tasks):
            self._strained_s = dict.fromkeys(self._strained_s, 0.0)
        self._over = set(over)

    def seconds(self, node: str) -> float:
        """For how long the node has had too much; 0: it has not, or only just."""
        return self._strained_s.get(node, 0.0)
