"""What Kafka adds to a log: topics that others delete, other writers, limits, lost brokers. On real brokers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from kit.deadlines import patience_s, within
from kit.kafka.kafka_brokers import StartBrokers
from kit.log.sample_batches import keys_of, plain_batch, read_all
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from duramen.tracing.otlp_bytes import SpanRecord
from duramen.tracing.served_spans import ServedTraces
from log_tier.kafka.cluster import cluster_client
from log_tier.kafka.engine import KafkaLog
from log_tier.kafka.reading import partition_reader
from log_tier.model.batch import Columns, encode_batch
from log_tier.model.batch_header import read_header, split_batches
from log_tier.model.errors import (
    BatchRefused,
    DuramenError,
    InvalidRequest,
    LimitExceeded,
    LogDamaged,
    OffsetTrimmed,
    ShuttingDown,
    TableNotFound,
    Unavailable,
)
from log_tier.model.identifiers import Offset, Partition, PartitionId, TableId
from log_tier.model.log import Appended, Bounds
from log_tier.model.record import GROUPED, Operation
from log_tier.tracing.span import TRACED

pytestmark = pytest.mark.kafka

ZERO = Partition(0)
DEADLINE_S = 60.0


@pytest.fixture
async def log(kafka_url: str) -> AsyncIterator[KafkaLog]:
    async with await KafkaLog.open(kafka_url) as opened:
        yield opened


@pytest.fixture
def admin(kafka: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": kafka})


def put_in(admin: AdminClient, name: str, **settings: str) -> str:
    """A topic that others made, of one partition."""
    config = {key.replace("_", "."): value for key, value in settings.items()}
    admin.create_topics([NewTopic(name, 1, 1, config=config)])[name].result()
    return name


async def eventually_refused(log: KafkaLog, topic: TableId) -> DuramenError:
    """Append until the topic is refused."""
    async with within(DEADLINE_S):
        while True:
            try:
                await log.append(PartitionId(topic, ZERO), plain_batch("a"))
            except DuramenError as error:
                return error


# --- topics that are not what they were


async def test_a_topic_that_was_made_again_is_another_log(log: KafkaLog, admin: AdminClient) -> None:
    topic = await log.create_topic("flights", partitions=1)
    name = log.address.topic_name("flights")
    for _ in range(3):
        await log.append(topic.partition(ZERO), plain_batch("a", "b"))
    chunks = log.read(topic.partition(ZERO), Offset(0), follow=True)
    async with aclosing(chunks):
        await anext(chunks)
        admin.delete_topics([name])[name].result()
        put_in(admin, name)
        error = await eventually_refused(log, topic.id)
        assert isinstance(error, TableNotFound)
        assert "made again" in error.message or "was deleted" in error.message
        with pytest.raises(TableNotFound):
            await asyncio.wait_for(_drain(chunks), patience_s(DEADLINE_S))
    with pytest.raises(TableNotFound):
        await log.bounds(topic.partition(ZERO))


async def _drain(chunks: AsyncIterator[object]) -> None:
    async for _ in chunks:
        pass


async def test_a_write_to_the_topic_made_again_is_noticed_by_its_offset(log: KafkaLog, admin: AdminClient) -> None:
    """Before anybody has looked: the first offset of the new topic lies below what was acknowledged."""
    async with await KafkaLog.open(log.address, look_every_s=1000.0) as slow:
        topic = await slow.create_topic("flights", partitions=1)
        name = log.address.topic_name("flights")
        await slow.append(topic.partition(ZERO), plain_batch("a", "b", "c"))
        admin.delete_topics([name])[name].result()
        put_in(admin, name)
        error = await eventually_refused(slow, topic.id)
        assert isinstance(error, TableNotFound)
        assert isinstance(await eventually_refused(slow, topic.id), TableNotFound)


async def test_a_topic_with_other_partitions_than_its_table_is_refused(log: KafkaLog, admin: AdminClient) -> None:
    topic = await log.create_topic("flights", partitions=1)
    name = log.address.topic_name("flights")
    admin.create_partitions([NewPartitions(name, 2)])[name].result()
    error = await eventually_refused(log, topic.id)
    assert isinstance(error, LogDamaged)
    assert "2 partitions now, and its table 1" in error.message


async def test_topics_of_others_are_adopted_and_left_alone(log: KafkaLog, admin: AdminClient) -> None:
    name = put_in(admin, f"orders-{log.address.namespace}")
    topic = await log.adopt_topic(name)
    assert (topic.name, topic.partitions) == (name, 1)
    assert await log.adopt_topic(name) == topic
    assert await log.topics() == []
    await log.append(topic.partition(ZERO), plain_batch("a"))
    for change in (log.delete_topic(topic.id), log.trim(topic.partition(ZERO), Offset(1))):
        with pytest.raises(InvalidRequest, match="belongs to others"):
            await change
    with pytest.raises(TableNotFound, match="no topic nowhere"):
        await log.adopt_topic("nowhere")
    own = await log.create_topic("flights", partitions=1)
    with pytest.raises(InvalidRequest, match="namespace"):
        await log.adopt_topic(log.address.topic_name(own.name))
    async with await KafkaLog.open(log.address) as another:
        assert keys_of(await read_all(another, topic.id)) == {0: b"a"}, "found by its id, by a process that is new"


async def test_weak_settings_are_reported_once(
    log: KafkaLog, admin: AdminClient, caplog: pytest.LogCaptureFixture
) -> None:
    name = put_in(admin, f"weak-{log.address.namespace}", unclean_leader_election_enable="true")
    with caplog.at_level(logging.WARNING, "log_tier.kafka"):
        topic = await log.adopt_topic(name)
        await log.bounds(topic.partition(ZERO))
    messages = [record.message for record in caplog.records if name in record.message]
    assert [
        word for word in ("replication 1", "unclean", "retention") if not any(word in each for each in messages)
    ] == []
    assert len(messages) == len(await log.weaknesses(topic.id)) == 3


async def test_a_compacted_topic_takes_plain_writes_only(log: KafkaLog, admin: AdminClient) -> None:
    topic = await log.adopt_topic(put_in(admin, f"compacted-{log.address.namespace}", cleanup_policy="compact"))
    await log.append(
        topic.partition(ZERO), encode_batch(Columns([b"a", b"b"], [b"1", b""], [1, int(Operation.DELETE)]))
    )
    for attribute in (int(Operation.ADD), 0x101):
        with pytest.raises(InvalidRequest, match="plain puts and deletes only"):
            await log.append(topic.partition(ZERO), encode_batch(Columns([b"a"], [b"1"], [attribute])))
    assert (await log.bounds(topic.partition(ZERO))).latest == 1


# --- batches


async def test_batches_of_several_writers_lie_whole(log: KafkaLog) -> None:
    """Every batch at consecutive offsets, although three processes' worth of clients write to one partition."""
    topic = await log.create_topic("flights", partitions=1)
    batch = plain_batch(*(f"key{n}" for n in range(400)), value=b"x" * 100)
    writers = [await KafkaLog.open(log.address) for _ in range(3)]

    async def write(writer: KafkaLog) -> list[Appended]:
        return [place for _ in range(20) for place in await asyncio.gather(*(_one(writer) for _ in range(2)))]

    async def _one(writer: KafkaLog) -> Appended:
        return await writer.append(topic.partition(ZERO), batch)

    try:
        places = [place for each in await asyncio.gather(*map(write, writers)) for place in each]
    finally:
        for writer in writers:
            await writer.close()
    assert sorted(place.base_offset for place in places) == list(range(0, 120 * 400, 400))
    headers = [read_header(stored) for stored in await read_all(log, topic.id)]
    assert [(header.base_offset, header.records) for header in headers] == [(n * 400, 400) for n in range(120)]


