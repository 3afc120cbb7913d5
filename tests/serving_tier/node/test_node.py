"""A node: which replicas it hosts, and how idle partitions come to expire their keys."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from kit.deadlines import until
from kit.log.stored_log import columns_of, put
from kit.set_clock import SetClock

from log_tier.embedded import EmbeddedLog
from log_tier.model.batch import encode_batch
from log_tier.model.errors import (
    DuramenError,
    IndexDamaged,
    LogDamaged,
    NotHosted,
    Overloaded,
    ShuttingDown,
    TableNotFound,
)
from log_tier.model.identifiers import Offset, Partition, PartitionId, TableId
from log_tier.model.log import Topic
from log_tier.model.record import Expiry
from serving_tier.node import idle_expiry as module
from serving_tier.node.node import Node
from serving_tier.replica.replica import Replica
from serving_tier.replica.version_folders import ReplicaFolder

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
    monkeypatch.setattr(module, "_TICK_S", 0.002)
    opened = await Node.open(log, tmp_path / "index", clock=SetClock(clock))
    yield opened
    await opened.close()


async def host_all(node: Node, topic: Topic) -> None:
    for number in range(topic.partitions):
        await node.host(topic, topic.partition(number))


async def put_expiring(log: EmbeddedLog, table_id: TableId, partition: Partition, ttl_ms: int) -> None:
    records = [put(b"key", b"v", expiry=Expiry.TTL, expiry_ms=ttl_ms)]
    await log.append(PartitionId(table_id, partition), encode_batch(columns_of(records)))


async def test_partitions_are_hosted_one_by_one(node: Node, log: EmbeddedLog) -> None:
    topic = await log.create_topic("flights", partitions=3)
    for number in (0, 2):
        await node.host(topic, topic.partition(number), source="peer n2")
    await node.wait_ready()
    assert list(node.hosted()) == [(topic.id, 0), (topic.id, 2)]
    assert [(replica.name, replica.source) for replica in node] == [("flights/0", "peer n2"), ("flights/2", "peer n2")]
    with pytest.raises(NotHosted, match="ask another node") as caught:
        node.replica(topic.partition(ONE))
    assert caught.value.fields == {"table": topic.id, "partition": 1}
    node.absent = lambda partition: TableNotFound(f"{partition.table} was dropped")
    with pytest.raises(TableNotFound, match="was dropped"):
        node.replica(PartitionId(TableId("AAAAAAAAAAAAAAAAAAAAAA"), ZERO))


async def test_unhosting_tells_who_waits_and_removes_the_folder(node: Node, log: EmbeddedLog, tmp_path: Path) -> None:
    topic = await log.create_topic("flights", partitions=2)
    await host_all(node, topic)
    replica = node.replica(topic.partition(ZERO))
    folder = tmp_path / "index" / topic.id
    for partition in (ZERO, ONE):
        node.replica(topic.partition(partition)).index.get_value(b"a")  # an index that nobody uses has no files
    assert (folder / "0").is_dir()
    await node.unhost(topic.partition(ZERO), NotHosted("n2 has flights/0 now"))
    assert not (folder / "0").exists()
    assert (folder / "1").is_dir()
    assert list(node.hosted()) == [(topic.id, 1)]
    with pytest.raises(NotHosted, match="n2 has flights/0 now"):
        await replica.wait_applied(Offset(-1), timeout=1)
    await node.unhost(topic.partition(ZERO), NotHosted("again"))
    await node.unhost(topic.partition(ONE), NotHosted("the last one"), delete=False)
    assert (folder / "1" / "data.mdb").exists(), "it was not to be deleted"


async def test_one_partition_that_cannot_be_opened_says_why_until_it_can(
    node: Node, log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await log.create_topic("flights", partitions=2)
    inner = Replica.open

    async def opening(found: Topic, folder: ReplicaFolder, **how: Any) -> Replica:
        if folder.partition.partition == ONE:
            raise LogDamaged("flights/1 is damaged at byte 77", position=77)
        return await inner(found, folder, **how)

    monkeypatch.setattr(Replica, "open", opening)
    await node.host(topic, topic.partition(ZERO))
    with pytest.raises(LogDamaged):
        await node.host(topic, topic.partition(ONE))
    assert node.replica(topic.partition(ZERO)).state == "ready"
    errors = []
    for _ in range(2):
        with pytest.raises(LogDamaged, match="byte 77") as caught:
            node.replica(topic.partition(ONE))
        errors.append(caught.value)
    assert errors[0] is not errors[1]
    monkeypatch.undo()
    await node.host(topic, topic.partition(ONE))
    assert node.replica(topic.partition(ONE)).state == "ready"


async def test_the_first_replica_moves_the_log_time_and_the_second_only_without_it(
    node: Node, log: EmbeddedLog, clock: SlowClock
) -> None:
    topic = await log.create_topic("flights", partitions=1)
    replica = await node.host(topic, topic.partition(ZERO), rank=1)
    await put_expiring(log, topic.id, ZERO, 500)
    await replica.wait_applied(Offset(0), timeout=DEADLINE_S)
    clock.now_ms += 2499
    await node.idle_expiry.tick()
    assert (await log.bounds(topic.partition(ZERO))).latest == 0, "nothing was appended"
    assert replica.index.get(b"key") is not None, "the first replica has two seconds"
    node.set_rank(PartitionId(topic.id, ZERO), 0)
    await until(lambda: replica.index.get(b"key") is None)


async def test_a_tick_looks_at_what_was_applied_and_at_what_may_expire_and_at_nothing_else(
    node: Node, log: EmbeddedLog
) -> None:
    topic = await log.create_topic("flights", partitions=8)
    await host_all(node, topic)
    await node.idle_expiry.close()
    looks: list[int] = []
    for number in range(8):
        replica = node.replica(topic.partition(Partition(number)))

        def look(number: int = number, inner: Callable[[], int | None] = replica.index.next_expiry_ms) -> int | None:
            looks.append(number)
            return inner()

        replica.index.next_expiry_ms = look  # type: ignore[method-assign]
    await node.idle_expiry.tick()
    looks.clear()
    await node.idle_expiry.tick()
    assert not looks, "nothing was applied since the last tick"
    await put_expiring(log, topic.id, ONE, 500)
    await node.replica(topic.partition(ONE)).wait_applied(Offset(0), timeout=DEADLINE_S)
    await node.idle_expiry.tick()
    await node.idle_expiry.tick()
    assert looks == [1]


async def test_an_idle_partition_expires_its_keys(node: Node, log: EmbeddedLog, clock: SlowClock) -> None:
    topic = await log.create_topic("flights", partitions=2)
    await host_all(node, topic)
    await node.idle_expiry.close()  # these ticks come by hand: the next one behind what the last one has had applied
    await put_expiring(log, topic.id, ZERO, 500)
    replica = node.replica(topic.partition(ZERO))
    await replica.wait_applied(Offset(0), timeout=DEADLINE_S)
    clock.now_ms += 499
    await node.idle_expiry.tick()
    assert (await log.bounds(topic.partition(ZERO))).latest == 0, "nothing is due yet"
    assert replica.index.get(b"key") is not None
    clock.now_ms += 1
    await node.idle_expiry.tick()
    await replica.wait_applied(Offset(1), timeout=DEADLINE_S)
    assert replica.index.get(b"key") is None
    await node.idle_expiry.tick()
    assert (await log.bounds(topic.partition(ZERO))).latest == 1, "one no-op did it"
    assert (await log.bounds(topic.partition(ONE))).latest == -1, "where nothing expires nothing is written"


async def test_a_log_whose_clock_is_behind_is_not_flooded(
    tmp_path: Path, log: EmbeddedLog, clock: SlowClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The no-op does not help while the log's clock does not advance; the next one waits twice as long."""
    monkeypatch.setattr(module, "_TICK_S", 0.001)
    topic = await log.create_topic("flights", partitions=1)
    ticks = []

    def fast() -> int:
        ticks.append(1)
        return clock.now_ms + 10_000

    ahead = await Node.open(log, tmp_path / "index", clock=SetClock(fast))
    await host_all(ahead, topic)
    await put_expiring(log, topic.id, ZERO, 500)
    replica = ahead.replica(topic.partition(ZERO))
    await until(lambda: len(ticks) > 60 and replica.applied >= 2)
    await ahead.close()
    assert 2 <= (await log.bounds(topic.partition(ZERO))).latest <= 20


