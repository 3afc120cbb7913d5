"""The log's ends, asked for from the node's side: the states of real replicas over a real log, on a stepped clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kit.deadlines import until, within
from kit.log.held_log import HeldLog, SteppedClock
from kit.log.stored_log import columns_of, put

from log_tier.embedded import EmbeddedLog
from log_tier.model.batch import encode_batch
from log_tier.model.errors import LogStopped
from log_tier.model.identifiers import Offset, Partition, PartitionId
from log_tier.model.log import Bounds, Topic
from serving_tier.node import log_ends as module
from serving_tier.node.log_ends import LogEnds
from serving_tier.replica.applier import Applier
from serving_tier.replica.replica import Replica
from serving_tier.replica.version_folders import ReplicaFolder

ZERO = Partition(0)
DEADLINE_S = 20


class LogEndsSetting:
    def __init__(self, log: HeldLog, topic: Topic, applier: Applier, folder: Path) -> None:
        self.log, self.topic, self.applier, self.folder = log, topic, applier, folder
        self.clock = SteppedClock()
        self.replicas: list[Replica] = []
        self.hosted: dict[PartitionId, Replica] = {}
        self.ends = self.ends_of(log)

    def ends_of(self, log: HeldLog) -> LogEnds:
        return LogEnds(log, lambda: self.hosted, clock=self.clock, every_s=1000)

    async def open(self, partition: int = 0) -> Replica:
        folder = ReplicaFolder(self.folder / str(partition), self.topic.partition(partition))
        replica = await Replica.open(self.topic, folder, log=self.log, applier=self.applier, clock=self.clock)
        self.replicas.append(replica)
        self.hosted = {**self.hosted, replica.id: replica}
        return replica

    async def write(self, *keys: bytes, partition: int = 0) -> Offset:
        batch = encode_batch(columns_of([put(key, b"v") for key in keys]))
        appended = await self.log.append(self.topic.partition(partition), batch)
        return Offset(appended.base_offset + len(keys) - 1)


@pytest.fixture
async def setting(tmp_path: Path) -> AsyncIterator[LogEndsSetting]:
    async with await EmbeddedLog.open(tmp_path / "log") as log:
        topic = await log.create_topic("flights", partitions=2)
        applier = Applier()
        applier.start()
        made = LogEndsSetting(HeldLog(log), topic, applier, tmp_path / "index")
        yield made
        for replica in made.replicas:
            await replica.close()
        await applier.stop()


async def test_ready_behind_and_ready_again(setting: LogEndsSetting, caplog: pytest.LogCaptureFixture) -> None:
    replica = await setting.open()
    assert replica.state == "ready"
    setting.log.hold_reads()
    last = await setting.write(b"a", b"b", b"c")
    await setting.ends.ask()
    assert (replica.applied, replica.progress.latest, replica.state) == (-1, last, "ready")
    setting.clock.step(4.9)
    await setting.ends.ask()
    assert (replica.state, round(replica.progress.lag_s, 3)) == ("ready", 4.9)
    setting.clock.step(0.2)
    await setting.ends.ask()
    assert (replica.state, round(replica.progress.lag_s, 3)) == ("behind", 5.1)
    assert "replica flights/0 fell behind: applied -1 of 2" in caplog.text
    waiting = asyncio.ensure_future(replica.wait_ready())
    await asyncio.sleep(0)
    assert not waiting.done()
    setting.log.release_reads()
    async with within(DEADLINE_S):
        await waiting
    assert (replica.applied, replica.state, replica.progress.lag_s) == (last, "ready", 0.0)


async def test_a_log_that_cannot_be_reached_makes_the_lag_count_on(
    setting: LogEndsSetting, caplog: pytest.LogCaptureFixture
) -> None:
    replica = await setting.open()
    await setting.ends.ask()
    setting.log.unreachable = True
    for _ in range(6):
        setting.clock.step(1)
        await setting.ends.ask()
    assert (replica.state, replica.progress.lag_s, replica.applied) == ("behind", 6.0, replica.progress.latest)
    assert "replica flights/0 fell behind: the log has not said for " in caplog.text
    assert f" s where it ends; it ended at {replica.applied}, which is applied" in caplog.text
    assert caplog.text.count("does not say where flights ends: no Duramen server answers") == 1
    setting.log.unreachable = False
    await setting.ends.ask()
    assert (replica.state, replica.progress.lag_s) == ("ready", 0.0)


async def test_a_log_that_says_nothing_is_not_waited_for(
    setting: LogEndsSetting, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "_ANSWER_MAX_S", 0.01)
    replica = await setting.open()
    setting.log.silent = True
    setting.clock.step(6)
    await setting.ends.ask()
    assert replica.state == "behind"
    assert "no answer came within 0.01 s" in caplog.text


async def test_one_that_is_opened_far_behind_is_not_ready_before_it_holds_what_was_there(
    setting: LogEndsSetting,
) -> None:
    last = await setting.write(*[b"%d" % n for n in range(50)])
    setting.log.hold_reads()
    replica = await setting.open()
    await setting.ends.ask()
    assert (replica.state, replica.progress.lag_s) == ("replaying", 0.0)
    setting.log.release_reads()
    async with within(DEADLINE_S):
        await replica.wait_ready()
    assert (replica.applied, replica.state) == (last, "ready")


async def test_a_table_is_asked_for_once_for_all_its_partitions(setting: LogEndsSetting) -> None:
    for partition in (0, 1):
        await setting.open(partition)
    await setting.ends.ask()
    assert setting.log.asked == 1
    setting.log.hold_reads()
    await setting.write(b"a", b"b", partition=1)
    await setting.ends.ask()
    assert [replica.progress.latest for replica in setting.replicas] == [-1, 1]


async def test_a_dropped_table_is_no_trouble(setting: LogEndsSetting, caplog: pytest.LogCaptureFixture) -> None:
    replica = await setting.open()
    await setting.log.delete_topic(setting.topic.id)
    await setting.ends.ask()
    await until(lambda: replica.state == "stopped")
    await setting.ends.ask()
    assert replica.state == "stopped"
    assert "does not say" not in caplog.text


async def test_a_log_that_stopped_is_reported_once(setting: LogEndsSetting, caplog: pytest.LogCaptureFixture) -> None:
    await setting.open()

    async def stopped(topic: object) -> object:
        raise LogStopped("a sync failed")

    setting.log.all_bounds = stopped  # type: ignore[assignment,method-assign]
    await setting.ends.ask()
    await setting.ends.ask()
    assert caplog.text.count("a sync failed") == 1


async def test_it_asks_by_itself_until_it_is_closed(setting: LogEndsSetting) -> None:
    await setting.open()
    ends = LogEnds.open(setting.log, lambda: setting.hosted, clock=setting.clock, every_s=0.001)
    await until(lambda: setting.log.asked > 3)
    await ends.close()
    asked = setting.log.asked
    await ends.close()
    assert asked == setting.log.asked


class HereLog(HeldLog):
    """The same in this process: its partitions are looked at."""

    def bounds_now(self, partition: PartitionId) -> Bounds:
        return self.inner.bounds_now(partition)


async def test_a_log_of_this_process_is_looked_at_and_not_asked(setting: LogEndsSetting) -> None:
    setting.log = HereLog(setting.log.inner)
    setting.ends = setting.ends_of(setting.log)
    for partition in (0, 1):
        await setting.open(partition)
    await setting.ends.ask()
    setting.log.hold_reads()
    last = await setting.write(b"a", b"b", partition=1)
    for _ in range(7):
        setting.clock.step(1)
        await setting.ends.ask()
    assert setting.log.asked == 0
    assert [replica.progress.latest for replica in setting.replicas] == [-1, last]
    idle, held = setting.replicas
    assert (idle.state, idle.progress.lag_s, idle.progress.stale_s) == ("ready", 0.0, 0.0)
    assert (held.state, held.progress.lag_s, held.progress.stale_s) == ("behind", 6.0, 7.0)
    setting.log.release_reads()
    async with within(DEADLINE_S):
        await held.wait_ready()
    changes = idle.changes
    await setting.ends.ask()
    assert idle.changes == changes, "nothing of what its status says has changed"
    assert (held.applied, held.state, held.progress.stale_s) == (last, "ready", 0.0)


class CountedLog(HereLog):
    """Counts the partitions that are looked at."""

    def __init__(self, inner: EmbeddedLog) -> None:
        super().__init__(inner)
        self.looked: list[PartitionId] = []

    def bounds_now(self, partition: PartitionId) -> Bounds:
        self.looked.append(partition)
        return super().bounds_now(partition)


async def test_only_what_moved_is_looked_at(setting: LogEndsSetting) -> None:
    log = setting.log = CountedLog(setting.log.inner)
    setting.ends = setting.ends_of(log)
    idle, busy = [await setting.open(partition) for partition in (0, 1)]
    await setting.ends.ask()
    await setting.ends.ask()
    log.looked.clear()
    for _ in range(5):
        setting.clock.step(1)
        await setting.ends.ask()
    assert log.looked == []
    assert (busy.progress.lag_s, busy.progress.stale_s) == (0.0, 0.0)
    log.hold_reads()
    await setting.write(b"a", partition=1)
    for _ in range(6):
        setting.clock.step(1)
        await setting.ends.ask()
    assert log.looked == [busy.id] * 6, "it is looked at until it is level again"
    assert (busy.state, idle.state, idle.progress.stale_s) == ("ready", "ready", 0.0)
    log.release_reads()
    await busy.wait_applied(Offset(0), timeout=DEADLINE_S)
    log.looked.clear()
    await setting.ends.ask()
    await setting.ends.ask()
    assert log.looked == [busy.id]
    await busy.close()
    setting.hosted = {idle.id: idle}
    await setting.ends.ask()
    again = await setting.open(1)
    await setting.ends.ask()
    assert log.looked == [busy.id] * 2, "one that is hosted anew is looked at"
    assert again.progress.latest == 0
    await setting.ends.close()
    await setting.write(b"b", partition=1)
    assert setting.log.inner.moves.follow().take() == []


async def test_a_replica_whose_log_moves_in_the_middle_of_a_look_is_looked_at_again(setting: LogEndsSetting) -> None:
    log = setting.log = CountedLog(setting.log.inner)
    setting.ends = setting.ends_of(log)
    replica = await setting.open()
    await setting.ends.ask()
    log.hold_reads()
    look = log.bounds_now

    def then_it_moves(partition: PartitionId) -> Bounds:
        found = look(partition)
        log.moves.note(partition)
        return found

    log.bounds_now = then_it_moves  # type: ignore[method-assign]
    await setting.ends.ask()
    log.bounds_now = look  # type: ignore[method-assign]
    log.looked.clear()
    await setting.ends.ask()
    await setting.ends.ask()
    assert log.looked == [replica.id]


async def test_a_log_of_this_process_that_refuses_says_why(
    setting: LogEndsSetting, caplog: pytest.LogCaptureFixture
) -> None:
    log = HereLog(setting.log.inner)
    setting.ends = setting.ends_of(log)
    replica = await setting.open()
    await setting.ends.ask()

    def stopped(partition: object) -> Bounds:
        raise LogStopped("a sync failed")

    log.bounds_now = stopped  # type: ignore[method-assign]
    log.unreachable = True
    log.moves.note(replica.id)
    for _ in range(6):
        setting.clock.step(1)
        await setting.ends.ask()
    assert (replica.state, replica.progress.lag_s) == ("behind", 6.0)
    assert caplog.text.count("does not say where flights ends") == 1
