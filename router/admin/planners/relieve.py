"""The plan that relieves nodes that have too much (`strains.py`). Pure.

    full     replicas go until `ROOM_PERCENT` of its disk are free, with as few moves as can be.
    slow     half of those that lag go.
    hot      the busiest go, until it serves no more than the others do on average.

A replica goes to a node that has no strain itself, holds no copy of it, and keeps `ROOM_PERCENT` of its disk free. So
no step makes the next node full, and what was moved once is not moved back: between `FULL_PERCENT` and `ROOM_PERCENT`
nothing moves. A hot node's replica goes only where less is served with it than the hot node serves without it: one
replica that is nearly all of the load stays, as it would heat the next node as much. What other jobs move counts as
moved: to plan again while they run adds nothing.

What no move can relieve is said in the notes: nodes that share one disk, a log that everybody lags, one hot partition.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from typing import Final

from log_tier.catalog.actions import GAINS_REPLICA, Action
from log_tier.catalog.placement import loads
from log_tier.model.identifiers import PartitionId
from router.admin.planners.cluster_view import Situation
from router.admin.planners.heal import failed_before
from router.admin.planners.plan import Plan, Step, plan_of
from router.admin.planners.strains import Strain, StrainKind, lagging, served_by_node, strains_of

__all__ = ["MOVES_MAX", "ROOM_PERCENT", "Relief", "plan_relief"]

ROOM_PERCENT: Final = 25
"""So much of a disk is free afterwards, at a node that gives and at a node that takes."""
MOVES_MAX: Final = 8
"""Of one plan: it is made of what nodes said a moment ago, and each move changes that."""


def plan_relief(situation: Situation) -> Plan:
    """Relieve the live nodes that are full, slow or hot. O(moves × replicas) at worst."""
    strained = strains_of(situation)
    relief = Relief(situation, strained)
    steps: list[Step] = []
    notes = [f"node {each.node} {each.why}" for each in strained] or ["no node is full, none lags, and none is hot"]
    for strain in strained:
        steps += relief.steps_of(strain, MOVES_MAX - len(steps))
    return plan_of("rebalance", "nodes that are full, slow or hot", steps, notes=(*notes, *relief.stuck))


class Relief:
    """Where what is too much at some nodes can go, while a plan grows."""

    def __init__(self, situation: Situation, strained: list[Strain]) -> None:
        """`strained`: all nodes that have too much; none of them gets anything."""
        self._situation = situation
        self._loaded = {each.node for each in strained}
        self._replicas = loads(situation.cluster)
        self._failed = set(failed_before(situation.cluster.jobs.values()))
        self._moved = situation.changing()
        """What a job or this plan changes already."""
        self._gained: Counter[str] = Counter()
        """Bytes by node that come, by this plan and by other jobs."""
        self._leaving: defaultdict[str, set[PartitionId]] = defaultdict(set)
        """What other jobs move away, by node."""
        self._served = served_by_node(situation)
        """What each live node serves a second, this plan's moves and those of other jobs counted in."""
        for _, _, task in situation.cluster.unfinished_tasks():
            if task.action in GAINS_REPLICA and task.table in situation.cluster.tables:
                source, partition = str(task.arguments.get("from", "")), task.partition_id
                self._gained[task.node] += situation.bytes_of(partition)
                self._leaving[source].add(partition)
                self._shift(source, task.node, situation.replica(partition, source).served_s)
        self.stuck: list[str] = []
        """What cannot be relieved, for people."""

    def steps_of(self, strain: Strain, most: int) -> list[Step]:
        """Moves that relieve a node, at most so many."""
        plans: Mapping[StrainKind, Callable[[str, int], list[Step]]] = {
            "full": self._emptied,
            "slow": self._eased,
            "hot": self._cooled,
        }
        return plans[strain.kind](strain.node, most)

    def _size(self, node: str) -> int:
        """Of its disk; 0: not known."""
        view = self._situation.nodes[node]
        return view.disk_free + view.disk_used

    def _emptied(self, node: str, most: int) -> list[Step]:
        """Moves that make room on a full node."""
        going = sum(self._situation.bytes_of(partition) for partition in self._leaving[node])
        need = self._size(node) * ROOM_PERCENT // 100 - self._situation.nodes[node].disk_free - going
        steps: list[Step] = []
        while need > 0 and len(steps) < most:
            step = self._best(node, need)
            if step is None:
                why = "no other node has room for what" if self._movable(node) else "nothing is left that"
                self.stuck.append(f"node {node} stays full: {why} could go")
                break
            steps.append(step)
            need -= step.bytes
        return steps

    def _movable(self, node: str) -> list[PartitionId]:
        """What a node holds that no job changes."""
        return [
            partition
            for _, partition, replica in self._situation.held_by(node)
            if replica.role == "member" and partition not in self._moved
        ]

    def _best(self, node: str, need: int) -> Step | None:
        """The smallest replica that is enough, else the largest: so few moves are enough, and they copy little."""
        found = [(self._situation.bytes_of(partition), partition) for partition in self._movable(node)]
        enough = sorted((each for each in found if each[0] >= need), key=self._by_size)
        less = sorted((each for each in found if 0 < each[0] < need), key=self._by_size, reverse=True)
        return next((step for each in (*enough, *less) if (step := self._step(node, each[1])) is not None), None)

    def _by_size(self, sized: tuple[int, PartitionId]) -> tuple[int, str, PartitionId]:
        return sized[0], self._situation.cluster.table(sized[1].table).name, sized[1]

    def _eased(self, node: str, most: int) -> list[Step]:
        """Moves that take work off a slow node: half of what lags, the smallest first."""
        behind = sorted(lagging(self._situation, node), key=lambda each: (self._situation.bytes_of(each), each))
        going = len(self._leaving[node].intersection(behind))
        wanted = min(most, -(-len(behind) // 2) - going)
        steps: list[Step] = []
        for partition in behind:
            if len(steps) < wanted and partition not in self._moved:
                step = self._step(node, partition)
                if step is not None:
                    steps.append(step)
        if not steps and wanted > 0:
            self.stuck.append(f"node {node} stays slow: no other node has room for what lags there")
        return steps

    def _cooled(self, node: str, most: int) -> list[Step]:
        """Moves that take reads and writes off a hot node, the busiest replica first."""
        busiest = sorted(self._movable(node), key=lambda each: (-self._rate(node, each), each))
        average = sum(self._served.values()) // max(1, len(self._served))
        steps: list[Step] = []
        for partition in busiest:
            rate = self._rate(node, partition)
            if len(steps) >= most or self._served[node] <= average or not rate:
                break
            step = self._step(node, partition, below=self._served[node] - rate)
            if step is not None:
                self._shift(node, step.node, rate)
                steps.append(step)
        if not steps and not self._leaving[node]:
            self.stuck.append(f"node {node} stays hot: wherever its busiest replicas went, it would be as hot there")
        return steps

    def _rate(self, node: str, partition: PartitionId) -> int:
        return self._situation.replica(partition, node).served_s

    def _shift(self, source: str, target: str, rate: int) -> None:
        if source in self._served:
            self._served[source] -= rate
        if target in self._served:
            self._served[target] += rate

    def _step(self, node: str, partition: PartitionId, *, below: int | None = None) -> Step | None:
        """The move of one replica away from `node`; None where nobody can take it. `below`: so much the node that takes
        it may serve at most, with it; then it goes to the one that serves least.
        """
        situation = self._situation
        size, rate = situation.bytes_of(partition), self._rate(node, partition)
        table = situation.cluster.table(partition.table)
        held = {each.node for each in table.assignments[partition.partition]}
        takers = [
            each
            for each in situation.takers()
            if each not in held | self._loaded
            and (partition, each) not in self._failed
            and self._has_room(each, size)
            and (below is None or self._served[each] + rate <= below)
        ]
        served = {each: 0 if below is None else self._served[each] for each in takers}
        target = min(takers, key=lambda each: (served[each], self._replicas[each], each), default=None)
        if target is None:
            return None
        self._moved.add(partition)
        self._replicas[target] += 1
        self._gained[target] += size
        return Step(Action.MOVE, partition, table.name, target, source=node, bytes=size)

    def _has_room(self, node: str, size: int) -> bool:
        """Does it have `ROOM_PERCENT` of its disk free with that, too? One that has not said how full it is has."""
        free = self._situation.nodes[node].disk_free - self._gained[node] - size
        return free * 100 >= self._size(node) * ROOM_PERCENT if self._size(node) else True
