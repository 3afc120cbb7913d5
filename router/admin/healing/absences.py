"""How long nodes are lost, as one process has seen it. Pure: the caller says what time it is."""

from __future__ import annotations

from typing import Final

from log_tier.catalog.actions import JobKind
from log_tier.catalog.cluster_map import ClusterMap
from router.admin.planners.cluster_view import Situation

__all__ = ["LOOK_S", "Absences"]

LOOK_S: Final = 0.25
"""How often a caller should look."""

# A process that was held up saw nothing meanwhile: so much of the time between two looks counts.
_SEEN_S: Final = 3.0


class Absences:
    """How long each node is lost without a break, on the clock of this process, which only rises.

    It begins with the process: nobody knows for how long nodes were lost before, and a router that has just started may
    be the one that is cut off. It begins anew for a node whose healing was aborted: by an operator, who shall be left
    alone with it for a while, or because a task failed. A node without an address serves its own process only, and is
    not judged.
    """

    def __init__(self) -> None:
        self._lost_s: dict[str, float] = {}
        self._last_s: float | None = None
        self._aborted: set[int] | None = None
        """The aborted healings that have been seen; None: none was looked for."""

    def look(self, situation: Situation, now_s: float) -> None:
        """Take in what is known of the nodes at `now_s`, in seconds. O(nodes and jobs)."""
        passed_s = 0.0 if self._last_s is None else min(_SEEN_S, max(0.0, now_s - self._last_s))
        self._last_s = now_s
        self._lost_s = {
            node: self._lost_s[node] + passed_s if node in self._lost_s else 0.0
            for node, entry in situation.cluster.nodes.items()
            if entry.address and not situation.is_alive(node)
        }
        self._begin_anew(situation.cluster)

    def _begin_anew(self, cluster: ClusterMap) -> None:
        aborted = {job.id: job for job in cluster.jobs.values() if job.kind == JobKind.HEAL and job.state == "aborted"}
        if self._aborted is not None:
            for number, job in aborted.items():
                node = str(job.arguments.get("node", ""))
                if number not in self._aborted and node in self._lost_s:
                    self._lost_s[node] = 0.0
        self._aborted = set(aborted)

    def lost(self) -> dict[str, float]:
        """The nodes that are lost now, and for how many seconds."""
        return dict(self._lost_s)

    def longer_than(self, seconds: float) -> list[str]:
        """The nodes that are lost for so long, by id."""
        return sorted(node for node, lost_s in self._lost_s.items() if lost_s >= seconds)
