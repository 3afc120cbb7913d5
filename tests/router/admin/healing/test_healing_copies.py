"""What healing copies: each missing replica once, whole, from a peer, also where all of them come from one node."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from kit.cluster.operated import operated, table_of
from kit.deadlines import until_true

from log_tier.model.identifiers import PartitionId
from router.admin.planners.heal import HealBounds
from serving_tier.jobs import bootstrapping
from serving_tier.service.peer import NodePeer

KEYS = [b"k%03d" % number for number in range(200)]
NODES = ("n1", "n2", "n3", "n4")
PARTITIONS = 16


async def test_each_missing_replica_is_copied_once_from_a_peer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four nodes hold the partitions in pairs: all that n2 held is at n1 alone, which gives two copies at a time."""
    monkeypatch.setattr(bootstrapping, "REPLAY_RECORDS", 1)  # a log of some records is long
    copies: Counter[PartitionId] = Counter()
    received: Counter[PartitionId] = Counter()
    asked: set[str] = set()
    real: Any = NodePeer.copy

    async def copy(self: NodePeer, partition: PartitionId) -> AsyncGenerator[Any, None]:
        asked.add(self.name)
        async with aclosing(real(self, partition)) as parts:
            async for part in parts:
                copies[partition] += bool(part.manifest)
                received[partition] += len(part.data)
                yield part

    monkeypatch.setattr(NodePeer, "copy", copy)
    async with operated(tmp_path / "cluster", nodes=NODES, heal=HealBounds(after_s=1.0)) as cluster:
        await table_of(cluster, KEYS, partitions=PARTITIONS, replicas=2)
        lost = [number for number, holders in enumerate(await cluster.holders("flights")) if "n2" in holders.split()]
        assert len(lost) == PARTITIONS * 2 // len(NODES)
        await cluster.stop_node("n2")

        async def whole() -> bool:
            return all(
                len(holders.split()) == 2 and "n2" not in holders for holders in await cluster.holders("flights")
            )

        await until_true(whole)
        await cluster.until_level("flights")
        tasks = [
            task
            for job in await cluster.admin.jobs()
            if job.kind == "heal"
            for task in (await cluster.admin.job(job.job)).task_list
        ]
        assert sorted(task.partition for task in tasks) == lost, "no replica is moved twice, and no other one is"
        assert {task.note.split(" at ")[0] for task in tasks} == {"came from peer n1"}, "none is made of the log"
        assert {place.partition: count for place, count in copies.items()} == dict.fromkeys(lost, 1)
        assert asked == {"n1"}, "nobody asks the lost node"
        for task in tasks:
            replica = cluster.replica(task.node, "flights", task.partition)
            folder = cluster.nodes[task.node].data_plane.node.replica_folder(replica.id)
            held = sum(file.stat().st_size for file in folder.iterdir())
            assert received[replica.id] <= held, "no more comes than what is there afterwards"
