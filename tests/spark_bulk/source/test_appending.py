"""What a task appends is in the log once, in order, whatever is lost on the way and however often the task is tried."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kit.client.server_process import ServerProcess

from duramen.blocking import Database
from log_tier.embedded import EmbeddedLog
from log_tier.model.batch import Columns, decode_batch
from log_tier.model.batch_header import split_batches
from log_tier.model.errors import DuramenError, InvalidRequest, Overloaded, TableNotFound, WriteUnknown
from log_tier.model.identifiers import Offset, Partition, PartitionId, TableId
from log_tier.model.log import Appended, Topic
from log_tier.model.record import Operation
from log_tier.open import open_log
from serving_tier.index.memory_index import MemoryIndex
from spark_bulk.source.model.cluster_login import ClusterLogin
from spark_bulk.source.model.table_place import find_table
from spark_bulk.source.writes.appender import Appender, AppendLimits
from spark_bulk.source.writes.drafted_rows import Drafted
from spark_bulk.source.writes.identities import TaskIdentity

PARTITIONS = 3

SMALL = AppendLimits(batch_records_max=10, pause_first_s=0.001)
"""A few hundred rows are many rounds."""


class LossyLog:
    """A real log whose replies are lost, or that is busy, as a seeded coin decides."""

    def __init__(self, log: EmbeddedLog, *, seed: int, rate: float) -> None:
        self._log = log
        self._random = random.Random(seed)
        self._rate = rate
        self.lost = 0

    async def append_many(self, parts: Sequence[tuple[PartitionId, bytes]]) -> list[Appended | DuramenError]:
        found: list[Appended | DuramenError] = []
        for part in parts:
            if self._random.random() < self._rate:
                self.lost += 1
                found.append(Overloaded("busy"))
                continue
            (result,) = await self._log.append_many([part])
            if self._random.random() < self._rate:
                self.lost += 1
                found.append(WriteUnknown("lost"))
                continue
            found.append(result)
        return found

    async def close(self) -> None:
        await self._log.close()


@contextmanager
def topic_in(folder: Path) -> Iterator[Topic]:
    async def make() -> Topic:
        async with await EmbeddedLog.open(folder) as log:
            return await log.create_topic("flights", partitions=PARTITIONS)

    yield asyncio.run(make())


def opening(folder: Path, **lossy: Any) -> Callable[[], Awaitable[Any]]:
    async def opened() -> Any:
        log = await EmbeddedLog.open(folder)
        return LossyLog(log, **lossy) if lossy else log

    return opened


def records_of(folder: Path, topic: Topic) -> dict[int, list[tuple[int, int, bytes, bytes]]]:
    """Producer, sequence, key, value of everything in the log, by partition."""

    async def read() -> dict[int, list[tuple[int, int, bytes, bytes]]]:
        found: dict[int, list[tuple[int, int, bytes, bytes]]] = {}
        async with await EmbeddedLog.open(folder) as log:
            for partition in map(Partition, range(PARTITIONS)):
                rows = found.setdefault(partition, [])
                reader: Any = log.read(topic.partition(partition), Offset(0), follow=False)
                async with aclosing(reader) as chunks:
                    async for chunk in chunks:
                        for stored in split_batches(chunk.data):
                            made = decode_batch(stored)
                            rows.extend(
                                (made.header.producer_id, made.header.sequence + place, key, value)
                                for place, (key, value) in enumerate(
                                    zip(made.columns.keys, made.columns.values, strict=True)
                                )
                            )
        return found

    return asyncio.run(read())


def folded(folder: Path, topic: Topic) -> dict[bytes, tuple[bytes, int]]:
    """What replicas make of it: key → value, and how many records had no effect, under the empty key."""

    async def fold() -> dict[bytes, tuple[bytes, int]]:
        found: dict[bytes, tuple[bytes, int]] = {}
        duplicates = 0
        async with await EmbeddedLog.open(folder) as log:
            for partition in map(Partition, range(PARTITIONS)):
                index = MemoryIndex()
                reader: Any = log.read(topic.partition(partition), Offset(0), follow=False)
                async with aclosing(reader) as chunks:
                    async for chunk in chunks:
                        duplicates += index.apply(chunk.data).duplicates
                page = index.scan(b"", None, limit=10**6, bytes_max=1 << 30)
                found.update({key: (entry.value, entry.version) for key, entry in page.entries})
        return {**found, b"": (b"", duplicates)}

    return asyncio.run(fold())


def rows(count: int, *, value_bytes: int = 20) -> list[Drafted]:
    """Appends to a few keys, so that a record which counts twice or not at all shows in the value."""
    made = []
    for number in range(count):
        partition = Partition(number % PARTITIONS)
        key, value = b"key%d.%d" % (partition, number % 7), b"%06d;" % number + bytes(value_bytes)
        columns = Columns([key], [value], [int(Operation.APPEND)])
        made.append(Drafted(partition, columns, len(key) + len(value)))
    return made


def values_of(drafted: list[Drafted]) -> dict[bytes, bytes]:
    expected: dict[bytes, bytes] = {}
    for each in drafted:
        expected[each.columns.keys[0]] = expected.get(each.columns.keys[0], b"") + each.columns.values[0]
    return expected


def attempt(
    folder: Path,
    topic: Topic,
    drafted: list[Drafted],
    *,
    epoch: int = 0,
    limits: AppendLimits = SMALL,
    **lossy: Any,
) -> Appender:
    identity = TaskIdentity(topic.id, "job", 1, epoch)
    with Appender(
        opening(folder, **lossy), topic.id, identity, compress=False, timeout_s=60, limits=limits
    ) as appender:
        for each in drafted:
            appender.add(each)
        appender.finish()
    return appender


def test_all_of_it_in_order(tmp_path: Path) -> None:
    drafted = rows(500)
    with topic_in(tmp_path) as topic:
        appender = attempt(tmp_path, topic, drafted)
        found = records_of(tmp_path, topic)
    for partition, records in found.items():
        mine = [each for each in drafted if each.partition == partition]
        assert [(key, value) for _, _, key, value in records] == [
            (each.columns.keys[0], each.columns.values[0]) for each in mine
        ]
        assert [sequence for _, sequence, _, _ in records] == list(range(len(mine)))
        assert len({producer for producer, _, _, _ in records}) == 1
    assert appender.records == 500


@pytest.mark.parametrize("seed", range(4))
def test_lost_replies_and_a_busy_log(tmp_path: Path, seed: int) -> None:
    drafted = rows(400)
    with topic_in(tmp_path) as topic:
        attempt(tmp_path, topic, drafted, seed=seed, rate=0.3)
        state = folded(tmp_path, topic)
    duplicates = state.pop(b"")[1]
    assert duplicates > 0, "the coin lost no reply: the test shows nothing"
    assert {key: value for key, (value, _) in state.items()} == values_of(drafted)


def fill_and_fail(appender: Appender, drafted: list[Drafted]) -> None:
    with appender:
        for each in drafted:
            appender.add(each)
        raise ZeroDivisionError


def test_a_task_that_fails_and_is_tried_again(tmp_path: Path) -> None:
    """The second attempt cuts its batches at other rows, and goes further than the first."""
    drafted = rows(300)
    with topic_in(tmp_path) as topic:
        identity = TaskIdentity(topic.id, "job", 1)
        appender = Appender(opening(tmp_path), topic.id, identity, compress=False, timeout_s=60, limits=SMALL)
        with pytest.raises(ZeroDivisionError):
            fill_and_fail(appender, drafted[:170])
        written = sum(map(len, records_of(tmp_path, topic).values()))
        assert 0 < written < 170
        attempt(tmp_path, topic, drafted, limits=replace(SMALL, batch_records_max=23))
        state = folded(tmp_path, topic)
    assert state.pop(b"")[1] == written
    assert {key: value for key, (value, _) in state.items()} == values_of(drafted)


def test_a_micro_batch_that_is_run_again(tmp_path: Path) -> None:
    first, second = rows(60), rows(90)[60:]
    with topic_in(tmp_path) as topic:
        attempt(tmp_path, topic, first, epoch=0)
        attempt(tmp_path, topic, second, epoch=1)
        attempt(tmp_path, topic, second, epoch=1)
        state = folded(tmp_path, topic)
    assert state.pop(b"")[1] == 30
    assert {key: value for key, (value, _) in state.items()} == values_of(first + second)


@pytest.mark.parametrize("seed", range(3))
def test_two_attempts_side_by_side(server: ServerProcess, database: Database, table_name: str, seed: int) -> None:
    """A slow task and its speculative second copy, in any interleaving; the slow one is killed somewhere."""
    table = database.create_table(table_name, partitions=1)
    place = asyncio.run(find_table(ClusterLogin.of(server.target), table_name, timeout_s=20))
    drafted = [each._replace(partition=Partition(0)) for each in rows(200)]
    coin = random.Random(seed)

    def appender() -> Appender:
        identity = TaskIdentity(place.topic.id, "job", 1)
        opened = partial(open_log, place.log_url)
        return Appender(opened, place.topic.id, identity, compress=False, timeout_s=60, limits=SMALL)

    with appender() as slow, appender() as fast:
        left = {slow: iter(drafted[: coin.randrange(60, 190)]), fast: iter(drafted)}
        while left:
            who = coin.choice(list(left))
            if (row := next(left[who], None)) is None:
                del left[who]
            else:
                who.add(row)
        fast.finish()
    expected = values_of(drafted)
    assert table.get_many(list(expected), level="strong") == list(expected.values())


def test_long_values_are_cut_into_batches(tmp_path: Path) -> None:
    limits = AppendLimits(batch_bytes_max=1000, waiting_bytes_max=5000)
    drafted = [*rows(30, value_bytes=400), *rows(6, value_bytes=5000)]
    with topic_in(tmp_path) as topic:
        attempt(tmp_path, topic, drafted, limits=limits)
        state = folded(tmp_path, topic)
        state.pop(b"")
    assert {key: value for key, (value, _) in state.items()} == values_of(drafted)


def test_an_error_that_no_repetition_helps_ends_the_task(tmp_path: Path) -> None:
    with topic_in(tmp_path) as topic:
        gone = Topic(TableId("A" * 22), "gone", PARTITIONS)
        assert gone.id != topic.id
        with pytest.raises(TableNotFound):
            attempt(tmp_path, gone, rows(1))


def test_a_round_that_failed_is_not_forgotten_by_the_next(tmp_path: Path) -> None:
    class FailsFirst(LossyLog):
        async def append_many(self, parts: Sequence[tuple[PartitionId, bytes]]) -> list[Appended | DuramenError]:
            if self.lost:
                return await super().append_many(parts)
            self.lost += 1
            return [InvalidRequest("the first round is refused") for _ in parts]

    async def opened() -> Any:
        return FailsFirst(await EmbeddedLog.open(tmp_path), seed=0, rate=0)

    with topic_in(tmp_path) as topic:
        identity = TaskIdentity(topic.id, "job", 1)
        appender = Appender(opened, topic.id, identity, compress=False, timeout_s=9, limits=SMALL)
        with pytest.raises(InvalidRequest, match="the first round is refused"):
            add_all(appender, rows(200))
        assert sum(map(len, records_of(tmp_path, topic).values())) == 0, "nothing may follow what was refused"


def add_all(appender: Appender, drafted: list[Drafted]) -> None:
    with appender:
        for each in drafted:
            appender.add(each)


def test_a_log_that_cannot_be_opened_ends_the_task(tmp_path: Path) -> None:
    async def opened() -> Any:
        raise InvalidRequest("no such log")

    identity = TaskIdentity(TableId("A" * 22), "j", 0)
    with Appender(opened, identity.table, identity, compress=False, timeout_s=1) as appender:
        appender.add(rows(1)[0])
        with pytest.raises(InvalidRequest, match="no such log"):
            appender.finish()
