"""Versions on a real cluster: staged, swapped in under load, rolled back, refused."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from kit.cluster.operated import DEADLINE_S, Operated, table_of, version_states
from kit.deadlines import until, within
from kit.index.version_building import build_version

from duramen.aio import Table
from duramen.server.roles.node_role import NodeRole
from log_tier.model.errors import CommandRejected, DiskFull, InvalidRequest, LogStopped, SnapshotDamaged, VersionMissing
from log_tier.model.identifiers import Partition, PartitionId
from log_tier.remote.remote_log import RemoteLog
from router.admin.verbs import Compact, Discard, Move, Rollback, Stage, Swap, TakeSnapshots
from router.proto import admin_pb2 as pb
from serving_tier.index.lmdb.lmdb_index import LmdbIndex

KEYS = [b"k%03d" % number for number in range(200)]


async def bases(cluster: Operated, table: Table) -> list[int]:
    entry = cluster.router.catalog.map.find(table.name)
    return [bounds.latest for bounds in await cluster.log.log.all_bounds(entry.id)]


async def built(
    cluster: Operated, table: Table, tmp_path: Path, value: bytes, *, name: str = "1", keys: list[bytes] = KEYS
) -> str:
    """A version in which every key has `value`, as of now."""
    ref = cluster.router.catalog.map.find(table.name).ref
    url = f"file://{tmp_path / ('version' + name)}"
    now = await bases(cluster, table)
    await build_version(url, ref, dict.fromkeys(keys, value), bases=now, work=tmp_path / "work", name=name)
    return url


async def values(table: Table) -> set[bytes]:
    return {value async for _, value in table.scan(level="strong")}


def versions_here(node: NodeRole) -> set[int]:
    """The versions of its replicas' indexes."""
    return {number for each in node.data_plane.node for number in (each.index.version, *each.versions.here())}


