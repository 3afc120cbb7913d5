"""A node: which replicas it hosts, and how idle partitions come to expire their keys."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from stored_log import columns_of, put

from log_tier.batch import encode_batch
from log_tier.embedded import EmbeddedLog
from log_tier.errors import DuramenError, IndexDamaged, LogDamaged, Overloaded, ShuttingDown, TableNotFound
from log_tier.identifiers import Offset, Partition, TableId
from log_tier.record import Expiry
from serving_tier import node as module
from serving_tier.node import Node
from serving_tier.replica import Replica

DEADLINE_S = 20
ZERO, ONE = Partition(0), Partition(1)


class SlowClock:
    """A clock that tests move."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def clock() -> SlowClock:
    return SlowClock()


@pytest.fixture
async def log(tmp_path: Path, clock: SlowClock) -> AsyncIterator[EmbeddedLog]:
    async with await EmbeddedLog.open(tmp_path / "log", clock=clock) as opened:
        yield opened


@pytest.fixture
async def node(
    tmp_path: Path, log: EmbeddedLog, clock: SlowClock, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Node]:
    monkeypatch.setattr(module, "_EXPIRY_TICK_S", 0.002)
    opened = await Node.open(log, tmp_path / "index", clock_ms=clock)
    yield opened
    await opened.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not condition():  # noqa: ASYNC110 - nobody signals what is waited for
            await asyncio.sleep(0.001)


async def put_expiring(log: EmbeddedLog, table_id: TableId, partition: Partition, ttl_ms: int) -> None:
    records = [put(b"key", b"v", expiry=Expiry.TTL, expiry_ms=ttl_ms)]
    await log.append(table_id, partition, encode_batch(columns_of(records)))


async def test_every_partition_of_a_table_is_hosted(node: Node, log: EmbeddedLog) -> None:
    topic = await log.create_topic("flights", partitions=3)
    await node.host(topic)
    await node.wait_ready()
    assert node.topics() == [topic]
    assert [replica.name for replica in node] == ["flights/0", "flights/1", "flights/2"]
    with pytest.raises(TableNotFound, match="flights has partitions 0 to 2, not 3"):
        node.replica(topic.id, Partition(3))
    with pytest.raises(TableNotFound, match="was dropped, or never was"):
        node.replica(TableId("AAAAAAAAAAAAAAAAAAAAAA"), ZERO)


async def test_dropping_tells_who_waits_and_removes_the_folder(node: Node, log: EmbeddedLog, tmp_path: Path) -> None:
    topic = await log.create_topic("flights", partitions=2)
    await node.host(topic)
    replica = node.replica(topic.id, ZERO)
    assert (tmp_path / "index" / topic.id / "0").is_dir()
    await node.drop(topic.id)
    assert not (tmp_path / "index" / topic.id).exists()
    assert node.topics() == []
    with pytest.raises(TableNotFound, match=r"flights .* was dropped"):
        await replica.wait_applied(Offset(-1), timeout=1)
    await node.drop(topic.id)


