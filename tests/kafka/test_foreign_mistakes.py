"""Foreign producers' mistakes: skipped alike by every replica, counted, seen, and never the end of a node."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer
from kit.deadlines import patience_s, within
from kit.kafka.foreign import (
    DEADLINE_S,
    Record,
    data_plane_of,
    database_on,
    end_of,
    make_topic,
    producer,
    replicas_of,
    send,
    settled_digests,
    token,
    wait_level,
)

from duramen.client.database import Database
from log_tier.kafka.records.header import HEADER_NAME, pack_header
from log_tier.model.errors import DeadlineExceeded, ReplicaBehind, UnknownFormat
from log_tier.model.identifiers import Offset
from log_tier.model.record import PLAIN_PUT, Condition, Expiry, Operation, attribute_of
from serving_tier.fold.verdicts import Verdict
from serving_tier.replica.replica import Replica

pytestmark = pytest.mark.kafka

_VALUE_MAX = 4 << 20


def with_header(data: bytes) -> list[tuple[str, bytes]]:
    return [("trace", b"abc"), (HEADER_NAME, data)]


GOOD = pack_header(PLAIN_PUT, 0, 0, 0, 0, plain_set=True)

NO_TABLE_HOLDS: dict[str, Record] = {
    "a key of 600 bytes": Record(b"k" * 600, b"v"),
    "an empty key": Record(b"", b"v"),
    "no key": Record(None, b"v"),
    "no key and no value": Record(None, None),
    "a value over 4 MiB": Record(b"large", b"v" * (_VALUE_MAX + 1)),
    "a header of garbage": Record(b"garbage", b"v", with_header(b"\x99not ours at all, and longer than ours")),
    "an empty header": Record(b"empty", b"v", with_header(b"")),
    "a truncated header": Record(b"truncated", b"v", with_header(GOOD[:-3])),
    "a header with more behind it": Record(b"more", b"v", with_header(GOOD + b"\x00")),
    "flags that nobody has": Record(b"flags", b"v", with_header(GOOD[:1] + b"\xf0" + GOOD[2:])),
    "an operation that nobody has": Record(b"operation", b"v", with_header(pack_header(200, 0, 0, 0, 0))),
    "a condition without its version": Record(
        b"condition", b"v", with_header(pack_header(PLAIN_PUT | int(Condition.VERSION) << 8, 0, 0, 0, 0))
    ),
    "a part of an atomic group": Record(
        b"group", b"v", with_header(pack_header(PLAIN_PUT, 0, 0, 0, 0, open_group=True))
    ),
}

# These are well formed, whatever they claim: a table holds them.
TAKEN: dict[str, Record] = {
    "first of a set that never comes": Record(
        b"set", b"v", with_header(pack_header(PLAIN_PUT, 0, 5, 7, 100, plain_set=True))
    ),
    "first of four billion": Record(
        b"billions", b"v", with_header(pack_header(PLAIN_PUT, 0, 0xFFFFFFFF, 7, 200, plain_set=True))
    ),
    "largest numbers": Record(
        b"numbers", b"v", with_header(pack_header(PLAIN_PUT, 0xFFFFFFFF, 0, (1 << 64) - 1, (1 << 64) - 1))
    ),
    "an expiry at the end of time": Record(
        b"expiry", b"v", with_header(pack_header(PLAIN_PUT | 2 << 10, 0, 0, 0, 0, expiry=(1 << 63) - 1))
    ),
    "no timestamp": Record(b"timeless", b"v", None, -1),
    "a timestamp before 1970": Record(b"old", b"v", None, -5_000_000),
    "other headers": Record(b"headers", b"v", [("a", b"1"), ("a", b"2"), ("duramen ", b"3")]),
}


async def large_topic(kafka: str) -> str:
    return await asyncio.to_thread(make_topic, kafka, max_message_bytes=str(16 << 20))


async def test_every_replica_skips_the_same(kafka: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    topic = await large_topic(kafka)
    sender = producer(kafka, message_max_bytes=16 << 20)
    good = [Record(b"good%d" % number, b"v%d" % number) for number in range(len(NO_TABLE_HOLDS))]
    bad = list(NO_TABLE_HOLDS.values())
    mixed = [record for pair in zip(good, bad, strict=True) for record in pair]
    # One database follows while they come, one at a time; the other finds all of them there.
    async with database_on(kafka, tmp_path / "one") as one:
        first = await one.create_table("orders", over=topic)
        for record in mixed:
            await asyncio.to_thread(send, sender, topic, [record])
        await asyncio.to_thread(send, sender, topic, [*mixed, Record(b"last", b"v")])
        _, end = await asyncio.to_thread(end_of, kafka, topic)
        assert end == 4 * len(bad) + 1
        table = (await first.describe()).table
        assert await first.get(b"last", after=token(table.id, 0, end - 1)) == b"v"
        async with database_on(kafka, tmp_path / "two") as two:
            second = await two.create_table("same", over=topic)
            digests = await settled_digests([(one, first), (two, second)], [end])
            assert digests[0] == digests[1]
            replicas = [*await replicas_of(one, first), *await replicas_of(two, second)]
            assert [replica.void for replica in replicas] == [2 * len(bad)] * 2
            assert [replica.state for replica in replicas] == ["ready", "ready"]
            verdicts = [replica.index.outcomes(Offset(0), Offset(end - 1)) for replica in replicas]
            assert verdicts[0] == verdicts[1]
            assert {offset for offset, outcome in verdicts[0].items() if outcome.verdict is Verdict.UNREADABLE} == (
                set(range(1, end - 1, 2))
            )
        held = {key: value async for key, value in first.scan()}
        assert held == {record.key: record.value for record in good} | {b"last": b"v"}
    warnings = [each.getMessage() for each in caplog.records if each.name == "serving_tier.replica.void_warnings"]
    for table_name in ("orders", "same"):
        (warning_text, *_) = [
            warning for warning in warnings if warning.startswith(f"{table_name}/0: no table can hold ")
        ]
        assert " of the records at offsets 0 to " in warning_text


async def test_what_is_only_strange_is_taken(kafka: str, tmp_path: Path) -> None:
    topic = await large_topic(kafka)
    sender = producer(kafka)
    records = [*TAKEN.values(), Record(b"last", b"v")]
    async with database_on(kafka, tmp_path / "one") as one, database_on(kafka, tmp_path / "two") as two:
        first = await one.create_table("orders", over=topic)
        for record in records:
            (offset,) = await asyncio.to_thread(send, sender, topic, [record])
            if record.timestamp_ms < 0:  # in a fetch of its own, where no other record has a time
                await wait_level(one, first, [offset + 1])
        second = await two.create_table("orders", over=topic)
        digests = await settled_digests([(one, first), (two, second)], [len(records)])
        assert digests[0] == digests[1]
        assert {key async for key, _ in first.scan()} == {record.key for record in records}
        assert [replica.void for replica in await replicas_of(one, first)] == [0]


async def test_a_node_comes_up_again_with_them(kafka: str, tmp_path: Path) -> None:
    topic = await large_topic(kafka)
    sender = producer(kafka, message_max_bytes=16 << 20)
    await asyncio.to_thread(send, sender, topic, [*NO_TABLE_HOLDS.values(), Record(b"k", b"v")])
    async with database_on(kafka, tmp_path / "one", namespace=f"again-{topic}") as one:
        table = await one.create_table("orders", over=topic)
        await wait_level(one, table, [len(NO_TABLE_HOLDS) + 1])
    for count in range(1, 4):
        async with database_on(kafka, tmp_path / "one", namespace=f"again-{topic}") as one:
            table = one.table("orders")
            assert await table.get(b"k") == b"v"
            assert [replica.void for replica in await replicas_of(one, table)] == [count * len(NO_TABLE_HOLDS)]
            await asyncio.to_thread(send, sender, topic, NO_TABLE_HOLDS.values())
            await wait_level(one, table, [1 + (count + 1) * len(NO_TABLE_HOLDS)])


async def test_a_later_version_stops_the_replica_where_it_is(kafka: str, tmp_path: Path) -> None:
    """Nothing before it is lost, nothing behind it is applied, and every replica says where and why."""
    topic = await large_topic(kafka)
    sender = producer(kafka)
    other = await asyncio.to_thread(make_topic, kafka)
    later = Record(b"later", b"v", with_header(b"\x03" + GOOD[1:]))
    before = [Record(b"before%d" % number, b"v") for number in range(500)]
    behind = [Record(b"behind%d" % number, b"v") for number in range(50_000)]
    await asyncio.to_thread(send, sender, topic, [*before, later, *behind])

    async def stands_still(database: Database) -> None:
        orders = database.table("orders")
        (replica,) = await replicas_of(database, orders)
        await asyncio.wait_for(_until_stopped(replica), patience_s(DEADLINE_S))
        assert replica.applied == len(before) - 1
        assert isinstance(replica.failure, UnknownFormat)
        assert f"{topic}/0 at offset {len(before)}: " in replica.failure.message
        assert "has version 3, this process reads up to 2: upgrade it here" in replica.failure.message
        with pytest.raises(UnknownFormat, match="upgrade it here"):
            await orders.get(b"later", after=token((await orders.describe()).table.id, 0, len(before)))

    namespace = f"later-{topic}"
    for _ in range(2):  # and a restart changes nothing
        async with database_on(kafka, tmp_path / "one", namespace=namespace) as one:
            await one.create_table("orders", over=topic, if_missing=True)
            await stands_still(one)
            healthy = await one.create_table("others", over=other, if_missing=True)
            assert (await healthy.put(b"k", b"v")).offset >= 0
            assert await healthy.get(b"k") == b"v"


async def _until_stopped(replica: Replica) -> None:
    while replica.state != "stopped":  # noqa: ASYNC110
        await asyncio.sleep(0.01)


async def test_transactions_show_when_they_have_ended(kafka: str, tmp_path: Path) -> None:
    """An aborted one never; an open one holds back what others wrote behind it, and nobody counts that as lag."""
    topic = await asyncio.to_thread(make_topic, kafka)
    plain = producer(kafka)

    def transactional(name: str) -> Producer:
        # The broker aborts a transaction by itself after 60 s, which a busy machine takes for what comes in between.
        sender = producer(kafka, transactional_id=f"{name}-{topic}", transaction_timeout_ms=600_000)
        sender.init_transactions(DEADLINE_S)
        sender.begin_transaction()
        return sender

    aborted = await asyncio.to_thread(transactional, "aborted")
    await asyncio.to_thread(send, aborted, topic, [Record(b"a%d" % number, b"never") for number in range(10)])
    await asyncio.to_thread(aborted.abort_transaction, DEADLINE_S)
    async with database_on(kafka, tmp_path / "one") as one, database_on(kafka, tmp_path / "two") as two:
        first = await one.create_table("orders", over=topic)
        held = await asyncio.to_thread(transactional, "open")
        (offset,) = await asyncio.to_thread(send, held, topic, [Record(b"held", b"in a transaction")])
        (behind,) = await asyncio.to_thread(send, plain, topic, [Record(b"behind", b"it")])
        assert (offset, behind) == (11, 12), "ten records and the marker of the abort"
        await wait_level(one, first, [offset])
        (replica,) = await replicas_of(one, first)
        table = (await first.describe()).table
        bounds = await data_plane_of(one).log.bounds(replica.id)
        assert (bounds.latest, bounds.unsettled) == (offset - 1, 2)
        assert await first.get(b"behind", level="strong") is None
        # One that was there before, and one that comes now: its fetches report more than may be read.
        second = await two.create_table("orders", over=topic)
        await wait_level(two, second, [offset])
        for each in (replica, *await replicas_of(two, second)):
            assert (each.progress.latest, each.progress.lag_s) == (offset - 1, 0.0)
        assert await first.get(b"a3") is None
        mine = await first.put(b"mine", b"behind it too")
        with pytest.raises((ReplicaBehind, DeadlineExceeded)):  # on a busy machine the caller's own time is up first
            await first.get(b"mine", timeout=patience_s(0.3))
        watched = asyncio.create_task(_first_key(one))
        await asyncio.to_thread(held.commit_transaction, DEADLINE_S)
        async with within(DEADLINE_S):  # it returns before the partition has the marker
            while (await data_plane_of(one).log.bounds(replica.id)).latest < behind:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert await first.get(b"behind", after=token(table.id, 0, behind)) == b"it"
        assert await first.get(b"held") == b"in a transaction"
        assert await first.get(b"mine") == b"behind it too"
        assert await asyncio.wait_for(watched, patience_s(DEADLINE_S)) == b"held"
        # The marker of the commit is the last offset: a read that asks for that offset is answered.
        end = (await asyncio.to_thread(end_of, kafka, topic))[1]
        assert end == mine.offset + 2 == behind + 3
        digests = await settled_digests([(one, first), (two, second)], [end])
        assert digests[0] == digests[1]


async def _first_key(database: Database) -> bytes:
    async for event in database.table("orders").watch(start="earliest"):
        return event.key
    raise AssertionError("a watch does not end")


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
async def test_compressed_records_are_read(kafka: str, tmp_path: Path, codec: str) -> None:
    topic = await asyncio.to_thread(make_topic, kafka)
    records = [Record(b"key%d" % number, b"a value that repeats itself " * 20) for number in range(3000)]
    await asyncio.to_thread(send, producer(kafka, compression_type=codec, linger_ms=50), topic, records)
    async with database_on(kafka, tmp_path) as database:
        table = await database.create_table("orders", over=topic)
        await wait_level(database, table, [len(records)])
        assert {key: value async for key, value in table.scan()} == {record.key: record.value for record in records}


async def test_a_clock_that_runs_backwards(kafka: str, tmp_path: Path) -> None:
    """The log's time only rises, so what expired by it stays so, on a replica that reads slowly or at once."""
    topic = await asyncio.to_thread(make_topic, kafka, message_timestamp_type="CreateTime")
    # As it is: nodes write into a log whose own time does not advance, once an entry there should have expired.
    now_ms = int(time.time() * 1000)
    ttl = attribute_of(Operation.PUT, expiry=Expiry.TTL)
    expiring = with_header(pack_header(ttl, 0, 0, 0, 0, expiry=60_000))
    records = [
        Record(b"expires", b"v", expiring, now_ms),
        Record(b"stays", b"v", None, now_ms + 10),
        Record(b"later", b"v", None, now_ms + 120_000),
        *(Record(b"back%d" % number, b"v", None, now_ms - 1000 * number) for number in range(200)),
        Record(b"stays", None, None, now_ms - 3_600_000),
        Record(b"expires too", b"v", expiring, now_ms - 3_600_000),
    ]
    sender = producer(kafka)
    async with database_on(kafka, tmp_path / "one") as one, database_on(kafka, tmp_path / "two") as two:
        first = await one.create_table("orders", over=topic)
        for record in records:
            await asyncio.to_thread(send, sender, topic, [record])
        second = await two.create_table("orders", over=topic)
        digests = await settled_digests([(one, first), (two, second)], [len(records)])
        assert digests[0] == digests[1]
        assert [await first.get(key) for key in (b"expires", b"stays", b"later")] == [None, None, b"v"]
        replicas = [*await replicas_of(one, first), *await replicas_of(two, second)]
        assert [replica.index.log_time_ms for replica in replicas] == [now_ms + 120_000] * 2
