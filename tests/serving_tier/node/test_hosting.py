"""Hosting: a node in step with the map, and what it does with what it finds on its disk."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from kit.cluster.hosted_node import DEADLINE_S, ONE, ZERO, Sources, append, make_table, start_move
from kit.deadlines import patience_s, until, within

from log_tier.catalog.catalog import Catalog
from log_tier.catalog.commands import (
    AbortJob,
    CreateTable,
    DropTable,
    StartJob,
    TaskDone,
    TaskPlan,
    TaskReady,
)
from log_tier.catalog.map_follower import MapFollower
from log_tier.concurrency.background import failing
from log_tier.concurrency.persistent_map import PersistentMap
from log_tier.concurrency.threads import Progress
from log_tier.embedded import EmbeddedLog
from log_tier.model.errors import (
    DiskFull,
    DuramenError,
    IndexDamaged,
    LogDamaged,
    NotHosted,
    OffsetTrimmed,
    TableNotFound,
)
from log_tier.model.identifiers import Offset, PartitionId, TableId
from log_tier.model.log import ReadChunk, Topic
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.node import bring_up as module
from serving_tier.node.hosting import Hosting
from serving_tier.node.node import Node


async def test_one_more_table_costs_no_look_at_the_others(
    hosting: Hosting, log: EmbeddedLog, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands of tables: neither the catalog's fold nor hosting goes through them for a new one, or a dropped one."""

    async def make(number: int) -> TableId:
        topic = await log.create_topic(f"t{number}", partitions=2)
        await catalog.submit(CreateTable(topic.id, topic.name, 2, 2))
        return topic.id

    for number in range(20):
        await make(number)
    await hosting.wait_version(catalog.map.version)
    passes: list[int] = []
    inner = PersistentMap._in_order

    def counted(each: PersistentMap[object, object]) -> object:
        passes.append(len(each))
        return inner(each)

    monkeypatch.setattr(PersistentMap, "_in_order", counted)
    names: list[int] = []
    is_missing = Hosting._is_missing
    monkeypatch.setattr(Hosting, "_is_missing", lambda *args: names.append(1) or is_missing(*args))  # type: ignore[func-returns-value]
    made = await make(20)
    await hosting.wait_version(catalog.map.version)
    await hosting.wait_hosted(made)
    await catalog.submit(DropTable(made))
    await hosting.wait_version(catalog.map.version)
    assert (made, ZERO) not in hosting.node.hosted()
    assert not passes
    assert len(names) <= 4, "both replicas of the new table, before and after it was opened"


async def test_a_node_hosts_what_the_map_gives_it(hosting: Hosting, log: EmbeddedLog, catalog: Catalog) -> None:
    topic = await make_table(log, catalog)
    await hosting.wait_version(catalog.map.version)
    await hosting.wait_hosted(topic.id)
    table = catalog.map.table(topic.id)
    mine = [p for p in (ZERO, ONE) if table.readable(p) == ("n1",)]
    assert list(hosting.node.hosted()) == [(topic.id, p) for p in mine]
    assert len(mine) == 1
    other = ONE if mine == [ZERO] else ZERO
    with pytest.raises(NotHosted, match=f"node n1 holds no replica of flights/{other}; n2 does"):
        hosting.node.replica(topic.partition(other))
    with pytest.raises(TableNotFound, match="partitions 0 to 1, not 2"):
        hosting.node.replica(topic.partition(2))
    with pytest.raises(TableNotFound, match="was dropped, or never was"):
        hosting.node.replica(PartitionId(TableId("AAAAAAAAAAAAAAAAAAAAAA"), ZERO))


async def test_a_dropped_table_leaves_nothing(hosting: Hosting, log: EmbeddedLog, catalog: Catalog) -> None:
    topic = await make_table(log, catalog, replicas=2)
    await hosting.wait_version(catalog.map.version)
    await hosting.wait_hosted(topic.id)
    replica = hosting.node.replica(topic.partition(ZERO))
    await catalog.submit(DropTable(topic.id))
    await hosting.wait_version(catalog.map.version)
    assert not (hosting.node.folder / topic.id).exists()
    with pytest.raises(TableNotFound, match="was dropped"):
        await replica.wait_applied(Offset(-1), timeout=1)


