"""Retention at work: what goes, what stays whatever the bounds say, and two that shorten or read the log at once."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from kit.deadlines import patience_s
from kit.log.sample_batches import plain_batch, read_all
from kit.set_clock import SetClock

from log_tier.catalog.actions import Action
from log_tier.catalog.catalog import Catalog
from log_tier.catalog.cluster_map import Assignment, ClusterMap, NodeEntry, SnapshotEntry, TableEntry, VersionEntry
from log_tier.catalog.commands import CreateTable, ForgetSnapshots, RegisterNode, SetRetention, StartJob, TaskPlan
from log_tier.catalog.jobs import Job, JobTasks, Task
from log_tier.catalog.map_follower import MapFollower
from log_tier.concurrency.persistent_map import PersistentMap
from log_tier.embedded import EmbeddedLog, EngineSettings
from log_tier.model.errors import Disconnected, OffsetTrimmed
from log_tier.model.identifiers import HISTORY_TABLE, NOTHING, Offset, Partition, PartitionId, TableId
from log_tier.model.log import Topic
from serving_tier.jobs.actions import node_actions
from serving_tier.jobs.bootstrapping import node_bootstrap
from serving_tier.jobs.log_trimmer import LogTrimmer
from serving_tier.jobs.snapshotting import NodeSnapshots
from serving_tier.jobs.trim_limit import trim_limit
from serving_tier.jobs.worker import JobWorker
from serving_tier.node.hosting import Hosting
from serving_tier.node.node import Node
from serving_tier.snapshots.peer_copy import CopySource
from serving_tier.snapshots.snapshot_store import SnapshotStore

DEADLINE_S = 30.0
ZERO = Partition(0)
TABLE = TableId("t" * 22)
MINUTE_MS = 60_000


LIVE: tuple[VersionEntry, ...] = (VersionEntry(1, "kept"), VersionEntry(2, "live"))


def _map(
    *tasks: Task, snapshots: tuple[int, ...] = (), later: tuple[int, ...] = (), versions: tuple[VersionEntry, ...] = ()
) -> ClusterMap:
    """`snapshots`: the offsets of those of version 1; `later`: of version 2."""
    table = TableEntry(TABLE, "flights", 1, 1, ((Assignment("n1", "member"),),), versions=versions, retention_ms=1)
    job = Job(7, "test", "flights", "running", JobTasks(tasks), 0)
    entries = tuple(
        SnapshotEntry(f"s{offset}", TABLE, ZERO, Offset(offset), 0, 1, 1, "path", "n1", number)
        for number, offsets in ((1, snapshots), (2, later))
        for offset in offsets
    )
    return ClusterMap(
        tables=PersistentMap({TABLE: table}),
        jobs={7: job} if tasks else {},
        snapshots=PersistentMap({PartitionId(TABLE, ZERO): entries} if entries else {}),
    )


def _task(action: Action, partition: int = 0, table: TableId = TABLE, **arguments: int | str) -> Task:
    return Task(action, table, Partition(partition), "n1", arguments)


COPY: dict[str, Any] = {"source_table": TABLE, "source_partition": 0}


@pytest.mark.parametrize(
    ("cluster", "applied", "below", "why"),
    [
        (_map(), [99], 0, "no verified snapshot"),
        (_map(snapshots=(50,)), [99], 51, ""),
        (_map(snapshots=(20, 50)), [99, 60], 51, ""),
        (_map(snapshots=(50,)), [99, 30], 31, ""),  # a replica that is alive and behind
        (_map(snapshots=(50,)), [99, NOTHING], 0, ""),
        (_map(snapshots=(50,)), [], 51, ""),
        (_map(_task(Action.SNAPSHOT), snapshots=(50,)), [99], 51, ""),
        (_map(_task(Action.TRIM), snapshots=(50,)), [99], 51, ""),
        (_map(_task(Action.REBUILD), snapshots=(50,)), [99], 0, "job 7 (test) reads it"),
        (_map(_task(Action.MOVE), snapshots=(50,)), [99], 0, "job 7 (test) reads it"),
        (_map(_task(Action.MOVE, partition=1), snapshots=(50,)), [99], 51, ""),
        (_map(_task(Action.COPY, table=TableId("u" * 22), **COPY), snapshots=(50,)), [99], 0, "job 7 (test) reads it"),
        (_map(_task(Action.COPY, source_table="u" * 22, source_partition=0), snapshots=(50,)), [99], 51, ""),
        (_map(snapshots=(50,), versions=(VersionEntry(2, "staging"),)), [99], 0, "version 2 is staging"),
        (_map(snapshots=(50,), versions=(VersionEntry(2, "staged"),)), [99], 0, "version 2 is staged"),
        # What is read is not in a snapshot of the version before.
        (_map(snapshots=(50,), versions=LIVE), [99], 0, "no verified snapshot"),
        (_map(snapshots=(50,), later=(60, 70), versions=LIVE), [99], 71, ""),
    ],
)
def test_how_far_a_log_may_be_shortened(cluster: ClusterMap, applied: list[int], below: int, why: str) -> None:
    limit = trim_limit(cluster, PartitionId(TABLE, ZERO), list(map(Offset, applied)))
    assert limit.below == below
    assert limit.held_by.startswith(why)
    assert bool(limit.held_by) == bool(why)


class Machine:
    """One node with a log whose clock the test moves, a worker, and a store. `peers`: what other nodes report."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now_ms = 1_000_000
        self.peers: dict[str, Mapping[PartitionId, Offset]] = {}
        self.log: EmbeddedLog
        self.catalog: Catalog
        self.hosting: Hosting
        self.snapshots: NodeSnapshots
        self.trimmer: LogTrimmer
        self.topic: Topic

    async def ask(self, entry: NodeEntry) -> Mapping[PartitionId, Offset]:
        if entry.id not in self.peers:
            raise Disconnected(f"{entry.id} is away")
        return self.peers[entry.id]

    def no_peer(self, entry: NodeEntry) -> CopySource:
        raise AssertionError(f"{entry.id} is not copied from in these tests")

    async def write(self, records: int) -> Offset:
        """One record a second, of ten keys in turn."""
        for _ in range(records):
            self.now_ms += 1000
            last = await self.log.append(self.topic.partition(ZERO), plain_batch(f"k{self.now_ms // 1000 % 10}"))
        return last.base_offset

    async def snapshot(self) -> SnapshotEntry:
        """Of everything that was written."""
        replica = self.hosting.node.replica(self.topic.partition(ZERO))
        latest = (await self.log.bounds(self.topic.partition(ZERO))).latest
        await replica.wait_applied(latest, timeout=DEADLINE_S)
        return await self.snapshots.take(replica)

    async def retain(self, *, ms: int = 0, size: int = 0) -> None:
        await self.catalog.submit(SetRetention(self.topic.id, ms, size))

    async def earliest(self) -> Offset:
        return (await self.log.bounds(self.topic.partition(ZERO))).earliest


