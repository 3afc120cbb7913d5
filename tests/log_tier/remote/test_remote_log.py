"""What a network adds to a log: lost replies, servers that go and come back, connections that were closed."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import grpc
import pytest
from kit.deadlines import patience_s, within
from kit.held_port import HeldPort
from kit.log.log_server import LogServer, served_log
from kit.log.sample_batches import keys_of, plain_batch, read_all

from log_tier.model.batch_header import split_batches
from log_tier.model.errors import (
    BatchRefused,
    DatabaseClosed,
    Disconnected,
    InvalidRequest,
    ShuttingDown,
    TableNotFound,
    WriteUnknown,
)
from log_tier.model.identifiers import Offset, Partition, table_id_to_bytes
from log_tier.model.log import Appended, Topic
from log_tier.open import open_log
from log_tier.proto import log_pb2, log_pb2_grpc
from log_tier.remote import remote_log as client
from log_tier.remote.remote_log import RemoteLog
from log_tier.rpc.problems import error_of_call

ZERO = Partition(0)
DEADLINE_S = 20


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[LogServer]:
    async with served_log(tmp_path / "log") as running:
        yield running


@pytest.fixture
async def remote(server: LogServer) -> AsyncIterator[RemoteLog]:
    log = await RemoteLog.open(server.target)
    yield log
    await log.close()


@pytest.fixture
async def topic(server: LogServer) -> Topic:
    return await server.log.create_topic("flights", partitions=2)


async def test_open_log_by_url(server: LogServer, topic: Topic) -> None:
    log = await open_log(f"grpc://{server.target}")
    assert await log.topics() == [topic]
    await log.close()


@pytest.mark.parametrize("url", ["http://x", "file:relative", "grpc://", "", "file://host/x"])
async def test_urls_that_name_no_log(url: str) -> None:
    with pytest.raises(InvalidRequest, match="names no log"):
        await open_log(url)


async def test_nobody_there_means_nothing_was_sent(unused_port: int, topic: Topic) -> None:
    log = await RemoteLog.open(f"127.0.0.1:{unused_port}")
    with pytest.raises(Disconnected, match="duramen up") as caught:
        await log.append(topic.partition(ZERO), plain_batch("a"))
    assert caught.value.fields == {"sent": 0}
    await log.close()


async def test_a_reply_that_does_not_come_means_unknown(server: LogServer, topic: Topic) -> None:
    """A server that accepts and never answers: the batch may be in the log."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        log = RemoteLog(f"127.0.0.1:{silent.getsockname()[1]}", call_timeout_s=0.2)
        with pytest.raises(WriteUnknown, match="append the same bytes again"):
            await log.append(topic.partition(ZERO), plain_batch("a"))
        await log.close()


