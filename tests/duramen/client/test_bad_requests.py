"""Bad requests of other clients than ours, which refuses most of it before it is sent."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from kit.client.table_size import records

import duramen
from duramen.client.table import Table
from duramen.server.roles.all_in_one import SingleServer as Server
from log_tier.model.batch import Columns, encode_batch
from log_tier.model.batch_header import BATCH_BYTES_MAX, HEADER_BYTES
from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import table_id_to_bytes
from log_tier.rpc.problems import error_of, error_of_call
from router.proto import keyvalue_pb2 as kv
from router.proto import keyvalue_pb2_grpc, tables_pb2_grpc
from router.proto import tables_pb2 as tables

pytestmark = pytest.mark.embedded_log_only  # they are refused before the log is asked

LONG_KEY = b"x" * 512


@pytest.fixture
def machine(emptied_server: Server) -> Server:
    """What is refused leaves nothing behind: one server for all of these tests."""
    return emptied_server


@pytest.fixture
async def stub(machine: Server, flights: Table) -> Any:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{machine.port}") as channel:
        yield keyvalue_pb2_grpc.KeyValueStub(channel)  # type: ignore[no-untyped-call]


async def table_id_of(table: Table) -> bytes:
    return table_id_to_bytes((await table.describe()).table.id)


def damaged(batch: bytes, at: int) -> bytes:
    return batch[:at] + bytes([batch[at] ^ 1]) + batch[at + 1 :]


GOOD = encode_batch(Columns([b"k"], [b"v"]))


@pytest.mark.parametrize(
    ("batch", "kind", "message"),
    [
        (b"", duramen.BatchRefused, "at least 64 bytes"),
        (b"x" * 100, duramen.BatchRefused, "no batch begins here"),
        (GOOD[:-1], duramen.BatchRefused, "says it has"),
        (GOOD + b"x", duramen.BatchRefused, "says it has"),
        (damaged(GOOD, HEADER_BYTES + 6), duramen.BatchRefused, "says its checksum is"),
        (damaged(GOOD, 12), duramen.BatchRefused, "says its checksum is"),
        (GOOD[:4] + b"\x03" + GOOD[5:], duramen.UnknownFormat, "format version 3, this process reads up to version 2"),
        (GOOD[:8] + (BATCH_BYTES_MAX + 1).to_bytes(4, "little") + GOOD[12:], duramen.BatchRefused, "are possible"),
    ],
)
async def test_batches(stub: Any, flights: Table, batch: bytes, kind: type[DuramenError], message: str) -> None:
    part = kv.WritePart(table_id=await table_id_of(flights), partition=0, batch=batch)
    reply = await stub.Write(kv.WriteRequest(parts=[part]))
    error = error_of(reply.results[0].problem)
    assert type(error) is kind
    assert message in error.message
    assert await records(flights) == 0


async def test_places_that_are_not_there(stub: Any, flights: Table) -> None:
    table_id = await table_id_of(flights)
    reply = await stub.Write(
        kv.WriteRequest(
            parts=[
                kv.WritePart(table_id=table_id, partition=4, batch=GOOD),
                kv.WritePart(table_id=bytes(16), partition=0, batch=GOOD),
            ]
        )
    )
    errors = [error_of(result.problem) for result in reply.results]
    assert [type(error) for error in errors] == [duramen.TableNotFound] * 2
    assert "has partitions 0 to 3, not 4" in errors[0].message
    reply = await stub.Read(
        kv.ReadRequest(
            parts=[
                kv.ReadPart(table_id=table_id, partition=4, after=-1, keys=[b"k"]),
                kv.ReadPart(table_id=table_id, after=-1, keys=[LONG_KEY]),
                kv.ReadPart(table_id=table_id, after=-1, keys=[b""]),
            ]
        )
    )
    kinds = [type(error_of(result.problem)) for result in reply.results]
    assert kinds == [duramen.TableNotFound, duramen.InvalidKey, duramen.InvalidKey]


@pytest.mark.parametrize(
    ("method", "request_", "kind", "message"),
    [
        ("Read", kv.ReadRequest(parts=[kv.ReadPart(keys=[b"k"] * 10_001)]), duramen.InvalidRequest, "16 bytes"),
        (
            "Read",
            kv.ReadRequest(parts=[kv.ReadPart(table_id=bytes(16), keys=[b"k"] * 10_001)]),
            duramen.LimitExceeded,
            "at most 10000 keys, this one for 10001: split it",
        ),
        ("Scan", kv.ScanRequest(table_id=bytes(16)), duramen.LimitExceeded, "1 to 10000 entries, not 0"),
        ("Scan", kv.ScanRequest(table_id=bytes(16), limit=5), duramen.TableNotFound, "no table has the id"),
        ("Producer", kv.ProducerRequest(table_id=bytes(16)), duramen.TableNotFound, "no table has the id"),
    ],
)
async def test_whole_calls(stub: Any, method: str, request_: Any, kind: type[DuramenError], message: str) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await getattr(stub, method)(request_)
    error = error_of_call(caught.value, "here:1")
    assert type(error) is kind
    assert message in error.message


async def test_a_name_as_long_as_a_book(machine: Server) -> None:
    """The error quotes the name; gRPC would drop an error that is longer than its metadata may be."""
    async with grpc.aio.insecure_channel(f"127.0.0.1:{machine.port}") as channel:
        stub = tables_pb2_grpc.TablesStub(channel)  # type: ignore[no-untyped-call]
        for method, request in (
            (stub.Find, tables.FindTableRequest(name="ü" * 1_000_000)),
            (stub.Create, tables.CreateTableRequest(name="ü" * 1_000_000, partitions=1)),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await method(request)
            assert isinstance(error_of_call(caught.value, "here:1"), duramen.InvalidName)
