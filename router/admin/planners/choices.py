"""Who gets a replica, and who does a piece of work: the least loaded node that may, this plan's work counted in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from log_tier.catalog.placement import loads
from log_tier.model.identifiers import PartitionId
from router.admin.planners.cluster_view import Situation

__all__ = ["Choices"]


class Choices:
    """Chooses nodes for the steps of one plan."""

    def __init__(self, situation: Situation) -> None:
        self._situation = situation
        self.replicas = loads(situation.cluster)
        """How many replicas each node should have, those of this plan included."""
        self._work: Counter[str] = Counter(task.node for _, _, task in situation.cluster.unfinished_tasks())

    def taker(self, partition: PartitionId, *, without: Collection[str] = ()) -> str | None:
        """The live node with the fewest replicas that holds none of the partition; None where there is none."""
        assigned = self._situation.cluster.table(partition.table).assignments[partition.partition]
        held = {replica.node for replica in assigned} | set(without)
        takers = [node for node in self._situation.takers() if node not in held]
        chosen = min(takers, key=lambda node: (self.replicas[node], node), default=None)
        if chosen is not None:
            self.replicas[chosen] += 1
        return chosen

    def worker(self, partition: PartitionId, *, without: Collection[str] = ()) -> str | None:
        """A live holder for a piece of work: a ready one, with the least to do; None where none is there."""
        workers = [node for node in self._situation.workers(partition) if node not in without]

        def order(node: str) -> tuple[bool, int, int, str]:
            view = self._situation.nodes[node]
            return (not self._situation.is_ready(partition, node), self._work[node], view.load, node)

        chosen = min(workers, key=order, default=None)
        if chosen is not None:
            self._work[chosen] += 1
        return chosen
