"""The worker: tasks are found, done, reported, tried again, cancelled and taken up again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kit.deadlines import until, within
from kit.log.held_log import HeldLog

from log_tier.catalog.catalog import Catalog
from log_tier.catalog.commands import AbortJob, CreateTable, RegisterNode, ResumeJob, StartJob, TaskPlan
from log_tier.catalog.jobs import Job
from log_tier.catalog.map_follower import MapFollower
from log_tier.embedded import EmbeddedLog
from log_tier.model.errors import AccessDenied, DuramenError, LogStopped, OffsetTrimmed, Overloaded
from log_tier.model.identifiers import Partition
from log_tier.model.log import Topic
from serving_tier.jobs.worker import DoTask, JobWorker, RetryLimits, TaskRun

DEADLINE_S = 20


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[EmbeddedLog]:
    async with await EmbeddedLog.open(tmp_path / "log") as opened:
        yield opened


@pytest.fixture
async def catalog(log: EmbeddedLog) -> AsyncIterator[Catalog]:
    opened = await Catalog.open(log)
    for name in ("n1", "n2"):
        await opened.submit(RegisterNode(name, f"{name}:1", name))
    yield opened
    await opened.close()


@pytest.fixture
async def topic(log: EmbeddedLog, catalog: Catalog) -> Topic:
    topic = await log.create_topic("flights", partitions=2)
    await catalog.submit(CreateTable(topic.id, "flights", 2, 2))
    return topic


async def work(catalog: Catalog, action: DoTask | None, *, node: str = "n1", tries: int = 7) -> JobWorker:
    """A worker that does snapshots, with short pauses between its tries."""
    actions = {} if action is None else {"snapshot": action}
    retries = RetryLimits(tries, pause_first_s=0.002)
    return await JobWorker.open(catalog, MapFollower(catalog), node_id=node, actions=actions, retries=retries)


async def start(catalog: Catalog, topic: Topic, *nodes: str) -> int:
    plans = tuple(TaskPlan("snapshot", topic.id, Partition(number), node) for number, node in enumerate(nodes))
    job, _ = await catalog.submit(StartJob("snapshot", "flights", plans))
    return job


async def ended(catalog: Catalog, job: int) -> Job:
    cluster = await catalog.wait_for(lambda cluster: cluster.jobs[job].state != "running", timeout=DEADLINE_S)
    return cluster.jobs[job]


async def test_each_node_does_its_own_tasks(catalog: Catalog, topic: Topic) -> None:
    done: list[tuple[str, int]] = []

    def action_of(node: str) -> DoTask:
        async def action(run: TaskRun) -> str:
            done.append((node, run.number))
            return f"{node} did {run.task.table}/{run.task.partition}"

        return action

    workers = [await work(catalog, action_of(node), node=node) for node in ("n1", "n2")]
    job = await ended(catalog, await start(catalog, topic, "n2", "n1"))
    assert job.state == "done"
    assert sorted(done) == [("n1", 1), ("n2", 0)]
    assert [task.note for task in job.tasks] == [f"n2 did {topic.id}/0", f"n1 did {topic.id}/1"]
    for worker in workers:
        await worker.close()


async def test_what_can_be_tried_again_is_and_what_cannot_fails_the_job(catalog: Catalog, topic: Topic) -> None:
    troubles = [Overloaded("no answer")] * 3
    tries = 0

    async def action(run: TaskRun) -> str:
        nonlocal tries
        tries += 1
        if run.number == 0 and troubles:
            raise troubles.pop()
        if run.number == 1:
            raise OffsetTrimmed("gone")
        return "at last"

    worker = await work(catalog, action)
    job = await ended(catalog, await start(catalog, topic, "n1", "n1"))
    assert [(task.state, task.note) for task in job.tasks] == [
        ("done", "at last"),
        ("failed", "offset_trimmed: gone"),
    ]
    assert (job.state, tries) == ("failed", 5)
    await worker.close()


async def test_a_lasting_failure_is_reported_after_some_tries(catalog: Catalog, topic: Topic) -> None:
    tries = 0

    async def action(run: TaskRun) -> str:
        nonlocal tries
        tries += 1
        raise Overloaded("no answer")

    worker = await work(catalog, action, tries=3)
    number = await start(catalog, topic, "n1")
    job = await ended(catalog, number)
    assert (job.state, job.tasks[0].note, tries) == ("failed", "overloaded: no answer", 3)
    await worker.close()

    async def better(run: TaskRun) -> str:
        return "the store is back"

    worker = await work(catalog, better)
    await catalog.submit(ResumeJob(number))
    job = await ended(catalog, number)
    assert (job.state, job.tasks[0].note) == ("done", "the store is back")
    await worker.close()


async def test_an_aborted_job_is_cancelled(catalog: Catalog, topic: Topic) -> None:
    cancelled = asyncio.Event()

    async def action(run: TaskRun) -> str:
        run.progress("waiting for ever", 1, 2)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return ""

    worker = await work(catalog, action)
    job = await start(catalog, topic, "n1")
    await until(lambda: [p.phase for p in worker.running().values()] == ["waiting for ever"])
    await catalog.submit(AbortJob(job))
    async with within(DEADLINE_S):
        await cancelled.wait()
    await until(lambda: not worker.running())
    assert catalog.map.jobs[job].state == "aborted"
    await worker.close()


async def test_a_worker_that_comes_back_goes_on(catalog: Catalog, topic: Topic) -> None:
    begun = asyncio.Event()

    async def never(run: TaskRun) -> str:
        begun.set()
        await asyncio.Event().wait()
        return ""

    first = await work(catalog, never)
    job = await start(catalog, topic, "n1")
    await begun.wait()
    await first.close()
    assert catalog.map.jobs[job].state == "running"

    async def action(run: TaskRun) -> str:
        return "second try"

    second = await work(catalog, action)
    assert (await ended(catalog, job)).tasks[0].note == "second try"
    await second.close()


async def test_a_task_that_this_node_cannot_do_and_a_bug_are_reported(
    catalog: Catalog, topic: Topic, caplog: pytest.LogCaptureFixture
) -> None:
    worker = await work(catalog, None)
    job = await ended(catalog, await start(catalog, topic, "n1"))
    assert job.tasks[0].note == "node n1 cannot do a snapshot"
    await worker.close()

    async def buggy(run: TaskRun) -> str:
        raise ZeroDivisionError

    worker = await work(catalog, buggy)
    job = await ended(catalog, await start(catalog, topic, "n1"))
    assert job.tasks[0].note == "a bug: ZeroDivisionError()"
    await until(lambda: "ended by a bug" in caplog.text)
    await worker.close()


@pytest.mark.parametrize(
    "refusal",
    [LogStopped("a sync failed: restart the server of the log"), AccessDenied("allow it Write on the topic")],
    ids=["stopped", "denied"],
)
async def test_what_came_of_a_task_is_reported_once_the_log_takes_it_again(
    log: EmbeddedLog, catalog: Catalog, topic: Topic, refusal: DuramenError
) -> None:
    """A log that had stopped is started again, or Kafka's operator gives back an ACL. The task is done once."""
    elsewhere = HeldLog(log)
    followed = await Catalog.open(elsewhere)
    stopped = asyncio.Event()

    async def action(run: TaskRun) -> str:
        assert not stopped.is_set()
        elsewhere.refusal = refusal
        stopped.set()
        return "done meanwhile"

    worker = await work(followed, action)
    job = await start(catalog, topic, "n1")
    await stopped.wait()
    await until(lambda: elsewhere.refused > 1 or not worker.running())
    elsewhere.refusal = None
    assert (await ended(catalog, job)).tasks[0].note == "done meanwhile"
    await worker.close()
    await followed.close()


