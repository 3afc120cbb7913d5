"""Hosting: a node in step with the map, and what it does with what it finds on its disk."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from kit.deadlines import until, within
from kit.log.stored_log import columns_of, put

from log_tier.catalog.catalog import Catalog
from log_tier.catalog.commands import (
    AbortJob,
    CreateTable,
    DropTable,
    RegisterNode,
    StartJob,
    TaskDone,
    TaskPlan,
    TaskReady,
    command_batch,
)
from log_tier.catalog.map_follower import MapFollower
from log_tier.concurrency.background import failing
from log_tier.embedded import EmbeddedLog, EngineSettings
from log_tier.model.barrier import Barrier, barrier_batch
from log_tier.model.batch import encode_batch
from log_tier.model.errors import (
    DiskFull,
    DuramenError,
    IndexDamaged,
    InvalidRequest,
    LogDamaged,
    NotHosted,
    OffsetTrimmed,
    TableNotFound,
)
from log_tier.model.identifiers import Offset, Partition, PartitionId, TableId
from log_tier.model.log import ReadChunk, Topic
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.node import hosting as module
from serving_tier.node.hosting import Hosting
from serving_tier.node.node import Node

DEADLINE_S = 20
ZERO, ONE = Partition(0), Partition(1)


class Sources:
    """A bootstrap that tests prepare."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int, str]] = []
        self.copy: Path | None = None
        self.errors: list[Exception] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(
        self, topic: Topic, partition: Partition, folder: Path, source: str, progress: Callable[[str, int, int], None]
    ) -> str:
        self.asked.append((topic.name, partition, source))
        progress("copying", 1, 2)
        await self.gate.wait()
        if self.errors:
            raise self.errors.pop()
        if self.copy is None:
            return "log"
        shutil.copytree(self.copy, folder)
        return "peer n9"


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[EmbeddedLog]:
    async with await EmbeddedLog.open(tmp_path / "log", settings=EngineSettings(segment_bytes=4096)) as opened:
        yield opened


@pytest.fixture
async def catalog(log: EmbeddedLog) -> AsyncIterator[Catalog]:
    opened = await Catalog.open(log)
    for name in ("n1", "n2"):
        await opened.submit(RegisterNode(name, f"{name}:1", name))
    yield opened
    await opened.close()


@pytest.fixture
async def node(tmp_path: Path, log: EmbeddedLog) -> AsyncIterator[Node]:
    opened = await Node.open(log, tmp_path / "n1")
    yield opened
    await opened.close()


@pytest.fixture
def sources() -> Sources:
    return Sources()


@pytest.fixture
async def hosting(
    catalog: Catalog, node: Node, sources: Sources, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Hosting]:
    monkeypatch.setattr(module, "_RETRY_FIRST_S", 0.005)
    opened = await Hosting.open(MapFollower(catalog), node, node_id="n1", identity="n1", bootstrap=sources)
    yield opened
    await opened.close()


async def make_table(log: EmbeddedLog, catalog: Catalog, *, partitions: int = 2, replicas: int = 1) -> Topic:
    topic = await log.create_topic("flights", partitions=partitions)
    await catalog.submit(CreateTable(topic.id, "flights", partitions, replicas))
    return topic


async def append(log: EmbeddedLog, topic: Topic, partition: Partition, count: int = 1) -> Offset:
    for number in range(count):
        batch = encode_batch(columns_of([put(b"key%d" % number, b"v" * 100)]))
        last = (await log.append(topic.id, partition, batch)).base_offset
    return last


async def start_move(catalog: Catalog, topic: Topic, source: str, target: str) -> int:
    plan = TaskPlan("move", topic.id, ZERO, target, {"from": source})
    job, _ = await catalog.submit(StartJob("move", "flights/0", (plan,)))
    return job


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
        hosting.node.replica(topic.id, other)
    with pytest.raises(TableNotFound, match="partitions 0 to 1, not 2"):
        hosting.node.replica(topic.id, Partition(2))
    with pytest.raises(TableNotFound, match="was dropped, or never was"):
        hosting.node.replica(TableId("AAAAAAAAAAAAAAAAAAAAAA"), ZERO)