async def test_trouble_with_one_replica_does_not_stop_the_clock_of_the_others(
    node: Node, log: EmbeddedLog, clock: SlowClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    topic = await log.create_topic("flights", partitions=2)
    await host_all(node, topic)

    def damaged() -> int | None:
        raise IndexDamaged("a page cannot be read")

    monkeypatch.setattr(node.replica(topic.partition(ZERO)).index, "next_expiry_ms", damaged)
    for partition in (ZERO, ONE):
        await put_expiring(log, topic.id, partition, 500)
        await node.replica(topic.partition(partition)).wait_applied(Offset(0), timeout=DEADLINE_S)
    clock.now_ms += 1000
    await until(lambda: node.replica(topic.partition(ONE)).index.get(b"key") is None)
    assert "a page cannot be read" in caplog.text


@pytest.mark.parametrize("error", [Overloaded("full"), TableNotFound("dropped"), LogDamaged("damaged")])
async def test_an_append_that_fails_is_tried_again(
    node: Node, log: EmbeddedLog, clock: SlowClock, monkeypatch: pytest.MonkeyPatch, error: DuramenError
) -> None:
    monkeypatch.setattr(module, "_BACKOFF_MAX_S", 0.01)
    topic = await log.create_topic("flights", partitions=1)
    await host_all(node, topic)
    await put_expiring(log, topic.id, ZERO, 500)
    replica = node.replica(topic.partition(ZERO))
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
    await host_all(node, topic)
    replicas = list(node)
    monkeypatch.setattr(replicas[0].index, "close", lambda *, clean: {"a key": 7}["no such key"])
    with pytest.raises(KeyError):
        await node.close()
    assert [replica.state for replica in replicas] == ["closed"] * 3
    with pytest.raises(ShuttingDown):
        replicas[1].index.get(b"a")
    monkeypatch.undo()
    replicas[0].index.close()