async def test_a_batch_larger_than_a_message_is_written_in_parts(log: KafkaLog, admin: AdminClient) -> None:
    topic = await log.adopt_topic(put_in(admin, f"small-{log.address.namespace}", max_message_bytes="20000"))
    keys = [b"k%03d" % n for n in range(100)]
    place = await log.append(topic.partition(ZERO), encode_batch(Columns(keys, [b"x" * 900] * 100), producer_id=7))
    assert place.base_offset == 0
    stored = await read_all(log, topic.id)
    assert len(stored) > 5
    assert [header.sequence for header in map(read_header, stored)] == [h.base_offset for h in map(read_header, stored)]
    assert list(keys_of(stored).values()) == keys
    with pytest.raises(LimitExceeded, match=r"max\.message\.bytes"):
        await log.append(topic.partition(ZERO), plain_batch("a", value=b"x" * 30_000))
    group = Columns([b"a", b"b"], [b"x" * 9000] * 2, [1, 1 | GROUPED])
    with pytest.raises(LimitExceeded, match="atomic group"):
        await log.append(topic.partition(ZERO), encode_batch(group))
    assert (await log.bounds(topic.partition(ZERO))).latest == 99


async def test_a_batch_without_a_record_at_each_offset_is_refused(log: KafkaLog) -> None:
    topic = await log.create_topic("flights", partitions=1)
    with pytest.raises(BatchRefused, match="each of its 3 offsets"):
        await log.append(topic.partition(ZERO), encode_batch(Columns([b"a"], [b"1"]), span=3))