async def test_a_dropped_table_leaves_nothing(hosting: Hosting, log: EmbeddedLog, catalog: Catalog) -> None:
    topic = await make_table(log, catalog, replicas=2)
    await hosting.wait_version(catalog.map.version)
    await hosting.wait_hosted(topic.id)
    replica = hosting.node.replica(topic.id, ZERO)
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
        hosting.node.replica(topic.id, ZERO)
    sources.gate.set()
    seen: list[str] = []
    async with within(DEADLINE_S):
        assert (
            await hosting.wait_ready(PartitionId(topic.id, ZERO), lambda phase, done, total: seen.append(phase))
            == "log"
        )
    assert hosting.node.replica(topic.id, ZERO).applied == last
    await catalog.submit(AbortJob(job))
    await hosting.wait_version(catalog.map.version)
    assert not hosting.node.hosted()
    assert not hosting.node.replica_folder(topic.id, ZERO).exists()


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
    assert node.replica(topic.id, ZERO).index.get_value(b"a") is None, "an index has files once it is used"
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
    folder = node.replica_folder(topic.id, ZERO)
    folder.mkdir(parents=True)
    (folder / "data.mdb").write_bytes(b"no index of ours")
    hosting = await Hosting.open(MapFollower(catalog), node, node_id="n1", identity="n1", bootstrap=sources)
    async with within(DEADLINE_S):
        await hosting.wait_ready(PartitionId(topic.id, ZERO), lambda *_: None)
    assert sources.asked == [("flights", 0, "auto")]
    assert node.replica(topic.id, ZERO).applied == last
    await hosting.close()


async def test_a_trimmed_log_and_a_copy(log: EmbeddedLog, catalog: Catalog, node: Node, tmp_path: Path) -> None:
    topic = await make_table(log, catalog, partitions=1, replicas=2)
    last = await append(log, topic, ZERO, 200)
    index = LmdbIndex.open(tmp_path / "copy", table_id=topic.id, partition=ZERO)
    async for chunk in log.read(topic.id, ZERO, Offset(0), follow=False):
        index.apply(chunk.data)
    index.close()
    assert await log.trim(topic.id, ZERO, last) > 0
    sources = Sources()
    sources.copy = tmp_path / "copy"
    hosting = await Hosting.open(MapFollower(catalog), node, node_id="n1", identity="n1", bootstrap=sources)
    async with within(DEADLINE_S):
        assert await hosting.wait_ready(PartitionId(topic.id, ZERO), lambda *_: None) == "peer n9"
    assert node.replica(topic.id, ZERO).applied == last
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
            await node.replica(topic.id, ZERO).wait_applied(await append(log, topic, ZERO), timeout=DEADLINE_S)
            sources.asked.clear()
            for _ in range(2):
                first = node.replica(topic.id, ZERO)
                breaking.trouble = [trouble]
                last = await append(log, topic, ZERO)
                await until(lambda first=first: node.hosted().get(PartitionId(topic.id, ZERO)) not in (None, first))  # type: ignore[misc]
                await node.replica(topic.id, ZERO).wait_applied(last, timeout=DEADLINE_S)
                await node.replica(topic.id, ZERO).wait_ready()
        assert len(sources.asked) == 2 * fetched, "a good index is kept"
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
    error = await asyncio.wait_for(ended, DEADLINE_S)
    assert error.message.startswith("hosting n1 ended (RuntimeError('a bug')): restart this process")
    assert "Traceback" in caplog.text
    await hosting.close()  # the failure was reported: the owner goes on closing the rest


