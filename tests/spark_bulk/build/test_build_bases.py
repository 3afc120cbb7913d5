"""Where a build joins the log: a real one, in a folder."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from log_tier.embedded import EmbeddedLog
from log_tier.model.batch import Columns, decode_batch, encode_batch
from log_tier.model.batch_header import split_batches, stamp_batch
from log_tier.model.errors import InvalidToken, OffsetTrimmed, TokenAhead
from log_tier.model.identifiers import Offset, Partition, PartitionId, table_id_from_bytes
from log_tier.model.log import Bounds, Log, ReadChunk, Topic
from log_tier.model.record import Operation
from log_tier.model.tokens import Token
from log_tier.open import open_log
from spark_bulk.build.bases import find_bases, log_time_at
from spark_bulk.source.model.table_place import TablePlace

PARTITIONS = 3


@asynccontextmanager
async def log_with(folder: Path, *records: int) -> AsyncIterator[tuple[Log, TablePlace]]:
    """A log with a table whose partitions have so many records; closed by the test before somebody else opens it."""
    url = folder.as_uri()
    log = await open_log(url)
    topic = await log.create_topic("flights", partitions=PARTITIONS)
    for partition, count in enumerate(records):
        for number in range(count):
            await log.append(topic.partition(partition), encode_batch(Columns([b"%d" % number], [b""])))
    place = TablePlace(topic, "slot", url, (Offset(0),) * PARTITIONS, ((),) * PARTITIONS, ((),) * PARTITIONS)
    try:
        yield log, place
    finally:
        await log.close()


async def bounds_of(place: TablePlace) -> list[Bounds]:
    log = await open_log(place.log_url)
    try:
        return await log.all_bounds(place.topic.id)
    finally:
        await log.close()


async def bases(place: TablePlace, token: Token | None = None) -> list[tuple[int, int]]:
    found = await find_bases(place, None if token is None else str(token), timeout_s=30)
    return [(base.offset, base.start) for base in found]


def token_of(place: TablePlace, offsets: dict[int, int]) -> Token:
    return Token({place.topic.id: {Partition(each): Offset(offset) for each, offset in offsets.items()}})


async def test_without_a_token_it_is_the_end_and_an_empty_partition_gets_a_noop(tmp_path: Path) -> None:
    async with log_with(tmp_path, 5, 0, 1) as (log, place):
        times = []
        for partition, last in ((0, 4), (2, 0)):
            chunks = [each async for each in log.read(place.topic.partition(partition), Offset(last), follow=False)]
            times.append(decode_batch(next(split_batches(chunks[0].data))).header.timestamp_ms)
    found = await find_bases(place, None, timeout_s=30)
    assert [base.offset for base in found] == [4, 0, 0]
    assert [found[0].log_time_ms, found[2].log_time_ms] == times
    assert found[1].log_time_ms >= times[0]
    assert [bounds.latest for bounds in await bounds_of(place)] == [4, 0, 0]
    log = await open_log(place.log_url)
    async for chunk in log.read(place.topic.partition(1), Offset(0), follow=False):
        assert decode_batch(chunk.data).columns.attributes == (Operation.NOOP,)
    await log.close()
    # Asked again nothing is written any more.
    assert await find_bases(place, None, timeout_s=30) == found
    assert [bounds.latest for bounds in await bounds_of(place)] == [4, 0, 0]


async def test_a_token_is_taken_at_its_word(tmp_path: Path) -> None:
    async with log_with(tmp_path, 5, 3, 1) as (_, place):
        pass
    assert await bases(place, token_of(place, {0: 2, 1: 2, 2: 0})) == [(2, 0), (2, 0), (0, 0)]
    with pytest.raises(TokenAhead, match=r"names offset 3 of flights/1, whose log ends at 2"):
        await bases(place, token_of(place, {0: 2, 1: 3, 2: 0}))
    with pytest.raises(InvalidToken, match="says nothing of 2 partitions of flights that have records, the first is 1"):
        await bases(place, token_of(place, {0: 2, 1: -1}))
    with pytest.raises(InvalidToken, match="the token is of table"):
        await bases(place, Token.of(table_id_from_bytes(bytes(16)), Partition(0), Offset(0)))
    with pytest.raises(InvalidToken, match="is no token"):
        await find_bases(place, "yesterday", timeout_s=30)


async def test_a_partition_that_a_token_could_not_name_is_begun(tmp_path: Path) -> None:
    """It was empty when the token was read, and it is still."""
    async with log_with(tmp_path, 5, 0, 1) as (_, place):
        pass
    assert await bases(place, token_of(place, {0: 2, 2: 0})) == [(2, 0), (0, 0), (0, 0)]
    # The no-op is there now, and the token's reader has not seen it.
    with pytest.raises(InvalidToken, match=r"says nothing of 1 partitions .* the first is 1"):
        await bases(place, token_of(place, {0: 2, 2: 0}))
    assert await bases(place, token_of(place, {0: 2, 1: 0, 2: 0})) == [(2, 0), (0, 0), (0, 0)]


async def test_a_token_that_the_log_has_trimmed_is_refused(tmp_path: Path) -> None:
    url = tmp_path.as_uri()
    log = await EmbeddedLog.open(tmp_path / "log")
    topic = await log.create_topic("flights", partitions=1)
    try:
        for _ in range(4):
            big = encode_batch(Columns([b"k"] * 2, [bytes(4 << 20)] * 2))
            await log.append(topic.partition(0), big)
            await log.append(topic.partition(0), encode_batch(Columns([b"k"], [b""])))
        for _ in range(20):
            await log.append(topic.partition(0), big)
        earliest = await log.trim(topic.partition(0), Offset(30))
        latest = (await log.bounds(topic.partition(0))).latest
    finally:
        await log.close()
    assert earliest > 0, "nothing was trimmed: segments are larger than this test thinks"
    place = TablePlace(topic, "slot", url, (Offset(0),), ((),), ((),))
    with pytest.raises(OffsetTrimmed, match=rf"names offset 0 .* the log begins at {earliest}: .* a later token"):
        await bases(place, token_of(place, {0: 0}))
    assert await bases(place, token_of(place, {0: earliest - 1})) == [(earliest - 1, 0)]
    assert await bases(place) == [(latest, 0)]


async def test_a_topic_of_others_counts_from_its_start(tmp_path: Path) -> None:
    async with log_with(tmp_path, 5, 5, 0) as (_, place):
        pass
    begun = replace(place, starts=(Offset(3), Offset(5), Offset(0)))
    assert await bases(begun) == [(4, 3), (4, 5), (0, 0)]
    assert await bases(begun, token_of(place, {0: 1, 2: 0})) == [(2, 3), (4, 5), (0, 0)]


class GappedLog:
    """What is left of a partition after compaction; the seam's `read`, and nothing else of it."""

    def __init__(self, stored: Sequence[tuple[int, int]]) -> None:
        self.batches = [
            stamp_batch(
                encode_batch(Columns([b"k"], [b""])), base_offset=Offset(offset), timestamp_ms=time_ms, unsynced=0
            )
            for offset, time_ms in stored
        ]
        self.offsets = [offset for offset, _ in stored]
        self.reads = 0

    async def read(
        self, partition: PartitionId, start: Offset, *, follow: bool, chunk_bytes: int
    ) -> AsyncGenerator[ReadChunk, None]:
        self.reads += 1
        for offset, batch in zip(self.offsets, self.batches, strict=True):
            if offset >= start:
                yield ReadChunk(batch, Offset(self.offsets[-1]))


@pytest.mark.parametrize(
    ("offset", "earliest", "time_ms"),
    [(900, 0, 9000), (899, 0, 100), (10, 0, 100), (9, 0, 0), (899, 200, 0), (950, 0, 9000), (5, 6, 0)],
)
async def test_the_time_at_an_offset_that_compaction_took(offset: int, earliest: int, time_ms: int) -> None:
    """It is that of the last record before it; where none is left, nothing is known."""
    place = TablePlace(Topic(table_id_from_bytes(bytes(16)), "t", 1), "slot", "", (Offset(0),), ((),), ((),))
    log = GappedLog([(each, time) for each, time in ((10, 100), (900, 9000), (1000, 10_000)) if each >= earliest])
    found = await log_time_at(log, place, Partition(0), Offset(offset), Offset(earliest))  # type: ignore[arg-type]
    assert found == time_ms
    assert log.reads <= 4