async def test_void_records_are_not_for_writing(log: KafkaLog) -> None:
    topic = await log.create_topic("flights", partitions=1)
    with pytest.raises(BatchRefused, match="void"):
        await log.append(topic.partition(ZERO), encode_batch(Columns([b"a"], [b"1"], [int(Operation.VOID)])))


async def test_kafkas_own_records_are_stepped_over(log: KafkaLog, kafka: str, admin: AdminClient) -> None:
    """Transactions end with a marker, and those that were taken back are not shown; both occupy offsets."""
    name = put_in(admin, f"orders-{log.address.namespace}")
    topic = await log.adopt_topic(name)
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": name})
    producer.init_transactions(30)
    for commit in (True, False):
        producer.begin_transaction()
        producer.produce(name, b"1", b"kept" if commit else b"not kept")
        producer.flush(30)
        (producer.commit_transaction if commit else producer.abort_transaction)(30)
    async with within(DEADLINE_S):
        while (bounds := await log.bounds(topic.partition(ZERO))).latest < 3:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert bounds == Bounds(Offset(0), Offset(3))
    stored = await read_all(log, topic.id)
    assert keys_of(stored) == {0: b"kept"}
    headers = [read_header(each) for each in stored]
    assert [header.base_offset for header in headers] == [0, 1]
    assert headers[-1].last_offset == 3


# --- reading


async def test_a_slow_reader_is_paused_and_misses_nothing(log: KafkaLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_reader, "_QUEUE_BYTES", 200_000)
    paused: list[bool] = []
    reader = partition_reader.PartitionReader
    inner = reader.pause

    def pause(self: partition_reader.PartitionReader) -> bool:
        paused.append(done := inner(self))
        return done

    monkeypatch.setattr(reader, "pause", pause)
    topic = await log.create_topic("flights", partitions=1)
    for n in range(40):
        await log.append(topic.partition(ZERO), plain_batch(*(f"k{n}-{at}" for at in range(50)), value=b"x" * 1000))
    seen = 0
    chunks = log.read(topic.partition(ZERO), Offset(0), follow=True, chunk_bytes=1)
    async with aclosing(chunks):
        async for chunk in chunks:
            (stored,) = split_batches(chunk.data)
            assert read_header(stored).base_offset == seen
            seen += read_header(stored).records
            async with within(DEADLINE_S):
                while not any(paused):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            if seen == 2000:
                break


async def test_a_chunk_behind_a_trouble_says_that_the_read_was_resumed(log: KafkaLog) -> None:
    """Whoever follows then looks whether it is still the same log."""
    topic = await log.create_topic("resumed", partitions=1)
    await log.append(topic.partition(ZERO), plain_batch("before"))
    chunks = log.read(topic.partition(ZERO), Offset(0), follow=True)
    assert not (await anext(chunks)).resumed
    (reader,) = log._fetcher._of
    reader.fail(partition_reader.ReadTrouble(KafkaError(KafkaError._TRANSPORT)))
    said = []
    for key in ("after", "later"):
        await log.append(topic.partition(ZERO), plain_batch(key))
        async with within(DEADLINE_S):
            said.append((await anext(chunks)).resumed)
    assert said == [True, False]
    await chunks.aclose()


async def test_a_follower_behind_a_trim_gets_an_error(log: KafkaLog) -> None:
    topic = await log.create_topic("flights", partitions=1)
    for _ in range(10):
        await log.append(topic.partition(ZERO), plain_batch("a"))
    assert await log.trim(topic.partition(ZERO), Offset(5)) == 5
    assert await log.trim(topic.partition(ZERO), Offset(3)) == 5, "it is that far already"
    with pytest.raises(OffsetTrimmed) as caught:
        await read_all(log, topic.id, start=2)
    assert (caught.value.fields["asked"], caught.value.fields["earliest"]) == (2, 5)
    assert await log.trim(topic.partition(ZERO), Offset(100)) == 10, "all there is"
    assert await log.bounds(topic.partition(ZERO)) == Bounds(Offset(10), Offset(9))
    assert (await log.append(topic.partition(ZERO), plain_batch("b"))).base_offset == 10


