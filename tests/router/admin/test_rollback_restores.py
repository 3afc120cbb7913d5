"""What is left to restore a table from after a rollback: snapshots, the log, and what versions were built of."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kit.cluster.operated import Operated, operated, table_of, version_states
from kit.index.version_building import build_version

from duramen.aio import Table
from log_tier.model.errors import CommandRejected
from router.admin.verbs import Compact, Discard, RestoreTable, Rollback, Stage, Swap, TakeSnapshots, Trim

KEYS = [b"k%03d" % number for number in range(50)]


async def over_and_back(cluster: Operated, table: Table, tmp_path: Path, *, snapshot: bool = False) -> Path:
    """Swap to a built version and roll back; the folder of what was built. `snapshot`: one is taken in between."""
    entry = cluster.router.catalog.map.find(table.name)
    place = tmp_path / "version"
    bases = [bounds.latest for bounds in await cluster.log.log.all_bounds(entry.id)]
    await build_version(f"file://{place}", entry.ref, dict.fromkeys(KEYS, b"2"), bases=bases, work=tmp_path / "work")
    await cluster.done(Stage("flights", f"file://{place}"))
    await cluster.done(Swap("flights"))
    await table.put(KEYS[0], b"in version 2")
    if snapshot:
        await cluster.done(TakeSnapshots("flights"))
    await cluster.done(Rollback("flights"))
    await table.put(KEYS[1], b"after")
    return place


async def lose_index(cluster: Operated, tmp_path: Path, node: str) -> None:
    await cluster.stop_node(node)
    shutil.rmtree(tmp_path / "cluster" / node / "index")
    await cluster.add_node(node)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Operated]:
    """Its log has small segments: a trim removes some."""
    async with operated(tmp_path / "cluster", segment_bytes=4096) as made:
        yield made


async def values(table: Table) -> set[bytes]:
    return {value async for _, value in table.scan(level="strong")}


WANTED = {b"1", b"in version 2", b"after"}


async def test_a_snapshot_of_before_a_swap_and_its_rollback_covers_nothing(cluster: Operated, tmp_path: Path) -> None:
    """A replica that began with it would meet the barrier to version 2, which is gone."""
    table = await table_of(cluster, KEYS, partitions=1, replicas=1)
    await cluster.done(TakeSnapshots("flights"))
    place = await over_and_back(cluster, table, tmp_path)
    for change in (Trim("flights"), Compact("flights")):
        with pytest.raises(CommandRejected, match="no verified snapshot of it is known since version 1 went live"):
            await cluster.admin.start(change)
    await cluster.done(TakeSnapshots("flights"))
    await cluster.done(Discard("flights", 2))
    shutil.rmtree(place)
    await cluster.done(Trim("flights"))
    await lose_index(cluster, tmp_path, *await cluster.holders("flights"))
    await cluster.until_level("flights")
    assert await values(table) == WANTED


async def test_a_version_that_a_restore_would_meet_is_discarded_by_force_alone(
    cluster: Operated, tmp_path: Path
) -> None:
    table = await table_of(cluster, KEYS, partitions=1, replicas=1)
    await cluster.done(TakeSnapshots("flights"))
    await over_and_back(cluster, table, tmp_path)
    with pytest.raises(CommandRejected, match=r"a restore of flights/0 .*`duramen admin snapshot flights`"):
        await cluster.admin.start(Discard("flights", 2))
    await cluster.done(Discard("flights", 2, force=True))
    assert await version_states(cluster) == {1: "live"}


async def test_a_restore_after_a_rollback_begins_with_a_snapshot_that_can_go_on(
    cluster: Operated, tmp_path: Path
) -> None:
    """The newest snapshot is of version 2: behind it, the log goes back to version 1, which was built nowhere."""
    table = await table_of(cluster, KEYS, partitions=1, replicas=1)
    for number in range(5):
        await table.put_many(dict.fromkeys([b"more", *KEYS], b"x" * 100 * number))
    await table.put_many(dict.fromkeys([b"more", *KEYS], b"1"))
    await cluster.done(TakeSnapshots("flights"))
    await cluster.done(Trim("flights"))
    (partition,) = await cluster.admin.partitions("flights")
    assert partition.earliest > 0, "the log alone is no source"
    await over_and_back(cluster, table, tmp_path, snapshot=True)
    await lose_index(cluster, tmp_path, *await cluster.holders("flights"))
    await cluster.until_level("flights")
    assert await values(table) == WANTED


async def test_a_live_peer_is_better_than_a_snapshot_of_before_the_last_barrier(
    cluster: Operated, tmp_path: Path
) -> None:
    table = await table_of(cluster, KEYS, partitions=1, replicas=2)
    await cluster.done(TakeSnapshots("flights"))
    shutil.rmtree(await over_and_back(cluster, table, tmp_path))
    (holders,) = await cluster.holders("flights")
    await lose_index(cluster, tmp_path, holders.split()[0])
    await cluster.until_level("flights")
    assert await values(table) == WANTED


async def test_a_past_behind_a_barrier_needs_a_snapshot_of_since(cluster: Operated, tmp_path: Path) -> None:
    table = await table_of(cluster, KEYS, partitions=1, replicas=1)
    await cluster.done(TakeSnapshots("flights"))
    await over_and_back(cluster, table, tmp_path)
    token = await table.end_token()
    plan = await cluster.admin.start(RestoreTable("flights", "past", token=token))
    job = await cluster.ended(plan.job)
    assert job.state == "failed"
    assert "version 2 of it went live at" in job.task_list[0].note, "though version 1 is live again"
    assert "no good snapshot lies between" in job.task_list[0].note
    await cluster.done(TakeSnapshots("flights"))
    await table.put(KEYS[2], b"too late")
    await cluster.done(RestoreTable("flights", "later", token=await table.end_token()))
    assert await values(cluster.database.table("later")) == {*WANTED, b"too late"}
