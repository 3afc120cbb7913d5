"""A partition's log is put back from an older copy while a cluster runs, and has grown when it is served again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from kit.cluster.in_process import DEADLINE_S, TestCluster, cluster_of
from kit.cluster.level_replicas import level
from kit.deadlines import within

from log_tier.embedded import EmbeddedLog
from log_tier.model.batch import Columns, encode_batch
from log_tier.model.identifiers import Offset, Partition, PartitionId
from log_tier.rows.table_spec import TableSpec

pytestmark = pytest.mark.embedded_log_only

KEYS = [b"kept", b"lost", b"between", b"later"]


async def put(log: EmbeddedLog, partition: PartitionId, *pairs: tuple[bytes, bytes]) -> Offset:
    """One batch each, as clients append that route themselves."""
    for key, value in pairs:
        appended = await log.append(partition, encode_batch(Columns([key], [value])))
    return appended.base_offset


async def put_back(cluster: TestCluster, copy: Path, folder: Path, partition: PartitionId) -> None:
    """End the log server, put the files of one partition back, and start it again. The catalog stays as it is."""
    await cluster.log.stop()
    await cluster.log.log.close()
    place = Path("topics") / partition.table / str(partition.partition)
    shutil.rmtree(folder / place)
    shutil.copytree(copy / place, folder / place)
    cluster.log.log = await EmbeddedLog.open(folder)
    await cluster.log.start()


async def copied(cluster: TestCluster, folder: Path, copy: Path) -> None:
    """A copy of the log as it is, taken while it is closed."""
    await cluster.log.stop()
    await cluster.log.log.close()
    shutil.copytree(folder, copy)
    cluster.log.log = await EmbeddedLog.open(folder)
    await cluster.log.start()


@pytest.mark.parametrize("restarted", [False, True], ids=["nodes go on", "nodes are restarted"])
async def test_every_replica_serves_what_the_log_holds(tmp_path: Path, restarted: bool) -> None:
    folder, copy = tmp_path / "log", tmp_path / "copy"
    async with cluster_of(tmp_path) as cluster:
        table = await cluster.router.create_table(TableSpec("flights", partitions=1, replicas=3), timeout=DEADLINE_S)
        await cluster.hosted(table)
        partition = table.partition(Partition(0))
        await level(cluster, table, await put(cluster.log.log, partition, (b"kept", b"1")))
        await copied(cluster, folder, copy)
        await level(cluster, table, await put(cluster.log.log, partition, (b"lost", b"2"), (b"lost", b"3")))
        async with await EmbeddedLog.open(copy) as other:
            last = await put(
                other, partition, (b"between", b"4"), (b"between", b"5"), (b"later", b"6"), (b"later", b"7")
            )

        if restarted:
            for node in cluster.nodes.values():
                await node.close()
        await put_back(cluster, copy, folder, partition)
        if restarted:
            for name in list(cluster.nodes):
                await cluster.add_node(name)
        async with within(DEADLINE_S):
            for replica in await level(cluster, table, last):
                found = [replica.index.get_value(key) for key in KEYS]
                assert found == [b"1", None, b"5", b"7"], f"{replica.name}: {found}"
        await cluster.log.log.close()