async def test_what_is_closed_says_so(kafka_url: str) -> None:
    log = await KafkaLog.open(kafka_url)
    topic = await log.create_topic("flights", partitions=1)
    chunks = log.read(topic.partition(ZERO), Offset(0), follow=True)
    waiting = asyncio.ensure_future(anext(chunks))
    await asyncio.sleep(0)
    while not waiting.done() and not log._fetcher._of:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    await log.close()
    for late in (
        waiting,
        log.append(topic.partition(ZERO), plain_batch("a")),
        log.bounds(topic.partition(ZERO)),
        log.topics(),
    ):
        with pytest.raises(ShuttingDown):
            await asyncio.wait_for(late, patience_s(DEADLINE_S))
    await log.close()


# --- brokers that are lost


async def test_a_broker_that_is_away_is_a_pause(start_brokers: StartBrokers) -> None:
    brokers = await asyncio.to_thread(start_brokers, 1)
    async with await KafkaLog.open(f"kafka://{brokers.bootstrap}/pause") as log:
        topic = await log.create_topic("flights", partitions=1)
        await log.append(topic.partition(ZERO), plain_batch("a"))
        chunks = log.read(topic.partition(ZERO), Offset(0), follow=True)
        async with aclosing(chunks):
            await anext(chunks)
            brokers.pause(1)
            under_way = asyncio.ensure_future(log.append(topic.partition(ZERO), plain_batch("b")))
            done, _ = await asyncio.wait([under_way], timeout=1)
            assert not done, "nothing is acknowledged that no broker has"
            given_up = asyncio.ensure_future(log.append(topic.partition(ZERO), plain_batch("never")))
            await asyncio.sleep(0)
            given_up.cancel()
            brokers.resume(1)
            assert (await asyncio.wait_for(under_way, patience_s(DEADLINE_S))).base_offset == 1
            assert keys_of(list(split_batches((await anext(chunks)).data))) == {1: b"b"}
        assert (await log.append(topic.partition(ZERO), plain_batch("c"))).base_offset == 2, (
            "who gave up in the queue is out"
        )


async def test_a_cluster_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_client, "ANSWER_S", 1.0)
    with pytest.raises(Unavailable, match="are the brokers up"):
        await KafkaLog.open("kafka://127.0.0.1:1/x")


async def test_a_property_that_is_none() -> None:
    with pytest.raises(InvalidRequest, match="cannot be used"):
        await KafkaLog.open("kafka://127.0.0.1:1/x?no.such.property=1")


async def test_an_append_of_a_traced_caller_is_a_span(log: KafkaLog) -> None:
    spans: list[SpanRecord] = []
    caller = ServedTraces(ALWAYS_ON, spans.append).command("RESP/write", "traced")
    assert caller is not None
    topic = await log.create_topic("traced", partitions=2)
    missing = PartitionId(topic.id, Partition(9))
    await log.append_many([(topic.partition(ZERO), plain_batch("untraced"))])
    before = TRACED.set((caller,))
    outcomes = await log.append_many(
        [(topic.partition(ZERO), plain_batch("a")), (topic.partition(Partition(1)), plain_batch("b"))]
    )
    refused = await log.append_many([(missing, plain_batch("c"))])
    TRACED.reset(before)
    caller.end()
    first, second = outcomes
    assert isinstance(first, Appended)
    assert isinstance(second, Appended)
    written, failed, root = spans
    assert [span.name for span in spans] == ["log append", "log append", "RESP/write"]
    assert written.parent == failed.parent == root.id
    assert written.attributes == {"duramen.partition": 0, "duramen.offset": first.base_offset}
    assert [event[2] for event in written.events] == [{"duramen.partition": 1, "duramen.offset": second.base_offset}]
    assert written.began_ns < written.ended_ns
    assert isinstance(refused[0], TableNotFound)
    assert (failed.failed, failed.attributes) == (True, {"error.type": refused[0].code})