async def test_a_move_brings_a_replica_up_and_takes_it_away_again(
    hosting: Hosting, log: EmbeddedLog, catalog: Catalog, sources: Sources
) -> None:
    topic = await make_table(log, catalog, partitions=1)
    holder = catalog.map.table(topic.id).readable(ZERO)[0]
    other = "n2" if holder == "n1" else "n1"
    if holder == "n1":  # then give it away first
        job = await start_move(catalog, topic, "n1", "n2")
        await catalog.submit(TaskReady(job, 0, "n2"))
        await catalog.submit(TaskDone(job, 0, "n2"))
        await hosting.wait_version(catalog.map.version)
        assert not hosting.node.hosted()
        holder, other = "n2", "n1"
    last = await append(log, topic, ZERO, 5)
    sources.gate.clear()
    job = await start_move(catalog, topic, holder, other)
    await until(
        lambda: (
            PartitionId(topic.id, ZERO) in hosting.pending
            and hosting.pending[PartitionId(topic.id, ZERO)].phase == "copying"
        )
    )
    with pytest.raises(NotHosted, match=r"not open yet at node n1 \(copying\)"):
        hosting.node.replica(topic.partition(ZERO))
    sources.gate.set()
    seen: list[str] = []
    async with within(DEADLINE_S):
        assert (
            await hosting.wait_ready(PartitionId(topic.id, ZERO), lambda phase, done, total: seen.append(phase))
            == "log"
        )
    assert hosting.node.replica(topic.partition(ZERO)).applied == last
    await catalog.submit(AbortJob(job))
    await hosting.wait_version(catalog.map.version)
    assert not hosting.node.hosted()
    assert not hosting.node.replica_folder(topic.partition(ZERO)).exists()


async def test_what_a_node_missed_while_it_was_away(
    log: EmbeddedLog, catalog: Catalog, node: Node, sources: Sources, caplog: pytest.LogCaptureFixture
) -> None:
    """Its table was dropped, a partition was given away, a rebuild was interrupted, and a stranger left something."""
    topic = await make_table(log, catalog, partitions=2, replicas=2)
    dropped = await log.create_topic("ships", partitions=1)
    await catalog.submit(CreateTable(dropped.id, "ships", 1, 1))
    await catalog.submit(DropTable(dropped.id))
    job, _ = await catalog.submit(StartJob("set", "flights/1", (TaskPlan("remove", topic.id, ONE, "n1"),)))
    assert catalog.map.jobs[job].state == "done"
    unknown = TableId("AAAAAAAAAAAAAAAAAAAAAA")
    for folder in (f"{dropped.id}/0", f"{topic.id}/1", f"{topic.id}/0.rebuild", f"{unknown}/0"):
        (node.folder / folder).mkdir(parents=True)
    hosting = await Hosting.open(MapFollower(catalog), node, node_id="n1", identity="n1", bootstrap=sources)
    await hosting.settled()
    assert node.replica(topic.partition(ZERO)).index.get_value(b"a") is None, "an index has files once it is used"
    await hosting.close()
    assert sorted(str(path.relative_to(node.folder)) for path in node.folder.glob("*/*")) == sorted(
        [f"{topic.id}/0", f"{unknown}/0"]
    )
    assert "a table that the catalog does not know" in caplog.text


async def test_an_index_that_cannot_be_used_is_fetched_anew(
    log: EmbeddedLog, catalog: Catalog, node: Node, sources: Sources
) -> None:
    topic = await make_table(log, catalog, partitions=1, replicas=2)
    last = await append(log, topic, ZERO, 3)
    folder = node.replica_folder(topic.partition(ZERO))
    folder.mkdir(parents=True)
    (folder / "data.mdb").write_bytes(b"no index of ours")
    hosting = await Hosting.open(MapFollower(catalog), node, node_id="n1", identity="n1", bootstrap=sources)
    async with within(DEADLINE_S):
        await hosting.wait_ready(PartitionId(topic.id, ZERO), lambda *_: None)
    assert sources.asked == [("flights", 0, "auto")]
    assert node.replica(topic.partition(ZERO)).applied == last
    await hosting.close()