async def test_no_more_run_at_once_than_allowed(catalog: Catalog, log: EmbeddedLog) -> None:
    topic = await log.create_topic("wide", partitions=6)
    await catalog.submit(CreateTable(topic.id, "wide", 6, 2))
    running = peak = 0

    async def action(run: TaskRun) -> str:
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        for _ in range(20):
            await asyncio.sleep(0)
        running -= 1
        return ""

    worker = await work(catalog, action)
    assert (await ended(catalog, await start(catalog, topic, *["n1"] * 6))).state == "done"
    assert peak == 2
    await worker.close()


@pytest.mark.parametrize("failures", [1, 3])
async def test_a_job_that_is_resumed_before_its_node_saw_it_fail(
    catalog: Catalog, topic: Topic, log: EmbeddedLog, failures: int
) -> None:
    """The node sees the failure and the resumption in one map, and no map comes after it."""
    held = HeldLog(log)
    elsewhere = await Catalog.open(held)
    tries = 0

    async def action(run: TaskRun) -> str:
        nonlocal tries
        tries += 1
        if tries > failures:
            return "at last"
        held.hold_reads()
        raise OffsetTrimmed("gone")

    worker = await work(elsewhere, action)
    job = await start(catalog, topic, "n1")
    for _ in range(failures):
        assert (await ended(catalog, job)).state == "failed"
        await catalog.submit(ResumeJob(job))
        held.release_reads()
    assert (await ended(catalog, job)).state == "done"
    assert tries == failures + 1
    await worker.close()
    await elsewhere.close()
