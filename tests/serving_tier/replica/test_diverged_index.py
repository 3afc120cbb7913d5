"""An index and a log that is not the one it folded: what is noticed, and what cannot be compared."""

from __future__ import annotations

import logging
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from kit.deadlines import until
from kit.index.built_index import forget_last_batch
from kit.index.one_replica import ReplicaSetting

from log_tier.embedded import EmbeddedLog, EngineSettings
from log_tier.model.batch import Columns, encode_batch
from log_tier.model.errors import IndexDiverged
from log_tier.model.identifiers import Offset, Partition
from log_tier.model.log import Topic
from log_tier.model.record import Operation, attribute_of
from serving_tier.index.lmdb.open_environments import OpenEnvironments
from serving_tier.replica.applier import Applier
from serving_tier.replica.replica import Replica
from serving_tier.replica.version_folders import ReplicaFolder
from serving_tier.snapshots import SnapshotStore, install_snapshot, take_snapshot
from serving_tier.snapshots.install import check_copy

DEADLINE_S = 20
SMALL = EngineSettings(segment_bytes=1024)


@dataclass
class Histories:
    """A log, an older copy of it in another folder, and an index that followed the first."""

    folder: Path
    topic: Topic
    applier: Applier
    opened: list[Replica] = field(default_factory=list)
    """Closed before the log that they follow, also those that a failing test has left open."""

    @asynccontextmanager
    async def log(self, name: str) -> AsyncIterator[ReplicaSetting]:
        async with await EmbeddedLog.open(self.folder / name, settings=SMALL) as log:
            try:
                yield ReplicaSetting(log, self.topic, self.applier, self.folder / "index")
            finally:
                for replica in self.opened:
                    await replica.close()
                self.opened.clear()

    def index_folder(self) -> ReplicaFolder:
        return ReplicaFolder(self.folder / "index" / "0", self.topic.partition(Partition(0)))

    async def open(self, setting: ReplicaSetting, *, repair: bool = False) -> Replica:
        replica = await Replica.open(
            self.topic, self.index_folder(), log=setting.log, applier=self.applier, repair=repair
        )
        self.opened.append(replica)
        return replica


@pytest.fixture
async def histories(tmp_path: Path) -> AsyncIterator[Histories]:
    """Both hold offset 0. The index has applied 1 to 4 as well, of which the copy holds nothing."""
    applier = Applier()
    applier.start()
    async with await EmbeddedLog.open(tmp_path / "this", settings=SMALL) as log:
        made = Histories(tmp_path, await log.create_topic("flights", partitions=1), applier)
        await ReplicaSetting(log, made.topic, applier, tmp_path / "index").write(b"kept")
    shutil.copytree(tmp_path / "this", tmp_path / "other")
    async with made.log("this") as setting:
        for number in range(4):
            await setting.write(b"lost%d" % number)
        replica = await made.open(setting, repair=True)
        await replica.wait_applied(Offset(4), timeout=DEADLINE_S)
        await replica.close()
    try:
        yield made
    finally:
        await applier.stop()


async def grown(setting: ReplicaSetting, count: int) -> Offset:
    for number in range(count):
        last = await setting.write(b"between%d" % number)
    return last


@pytest.mark.parametrize("count", [4, 5, 50])
async def test_a_log_that_was_put_back_and_grew_is_another_one(histories: Histories, count: int) -> None:
    async with histories.log("other") as setting:
        last = await grown(setting, count)
        with pytest.raises(
            IndexDiverged, match=r"the index of flights/0 has folded a batch .* has applied 4, with"
        ) as caught:
            await histories.open(setting)
        assert caught.value.fields["offset"] == 4
        replica = await histories.open(setting, repair=True)
        await replica.wait_applied(last, timeout=DEADLINE_S)
        assert replica.index.get_value(b"lost0") is None
        assert replica.index.count() == 1 + count
        replica.check()
        await replica.close()
        again = await histories.open(setting)
        assert again.applied == last, "the new index is of this log"
        await again.close()


async def test_one_batch_over_all_of_the_offsets_is_another_one(histories: Histories) -> None:
    async with histories.log("other") as setting:
        await setting.write(*[b"between%d" % number for number in range(9)])
        with pytest.raises(IndexDiverged, match="the log holds a batch from 1 on"):
            await histories.open(setting)