async def test_trouble_is_told_and_tried_again(
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


async def test_a_rebuild_is_put_in_place_when_it_is_level(
    hosting: Hosting, log: EmbeddedLog, catalog: Catalog, sources: Sources
) -> None:
    topic = await make_table(log, catalog, partitions=1, replicas=2)
    name = PartitionId(topic.id, ZERO)
    await hosting.wait_version(catalog.map.version)
    await hosting.wait_ready(name, lambda *_: None)
    last = await append(log, topic, ZERO, 5)
    before = hosting.node.replica(*name)
    digest_at = before.wait_applied(last, timeout=DEADLINE_S)
    await digest_at
    digest = before.index.digest()
    sources.gate.clear()
    rebuilding = asyncio.create_task(hosting.rebuild(name, source="log", progress=lambda *_: None))
    await until(lambda: sources.asked[-1:] == [("flights", 0, "log")])
    assert hosting.node.replica(*name) is before, "the old one is read meanwhile"
    sources.gate.set()
    async with within(DEADLINE_S):
        assert await rebuilding == "log"
        await hosting.wait_ready(name, lambda *_: None)
    after = hosting.node.replica(*name)
    assert after is not before
    assert after.index.digest() == digest
    assert sorted(path.name for path in (hosting.node.folder / topic.id).iterdir()) == ["0"]


async def test_a_rebuild_that_fails_leaves_the_old_one(
    hosting: Hosting, log: EmbeddedLog, catalog: Catalog, sources: Sources
) -> None:
    topic = await make_table(log, catalog, partitions=1, replicas=2)
    name = PartitionId(topic.id, ZERO)
    await hosting.wait_version(catalog.map.version)
    await hosting.wait_ready(name, lambda *_: None)
    before = hosting.node.replica(*name)
    sources.errors = [OffsetTrimmed("the log begins later")]
    with pytest.raises(OffsetTrimmed):
        await hosting.rebuild(name, source="log", progress=lambda *_: None)
    assert hosting.node.replica(*name) is before
    assert before.state == "ready"


async def test_a_rebuild_of_what_is_older_than_the_version(
    hosting: Hosting, log: EmbeddedLog, catalog: Catalog, sources: Sources
) -> None:
    """Versions are not brought to what is built aside: a peer is asked, or it is said what to do."""
    topic = await make_table(log, catalog, partitions=1, replicas=2)
    name = PartitionId(topic.id, ZERO)
    await hosting.wait_version(catalog.map.version)
    await hosting.wait_ready(name, lambda *_: None)
    last = await append(log, topic, ZERO, 5)
    before = hosting.node.replica(*name)
    await before.wait_applied(last, timeout=DEADLINE_S)
    LmdbIndex.open(before.versions.folder.version(2), table_id=topic.id, partition=ZERO).close()  # folds all of the log
    await before.versions.add(2)
    barrier = barrier_batch(Barrier(2, 1), producer_id=7, sequence=0)
    swapped = (await log.append(topic.id, ZERO, barrier)).base_offset
    await before.wait_applied(swapped, timeout=DEADLINE_S)
    with pytest.raises(InvalidRequest, match=f"up to offset {last} only, where version 2 went live"):
        async with within(DEADLINE_S):
            await hosting.rebuild(name, source="log", progress=lambda *_: None)
    assert hosting.node.replica(*name) is before
    assert before.state == "ready"
    sources.asked.clear()
    with pytest.raises(InvalidRequest, match="restore it from a peer"):
        async with within(DEADLINE_S):
            await hosting.rebuild(name, source="auto", progress=lambda *_: None)
    assert [source for _, _, source in sources.asked] == ["auto", "peer"]


async def trimmed(log: EmbeddedLog, topic: Topic, before: int) -> Offset:
    earliest = await log.trim(topic.id, ZERO, Offset(before))
    assert earliest > 0
    return earliest


async def hosted(hosting: Hosting, catalog: Catalog, topic: Topic) -> LmdbIndex:
    await hosting.wait_version(catalog.map.version)
    await hosting.wait_hosted(topic.id)
    replica = hosting.node.replica(topic.id, ZERO)
    await replica.wait_ready()
    return replica.index


def over(topic: Topic, start: Offset) -> CreateTable:
    return CreateTable(topic.id, "flights", 1, 2, adopted=True, over="flights", starts=(start,))


async def test_a_table_that_begins_above_0(hosting: Hosting, log: EmbeddedLog, catalog: Catalog, node: Node) -> None:
    topic = await log.create_topic("flights", partitions=1)
    last = await append(log, topic, ZERO, 200)
    start = await trimmed(log, topic, 120)
    await catalog.submit(over(topic, start))
    index = await hosted(hosting, catalog, topic)
    assert (index.applied, index.count()) == (last, 200 - start)
    # What its topic loses later is in the index; a new index cannot be made of the log alone.
    later = await trimmed(log, topic, 190)
    assert later > start
    await node.unhost(topic.id, ZERO, NotHosted("begun anew"))
    refused = f"has applied {start - 1}, the log begins at {later}"
    with pytest.raises(OffsetTrimmed, match=refused) as caught:
        await node.host(topic, ZERO, start=start)
    assert caught.value.fields == {"partition": 0, "asked": start, "earliest": later}


async def test_another_table_over_the_same_topic(hosting: Hosting, log: EmbeddedLog, catalog: Catalog) -> None:
    """Dropped and made again before the node looks: the id is the same, and the beginning is another."""
    topic = await log.create_topic("flights", partitions=1)
    await append(log, topic, ZERO, 200)
    first = await trimmed(log, topic, 50)
    await catalog.submit(over(topic, first))
    assert (await hosted(hosting, catalog, topic)).count() == 200 - first
    second = await trimmed(log, topic, 150)
    assert second > first
    both = [command_batch(DropTable(topic.id), "drop"), command_batch(over(topic, second), "make")]
    await log.append_many([(catalog.topic.id, ZERO, batch) for batch in both])
    await catalog.wait_for(lambda cluster: topic.id in cluster.tables and cluster.tables[topic.id].starts == (second,))
    index = await hosted(hosting, catalog, topic)
    assert index.count() == 200 - second
    assert index.get_value(b"key%d" % (second - 1)) is None
    assert index.get_value(b"key%d" % second) is not None


async def test_an_index_that_was_left_of_an_earlier_table(
    hosting: Hosting, log: EmbeddedLog, catalog: Catalog, node: Node
) -> None:
    """The node was away while the table was dropped and made again."""
    topic = await log.create_topic("flights", partitions=1)
    await append(log, topic, ZERO, 200)
    folder = node.replica_folder(topic.id, ZERO)
    folder.parent.mkdir()
    LmdbIndex.open(folder, table_id=topic.id, partition=ZERO).close()
    start = await trimmed(log, topic, 120)
    await catalog.submit(over(topic, start))
    index = await hosted(hosting, catalog, topic)
    assert index.count() == 200 - start
