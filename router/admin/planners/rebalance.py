"""The plan that evens out how many replicas the nodes hold, with the fewest moves. Pure.

While the fullest and the emptiest of the live nodes differ by two or more, one replica goes from the one to the other.
Each such move takes one from a surplus (what a node holds above the rounded-up average) or fills a deficit (below the
rounded-down one), or both; so there are exactly max(surplus, deficit) of them, which no plan can undercut, and no
node both gives and takes. The fuller node always holds a partition that the other does not: it holds more of them.

Lost nodes are left as they are, and what they hold: they come back, or an operator drains them. So are nodes that are
being drained, and partitions whose replicas a job is changing already.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from log_tier.catalog.actions import Action
from log_tier.catalog.cluster_map import TableEntry
from log_tier.model.identifiers import Partition, PartitionId, TableId
from router.admin.planners.cluster_view import Situation
from router.admin.planners.plan import Plan, Step, plan_of
from router.admin.planners.relieve import plan_relief

__all__ = ["plan_rebalance"]


def plan_rebalance(situation: Situation, *, auto: bool = False) -> Plan:
    """Even out the replicas of all tables over the live nodes. O(moves × replicas) at worst. `auto`: relieve those that
    have too much, and no other (`relieve.py`).
    """
    if auto:
        return plan_relief(situation)
    takers = situation.takers()
    holdings = _Holdings(situation, takers)
    steps: list[Step] = []
    notes = [
        f"node {node} is not there ({situation.lost(node)}): it is left as it is"
        for node in sorted(situation.cluster.nodes)
        if not situation.is_alive(node)
    ]
    blocked = False
    while (pair := holdings.widest()) is not None:
        step = holdings.moved(*pair)
        if step is None:
            blocked = True
            break
        steps.append(step)
    if blocked:
        notes.append("some partitions are being changed by other jobs: rebalance again when those are done")
    return plan_of("rebalance", f"{len(takers)} nodes", steps, notes=notes)


class _Holdings:
    """Who holds what while the plan grows."""

    def __init__(self, situation: Situation, takers: list[str]) -> None:
        self._situation = situation
        self._loads: Counter[str] = Counter(dict.fromkeys(takers, 0))
        self._tables: defaultdict[str, Counter[TableId]] = defaultdict(Counter)
        self._held: dict[str, dict[PartitionId, TableEntry]] = {node: {} for node in takers}
        """What may be moved away from a node."""
        self._holders: dict[PartitionId, set[str]] = {}
        changing = situation.changing()
        for table in situation.cluster.tables.values():
            for number, assigned in enumerate(table.assignments):
                place = table.partition(number)
                self._holders[place] = {replica.node for replica in assigned}
                for replica in assigned:
                    if replica.node not in self._held or replica.role == "leaving":
                        continue
                    self._loads[replica.node] += 1
                    self._tables[replica.node][table.id] += 1
                    if place not in changing:
                        self._held[replica.node][place] = table

    def widest(self) -> tuple[str, str] | None:
        """The fullest and the emptiest node, where they differ by two or more."""
        if not self._loads:
            return None
        fullest = min(self._loads, key=lambda node: (-self._loads[node], node))
        emptiest = min(self._loads, key=lambda node: (self._loads[node], node))
        return (fullest, emptiest) if self._loads[fullest] - self._loads[emptiest] >= 2 else None

    def moved(self, source: str, target: str) -> Step | None:
        """Move what fits best: of the table that is most unevenly spread between the two, the smallest partition."""
        best: tuple[int, int, str, Partition] | None = None
        chosen: tuple[PartitionId, TableEntry] | None = None
        for place, table in self._held[source].items():
            if target in self._holders[place]:
                continue
            uneven = self._tables[source][table.id] - self._tables[target][table.id]
            order = (-uneven, self._situation.bytes_of(place), table.name, place[1])
            if best is None or order < best:
                best, chosen = order, (place, table)
        if chosen is None or best is None:
            return None
        place, table = chosen
        del self._held[source][place]
        self._holders[place].add(target)
        for node, change in ((source, -1), (target, 1)):
            self._loads[node] += change
            self._tables[node][table.id] += change
        return Step(Action.MOVE, place, table.name, target, source=source, bytes=best[1])