async def test_an_index_at_rest_is_compared_before_it_folds(
    histories: Histories, caplog: pytest.LogCaptureFixture
) -> None:
    """Its file is not opened before: the first chunk of the log leads to the comparison."""
    folder, environments = histories.index_folder(), OpenEnvironments(10)
    index = ReplicaFolder(folder.path, folder.partition, environments=environments).at_rest()
    assert index is not None
    async with histories.log("other") as setting:
        await grown(setting, 9)
        bounds = await setting.log.bounds(folder.partition)
        with caplog.at_level(logging.ERROR):
            replica = Replica(
                histories.topic, folder, index, log=setting.log, applier=histories.applier, latest=bounds.latest
            )
            replica.follow()
            histories.opened.append(replica)
            await until(lambda: replica.state == "stopped" or index.applied > 4)
        assert isinstance(replica.failure, IndexDiverged)
        assert index.applied == 4, "nothing of the other history was folded"
        with pytest.raises(IndexDiverged):
            await replica.wait_applied(bounds.latest, timeout=DEADLINE_S)
        await replica.close()


async def test_a_snapshot_of_the_other_history_is_refused(histories: Histories) -> None:
    """Its store outlives a log that is put back. The same snapshot is of use for the log that it was taken of."""
    store, partition = SnapshotStore.open(histories.folder / "store"), histories.topic.partition(Partition(0))
    async with histories.log("this") as setting:
        replica = await histories.open(setting)
        taken = await take_snapshot(replica.reading, store, table_name="flights", work_folder=histories.folder / "work")
        await replica.close()
        installed = histories.folder / "installed"
        await install_snapshot(store, taken.path, installed, partition=partition)
        await check_copy(setting.log, installed, partition=partition, name="the snapshot")
    async with histories.log("other") as setting:
        await grown(setting, 9)
        with pytest.raises(IndexDiverged, match="the snapshot has folded a batch that is not in its log"):
            await check_copy(setting.log, installed, partition=partition, name="the snapshot")


async def test_an_index_that_is_behind_the_copy_is_carried_on(histories: Histories) -> None:
    """What it has folded, both hold."""
    async with histories.log("other") as setting:
        shutil.rmtree(histories.folder / "index")
        first = await histories.open(setting, repair=True)
        await first.wait_applied(Offset(0), timeout=DEADLINE_S)
        await first.close()
    async with histories.log("this") as setting:
        carried = await histories.open(setting)
        await carried.wait_applied(Offset(4), timeout=DEADLINE_S)
        assert (carried.index.count(), carried.failure) == (5, None)
        await carried.close()


async def test_what_compaction_removed_is_believed(histories: Histories) -> None:
    """The batch at the applied offset is an empty shell: the index goes on."""
    async with histories.log("this") as setting:
        partition = histories.topic.partition(Partition(0))
        noop = encode_batch(Columns([b""], [b""], [attribute_of(Operation.NOOP)]))
        last = (await setting.log.append(partition, noop)).last_offset
        replica = await histories.open(setting)
        await replica.wait_applied(last, timeout=DEADLINE_S)
        await replica.close()
        after = await setting.write(b"later", value=b"x" * 1100)
        assert await setting.log.compact(partition, Offset(last + 1)) > 0
        assert (await setting.log.bounds(partition)).compacted == last + 1
        replica = await histories.open(setting)
        await replica.wait_applied(after, timeout=DEADLINE_S)
        await replica.close()


async def test_what_was_trimmed_is_believed(histories: Histories) -> None:
    """The log begins just behind the applied offset: there is nothing to compare, and nothing is lacking."""
    async with histories.log("this") as setting:
        await setting.write(b"later", value=b"x" * 1100)
        assert await setting.log.trim(histories.topic.partition(Partition(0)), Offset(5)) == 5
        replica = await histories.open(setting)
        await replica.wait_applied(Offset(5), timeout=DEADLINE_S)
        assert replica.index.count() == 6
        await replica.close()


async def test_a_built_index_joins_at_its_offset_and_is_known_from_its_first_fold_on(histories: Histories) -> None:
    """A bulk build folds no batch, and an earlier version kept none."""
    folder = histories.index_folder()
    forget_last_batch(folder.path)
    async with histories.log("other") as setting:
        await grown(setting, 4)
        replica = await histories.open(setting)
        assert (replica.applied, replica.index.last_batch) == (4, None)
        last = await setting.write(b"next")
        await replica.wait_applied(last, timeout=DEADLINE_S)
        assert replica.index.last_batch is not None
        await replica.close()
    async with histories.log("this") as setting:
        await grown(setting, 5)
        with pytest.raises(IndexDiverged):
            await histories.open(setting)
