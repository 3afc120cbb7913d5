"""A table's retention: set by an operator, shown, kept to by nodes that ask each other, and noticed by watchers."""

from __future__ import annotations

from pathlib import Path

import pytest
from kit.cluster.operated import Operated, operated

from duramen.server.wiring.serving_node import _peer_applied
from log_tier.model.errors import Disconnected, InvalidRequest, OffsetTrimmed, TableNotFound
from log_tier.model.identifiers import NOTHING, Partition, PartitionId
from log_tier.model.retention import FOREVER, Retention
from log_tier.model.tokens import Token
from router.admin.verbs import TakeSnapshots
from serving_tier.jobs.log_trimmer import LogTrimmer
from serving_tier.snapshots.snapshot_store import SnapshotStore


async def _trimmer(cluster: Operated, folder: Path, node_id: str) -> LogTrimmer:
    node = cluster.nodes[node_id].data_plane
    return LogTrimmer(node.log, node.catalog, node.hosting, SnapshotStore.open(folder / "snapshots"), _peer_applied)


async def test_a_table_keeps_what_its_retention_says(tmp_path: Path) -> None:
    async with operated(tmp_path, nodes=("n1", "n2"), segment_bytes=4096) as cluster:
        table = await cluster.database.create_table("flights", partitions=1, replicas=2)
        first = await table.put(b"k", b"first")
        for round_ in range(20):
            await table.put_many({b"k%03d" % number: b"%d" % round_ for number in range(50)})
        await cluster.until_level("flights")
        assert (await cluster.database.describe_table("flights")).retention == FOREVER

        changed = await cluster.admin.set_retention("flights", size=8192)
        assert (changed.retention_ms, changed.retention_bytes) == (0, 8192)
        assert list(changed.notes) == [
            "flights/0 keeps everything: no verified snapshot of it is known: take one (`duramen admin snapshot`)"
        ]
        changed = await cluster.admin.set_retention("flights", ms=3_600_000)
        assert (changed.retention_ms, changed.retention_bytes) == (3_600_000, 8192), "the other bound stays"
        (shown,) = await cluster.admin.partitions("flights")
        assert (shown.retention_ms, shown.retention_bytes) == (3_600_000, 8192)
        assert shown.retention_held_by.startswith("no verified snapshot")

        trimmer = await _trimmer(cluster, tmp_path, "n2")
        await trimmer.trim()
        assert (await cluster.admin.partitions("flights"))[0].earliest == 0
        await cluster.done(TakeSnapshots("flights"))
        await trimmer.trim()
        (shown,) = await cluster.admin.partitions("flights")
        assert shown.earliest > 0
        assert shown.retention_held_by == ""
        assert (await cluster.database.describe_table("flights")).retention == Retention(3_600_000, 8192)

        with pytest.raises(OffsetTrimmed) as caught:
            await anext(aiter(await table.watch(after=first.token)))
        assert caught.value.fields["earliest"] == shown.earliest
        assert (await table.get(b"k", level="strong")) == b"first", "a key stays, whatever its age"


async def test_what_a_node_reports_to_others(tmp_path: Path) -> None:
    async with operated(tmp_path, nodes=("n1", "n2")) as cluster:
        table = await cluster.database.create_table("flights", partitions=2, replicas=2)
        token = await table.put_many({b"%d" % number: b"v" for number in range(20)})
        await cluster.until_level("flights")
        cluster_map = cluster.router.catalog.map
        entry = cluster_map.find("flights")
        found = await _peer_applied(cluster_map.nodes["n1"])
        seen = Token.parse(token.token).offsets(entry.id, table_name="flights")
        assert {partition: found[PartitionId(entry.id, partition)] for partition in seen} == seen
        assert all(found[PartitionId(entry.id, Partition(number))] > NOTHING for number in range(2))
        address = cluster_map.nodes["n2"]
        await cluster.stop_node("n2")
        with pytest.raises(Disconnected):
            await _peer_applied(address)


async def test_settings_that_cannot_be(tmp_path: Path) -> None:
    async with operated(tmp_path, nodes=("n1",)) as cluster:
        await cluster.database.create_table("flights", partitions=1)
        with pytest.raises(InvalidRequest, match="name what is to change"):
            await cluster.admin.set_retention("flights")
        with pytest.raises(InvalidRequest, match="is a whole number from 0"):
            await cluster.admin.set_retention("flights", ms=-1)
        with pytest.raises(InvalidRequest, match="is a whole number from 0"):
            await cluster.admin.set_retention("flights", size=1 << 63)
        with pytest.raises(TableNotFound):
            await cluster.admin.set_retention("ships", ms=1)
        assert (await cluster.admin.set_retention("flights", ms=0, size=0)).notes == []