async def test_what_is_too_large_for_one_call_goes_in_several(
    remote: RemoteLog, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = [plain_batch("a" * length) for length in (10, 300, 20, 30)]
    monkeypatch.setattr(client, "_CALL_BYTES_MAX", 2 * len(batches[0]) + 100)
    results = await remote.append_many([(topic.partition(ZERO), batch) for batch in batches])
    assert sorted(result.base_offset for result in results if isinstance(result, Appended)) == [0, 1, 2, 3]


async def test_appends_together_without_a_reply_are_unknown_and_without_a_server_not_sent(
    unused_port: int, topic: Topic
) -> None:
    parts = [(topic.partition(ZERO), plain_batch("a"))] * 2
    with socket.create_server(("127.0.0.1", 0)) as silent:
        log = RemoteLog(f"127.0.0.1:{silent.getsockname()[1]}", call_timeout_s=0.2)
        assert [type(result) for result in await log.append_many(parts)] == [WriteUnknown] * 2
        await log.close()
    log = await RemoteLog.open(f"127.0.0.1:{unused_port}")
    results = await log.append_many(parts)
    assert [(type(result), getattr(result, "fields", None)) for result in results] == [(Disconnected, {"sent": 0})] * 2
    await log.close()


async def test_a_second_copy_is_a_second_record_of_the_same_sequence(remote: RemoteLog, topic: Topic) -> None:
    batch = plain_batch("a", producer_id=7, sequence=3)
    places = [await remote.append(topic.partition(ZERO), batch) for _ in range(2)]
    assert [place.base_offset for place in places] == [0, 1]
    stored = await read_all(remote, topic.id)
    assert [data[40:] for data in stored] == [batch[40:]] * 2


async def test_many_appends_fail_and_succeed_by_themselves(remote: RemoteLog, topic: Topic) -> None:
    results = await remote.append_many(
        [
            (topic.partition(ZERO), plain_batch("a")),
            (topic.partition(9), plain_batch("b")),
            (topic.partition(ZERO), b"rubbish"),
        ]
    )
    assert isinstance(results[0], Appended)
    assert [type(result) for result in results[1:]] == [TableNotFound, BatchRefused]


async def test_a_follower_survives_its_server(server: LogServer, remote: RemoteLog, topic: Topic) -> None:
    found: dict[int, bytes] = {}
    async with aclosing(remote.read(topic.partition(ZERO), Offset(0), follow=True)) as chunks:
        for round_number in range(3):
            await server.log.append(topic.partition(ZERO), plain_batch(f"a{round_number}", f"b{round_number}"))
            async with within(DEADLINE_S):
                chunk = await anext(chunks)
            fresh = keys_of(list(split_batches(chunk.data)))
            assert not found.keys() & fresh.keys(), "an offset came twice"
            found |= fresh
            if round_number == 0:
                await server.stop()
                await server.start()
            elif round_number == 1:
                await server.stop_politely()
                await server.start()
    assert found == dict(enumerate((b"a0", b"b0", b"a1", b"b1", b"a2", b"b2")))


async def test_a_slow_reader_gets_an_error(server: LogServer, remote: RemoteLog, topic: Topic) -> None:
    await server.log.append(topic.partition(ZERO), plain_batch("a"))
    await server.stop()
    with pytest.raises(Disconnected):
        await read_all(remote, topic.id)


async def test_a_server_that_stops_ends_its_readers_with_a_reason(server: LogServer, topic: Topic) -> None:
    channel = grpc.aio.insecure_channel(server.target)
    call = log_pb2_grpc.LogStub(channel).Read(  # type: ignore[no-untyped-call]
        log_pb2.LogReadRequest(topic_id=_raw_id(topic), partition=0, start=0, follow=True)
    )
    reading = asyncio.ensure_future(call.read())
    async with within(DEADLINE_S):
        while not len(server.streams):  # noqa: ASYNC110 - nobody but the test wants to know
            await asyncio.sleep(0)
        await server.stop_politely()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await reading
    assert isinstance(error_of_call(caught.value, "x"), ShuttingDown)
    await channel.close(None)


async def test_closing_ends_what_is_under_way_and_what_comes_later(remote: RemoteLog, topic: Topic) -> None:
    following = remote.read(topic.partition(ZERO), Offset(0), follow=True)
    waiting = asyncio.ensure_future(anext(following))
    await remote.topics()
    await remote.close()
    async with within(DEADLINE_S):
        with pytest.raises(DatabaseClosed):
            await waiting
    for call in (
        remote.topics(),
        remote.append(topic.partition(ZERO), plain_batch("a")),
        remote.bounds(topic.partition(ZERO)),
    ):
        with pytest.raises(DatabaseClosed, match="connect again"):
            await call
    await remote.close()


@pytest.mark.parametrize(("start", "chunk_bytes"), [(-1, 1), (0, 0), (0, 1 << 40)])
async def test_reads_that_cannot_be(remote: RemoteLog, topic: Topic, start: int, chunk_bytes: int) -> None:
    with pytest.raises(InvalidRequest, match="offsets begin at 0"):
        await read_all(remote, topic.id, start=start, chunk_bytes=chunk_bytes)


@pytest.mark.parametrize("batch", [b"", b"x" * 100, plain_batch("a")[:-1], plain_batch("a") + b"x"])
async def test_the_server_refuses_bytes_that_are_no_batch(server: LogServer, topic: Topic, batch: bytes) -> None:
    """Without our client, which refuses them before they leave."""
    channel = grpc.aio.insecure_channel(server.target)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await log_pb2_grpc.LogStub(channel).Append(  # type: ignore[no-untyped-call]
            log_pb2.AppendRequest(topic_id=_raw_id(topic), partition=0, batch=batch)
        )
    assert isinstance(error_of_call(caught.value, "x"), BatchRefused)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await log_pb2_grpc.LogStub(channel).Bounds(log_pb2.BoundsRequest(topic_id=b"short"))  # type: ignore[no-untyped-call]
    assert isinstance(error_of_call(caught.value, "x"), InvalidRequest)
    await channel.close(None)


def _raw_id(topic: Topic) -> bytes:
    return table_id_to_bytes(topic.id)


@pytest.fixture
def unused_port() -> Iterator[int]:
    with HeldPort() as held:
        yield held.number


async def test_a_slow_reader_learns_of_a_shutdown(server: LogServer, topic: Topic) -> None:
    """The server is waiting for the client to take a chunk when its shutdown begins."""
    for _ in range(40):
        await server.log.append(topic.partition(ZERO), plain_batch("key", value=b"x" * (1 << 20)))
    async with grpc.aio.insecure_channel(server.target, options=[("grpc.max_receive_message_length", -1)]) as channel:
        request = log_pb2.LogReadRequest(topic_id=table_id_to_bytes(topic.id), partition=0, start=0, follow=True)
        call = log_pb2_grpc.LogStub(channel).Read(request)  # type: ignore[no-untyped-call]
        await call.read()
        while not server.streams:  # noqa: ASYNC110
            await asyncio.sleep(0)
        server.streams.end()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await asyncio.wait_for(_drained(call), patience_s(DEADLINE_S))
        assert isinstance(error_of_call(caught.value, "the log"), ShuttingDown)


async def _drained(call: grpc.aio.UnaryStreamCall[Any, Any]) -> None:
    while await call.read():
        pass
