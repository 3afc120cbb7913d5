"""A partition's log is repaired while its cluster runs: a copy loses nothing, and without one no replica differs."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest
from kit.client.server_process import ServerProcess, run_duramen
from kit.cluster.in_process import DEADLINE_S, cluster_of
from kit.cluster.level_replicas import level
from kit.deadlines import until, within

from log_tier.embedded import EmbeddedLog
from log_tier.embedded.repair import LogRepair
from log_tier.model.batch import Columns, encode_batch
from log_tier.model.identifiers import Offset, OffsetRange, Partition, PartitionId
from log_tier.rows.table_spec import TableSpec

pytestmark = pytest.mark.embedded_log_only

KEYS = [b"before", b"gone", b"after", b"later"]
GIVE_UP = {("flights", 0): [OffsetRange(Offset(1), Offset(1))]}


async def put(log: EmbeddedLog, partition: PartitionId, *keys: bytes) -> Offset:
    """One batch each, as clients append that route themselves."""
    for key in keys:
        appended = await log.append(partition, encode_batch(Columns([key], [b"v"])))
    return appended.base_offset


def lose(folder: Path, partition: PartitionId, key: bytes) -> None:
    """Flip a bit in the batch of a key."""
    (segment,) = folder.glob(f"topics/{partition.table}/0/*.log")
    content = bytearray(segment.read_bytes())
    content[content.find(key)] ^= 1
    segment.write_bytes(content)


def repair(folder: Path, copy: Path | None) -> None:
    with LogRepair(folder, copy=copy, give_up={} if copy else GIVE_UP) as one:
        assert not one.plan().refusals
        one.carry_out()


@pytest.mark.parametrize("has_copy", [True, False], ids=["copy", "given up"])
@pytest.mark.parametrize("behind", [True, False], ids=["a node is behind", "all are level"])
async def test_every_replica_serves_what_the_log_holds(tmp_path: Path, has_copy: bool, behind: bool) -> None:
    """A replica that had applied the record and one that had not agree afterwards."""
    folder, copy = tmp_path / "log", tmp_path / "copy"
    async with cluster_of(tmp_path) as cluster:
        table = await cluster.router.create_table(TableSpec("flights", partitions=1, replicas=3), timeout=DEADLINE_S)
        await cluster.hosted(table)
        partition = table.partition(Partition(0))
        await level(cluster, table, await put(cluster.log.log, partition, b"before"))
        if behind:
            await cluster.nodes["n2"].close()
        last = await put(cluster.log.log, partition, b"gone", b"after")
        if not behind:
            await level(cluster, table, last)
        else:
            await until(lambda: sum(each.applied >= last for each in cluster.replicas(table, 0)) == 2)
        await cluster.log.stop()
        await cluster.log.log.close()
        if has_copy:
            shutil.copytree(folder, copy)
        lose(folder, partition, b"gone")
        await asyncio.to_thread(repair, folder, copy if has_copy else None)
        cluster.log.log = await EmbeddedLog.open(folder)
        await cluster.log.start()
        if behind:
            await cluster.add_node("n2")
        last = await put(cluster.log.log, partition, b"later")
        assert last == (3 if has_copy else 4), "an offset was given again"
        async with within(DEADLINE_S):
            expected = [b"v", b"v" if has_copy else None, b"v", b"v"]
            for replica in await level(cluster, table, last):
                found = [replica.index.get_value(key) for key in KEYS]
                assert found == expected, f"{replica.name}: {found}"
        await cluster.log.log.close()


def test_a_server_that_was_killed_and_whose_log_was_damaged(tmp_path: Path) -> None:
    """`duramen up`, kill -9, damage, repair, up, and reads; the copy is older than the last writes."""
    data, copy = tmp_path / "data", tmp_path / "copy"
    server = ServerProcess(data, log=tmp_path / "output")
    with server.connect() as database:
        table = database.create_table("flights", partitions=2)
        for number in range(60):
            table.put(b"UA%d" % number, b"departed")
    server.kill9()
    shutil.copytree(data, copy)
    server.start()
    with server.connect() as database:
        for number in range(60, 80):
            database.table("flights").put(b"UA%d" % number, b"boarding")
    server.kill9()
    for segment in data.glob("log/topics/*/*/*.log"):
        content = segment.read_bytes()
        at = content.find(b"UA3")
        if at >= 0:
            segment.write_bytes(content[:at] + bytes(300) + content[at + 300 :])
    shutil.rmtree(data / "index")
    verified = run_duramen("log", "verify", str(data), at=server.target)
    assert verified.returncode == 1
    assert f"repair: duramen log repair {data} --from COPY" in verified.stdout
    repaired = run_duramen("log", "repair", str(data), "--from", str(copy), at=server.target)
    assert repaired.returncode == 0, repaired.stdout + repaired.stderr
    assert "taken from the copy" in repaired.stdout
    verified = run_duramen("log", "verify", str(data), at=server.target)
    assert verified.returncode == 0, verified.stdout
    server.start()
    with server.connect() as database:
        found = dict(database.table("flights").scan(level="strong"))
        assert found == {b"UA%d" % n: b"departed" if n < 60 else b"boarding" for n in range(80)}
        database.table("flights").put(b"UA1", b"landed")
        assert database.table("flights").get(b"UA1") == b"landed"
    server.close()
