"""A snapshot that is asked for holds what the log held by then, however far its replica was behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from kit.deadlines import until, within
from kit.jobs.single_machine import DEADLINE_S, ZERO, SingleMachine, fill, plan
from kit.log.held_log import HeldLog

from log_tier.catalog.catalog import Catalog
from log_tier.catalog.cluster_map import SnapshotEntry
from log_tier.catalog.commands import AbortJob, StartJob
from log_tier.embedded import EmbeddedLog
from log_tier.model.identifiers import Offset
from log_tier.model.log import Topic
from serving_tier.jobs.worker import RetryLimits


class BehindMachine(SingleMachine):
    """A node whose replicas get nothing of the log while its reads are held."""

    log: Any

    async def held_behind(self, **how: Any) -> tuple[Topic, Offset]:
        """A table on node n1, and an acknowledged offset that its replica has not applied."""
        await self.add_node("n1", **how)
        topic = await self.make_table()
        await fill(self, topic, 20)
        replica = await self.level("n1", topic)
        self.log.hold_reads()
        last = await fill(self, topic, 20)
        assert replica.applied < last
        return topic, last

    async def begin(self, topic: Topic) -> int:
        number, _ = await self.catalog.submit(StartJob("snapshot", "flights", (plan("snapshot", topic, "n1"),), {}))
        return int(number)

    async def waits(self, count: int = 1) -> None:
        """So many tasks wait for their replica."""

        def phases() -> list[str]:
            return [each.phase for each in self.workers["n1"].running().values()]

        await until(lambda: phases() == ["waiting for the log's end"] * count)

    async def over(self, job: int) -> str:
        cluster = await self.catalog.wait_for(lambda map_: map_.jobs[job].state != "running", timeout=DEADLINE_S)
        return cluster.jobs[job].state

    def known(self, topic: Topic) -> tuple[SnapshotEntry, ...]:
        return self.catalog.map.snapshots_of(topic.partition(ZERO))


@pytest.fixture
async def behind(tmp_path: Path) -> AsyncIterator[BehindMachine]:
    async with await EmbeddedLog.open(tmp_path / "log") as inner:
        log: Any = HeldLog(inner)
        catalog = await Catalog.open(inner)
        made = BehindMachine(tmp_path, log, catalog)
        yield made
        log.release_reads()
        await made.close()
        await catalog.close()


async def test_a_snapshot_that_is_asked_for_waits_until_its_replica_has_what_was_acknowledged(
    behind: BehindMachine,
) -> None:
    topic, last = await behind.held_behind()
    job = await behind.begin(topic)
    await behind.waits()
    assert behind.known(topic) == ()
    behind.log.release_reads()
    assert await behind.over(job) == "done"
    (entry,) = behind.known(topic)
    assert entry.offset >= last
    assert behind.catalog.map.jobs[job].tasks[0].note.endswith(f"at offset {entry.offset}")


async def test_two_that_are_asked_for_at_once_both_wait(behind: BehindMachine) -> None:
    topic, last = await behind.held_behind()
    jobs = [await behind.begin(topic) for _ in range(2)]
    await behind.waits(2)
    behind.log.release_reads()
    assert [await behind.over(job) for job in jobs] == ["done", "done"]
    assert [entry.offset >= last for entry in behind.known(topic)] == [True, True]


async def test_what_is_written_after_the_request_is_not_waited_for(behind: BehindMachine) -> None:
    """The first try has seen the log's end; later tries do not follow a log that grows."""
    topic, last = await behind.held_behind(
        retries=RetryLimits(10_000, pause_first_s=0.001, pause_max_s=0.002, wait_s=0.01)
    )
    job = await behind.begin(topic)
    await behind.waits()
    (run,) = behind.workers["n1"]._runs.values()
    assert run.through == last
    tries = 0

    def look() -> bool:
        nonlocal tries
        tries += "trying again" in run.progress_now.phase
        return tries > 2

    await until(look)
    assert await fill(behind, topic, 5) > last == run.through
    behind.log.release_reads()
    assert await behind.over(job) == "done"


async def test_a_replica_that_stays_behind_fails_the_job_and_says_what_to_do(behind: BehindMachine) -> None:
    topic, last = await behind.held_behind(retries=RetryLimits(2, pause_first_s=0.001, wait_s=0.01))
    job = await behind.begin(topic)
    assert await behind.over(job) == "failed"
    note = behind.catalog.map.jobs[job].tasks[0].note
    assert note.startswith(f"replica_behind: replica flights/0 has applied 19, and the log held offset {last} when")
    assert note.endswith(f"(`duramen admin lag`), then resume the job (`duramen admin resume {job}`)")
    assert behind.known(topic) == ()


async def test_a_job_that_is_aborted_does_not_wait_on(behind: BehindMachine) -> None:
    topic, _ = await behind.held_behind()
    job = await behind.begin(topic)
    await behind.waits()
    await behind.catalog.submit(AbortJob(job))
    await behind.waits(0)
    behind.log.release_reads()
    await behind.level("n1", topic)
    assert behind.known(topic) == ()


async def test_a_snapshot_by_schedule_holds_what_its_replica_has(behind: BehindMachine) -> None:
    topic, last = await behind.held_behind()
    replica = behind.hostings["n1"].node.replica(topic.partition(ZERO))
    async with within(DEADLINE_S):
        entry = await behind.snapshots["n1"].take(replica)
    assert entry.offset == replica.applied < last


async def test_a_replica_that_is_closed_meanwhile_ends_the_wait(behind: BehindMachine) -> None:
    topic, _ = await behind.held_behind(retries=RetryLimits(2, pause_first_s=0.001))
    job = await behind.begin(topic)
    await behind.waits()
    replica = behind.hostings["n1"].node.replica(topic.partition(ZERO))
    closing = asyncio.ensure_future(replica.close())
    assert await behind.over(job) == "failed"
    await closing