async def test_stage_swap_and_roll_back(cluster: Operated, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = await table_of(cluster, KEYS)
    assert await version_states(cluster) == {1: "live"}
    url = await built(cluster, table, tmp_path, b"2")
    await table.put(KEYS[0], b"later")
    plan = await cluster.admin.start(Stage("flights", url), dry_run=True)
    assert len(plan.steps) == 6
    await cluster.done(Stage("flights", url))
    assert await version_states(cluster) == {1: "live", 2: "staged"}
    assert await values(table) == {b"1", b"later"}
    async with within(DEADLINE_S):
        while (staged := (await cluster.admin.versions("flights"))[1]).lacking:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    assert (staged.level, staged.replicas, list(staged.lacking), staged.url) == (6, 6, [], url)
    before = await table.put(KEYS[1], b"just before")
    await cluster.done(Swap("flights"))
    assert await version_states(cluster) == {1: "kept", 2: "live"}
    assert await values(table) == {b"2", b"later", b"just before"}
    assert await table.get(KEYS[1], after=before.token) == b"just before", "tokens go on"
    await table.put(KEYS[2], b"after")
    assert [each.verdict async for each in cluster.admin.verify("flights")] == ["equal"] * 3
    await cluster.done(Rollback("flights"))
    assert await version_states(cluster) == {1: "live", 2: "kept"}
    assert await values(table) == {b"1", b"later", b"just before", b"after"}
    await cluster.done(Swap("flights", version=2, keep=0))
    assert await version_states(cluster) == {2: "live"}
    assert await values(table) == {b"2", b"later", b"just before", b"after"}
    for node_id, node in cluster.nodes.items():
        for replica in node.data_plane.node:
            async with within(DEADLINE_S):
                while replica.versions.here():  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            assert replica.index.version == 2, node_id
    assert "is not here" not in caplog.text, "the live one is not fetched again"


async def test_a_node_that_restarts_comes_back_with_its_versions(cluster: Operated, tmp_path: Path) -> None:
    table = await table_of(cluster, KEYS, replicas=3)
    url = await built(cluster, table, tmp_path, b"2")
    await cluster.done(Stage("flights", url))
    await cluster.stop_node("n3")
    await table.put(KEYS[0], b"meanwhile")
    plan = await cluster.admin.start(Swap("flights"), dry_run=True)
    assert "node n3 is not there" in plan.notes[0]
    await cluster.done(Swap("flights"))
    assert await values(table) == {b"2", b"meanwhile"}
    await cluster.add_node("n3")
    await cluster.until_level("flights")
    assert {replica.index.version for replica in cluster.nodes["n3"].data_plane.node} == {2}
    assert [each.verdict async for each in cluster.admin.verify("flights")] == ["equal"] * 3
    (kept, _) = await cluster.admin.versions("flights")
    assert (kept.level, kept.replicas) == (9, 9)
    await cluster.done(Rollback("flights"))
    assert await values(table) == {b"1", b"meanwhile"}


async def test_reads_and_writes_go_on_while_versions_change(cluster: Operated, tmp_path: Path) -> None:
    """Nobody fails, nobody misses an own write, and conditional writes are decided once."""
    table = await table_of(cluster, KEYS)
    await table.put(b"n", b"0")
    url = await built(cluster, table, tmp_path, b"2", keys=[*KEYS, b"n"])
    stop = asyncio.Event()
    added = reads = 0

    async def count() -> None:
        nonlocal added
        while not stop.is_set():
            await table.update(b"n", add=1)
            added += 1

    async def read_own(number: int) -> None:
        nonlocal reads
        turn = 0
        while not stop.is_set():
            key, value = b"own%d-%d" % (number, turn % 5), b"%d" % turn
            done = await table.put(key, value)
            assert await table.get(key) == value
            entry = await table.get_entry(key)
            assert entry is not None
            assert entry.version == done.offset
            reads += 1
            turn += 1

    async def scan() -> None:
        """A page of one partition is of one version."""
        while not stop.is_set():
            for key in KEYS[:3]:
                assert await table.get(key) in (b"1", b"2")

    changes: list[bytes] = []

    async def watch() -> None:
        async for change in table.watch(start="now"):
            changes.append(change.key)  # noqa: PERF401 - it never ends

    working = [asyncio.create_task(work) for work in (count(), read_own(1), read_own(2), scan())]
    watching = asyncio.create_task(watch())
    try:
        await cluster.done(Stage("flights", url))
        for change in (Swap("flights"), Rollback("flights"), Swap("flights", version=2)):
            await cluster.done(change)
        async with within(DEADLINE_S):
            seen = added, reads
            while added <= seen[0] or reads <= seen[1] + 2 or changes[-1:] == [b""]:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        stop.set()
        await asyncio.gather(*working)
    finally:
        for task in (*working, watching):
            task.cancel()
        await asyncio.gather(*working, watching, return_exceptions=True)
    assert changes.count(b"") == 9, "a subscriber learns that its data is of another version"
    # Version 2 began with "2" where the log said 0.
    assert await table.get(b"n", level="strong") == b"%d" % (added + 2)
    assert [each.verdict async for each in cluster.admin.verify("flights")] == ["equal"] * 3


async def test_a_scan_ends_in_the_version_in_which_it_began(cluster: Operated, tmp_path: Path) -> None:
    table = await table_of(cluster, KEYS, partitions=3)
    more = [b"m%04d" % number for number in range(3000)]
    await table.put_many(dict.fromkeys(more, b"1"))
    await cluster.until_level("flights")
    await cluster.done(Stage("flights", await built(cluster, table, tmp_path, b"2")))
    pages = table.scan_pages()
    found = dict(await anext(pages))
    await cluster.done(Swap("flights"))
    async for page in pages:
        found.update(page)
    assert set(found.values()) == {b"1"}
    assert len(found) == len(KEYS) + len(more)
    assert await values(table) == {b"2"}

    await table.put_many(dict.fromkeys(more, b"3"))
    pages = table.scan_pages(timeout=3600.0)  # nobody waits for it: the version is gone for good
    await anext(pages)
    await cluster.done(Rollback("flights"))
    await cluster.done(Discard("flights", 2, force=True))
    await until(lambda: not any(2 in versions_here(node) for node in cluster.nodes.values()))
    with pytest.raises(
        VersionMissing, match="version 2, in which this read began, is not here any more: begin it again"
    ):
        async for _ in pages:
            pass


async def test_what_is_not_this_tables_is_refused(cluster: Operated, tmp_path: Path) -> None:
    table = await table_of(cluster, KEYS)
    other = await cluster.database.create_table("other", partitions=3)
    await other.put_many(dict.fromkeys(KEYS, b"1"))
    foreign = await built(cluster, other, tmp_path, b"2", name="7")
    with pytest.raises(InvalidRequest, match=r"is of table .* with 3 partitions by slot; table flights is"):
        await cluster.admin.start(Stage("flights", foreign))
    with pytest.raises(InvalidRequest, match=r"version\.json is missing: the build of that version has not finished"):
        await cluster.admin.start(Stage("flights", f"file://{tmp_path}/nowhere"))
    with pytest.raises(CommandRejected, match="no version of flights is staged"):
        await cluster.admin.start(Swap("flights"))
    with pytest.raises(CommandRejected, match="no version of flights is kept"):
        await cluster.admin.start(Rollback("flights"))
    with pytest.raises(InvalidRequest, match="has no version 5; it has 1"):
        await cluster.admin.start(Swap("flights", version=5))
    assert await values(table) == {b"1"}


async def test_a_damaged_part_is_not_swapped_in(cluster: Operated, tmp_path: Path) -> None:
    table = await table_of(cluster, KEYS)
    url = await built(cluster, table, tmp_path, b"2")
    (data,) = (tmp_path / "version1").glob("*/1/*/data.mdb")
    with open(data, "r+b") as file:
        file.seek(9000)
        file.write(b"\xff\x00\xff")
    plan = await cluster.admin.start(Stage("flights", url))
    job = await cluster.ended(plan.job)
    assert job.state == "failed"
    assert any(SnapshotDamaged.code in task.note for task in job.task_list)
    with pytest.raises(CommandRejected):
        await cluster.admin.start(Swap("flights", version=2))
    assert await values(table) == {b"1"}
    await cluster.admin.abort(plan.job, dry_run=False)
    assert await version_states(cluster) == {1: "live"}
    again = await built(cluster, table, tmp_path, b"3", name="3")
    await cluster.done(Stage("flights", again))
    assert await version_states(cluster) == {1: "live", 3: "staged"}, "numbers are not used again"
    await cluster.done(Swap("flights"))
    assert await values(table) == {b"3"}


async def test_a_full_disk_on_one_node(cluster: Operated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = await table_of(cluster, KEYS, replicas=3)
    url = await built(cluster, table, tmp_path, b"2")
    full = cluster.nodes["n2"].data_plane.node.folder
    inner = LmdbIndex.become

    def become(self: LmdbIndex, version: int) -> None:
        if self.path.is_relative_to(full):
            raise DiskFull("the index cannot grow: make room")
        inner(self, version)

    monkeypatch.setattr(LmdbIndex, "become", become)
    plan = await cluster.admin.start(Stage("flights", url))
    async with within(DEADLINE_S):
        while sum(task.state == "done" for task in (await cluster.admin.job(plan.job)).task_list) < 6:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    with pytest.raises(CommandRejected, match="is not level at node n2"):
        await cluster.admin.start(Swap("flights", version=2))
    await table.put(KEYS[0], b"served")
    assert await values(table) == {b"1", b"served"}
    monkeypatch.undo()
    if (await cluster.ended(plan.job)).state == "failed":  # a busy machine: the node's tries were over before
        await cluster.admin.resume(plan.job)
    assert (await cluster.ended(plan.job)).state == "done", "there is room again"
    await cluster.done(Swap("flights"))
    assert await values(table) == {b"2", b"served"}


async def test_two_swaps_at_once_and_one_that_was_put_again(cluster: Operated, tmp_path: Path) -> None:
    table = await table_of(cluster, KEYS)
    url = await built(cluster, table, tmp_path, b"2")
    await cluster.done(Stage("flights", url))
    results = await asyncio.gather(
        cluster.admin.start(Swap("flights", version=2)),
        cluster.admin.start(Swap("flights", version=2)),
        return_exceptions=True,
    )
    begun = [result for result in results if isinstance(result, pb.AdminPlan)]
    refused = [result for result in results if isinstance(result, CommandRejected)]
    assert (len(begun), len(refused)) == (1, 1)
    assert (await cluster.ended(begun[0].job)).state == "done"
    with pytest.raises(CommandRejected, match=r"job \d+ is done already"):
        await cluster.admin.abort(begun[0].job, dry_run=False)
    assert await values(table) == {b"2"}


async def test_a_swap_that_ended_half_way_is_finished_and_its_barriers_count_once(
    cluster: Operated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node that puts the barriers ends after the first of them; another one puts all of them again."""
    table = await table_of(cluster, KEYS)
    await cluster.done(Stage("flights", await built(cluster, table, tmp_path, b"2")))
    inner, ended = RemoteLog.append_many, False

    async def ends_half_way(self: RemoteLog, parts: Sequence[tuple[PartitionId, bytes]]) -> object:
        nonlocal ended
        if ended or not all(b'"version":2' in batch for _, batch in parts):
            return await inner(self, parts)
        ended = True
        await self.append(*parts[0])
        raise LogStopped("the node ends here")

    monkeypatch.setattr(RemoteLog, "append_many", ends_half_way)
    plan = await cluster.admin.start(Swap("flights"))
    job = await cluster.ended(plan.job)
    assert job.state == "failed"
    with pytest.raises(CommandRejected, match="may have put barriers into the log already: resume it"):
        await cluster.admin.abort(plan.job, dry_run=False)
    assert await values(table) == {b"1", b"2"}, "one partition has gone over"
    monkeypatch.undo()
    await cluster.admin.resume(plan.job, dry_run=False)
    assert (await cluster.ended(plan.job)).state == "done"
    assert await values(table) == {b"2"}
    assert await version_states(cluster) == {1: "kept", 2: "live"}
    await cluster.done(Rollback("flights"))
    assert await values(table) == {b"1"}


async def test_a_replica_that_came_later(cluster: Operated, tmp_path: Path) -> None:
    table = await table_of(cluster, KEYS, partitions=1, replicas=1)
    url = await built(cluster, table, tmp_path, b"2")
    await cluster.done(Stage("flights", url))
    (holder,) = await cluster.holders("flights")
    target = next(node for node in cluster.nodes if node != holder)
    await cluster.done(Move("flights", Partition(0), holder, target))
    await cluster.until_level("flights")
    await cluster.done(Stage("flights", url))
    await cluster.done(Swap("flights"))
    assert await values(table) == {b"2"}
    await cluster.done(Move("flights", Partition(0), target, holder))
    assert await values(table) == {b"2"}, "a copy of a replica is of its live version"
    with pytest.raises(CommandRejected, match="version 1 of flights/0 is not level at node"):
        await cluster.admin.start(Rollback("flights"))
    await cluster.done(Discard("flights", 1))
    assert await version_states(cluster) == {2: "live"}


async def test_the_log_is_not_shortened_under_a_staged_version(cluster: Operated, tmp_path: Path) -> None:
    table = await table_of(cluster, KEYS)
    await cluster.done(TakeSnapshots("flights"))
    await table.put_many(dict.fromkeys(KEYS, b"again"))
    url = await built(cluster, table, tmp_path, b"2")
    await cluster.done(Stage("flights", url))
    with pytest.raises(CommandRejected, match="version 2 of flights is staged and may need the log"):
        await cluster.admin.start(Compact("flights"))
    await cluster.done(Discard("flights", 2))
    await cluster.done(Compact("flights"))
    assert await values(table) == {b"again"}


async def test_a_replica_from_an_old_snapshot_goes_over_the_barrier(cluster: Operated, tmp_path: Path) -> None:
    """Its only replica is lost; the snapshot is of before the swap, the version is still where it was built."""
    table = await table_of(cluster, KEYS, partitions=1, replicas=1)
    await cluster.done(TakeSnapshots("flights"))
    url = await built(cluster, table, tmp_path, b"2")
    await cluster.done(Stage("flights", url))
    await cluster.done(Swap("flights", keep=0))
    await table.put(KEYS[0], b"last")
    (holder,) = await cluster.holders("flights")
    await cluster.stop_node(holder)
    for folder in (tmp_path / "cluster" / holder / "index").iterdir():
        shutil.rmtree(folder)
    await cluster.add_node(holder)
    await cluster.until_level("flights")
    assert await values(table) == {b"2", b"last"}