async def test_one_partition_that_cannot_be_opened_does_not_keep_the_others(
    node: Node, log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await log.create_topic("flights", partitions=3)
    inner = Replica.open

    async def opening(found: object, partition: Partition, **how: object) -> Replica:
        if partition == ONE:
            raise LogDamaged("flights/1 is damaged at byte 77", position=77)
        return await inner(found, partition, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(Replica, "open", opening)
    await node.host(topic)
    assert node.replica(topic.id, ZERO).state == "ready"
    errors = []
    for _ in range(2):
        with pytest.raises(LogDamaged, match="byte 77") as caught:
            node.replica(topic.id, ONE)
        errors.append(caught.value)
    assert errors[0] is not errors[1]
    await node.drop(topic.id)
    with pytest.raises(TableNotFound):
        node.replica(topic.id, ONE)


async def test_a_bug_while_hosting_leaves_nothing_open(
    node: Node, log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await log.create_topic("flights", partitions=2)
    inner, opened = Replica.open, []

    async def opening(found: object, partition: Partition, **how: object) -> Replica:
        if partition == ONE:
            raise ZeroDivisionError
        opened.append(await inner(found, partition, **how))  # type: ignore[arg-type]
        return opened[-1]

    monkeypatch.setattr(Replica, "open", opening)
    with pytest.raises(ZeroDivisionError):
        await node.host(topic)
    assert [replica.state for replica in opened] == ["closed"]
    assert node.topics() == []


async def test_an_idle_partition_expires_its_keys(node: Node, log: EmbeddedLog, clock: SlowClock) -> None:
    topic = await log.create_topic("flights", partitions=2)
    await node.host(topic)
    await put_expiring(log, topic.id, ZERO, 500)
    replica = node.replica(topic.id, ZERO)
    await replica.wait_applied(Offset(0), timeout=DEADLINE_S)
    clock.now_ms += 499
    await until(lambda: replica.index.next_expiry_ms() is not None)
    assert replica.index.get(b"key") is not None
    clock.now_ms += 1
    await until(lambda: replica.index.get(b"key") is None)
    assert (await log.bounds(topic.id, ZERO)).latest == 1, "one no-op did it"
    assert (await log.bounds(topic.id, ONE)).latest == -1, "where nothing expires nothing is written"


async def test_a_log_whose_clock_is_behind_is_not_flooded(
    tmp_path: Path, log: EmbeddedLog, clock: SlowClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The no-op does not help while the log's clock stands; the next one waits twice as long."""
    monkeypatch.setattr(module, "_EXPIRY_TICK_S", 0.001)
    topic = await log.create_topic("flights", partitions=1)
    ticks = []

    def fast() -> int:
        ticks.append(1)
        return clock.now_ms + 10_000

    ahead = await Node.open(log, tmp_path / "index", clock_ms=fast)
    await ahead.host(topic)
    await put_expiring(log, topic.id, ZERO, 500)
    await until(lambda: len(ticks) > 60)
    await ahead.close()
    assert 2 <= (await log.bounds(topic.id, ZERO)).latest <= 20


async def test_trouble_with_one_replica_does_not_stop_the_clock_of_the_others(
    node: Node, log: EmbeddedLog, clock: SlowClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    topic = await log.create_topic("flights", partitions=2)
    await node.host(topic)
    for partition in (ZERO, ONE):
        await put_expiring(log, topic.id, partition, 500)
        await node.replica(topic.id, partition).wait_applied(Offset(0), timeout=DEADLINE_S)

    def damaged() -> int | None:
        raise IndexDamaged("a page cannot be read")

    monkeypatch.setattr(node.replica(topic.id, ZERO).index, "next_expiry_ms", damaged)
    clock.now_ms += 1000
    await until(lambda: node.replica(topic.id, ONE).index.get(b"key") is None)
    assert "a page cannot be read" in caplog.text


@pytest.mark.parametrize("error", [Overloaded("full"), TableNotFound("dropped"), LogDamaged("damaged")])
async def test_an_append_that_fails_is_tried_again(
    node: Node, log: EmbeddedLog, clock: SlowClock, monkeypatch: pytest.MonkeyPatch, error: DuramenError
) -> None:
    monkeypatch.setattr(module, "_EXPIRY_BACKOFF_MAX_S", 0.01)
    topic = await log.create_topic("flights", partitions=1)
    await node.host(topic)
    await put_expiring(log, topic.id, ZERO, 500)
    replica = node.replica(topic.id, ZERO)
    await replica.wait_applied(Offset(0), timeout=DEADLINE_S)
    inner, failures = log.append, [error, error]

    async def append(*parts: object) -> object:
        if failures:
            raise failures.pop()
        return await inner(*parts)  # type: ignore[arg-type]

    monkeypatch.setattr(log, "append", append)
    clock.now_ms += 1000
    await until(lambda: replica.index.get(b"key") is None)
    assert not failures, "both failures were met before it expired"


async def test_closing_closes_all_though_one_fails(
    tmp_path: Path, log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = await Node.open(log, tmp_path / "index")
    topic = await log.create_topic("flights", partitions=3)
    await node.host(topic)
    replicas = list(node)
    monkeypatch.setattr(replicas[0].index, "close", lambda *, clean: {}["no such key"])
    with pytest.raises(KeyError):
        await node.close()
    assert [replica.state for replica in replicas] == ["closed"] * 3
    with pytest.raises(ShuttingDown):
        replicas[1].index.get(b"a")
    monkeypatch.undo()
    replicas[0].index.close()
