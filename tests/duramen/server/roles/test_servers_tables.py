"""`_duramen_history` is the servers' alone: nobody writes, changes, clears or drops it, with and without users."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from kit.client.audited_server import AuditedCalls, audited_server
from kit.deadlines import patience_s, wait_until
from kit.resp.raw_client import Raw, RawError, Status

import duramen
from log_tier.model.batch import Columns, encode_batch
from log_tier.model.errors import (
    CommandRejected,
    DuramenError,
    InvalidName,
    InvalidRequest,
    PermissionDenied,
    Unauthenticated,
)
from log_tier.model.identifiers import HISTORY_TABLE, Partition, table_id_to_bytes
from log_tier.model.retention import Retention
from log_tier.rows.table_spec import TableSpec
from router.data.requests import ReadPart, WritePart
from router.endpoints.resp.server.sockets import RespSettings
from router.proto import admin_pb2, keyvalue_pb2, kv_pb2, tables_pb2

NAME = HISTORY_TABLE
PORT = RespSettings(port=0)


@pytest.fixture
async def calls(tmp_path: Path) -> AsyncIterator[AuditedCalls]:
    async with audited_server(tmp_path / "data", resp=PORT) as (server, made):
        await server.data_plane.create_table(
            TableSpec(NAME, 1, retention=Retention(60_000), of_servers=True), timeout=patience_s(30)
        )
        table = made.catalog.map.find(NAME)
        await server.data_plane.log.append(table.partition(Partition(0)), _batch(b"row", b"of a server"))
        made.resp_port = server.resp_port  # type: ignore[attr-defined]
        yield made


def _batch(key: bytes = b"k", value: bytes = b"v") -> bytes:
    return encode_batch(Columns([key], [value]))


def attempts(calls: AuditedCalls) -> list[tuple[Any, Any]]:
    """Every method that changes something."""
    kv, tables, admin, start = calls.kv, calls.tables, calls.admin, admin_pb2.AdminStartRequest
    part = keyvalue_pb2.WritePart(table_id=table_id_to_bytes(calls.catalog.map.find(NAME).id), batch=_batch())
    return [
        (calls.key_value.Write, keyvalue_pb2.WriteRequest(parts=[part])),
        (kv.Put, kv_pb2.KVPutRequest(table=NAME, key=b"k", value=b"v")),
        (kv.Delete, kv_pb2.KVDeleteRequest(table=NAME, key=b"row")),
        (kv.Update, kv_pb2.KVUpdateRequest(table=NAME, key=b"row", append=b"v")),
        (kv.Write, kv_pb2.KVWriteRequest(table=NAME, writes=[kv_pb2.KVWrite(key=b"k", put=b"v")])),
        (tables.Create, tables_pb2.CreateTableRequest(name=NAME, partitions=1)),
        (tables.Drop, tables_pb2.FindTableRequest(name=NAME)),
        (tables.SetRetention, tables_pb2.SetRetentionRequest(name=NAME, retention_ms=1)),
        (admin.SetRetention, admin_pb2.AdminSetRetentionRequest(table=NAME, retention_ms=1)),
        (admin.Start, start(clear=admin_pb2.AdminClear(table=NAME))),
        (admin.Start, start(trim=admin_pb2.AdminTrim(table=NAME))),
        (admin.Start, start(compact=admin_pb2.AdminCompact(table=NAME))),
        (admin.Start, start(stage=admin_pb2.AdminStage(table=NAME, url="empty:"))),
        (admin.Start, start(swap=admin_pb2.AdminSwap(table=NAME))),
        (admin.Start, start(rollback=admin_pb2.AdminRollback(table=NAME))),
        (admin.Start, start(discard=admin_pb2.AdminDiscard(table=NAME, version=1))),
        (admin.Start, start(restore_table=admin_pb2.AdminRestoreTable(table="orders", target=NAME, time_ms=1))),
    ]


async def check_unchanged(calls: AuditedCalls) -> None:
    table = calls.catalog.map.find(NAME)
    part = ReadPart(table.partition(Partition(0)), (b"row", b"k"), -1, strong=True)  # type: ignore[arg-type]
    (result,) = await calls.connection.read([part], timeout=patience_s(30))
    assert not isinstance(result, DuramenError)
    assert list(result.values) == [b"of a server", None]
    assert table.retention_ms == 60_000


async def test_without_users(calls: AuditedCalls) -> None:
    for method, request in attempts(calls):
        error = await calls.error(method(request))
        if isinstance(error, CommandRejected):
            continue  # nothing is staged, and no snapshot is there: not even the servers could
        if method is calls.key_value.Write:
            reply = await method(request)
            assert reply.results[0].problem.code == "permission_denied"
            continue
        assert isinstance(error, (InvalidRequest, DuramenError)), f"{request}: {error!r}"
    await check_unchanged(calls)


async def test_with_users(calls: AuditedCalls) -> None:
    await calls.add_user("root", "admin *", "read,write *", "read _duramen*")
    for method, request in attempts(calls):
        error = await calls.error(method(request, metadata=calls.of("root")))
        assert isinstance(error, PermissionDenied), f"{request}: {error!r}"
        assert isinstance(await calls.error(method(request)), Unauthenticated)
    await check_unchanged(calls)
    page = await calls.kv.Scan(kv_pb2.KVScanRequest(table=NAME), metadata=calls.of("root")).read()
    assert [each.key for each in page.entries] == [b"row"]


async def test_by_the_redis_protocol(calls: AuditedCalls) -> None:
    def commands() -> None:
        raw = Raw(("127.0.0.1", calls.resp_port))  # type: ignore[attr-defined]
        try:
            assert raw.call("SELECT", NAME) == Status("OK")
            # The server wrote it to the log: a connection that has seen nothing may read what is applied.
            wait_until(lambda: raw.call("GET", "row") == b"of a server")
            for words in (("SET", "k", "v"), ("DEL", "row"), ("APPEND", "row", "v"), ("MSET", "k", "v", "l", "v"),
                          ("INCR", "k"), ("SET", "k", "v", "NX"), ("EXPIRE", "row", 1), ("FLUSHDB",)):  # fmt: skip
                assert isinstance(raw.call(*words), RawError), words
        finally:
            raw.close()

    await asyncio.to_thread(commands)
    await check_unchanged(calls)


async def test_by_a_client_and_in_the_process(calls: AuditedCalls, tmp_path: Path) -> None:
    table = calls.catalog.map.find(NAME)
    parts = [WritePart(table.partition(Partition(0)), _batch())]
    orders = calls.catalog.map.find("orders")
    parts.append(WritePart(orders.partition(Partition(0)), _batch()))
    refused, written = await calls.connection.write(parts, timeout=patience_s(30))
    assert isinstance(refused, PermissionDenied)
    assert not isinstance(written, DuramenError), "the others of the request are written"
    with pytest.raises(InvalidName):
        await calls.connection.drop_table(NAME, timeout=patience_s(30))
    with pytest.raises(InvalidName):
        await calls.connection.set_retention(NAME, ms=1, size=None, timeout=patience_s(30))
    with pytest.raises(InvalidName):
        TableSpec(NAME, 1)
    await check_unchanged(calls)


async def test_its_name_is_kept_free(tmp_path: Path) -> None:
    database = await duramen.aio.open(tmp_path / "database")
    try:
        with pytest.raises(InvalidName):
            await database.create_table(NAME)
    finally:
        await database.close()