@pytest.fixture
async def machine(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Machine]:
    """A table of one partition, two replicas in the map, and one of them here."""
    made = Machine(tmp_path)
    settings = EngineSettings(segment_bytes=2048, index_every_bytes=300)
    async with await EmbeddedLog.open(tmp_path / "log", settings=settings, clock=lambda: made.now_ms) as log:
        catalog = await Catalog.open(log)
        for name in ("n1", "n2"):
            await catalog.submit(RegisterNode(name, "", name))
        node = await Node.open(log, tmp_path / "n1" / "index", clock=SetClock(lambda: made.now_ms))
        store = SnapshotStore.open(tmp_path / "store")
        bootstrap = node_bootstrap(log, catalog, node_id="n1", store=store, peer=made.no_peer)
        hosting = await Hosting.open(MapFollower(catalog), node, node_id="n1", identity="n1", bootstrap=bootstrap)
        snapshots = await NodeSnapshots.open(catalog, hosting, store)
        worker = await JobWorker.open(
            catalog, MapFollower(catalog), node_id="n1", actions=node_actions(log, hosting, snapshots)
        )
        made.log, made.catalog, made.hosting, made.snapshots = log, catalog, hosting, snapshots
        made.trimmer = LogTrimmer(log, catalog, hosting, store, made.ask)
        table = getattr(request, "param", "flights")
        made.topic = await log.create_topic(table, partitions=1)
        await catalog.submit(CreateTable(made.topic.id, table, 1, 2))
        await hosting.wait_version(catalog.map.version)
        await hosting.wait_hosted(made.topic.id)
        yield made
        for close in (made.trimmer.close, worker.close, snapshots.close, hosting.close, node.close, catalog.close):
            await close()


