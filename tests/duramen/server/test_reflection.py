"""gRPC reflection finds every name that a program may ask for: services, methods, messages, enums and fields."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
from google.protobuf import descriptor_pb2
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from duramen.server.roles.all_in_one import SingleServer

pytestmark = pytest.mark.embedded_log_only  # no log is asked

Request = reflection_pb2.ServerReflectionRequest


@pytest.fixture
async def stub(tmp_path: Path) -> AsyncIterator[reflection_pb2_grpc.ServerReflectionStub]:
    server = await SingleServer.open(tmp_path / "data", port=0)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        yield reflection_pb2_grpc.ServerReflectionStub(channel)
    await server.close()


async def answer(
    stub: reflection_pb2_grpc.ServerReflectionStub, symbol: str
) -> reflection_pb2.ServerReflectionResponse:
    (reply,) = [each async for each in stub.ServerReflectionInfo(iter([Request(file_containing_symbol=symbol)]))]
    return reply


@pytest.mark.parametrize(
    "symbol",
    [
        "duramen.v1.KV",
        "duramen.v1.KV.Put",
        "duramen.v1.KV.Watch",
        "duramen.v1.KVPutRequest",
        "duramen.v1.KVPutRequest.key",
        "duramen.v1.KVWrite.operation",
        "duramen.v1.KVWatchStart",
        "duramen.v1.KV_WATCH_START_EARLIEST",
        "grpc.health.v1.Health.Check",
    ],
)
async def test_a_name_is_found_with_the_file_that_declares_it(
    stub: reflection_pb2_grpc.ServerReflectionStub, symbol: str
) -> None:
    reply = await answer(stub, symbol)
    files = [
        descriptor_pb2.FileDescriptorProto.FromString(each)
        for each in reply.file_descriptor_response.file_descriptor_proto
    ]
    assert files, f"{symbol}: {reply.error_response.error_message}"
    assert symbol.startswith(files[0].package + ".")


@pytest.mark.parametrize(
    "symbol", ["duramen.v1.KV.Steal", "duramen.v1.Nothing", "duramen.v1.Nothing.Put", "KV", "", ".", "duramen.v1.KV."]
)
async def test_a_name_that_is_not_there_is_refused(stub: reflection_pb2_grpc.ServerReflectionStub, symbol: str) -> None:
    reply = await answer(stub, symbol)
    assert reply.error_response.error_code == grpc.StatusCode.NOT_FOUND.value[0]
    assert reply.original_request.file_containing_symbol == symbol
