"""The plan that relieves nodes that have too much: whose disk is nearly full, or who lag where others do not. Pure.

    full     less than `FULL_PERCENT` of its disk is free. Replicas go until `ROOM_PERCENT` are, with as few moves as
             can be.
    slow     some of its replicas have not been level with the log for `SLOW_MS`, and a live one elsewhere is level with
             the same log: so it is this node that is slow, and not the log. Half of those that lag go.

A replica goes to a node that is neither, has no copy of it, and keeps `ROOM_PERCENT` of its disk free. So no step makes
the next node full, and what was moved once is not moved back: between `FULL_PERCENT` and `ROOM_PERCENT` nothing moves.
What other jobs move counts as moved: to plan again while they run adds nothing.

What no move can relieve is said in the notes: nodes that share one disk, a log that everybody lags.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Final, NamedTuple

from log_tier.catalog.actions import GAINS_REPLICA, Action
from log_tier.catalog.placement import loads
from log_tier.model.identifiers import PartitionId
from router.admin.planners.cluster_view import Situation
from router.admin.planners.plan import Plan, Step, plan_of
from router.membership.views import ReportedState

__all__ = ["FULL_PERCENT", "MOVES_MAX", "ROOM_PERCENT", "SLOW_MS", "plan_relief"]

FULL_PERCENT: Final = 15
"""A node with less of its disk free is full: snapshots and a compacted index need room, too."""
ROOM_PERCENT: Final = 25
"""So much of a disk is free afterwards, at a node that gives and at a node that takes."""
SLOW_MS: Final = 60_000
"""A node that opens an index again, or takes in a burst, is level sooner."""
MOVES_MAX: Final = 8
"""Of one plan: it is made of what nodes said a moment ago, and each move changes that."""


class _Loaded(NamedTuple):
    """A node that has too much."""

    node: str
    why: str
    """For people."""


def plan_relief(situation: Situation) -> Plan:
    """Relieve the live nodes that are full or slow. O(moves × replicas) at worst."""
    relief = _Relief(situation)
    steps: list[Step] = []
    notes = [f"node {each.node} {each.why}" for each in (*relief.full, *relief.slow)]
    notes = notes or ["no node is full, and none lags"]
    for loaded in relief.full:
        steps += relief.emptied(loaded.node, MOVES_MAX - len(steps))
    for loaded in relief.slow:
        steps += relief.eased(loaded.node, MOVES_MAX - len(steps))
    return plan_of("rebalance", "nodes that are full or slow", steps, notes=(*notes, *relief.stuck))


class _Relief:
    """Who has too much, and where it can go while the plan grows."""

    def __init__(self, situation: Situation) -> None:
        self._situation = situation
        self._replicas = loads(situation.cluster)
        self._moved = situation.changing()
        """What a job or this plan changes already."""
        self._gained: Counter[str] = Counter()
        """Bytes by node that come, by this plan and by other jobs."""
        self._leaving: defaultdict[str, set[PartitionId]] = defaultdict(set)
        """What other jobs move away, by node."""
        for _, _, task in situation.cluster.unfinished_tasks():
            if task.action in GAINS_REPLICA and task.table in situation.cluster.tables:
                self._gained[task.node] += situation.bytes_of(task.partition_id)
                self._leaving[str(task.arguments.get("from", ""))].add(task.partition_id)
        self._lagging = {node: list(self._lags(node)) for node in sorted(situation.nodes) if situation.is_alive(node)}
        self.full = [_Loaded(node, self._why_full(node)) for node in self._lagging if self._is_full(node)]
        self.slow = [
            _Loaded(node, f"lags with {len(found)} of its replicas, while others are level")
            for node, found in self._lagging.items()
            if found
        ]
        self.stuck: list[str] = []
        """What cannot be relieved, for people."""

    # --- who has too much

    def _size(self, node: str) -> int:
        """Of its disk; 0: not known."""
        view = self._situation.nodes[node]
        return view.disk_free + view.disk_used

    def _is_full(self, node: str) -> bool:
        return self._situation.nodes[node].disk_free * 100 < self._size(node) * FULL_PERCENT

    def _why_full(self, node: str) -> str:
        free = self._situation.nodes[node].disk_free
        return f"has {free >> 20:,} MiB of its disk free, {free / self._size(node):.0%}"

    def _lags(self, node: str) -> Iterator[PartitionId]:
        """What lags here and is level elsewhere."""
        situation = self._situation
        for partition, replica in situation.nodes[node].replicas.items():
            if replica.state != ReportedState.BEHIND or replica.lag_ms < SLOW_MS:
                continue
            table = situation.cluster.tables.get(partition.table)
            assigned = () if table is None else table.assignments[partition.partition]
            if any(each.node != node and situation.is_ready(partition, each.node) for each in assigned):
                yield partition

    # --- what goes where

    def emptied(self, node: str, most: int) -> list[Step]:
        """Moves that make room on a full node."""
        going = sum(self._situation.bytes_of(partition) for partition in self._leaving[node])
        need = self._size(node) * ROOM_PERCENT // 100 - self._situation.nodes[node].disk_free - going
        steps: list[Step] = []
        while need > 0 and len(steps) < most:
            step = self._best(node, need)
            if step is None:
                self.stuck.append(f"node {node} stays full: no other node has room for what could go")
                break
            steps.append(step)
            need -= step.bytes
        return steps

    def _best(self, node: str, need: int) -> Step | None:
        """The smallest replica that is enough, else the largest: so few moves are enough, and they copy little."""
        found = [
            (self._situation.bytes_of(partition), table.name, partition)
            for table, partition, replica in self._situation.held_by(node)
            if replica.role == "member" and partition not in self._moved
        ]
        enough = sorted(each for each in found if each[0] >= need)
        less = sorted((each for each in found if 0 < each[0] < need), reverse=True)
        return next((step for each in (*enough, *less) if (step := self._step(node, each[2])) is not None), None)

    def eased(self, node: str, most: int) -> list[Step]:
        """Moves that take work off a slow node: half of what lags, the smallest first."""
        lagging = sorted(self._lagging[node], key=lambda each: (self._situation.bytes_of(each), each))
        going = len(self._leaving[node].intersection(lagging))
        wanted = min(most, -(-len(lagging) // 2) - going)
        steps: list[Step] = []
        for partition in lagging:
            if len(steps) < wanted and partition not in self._moved:
                step = self._step(node, partition)
                if step is not None:
                    steps.append(step)
        if not steps and wanted > 0:
            self.stuck.append(f"node {node} stays slow: no other node has room for what lags there")
        return steps

    def _step(self, node: str, partition: PartitionId) -> Step | None:
        """The move of one replica away from `node`; None where nobody can take it."""
        situation = self._situation
        size = situation.bytes_of(partition)
        table = situation.cluster.table(partition.table)
        held = {each.node for each in table.assignments[partition.partition]}
        loaded = {each.node for each in (*self.full, *self.slow)}
        takers = [each for each in situation.takers() if each not in held | loaded and self._has_room(each, size)]
        target = min(takers, key=lambda each: (self._replicas[each], each), default=None)
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
