"""Nodes of a membership that answer as a test says, and the routes to them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from log_tier.catalog.catalog import MapFeed
from log_tier.catalog.cluster_map import Assignment, ClusterMap, TableEntry
from log_tier.concurrency.persistent_map import PersistentMap
from log_tier.model.errors import (
    DeadlineExceeded,
    Disconnected,
    DuramenError,
)
from log_tier.model.identifiers import Offset, Partition, PartitionId, TableId
from router.data.requests import ReadPart
from router.membership.views import NodeView, ReplicaView
from router.routing.routes import Routes
from router.routing.scatter import Scatter
from router.routing.targets import Through

__all__ = ["DEADLINE_S", "TABLE", "Behaviour", "ScriptedCluster", "ScriptedMember", "well"]

TABLE = TableId("AAAAAAAAAAAAAAAAAAAAAA")
DEADLINE_S = 5.0

Behaviour = Callable[[int], DuramenError | None]
"""What a node says to a part, by its number: an error, or nothing, which is an answer."""


def well(_: int) -> None:
    return None


class ScriptedMember:
    """A member of a membership that answers as its `behaviour` says."""

    def __init__(self, node: str, partitions: int) -> None:
        self.id = node
        self.load = 0
        self.behaviour: Behaviour = well
        self.gate = asyncio.Event()
        self.gate.set()
        self.asked: list[list[int]] = []
        self.patiences: list[float] = []
        self.view = NodeView(
            node,
            "host:1",
            alive=True,
            replicas={
                PartitionId(TABLE, Partition(n)): ReplicaView(Offset(5), Offset(5), 0, "ready")
                for n in range(partitions)
            },
        )

    @property
    def alive(self) -> bool:
        return self.view.alive

    def lose(self) -> None:
        self.view = NodeView(self.id, "host:1", reason="it was lost")

    def stands(self, state: str, applied: int = 5) -> None:
        replicas = {name: ReplicaView(Offset(applied), Offset(5), 0, state) for name in self.view.replicas}
        self.view = NodeView(self.id, "host:1", alive=True, replicas=replicas)


class ScriptedCluster:
    """Three nodes that hold every partition, unless the map says otherwise."""

    def __init__(self, partitions: int = 2, *, map_wait_s: float = 0.5) -> None:
        self.nodes = {node: ScriptedMember(node, partitions) for node in ("n1", "n2", "n3")}
        self.maps = MapFeed()
        self.assign(dict.fromkeys(range(partitions), ("n1", "n2", "n3")))
        self._map_wait_s = map_wait_s
        self.reach_through(None)
        self.answered: dict[int, str] = {}
        self.patiences: list[float] = []

    def reach_through(self, server: Through | None) -> None:
        """New routes, with a server among the candidates where no node answers."""
        membership: Any = SimpleNamespace(members=self.nodes, failures=self.failures)
        maps: Any = self.maps
        self.routes = Routes(maps, membership, through=server, map_wait_s=self._map_wait_s)
        self.scatter = Scatter(self.routes)

    def assign(self, holders: Mapping[int, Sequence[str]]) -> None:
        assignments = tuple(tuple(Assignment(node, "member") for node in holders[n]) for n in sorted(holders))
        table = TableEntry(TABLE, "flights", len(holders), 3, assignments)
        self.maps.advance(ClusterMap(version=Offset(self.maps.map.version + 1), tables=PersistentMap({TABLE: table})))

    def failures(self) -> Iterator[tuple[str, DuramenError]]:
        for node in self.nodes.values():
            if not node.alive:
                yield node.id, Disconnected(node.view.reason)

    async def ask(
        self, member: Any, numbers: Sequence[int], timeout: float, patience: float
    ) -> dict[int, DuramenError]:
        assert timeout > 0
        member.asked.append(list(numbers))
        member.patiences.append(patience)
        self.patiences.append(patience)
        try:
            async with asyncio.timeout(timeout):
                await member.gate.wait()
        except TimeoutError:
            raise DeadlineExceeded(f"{member.id} did not answer") from None
        failed = {}
        for number in numbers:
            error = member.behaviour(number)
            if error is None:
                self.answered[number] = member.id
            else:
                failed[number] = error
        return failed

    async def run(
        self, *parts: ReadPart, timeout: float = DEADLINE_S, patience: float = 0.0
    ) -> dict[int, DuramenError]:
        deadline = asyncio.get_running_loop().time() + timeout
        return dict(await self.scatter.run(parts, self.ask, deadline=deadline, patience=patience))

    @property
    def questions(self) -> int:
        return sum(len(node.asked) for node in self.nodes.values())
