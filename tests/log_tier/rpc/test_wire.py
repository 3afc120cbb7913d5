"""What a call over a channel raises when the channel, the server or the call itself ends under it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from kit.deadlines import until, within
from kit.log.sample_batches import plain_batch

from log_tier.model.errors import DatabaseClosed, Disconnected, DuramenError, ShuttingDown, WriteUnknown
from log_tier.model.identifiers import Partition, PartitionId, TableId
from log_tier.proto import log_pb2, log_pb2_grpc
from log_tier.remote.remote_log import RemoteLog
from log_tier.rpc.channel import SERVER_OPTIONS
from log_tier.rpc.open_streams import OpenStreams
from log_tier.rpc.problems import abort, error_of_call
from log_tier.rpc.wire import Wire

DEADLINE_S = 20
TOPIC = TableId("A" * 22)
ZERO = Partition(0)
# More than the flow-control windows of HTTP/2 hold: sending it waits until the client reads.
LARGE = b"x" * (4 << 20)


class Scripted(log_pb2_grpc.LogServicer):
    """A log server that answers nothing, or fails as a server with a bug does."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.streams = OpenStreams()
        self.sent = 0
        """Messages that were begun."""

    async def Topics(self, request: Any, context: Any) -> log_pb2.TopicsReply:  # noqa: N802
        self.begun.set()
        await asyncio.Event().wait()
        raise AssertionError("nobody waits any more")

    async def Append(self, request: Any, context: Any) -> log_pb2.AppendReply:  # noqa: N802
        self.begun.set()
        if request.partition:
            await context.abort(grpc.StatusCode.INTERNAL, "the server broke")
        await asyncio.Event().wait()
        raise AssertionError("nobody waits any more")

    async def AppendMany(self, request: Any, context: Any) -> log_pb2.AppendManyReply:  # noqa: N802
        raise RuntimeError("a bug of the server, which gRPC reports as UNKNOWN")

    async def Bounds(self, request: Any, context: Any) -> log_pb2.BoundsReply:  # noqa: N802
        raise RuntimeError("a bug of the server, which gRPC reports as UNKNOWN")

    async def Read(self, request: Any, context: Any) -> None:  # noqa: N802
        self.begun.set()
        try:
            async with self.streams.served(context):
                while True:
                    self.sent += 1
                    await context.write(log_pb2.LogReadReply(data=LARGE))
        except DuramenError as error:
            await abort(context, error)


@pytest.fixture
async def server() -> AsyncIterator[tuple[Scripted, str]]:
    scripted = Scripted()
    running = grpc.aio.server(options=SERVER_OPTIONS)
    log_pb2_grpc.add_LogServicer_to_server(scripted, running)  # type: ignore[no-untyped-call]
    port = running.add_insecure_port("127.0.0.1:0")
    await running.start()
    yield scripted, f"127.0.0.1:{port}"
    await running.stop(None)


def stub_of(wire: Wire) -> Any:
    return log_pb2_grpc.LogStub(wire.channel)  # type: ignore[no-untyped-call]


async def test_a_channel_closed_under_a_call(server: tuple[Scripted, str]) -> None:
    scripted, target = server
    wire = Wire(target)
    asking = asyncio.ensure_future(wire.ask(stub_of(wire).Topics, log_pb2.TopicsRequest(), timeout=DEADLINE_S))
    await scripted.begun.wait()
    await wire.close()
    async with within(DEADLINE_S):
        with pytest.raises(Disconnected, match="was closed while the call was under way"):
            await asking
    with pytest.raises(DatabaseClosed, match="connect again"):
        await wire.ask(stub_of(wire).Topics, log_pb2.TopicsRequest(), timeout=DEADLINE_S)


async def test_a_channel_closed_under_a_stream(server: tuple[Scripted, str]) -> None:
    _, target = server
    wire = Wire(target)
    stream = wire.stream(stub_of(wire).Read, log_pb2.LogReadRequest())
    assert (await anext(stream)).data == LARGE
    await wire.close()
    async with within(DEADLINE_S):
        with pytest.raises(Disconnected, match="was closed while the call was under way"):
            await ended(stream)


async def test_a_call_that_grpc_cancels(server: tuple[Scripted, str]) -> None:
    """The task that waits for it was not cancelled, so it gets an error and no `CancelledError`."""
    scripted, target = server
    wire = Wire(target)
    stub = stub_of(wire)
    calls: list[Any] = []

    def method(request: Any, timeout: float) -> Any:
        calls.append(stub.Topics(request, timeout=timeout))
        return calls[-1]

    asking = asyncio.ensure_future(wire.ask(method, log_pb2.TopicsRequest(), timeout=DEADLINE_S))
    await scripted.begun.wait()
    calls[0].cancel()
    async with within(DEADLINE_S):
        with pytest.raises(Disconnected, match="was cancelled"):
            await asking
    await wire.close()


async def test_a_task_that_is_cancelled_stays_cancelled(server: tuple[Scripted, str]) -> None:
    scripted, target = server
    wire = Wire(target)
    asking = asyncio.ensure_future(wire.ask(stub_of(wire).Topics, log_pb2.TopicsRequest(), timeout=DEADLINE_S))
    await scripted.begun.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await wire.close()


async def test_a_write_whose_channel_is_closed_may_have_happened(server: tuple[Scripted, str]) -> None:
    scripted, target = server
    log = RemoteLog(target)
    writing = asyncio.ensure_future(log.append(PartitionId(TOPIC, ZERO), plain_batch("a")))
    await scripted.begun.wait()
    await log.close()
    async with within(DEADLINE_S):
        with pytest.raises(WriteUnknown):
            await writing


async def test_a_write_whose_server_breaks_may_have_happened(server: tuple[Scripted, str]) -> None:
    _, target = server
    log = RemoteLog(target)
    with pytest.raises(WriteUnknown, match="the server broke"):
        await log.append(PartitionId(TOPIC, Partition(1)), plain_batch("a"))
    (result,) = await log.append_many([(PartitionId(TOPIC, ZERO), plain_batch("a"))])
    assert isinstance(result, WriteUnknown)
    with pytest.raises(DuramenError) as caught:
        await log.bounds(PartitionId(TOPIC, ZERO))
    assert type(caught.value) is DuramenError, "a read that fails so has an error and nothing to wonder about"
    await log.close()


@pytest.mark.parametrize("messages_before", [0, 1])
async def test_a_shutdown_while_a_message_is_being_sent(server: tuple[Scripted, str], messages_before: int) -> None:
    """The client reads slowly. The stream ends behind the message that is on its way, with the reason."""
    scripted, target = server
    wire = Wire(target)
    messages = aiter(stub_of(wire).Read(log_pb2.LogReadRequest()))
    for _ in range(messages_before):
        assert (await anext(messages)).data == LARGE
    await until(lambda: scripted.sent > messages_before)
    async with within(DEADLINE_S):
        scripted.streams.end()
        with pytest.raises(ShuttingDown):
            await read_all(messages, target)
    assert len(scripted.streams) == 0
    await wire.close()


async def ended(stream: AsyncIterator[Any]) -> None:
    async for _ in stream:
        pass


async def read_all(messages: AsyncIterator[Any], target: str) -> None:
    try:
        await ended(messages)
    except grpc.aio.AioRpcError as failure:
        raise error_of_call(failure, target) from failure
    raise AssertionError("the stream ended without a reason")
