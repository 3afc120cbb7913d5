"""The contract of the `Log` seam, run against every engine.

A test module gives the fixture `log` and derives from `LogContract`. Every test checks a sentence in
`log_tier/model/log.py`; L1 to L5 are its invariants.
"""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from kit.deadlines import patience_s
from kit.log.sample_batches import keys_of, plain_batch, read_all
from log_tier.model.batch import Columns, decode_batch, encode_batch
from log_tier.model.batch_header import HEADER_BYTES, split_batches
from log_tier.model.errors import (
    BatchRefused,
    InvalidName,
    InvalidRequest,
    LimitExceeded,
    TableExists,
    TableNotFound,
    TokenAhead,
    UnknownFormat,
)
from log_tier.model.identifiers import PARTITIONS_MAX, Offset, Partition, PartitionId, TableId, table_id_to_bytes
from log_tier.model.log import Log
from log_tier.model.retention import Retention

ZERO = Partition(0)
DEADLINE_S = 20


class LogContract:
    """Derive from it and give a fixture `log`."""

    keeps_bytes = True
    """Batches come back with the producer's bytes; False: with the producer's records, encoded anew."""
    compacts = True
    """The engine can drop what later writes made void."""
    bounds_size = True
    """The engine knows how large a partition's log is."""

    # --- topics ---

    async def test_a_topic_has_an_id_a_name_and_partitions(self, log: Log) -> None:
        topic = await log.create_topic("flights", partitions=3)
        assert (topic.name, topic.partitions) == ("flights", 3)
        assert len(table_id_to_bytes(topic.id)) == 16
        assert await log.topics() == [topic]

    async def test_topics_come_by_name(self, log: Log) -> None:
        for name in ("b", "c", "a"):
            await log.create_topic(name, partitions=1)
        assert [topic.name for topic in await log.topics()] == ["a", "b", "c"]

    async def test_a_name_is_taken_once(self, log: Log) -> None:
        await log.create_topic("flights", partitions=1)
        with pytest.raises(TableExists, match="flights"):
            await log.create_topic("flights", partitions=2)

    @pytest.mark.parametrize("name", ["", "a b", "-a", "x" * 121, "a/b", "."])
    async def test_names_that_cannot_be(self, log: Log, name: str) -> None:
        with pytest.raises(InvalidName):
            await log.create_topic(name, partitions=1)
        assert await log.topics() == []

    @pytest.mark.parametrize("partitions", [0, -1, PARTITIONS_MAX + 1])
    async def test_partition_counts_that_cannot_be(self, log: Log, partitions: int) -> None:
        with pytest.raises(LimitExceeded):
            await log.create_topic("flights", partitions=partitions)

    async def test_a_deleted_topic_is_gone_and_its_id_never_comes_back(self, log: Log) -> None:
        first = await log.create_topic("flights", partitions=1)
        await log.append(PartitionId(first.id, ZERO), plain_batch("a"))
        await log.delete_topic(first.id)
        assert await log.topics() == []
        with pytest.raises(TableNotFound):
            await log.append(PartitionId(first.id, ZERO), plain_batch("b"))
        with pytest.raises(TableNotFound):
            await log.bounds(PartitionId(first.id, ZERO))
        with pytest.raises(TableNotFound):
            await read_all(log, first.id)
        with pytest.raises(TableNotFound):
            await log.delete_topic(first.id)
        second = await log.create_topic("flights", partitions=1)
        assert second.id != first.id
        assert (await log.bounds(PartitionId(second.id, ZERO)))[:2] == (Offset(0), Offset(-1))

    async def test_a_partition_is_untouched_until_its_first_record_and_never_again(self, log: Log) -> None:
        topic = await log.create_topic("flights", partitions=2)
        assert [each.is_untouched for each in await log.all_bounds(topic.id)] == [True, True]
        for key in ("a", "b"):
            await log.append(topic.partition(Partition(1)), plain_batch(key))
        assert [each.is_untouched for each in await log.all_bounds(topic.id)] == [True, False]
        await log.trim(topic.partition(Partition(1)), Offset(2))
        assert not (await log.bounds(topic.partition(Partition(1)))).is_untouched

    async def test_a_follower_of_a_deleted_topic_gets_an_error(self, log: Log) -> None:
        topic = await log.create_topic("flights", partitions=1)
        await log.append(topic.partition(ZERO), plain_batch("a"))
        chunks = log.read(topic.partition(ZERO), Offset(0), follow=True)
        await anext(chunks)
        waiting = asyncio.ensure_future(anext(chunks))
        await asyncio.sleep(0)
        await log.delete_topic(topic.id)
        with pytest.raises(TableNotFound):
            await asyncio.wait_for(waiting, patience_s(DEADLINE_S))

    async def test_unknown_topics_and_partitions(self, log: Log) -> None:
        topic = await log.create_topic("flights", partitions=2)
        stranger = TableId("AAAAAAAAAAAAAAAAAAAAAA")
        for topic_id, partition in ((stranger, 0), (topic.id, 2), (topic.id, -1)):
            with pytest.raises(TableNotFound):
                await log.append(PartitionId(topic_id, Partition(partition)), plain_batch("a"))
            with pytest.raises(TableNotFound):
                await log.bounds(PartitionId(topic_id, Partition(partition)))
        with pytest.raises(TableNotFound):
            await log.all_bounds(stranger)

    # --- append ---

    async def test_offsets_have_no_gap_and_bytes_come_back(self, log: Log) -> None:
        topic = await log.create_topic("flights", partitions=2)
        places = [await log.append(topic.partition(ZERO), plain_batch(*"abc"[: n + 1])) for n in range(3)]
        assert [(place.base_offset, place.last_offset) for place in places] == [(0, 0), (1, 2), (3, 5)]
        times = [place.timestamp_ms for place in places]
        assert times == sorted(times)
        stored = await read_all(log, topic.id)
        assert keys_of(stored) == dict(enumerate((b"a", b"a", b"b", b"a", b"b", b"c")))
        assert [decode_batch(batch).header.timestamp_ms for batch in stored] == times
        if self.keeps_bytes:
            assert stored[0][40:] == plain_batch("a")[40:], "the producer's part of the bytes is not touched"
        assert (await log.bounds(topic.partition(ZERO)))[:2] == (Offset(0), Offset(5))
        assert (await log.bounds(topic.partition(1)))[:2] == (Offset(0), Offset(-1))
        every = await log.all_bounds(topic.id)
        assert [bounds[:2] for bounds in every] == [(Offset(0), Offset(5)), (Offset(0), Offset(-1))]
        assert every == [await log.bounds(topic.partition(number)) for number in range(2)]
        assert every[0].newest_ms in (0, times[-1])
        assert every[1].newest_ms == 0

    async def test_batches_that_are_appended_together_fail_and_succeed_by_themselves(self, log: Log) -> None:
        first, second = [await log.create_topic(name, partitions=2) for name in ("first", "second")]
        results = await log.append_many(
            [
                (PartitionId(first.id, ZERO), plain_batch("a", "b")),
                (PartitionId(second.id, Partition(1)), plain_batch("c")),
                (PartitionId(first.id, Partition(2)), plain_batch("d")),
                (PartitionId(first.id, ZERO), plain_batch("e")[:-1]),
                (PartitionId(first.id, ZERO), plain_batch("f")),
            ]
        )
        assert [getattr(result, "base_offset", type(result)) for result in results] == [
            0,
            0,
            TableNotFound,
            BatchRefused,
            2,
        ]
        assert keys_of(await read_all(log, first.id)) == {0: b"a", 1: b"b", 2: b"f"}
        assert await log.append_many([]) == []

    async def test_many_callers_at_once_share_the_offsets(self, log: Log) -> None:
        topic = await log.create_topic("flights", partitions=3)
        places = await asyncio.gather(*(log.append(topic.partition(n % 3), plain_batch(f"k{n}")) for n in range(300)))
        for partition in range(3):
            mine = [place.base_offset for place in places[partition::3]]
            assert sorted(mine) == list(range(100))

    async def test_attributes_and_compression_pass_through(self, log: Log) -> None:
        topic = await log.create_topic("flights", partitions=1)
        columns = Columns([b"a", b"b"], [b"1" * 500, b""], [0x101, 0x002], [-1, 0], [0, 0])
        batch = encode_batch(columns, producer_id=7, sequence=40, compress=True)
        await log.append(topic.partition(ZERO), batch)
        (stored,) = await read_all(log, topic.id)
        if self.keeps_bytes:
            assert stored[40:] == batch[40:]
        found = decode_batch(stored)
        assert (found.header.producer_id, found.header.sequence) == (7, 40)
        assert found.columns.attributes == (0x101, 0x002)
        assert (list(found.columns.keys), list(found.columns.values)) == ([b"a", b"b"], [b"1" * 500, b""])

    async def test_refused_batches_write_nothing(self, log: Log) -> None:
        topic = await log.create_topic("flights", partitions=1)
        good = plain_batch("a", "b")
        flipped = bytearray(good)
        flipped[HEADER_BYTES + 3] ^= 1
        for bad in (b"", good[:-1], good + b"x", bytes(flipped), b"nonsense" * 20):
            with pytest.raises(BatchRefused):
                await log.append(topic.partition(ZERO), bad)
        with pytest.raises(UnknownFormat):
            await log.append(topic.partition(ZERO), good[:4] + b"\x63" + good[5:])
        assert (await log.bounds(topic.partition(ZERO)))[:2] == (Offset(0), Offset(-1))

    # --- read ---

    async def test_reading_begins_with_the_batch_that_holds_the_offset(self, log: Log) -> None:
        topic = await log.create_topic("flights", partitions=1)
        for _ in range(5):
            await log.append(topic.partition(ZERO), plain_batch("a", "b", "c"))
        stored = await read_all(log, topic.id, start=7)
        first, *others = [decode_batch(batch).header for batch in stored]
        assert first.base_offset <= 7 <= first.last_offset == 8, "the batch that holds it, or that from there on"
        assert [header.base_offset for header in others] == [9, 12]
        assert await read_all(log, topic.id, start=15) == []

    async def test_chunks_hold_whole_batches_of_about_the_size_asked_for(self, log: Log) -> None:
        topic = await log.create_topic("flights", partitions=1)
        for _ in range(40):
            await log.append(topic.partition(ZERO), plain_batch("key", value=b"x" * 1000))
        sizes = [
            len(chunk.data)
            async for chunk in log.read(topic.partition(ZERO), Offset(0), follow=False, chunk_bytes=5000)
        ]
        assert len(sizes) >= 7
        assert max(sizes) <= 7000
        assert len(await read_all(log, topic.id, chunk_bytes=1)) == 40, "a chunk has one batch at least"

    async def test_a_token_ahead_of_the_log_is_refused(self, log: Log) -> None:
        topic = await log.create_topic("flights", partitions=1)
        await log.append(topic.partition(ZERO), plain_batch("a"))
        with pytest.raises(TokenAhead) as caught:
            await read_all(log, topic.id, start=2)
        assert (caught.value.fields["asked"], caught.value.fields["latest"]) == (2, 0)

    async def test_a_follower_sees_every_record_once_and_in_order(self, log: Log) -> None:
        topic = await log.create_topic("flights", partitions=1)

        async def follow(start: int) -> list[int]:
            seen: list[int] = []
            chunks = log.read(topic.partition(ZERO), Offset(start), follow=True)
            async with contextlib.aclosing(chunks):
                async for chunk in chunks:
                    for stored in split_batches(chunk.data):
                        seen.extend(decode_batch(stored).offsets())
                    assert chunk.latest >= seen[-1]
                    if seen[-1] == 199:
                        break
            return seen

        followers = [asyncio.ensure_future(follow(0)) for _ in range(3)]
        for _ in range(50):
            await asyncio.gather(*(log.append(topic.partition(ZERO), plain_batch("a", "b")) for _ in range(2)))
        for seen in await asyncio.wait_for(asyncio.gather(*followers), patience_s(DEADLINE_S)):
            assert seen == list(range(200))

    async def test_a_waiting_follower_can_be_closed_and_cancelled(self, log: Log) -> None:
        topic = await log.create_topic("flights", partitions=1)
        chunks = log.read(topic.partition(ZERO), Offset(0), follow=True)
        waiting = asyncio.ensure_future(anext(chunks))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await chunks.aclose()
        await log.append(topic.partition(ZERO), plain_batch("a"))
        assert len(await read_all(log, topic.id)) == 1

    async def test_trim_keeps_what_is_at_or_above(self, log: Log) -> None:
        topic = await log.create_topic("flights", partitions=1)
        for _ in range(4):
            await log.append(topic.partition(ZERO), plain_batch("a"))
        earliest = await log.trim(topic.partition(ZERO), Offset(2))
        assert earliest <= 2
        assert (await log.bounds(topic.partition(ZERO)))[:2] == (earliest, Offset(3))
        assert max(keys_of(await read_all(log, topic.id, start=earliest))) == 3

    async def test_retention_keeps_what_is_young_and_what_is_at_or_above(self, log: Log) -> None:
        topic = await log.create_topic("flights", partitions=1)
        for _ in range(4):
            await log.append(topic.partition(ZERO), plain_batch("a"))
        assert await log.retain(topic.partition(ZERO), Retention(ms=3_600_000), below=Offset(4)) == 0
        earliest = await log.retain(topic.partition(ZERO), Retention(ms=1), below=Offset(2))
        assert earliest <= 2
        assert (await log.bounds(topic.partition(ZERO)))[:2] == (earliest, Offset(3))
        with pytest.raises(InvalidRequest, match="retention_ms"):
            await log.retain(topic.partition(ZERO), Retention(ms=-1), below=Offset(2))
        if self.bounds_size:
            assert await log.retain(topic.partition(ZERO), Retention(bytes=1 << 40), below=Offset(4)) == earliest
        else:
            with pytest.raises(InvalidRequest, match="does not report how large"):
                await log.retain(topic.partition(ZERO), Retention(bytes=1), below=Offset(0))

    async def test_compaction_keeps_the_newest_of_every_key(self, log: Log) -> None:
        topic = await log.create_topic("flights", partitions=1)
        for n in range(30):
            await log.append(topic.partition(ZERO), plain_batch("a", f"k{n % 3}"))
        before = keys_of(await read_all(log, topic.id))
        if not self.compacts:
            with pytest.raises(InvalidRequest, match="cannot be compacted"):
                await log.compact(topic.partition(ZERO), Offset(40))
            return
        dropped = await log.compact(topic.partition(ZERO), Offset(40))
        after = keys_of(await read_all(log, topic.id))
        assert len(before) - len(after) == dropped
        assert after.items() <= before.items(), "offsets never change"
        assert {offset for offset in before if offset >= 40} <= set(after)
        assert set(after.values()) == set(before.values())


class NoTopicsOfOthersContract:
    """For engines that hold nothing but what they made. Give a fixture `log`."""

    @pytest.mark.parametrize("name", ["orders-v1", "flights"])
    async def test_a_topic_of_others_is_refused(self, log: Log, name: str) -> None:
        made = await log.create_topic("flights", partitions=1)
        with pytest.raises(InvalidRequest, match=f"topic '{name}' cannot be adopted: .* has no topics of others"):
            await log.adopt_topic(name)
        assert await log.topics() == [made]