class LookingSources(Sources):
    """Notes what the node answers for the replica while it is fetched."""

    def __init__(self, node: Node) -> None:
        super().__init__()
        self._node = node
        self.answers: list[DuramenError] = []

    async def __call__(
        self, topic: Topic, partition: PartitionId, folder: Path, source: str, progress: Progress
    ) -> str:
        with pytest.raises(DuramenError) as caught:
            self._node.replica(partition)
        self.answers.append(caught.value)
        return await super().__call__(topic, partition, folder, source, progress)


async def test_a_replica_that_is_fetched_anew_is_not_here(log: EmbeddedLog, catalog: Catalog, node: Node) -> None:
    """Its damage is no answer: another node has the partition, and this one soon will."""
    topic = await make_table(log, catalog, partitions=1, replicas=2)
    await append(log, topic, ZERO, 3)
    folder = node.replica_folder(topic.partition(ZERO))
    folder.mkdir(parents=True)
    (folder / "data.mdb").write_bytes(b"no index of ours")
    sources = LookingSources(node)
    hosting = await Hosting.open(MapFollower(catalog), node, node_id="n1", identity="n1", bootstrap=sources)
    async with within(DEADLINE_S):
        await hosting.wait_ready(PartitionId(topic.id, ZERO), lambda *_: None)
        replica = node.replica(topic.partition(ZERO))
        replica.damaged(IndexDamaged("a page is torn"))
        await until(lambda: node.hosted().get(topic.partition(ZERO)) not in (None, replica))
    assert [type(answer) for answer in sources.answers] == [NotHosted, NotHosted]
    assert "ask another node" in sources.answers[0].message
    await hosting.close()


async def test_a_trimmed_log_and_a_copy(log: EmbeddedLog, catalog: Catalog, node: Node, tmp_path: Path) -> None:
    topic = await make_table(log, catalog, partitions=1, replicas=2)
    last = await append(log, topic, ZERO, 200)
    index = LmdbIndex.open(tmp_path / "copy", partition=topic.partition(ZERO))
    async for chunk in log.read(topic.partition(ZERO), Offset(0), follow=False):
        index.apply(chunk.data)
    index.close()
    assert await log.trim(topic.partition(ZERO), last) > 0
    sources = Sources()
    sources.copy = tmp_path / "copy"
    hosting = await Hosting.open(MapFollower(catalog), node, node_id="n1", identity="n1", bootstrap=sources)
    async with within(DEADLINE_S):
        assert await hosting.wait_ready(PartitionId(topic.id, ZERO), lambda *_: None) == "peer n9"
    assert node.replica(topic.partition(ZERO)).applied == last
    await hosting.close()