async def test_nothing_goes_without_a_bound_or_without_a_snapshot(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    await machine.write(120)
    await machine.trimmer.trim()
    await machine.retain(ms=MINUTE_MS)
    await machine.trimmer.trim()
    await machine.trimmer.trim()
    assert await machine.earliest() == 0
    (warning,) = [record.message for record in caplog.records if "keeps everything" in record.message]
    assert warning.startswith("the log of flights/0 keeps everything: no verified snapshot of it is known")


@pytest.mark.parametrize("machine", [HISTORY_TABLE], indirect=True)
async def test_nobody_is_warned_about_a_table_that_nobody_made(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "serving_tier.jobs.log_trimmer")
    await machine.retain(ms=MINUTE_MS)
    await machine.trimmer.trim()
    (said,) = [record for record in caplog.records if "keeps everything" in record.message]
    assert said.levelname == "INFO"


async def test_the_reason_is_logged_again_for_a_log_that_was_not_bounded_in_between(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    """What was logged of partitions that are bounded here no more is not kept: tables come and go."""
    await machine.write(10)
    for ms in (MINUTE_MS, 0, MINUTE_MS):
        await machine.retain(ms=ms)
        await machine.trimmer.trim()
    assert len([record for record in caplog.records if "keeps everything" in record.message]) == 2


async def test_old_segments_go_below_the_snapshot(machine: Machine, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "serving_tier.jobs.log_trimmer")
    last = await machine.write(120)
    entry = await machine.snapshot()
    await machine.retain(ms=MINUTE_MS)
    await machine.trimmer.trim()
    earliest = await machine.earliest()
    assert 0 < earliest <= last - 60 < entry.offset
    assert f"the log of flights/0 begins at offset {earliest}: its retention" in caplog.text
    with pytest.raises(OffsetTrimmed) as caught:
        await read_all(machine.log, machine.topic.id)
    assert caught.value.fields == {"partition": 0, "asked": 0, "earliest": earliest}
    machine.now_ms += 10 * MINUTE_MS
    await machine.write(120)
    await machine.trimmer.trim()
    assert earliest < await machine.earliest() <= entry.offset + 1, "what the snapshot does not hold stays"


async def test_a_bound_by_size(machine: Machine) -> None:
    await machine.write(120)
    await machine.snapshot()
    size = sum(map(len, await read_all(machine.log, machine.topic.id)))
    await machine.retain(size=size // 2)
    await machine.trimmer.trim()
    earliest = await machine.earliest()
    assert earliest > 0
    assert sum(map(len, await read_all(machine.log, machine.topic.id, start=earliest))) >= size // 2


async def test_a_live_replica_that_is_behind_holds_the_log_and_a_lost_one_does_not(machine: Machine) -> None:
    last = await machine.write(120)
    await machine.snapshot()
    await machine.retain(ms=1)
    place = PartitionId(machine.topic.id, ZERO)
    machine.peers["n2"] = {place: Offset(30)}
    await machine.trimmer.trim()
    assert 0 < await machine.earliest() <= 31
    machine.peers["n2"] = {place: last}
    del machine.peers["n2"]
    await machine.trimmer.trim()
    assert await machine.earliest() > 31


async def test_a_snapshot_that_is_gone_from_the_store_covers_nothing(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    await machine.write(120)
    await machine.snapshot()
    await machine.retain(ms=1)
    shutil.rmtree(machine.folder / "store")
    await machine.trimmer.trim()
    assert await machine.earliest() == 0
    assert "the log of flights/0 is not shortened" in caplog.text


async def test_a_snapshot_that_is_forgotten_while_a_round_is_under_way(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await machine.write(120)
    entry = await machine.snapshot()
    await machine.retain(ms=1)

    async def forgets_meanwhile(node: NodeEntry) -> Mapping[PartitionId, Offset]:
        await machine.catalog.submit(ForgetSnapshots(machine.topic.id, ZERO, (entry.id,)))
        return {}

    monkeypatch.setattr(machine.trimmer, "_ask", forgets_meanwhile)
    await machine.trimmer.trim()
    assert await machine.earliest() == 0


async def test_a_restore_that_replays_from_an_older_snapshot_keeps_the_log(machine: Machine) -> None:
    """The job waits for a node that is away; as long as it does, nothing goes. Then retention catches up."""
    until = await machine.write(60)
    await machine.snapshot()
    await machine.write(60)
    await machine.snapshot()
    await machine.retain(ms=1)
    target = await machine.log.create_topic("before", partitions=1)
    await machine.catalog.submit(CreateTable(target.id, "before", 1, 2))
    arguments: dict[str, int | str] = {"source_table": machine.topic.id, "source_partition": 0, "offset": until - 20}
    waiting = TaskPlan(Action.COPY, target.id, ZERO, "n2", arguments)
    job, _ = await machine.catalog.submit(StartJob("restore", "flights", (waiting,)))
    await machine.trimmer.trim()
    assert await machine.earliest() == 0
    running = machine.catalog.map.jobs[job].tasks[0].state
    assert running == "waiting", "n2 is away"
    here = TaskPlan(Action.COPY, target.id, ZERO, "n1", arguments)
    again, _ = await machine.catalog.submit(StartJob("restore", "flights", (here,)))
    rounds = asyncio.create_task(machine.trimmer.trim())
    cluster = await machine.catalog.wait_for(
        lambda map_: map_.jobs[again].state != "running", timeout=patience_s(DEADLINE_S)
    )
    await rounds
    assert cluster.jobs[again].state == "done", cluster.jobs[again].tasks
    assert cluster.jobs[again].tasks[0].note == f"10 keys of offset {until - 20}"


async def test_retention_and_a_trim_by_hand_at_once(machine: Machine) -> None:
    await machine.write(120)
    entry = await machine.snapshot()
    await machine.retain(ms=MINUTE_MS)
    trim = TaskPlan(Action.TRIM, machine.topic.id, ZERO, "n1", {"before": entry.offset + 1})
    _, (job, _) = await asyncio.gather(
        machine.trimmer.trim(), machine.catalog.submit(StartJob("trim", "flights", (trim,)))
    )
    await machine.trimmer.trim()
    cluster = await machine.catalog.wait_for(
        lambda map_: map_.jobs[job].state != "running", timeout=patience_s(DEADLINE_S)
    )
    assert cluster.jobs[job].state == "done"
    earliest = await machine.earliest()
    assert cluster.jobs[job].tasks[0].note == f"the log begins at {earliest}"
    await machine.trimmer.trim()
    assert await machine.earliest() == earliest
    rebuilt, _ = await machine.catalog.submit(
        StartJob("rebuild", "flights", (TaskPlan(Action.REBUILD, machine.topic.id, ZERO, "n1", {}),))
    )
    cluster = await machine.catalog.wait_for(
        lambda map_: map_.jobs[rebuilt].state != "running", timeout=patience_s(DEADLINE_S)
    )
    assert cluster.jobs[rebuilt].tasks[0].note.startswith("came from snapshot "), "what went is in the snapshot"