class BreakingLog:
    """A log whose reads meet `trouble` with their next chunk."""

    def __init__(self, inner: EmbeddedLog) -> None:
        self._inner = inner
        self.trouble: list[Exception] = []

    async def read(self, *args: Any, **how: Any) -> AsyncGenerator[ReadChunk, None]:
        reader: Any = self._inner.read(*args, **how)
        async with aclosing(reader) as chunks:
            async for chunk in chunks:
                if self.trouble:
                    raise self.trouble.pop()
                yield chunk

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@pytest.mark.parametrize(
    ("trouble", "fetched"),
    [
        (OffsetTrimmed("trimmed while this node could not reach the log"), 0),
        (DuramenError("the call to log:1 failed: Stream removed"), 0),
        (RuntimeError("a bug"), 0),
        (IndexDamaged("a page is torn"), 1),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_a_replica_that_stopped_is_brought_up_again(
    log: EmbeddedLog,
    catalog: Catalog,
    sources: Sources,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    trouble: Exception,
    fetched: int,
) -> None:
    monkeypatch.setattr(module, "_RETRY_FIRST_S", 0.005)
    breaking = BreakingLog(log)
    topic = await make_table(log, catalog, partitions=1, replicas=2)
    node = await Node.open(breaking, tmp_path / "n1")
    hosting = await Hosting.open(MapFollower(catalog), node, node_id="n1", identity="n1", bootstrap=sources)
    try:
        async with within(DEADLINE_S):
            await hosting.wait_ready(PartitionId(topic.id, ZERO), lambda *_: None)
            # Before its first record an index has no file, and there is none to keep.
            await node.replica(topic.partition(ZERO)).wait_applied(await append(log, topic, ZERO), timeout=DEADLINE_S)
            sources.asked.clear()
            for _ in range(2):
                first = node.replica(topic.partition(ZERO))
                breaking.trouble = [trouble]
                last = await append(log, topic, ZERO)
                await until(lambda first=first: node.hosted().get(PartitionId(topic.id, ZERO)) not in (None, first))  # type: ignore[misc]
                await node.replica(topic.partition(ZERO)).wait_applied(last, timeout=DEADLINE_S)
                await node.replica(topic.partition(ZERO)).wait_ready()
        assert len(sources.asked) == 2 * fetched, "a good index is kept"
    finally:
        await hosting.close()
        await node.close()


async def test_a_replica_that_stops_while_the_node_closes_is_not_brought_up_again(
    log: EmbeddedLog, catalog: Catalog, sources: Sources, tmp_path: Path
) -> None:
    breaking = BreakingLog(log)
    topic = await make_table(log, catalog, partitions=1, replicas=2)
    node = await Node.open(breaking, tmp_path / "n1")
    hosting = await Hosting.open(MapFollower(catalog), node, node_id="n1", identity="n1", bootstrap=sources)
    try:
        await hosting.wait_ready(PartitionId(topic.id, ZERO), lambda *_: None)
        await hosting.close()
        before = asyncio.all_tasks()
        replica = node.replica(topic.partition(ZERO))
        breaking.trouble = [RuntimeError("a bug")]
        await append(log, topic, ZERO)
        await until(lambda: replica.failure is not None)
        assert not [task for task in asyncio.all_tasks() - before if task.get_name().startswith("bring up")]
        assert not hosting.pending
    finally:
        await hosting.close()
        await node.close()


async def test_a_follower_of_the_map_that_ends_says_so(
    catalog: Catalog, node: Node, log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A node that silently stays with an old map would be asked for what it never hears of."""
    ended: asyncio.Future[DuramenError] = asyncio.get_running_loop().create_future()
    hosting = await Hosting.open(MapFollower(catalog), node, node_id="n1", identity="n1", failed=failing(ended))

    async def bug(_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(hosting, "_compare", bug)
    await make_table(log, catalog)
    error = await asyncio.wait_for(ended, patience_s(DEADLINE_S))
    assert error.message.startswith("hosting n1 ended (RuntimeError('a bug')): restart this process")
    assert "Traceback" in caplog.text
    await hosting.close()  # the failure was reported: the owner goes on closing the rest


async def test_a_failure_is_reported_and_retried(
    hosting: Hosting, log: EmbeddedLog, catalog: Catalog, sources: Sources
) -> None:
    sources.errors = [DiskFull("no room"), LogDamaged("flipped"), DiskFull("no room")]
    topic = await log.create_topic("flights", partitions=1)
    await append(log, topic, ZERO, 1)  # of an empty table there is nothing to be fetched
    await catalog.submit(CreateTable(topic.id, "flights", 1, 2))
    async with within(DEADLINE_S):
        with pytest.raises(LogDamaged):
            await hosting.wait_ready(PartitionId(topic.id, ZERO), lambda *_: None)
        await until(lambda: PartitionId(topic.id, ZERO) in hosting.node.hosted())
        await until(lambda: not hosting.pending)
    assert len(sources.asked) == 4
