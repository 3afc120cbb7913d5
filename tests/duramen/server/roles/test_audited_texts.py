"""Rows of the audit of calls that have their keys as JSON."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from kit.client.audited_server import AuditedCalls, audited_server
from kit.deadlines import patience_s
from kit.flight_rows import UNNUMBERED_FLIGHTS

from log_tier.audit.audit_event import TEXT_MAX
from log_tier.audit.audit_settings import AuditSettings
from log_tier.model.errors import PermissionDenied
from log_tier.rows.json_rows.json_table import KEYED_TEXT_MAX
from log_tier.rows.table_spec import TableSpec
from router.proto import kv_pb2


@pytest.fixture
async def texts(tmp_path: Path) -> AsyncIterator[AuditedCalls]:
    settings = AuditSettings.parse(["orders:read", "ships:write"])
    async with audited_server(tmp_path / "data", audit=replace(settings, window_s=0.05)) as (_, calls):
        await calls.add_user("root", "admin *", "read,write *", "read _duramen_audit")
        yield calls


async def test_a_call_with_keys_as_json_names_them_as_it_has_them(texts: AuditedCalls) -> None:
    """It needs its right on the whole table, and still says which keys it was about."""
    of_root, form = texts.of("root"), kv_pb2.KV_FORM_JSON
    key, others = b"eu:1", [b"eu:22", b"eu:2"]
    get = kv_pb2.KVGetRequest(table="orders", key=key, form=form)
    assert await texts.error(texts.kv.Get(get, metadata=of_root)) is None
    many = kv_pb2.KVGetManyRequest(table="orders", keys=others, form=form)
    assert await texts.error(texts.kv.GetMany(many, metadata=of_root)) is None
    put = kv_pb2.KVPutRequest(table="ships", key=key, value=b"v", form=form)
    assert await texts.error(texts.kv.Put(put, metadata=of_root)) is None
    writes = [kv_pb2.KVWrite(key=b"us:1", put=b"v", if_absent=True)]
    group = kv_pb2.KVWriteRequest(table="ships", writes=writes, form=form)
    assert await texts.error(texts.kv.Write(group, metadata=of_root)) is None
    async for _ in texts.kv.Scan(kv_pb2.KVScanRequest(table="orders", prefix=b"eu:", form=form), metadata=of_root):
        pass
    await texts.until_rows(kind="read", action="KV/Scan", key="eu:")
    reads = await texts.rows(kind="read", result="allowed")
    assert [(row["action"], row["key"]) for row in reads] == [
        ("KV/Get", "eu:1"),
        ("KV/GetMany", "eu:2"),
        ("KV/Scan", "eu:"),
    ]
    written = await texts.rows(kind="write", result="allowed")
    assert [(row["action"], row["key"]) for row in written] == [("KV/Put", "eu:1"), ("KV/Write", "us:1")]
    await texts.add_user("alice", "read orders --key eu:")
    refused = kv_pb2.KVPutRequest(table="orders", key=b"x" * 100_000, value=b"v", form=form)
    assert isinstance(await texts.error(texts.kv.Put(refused, metadata=texts.of("alice"))), PermissionDenied)
    (row,) = await texts.until_rows(user="alice", result="refused")
    assert row["key"].startswith("xxx")
    assert len(row["key"]) <= TEXT_MAX
    unnamed = kv_pb2.KVPutRequest(table="orders", value=b"{}", form=form)
    assert isinstance(await texts.error(texts.kv.Put(unnamed, metadata=texts.of("alice"))), PermissionDenied)
    await texts.until_rows(user="alice", result="refused", key="")


async def test_a_row_that_is_put_without_its_key_has_it_in_the_audit(tmp_path: Path) -> None:
    settings = replace(AuditSettings.parse(["flights:write"]), window_s=0.05)
    async with audited_server(tmp_path / "data", audit=settings) as (server, calls):
        spec = TableSpec("flights", 2, definition=UNNUMBERED_FLIGHTS)
        await server.data_plane.create_table(spec, timeout=patience_s(30))
        await calls.add_user("root", "admin *", "read,write *", "read _duramen_audit")
        of_root, form = calls.of("root"), kv_pb2.KV_FORM_JSON
        rows = [b'{"dep_delay":1.5,"carrier":"UA","flight":%d}' % number for number in (1545, 1549, 15)]
        put = kv_pb2.KVPutRequest(table="flights", value=rows[0], form=form)
        assert await calls.error(calls.kv.Put(put, metadata=of_root)) is None
        (row,) = await calls.until_rows(kind="write", action="KV/Put")
        assert row["key"] == '["UA",1545]'
        writes = [kv_pb2.KVWrite(put=rows[1]), kv_pb2.KVWrite(key=b'["UA",15]', put=rows[2])]
        group = kv_pb2.KVWriteRequest(table="flights", writes=writes, form=form)
        await calls.error(calls.kv.Write(group, metadata=of_root))
        (row,) = await calls.until_rows(kind="write", action="KV/Write")
        assert row["key"] == '["UA",15'
        large = kv_pb2.KVPutRequest(table="flights", value=b" " * KEYED_TEXT_MAX + rows[0], form=form)
        assert await calls.error(calls.kv.Put(large, metadata=of_root)) is None
        await calls.until_rows(kind="write", action="KV/Put", key="")
        await calls.add_user("alice", "read flights")
        assert isinstance(await calls.error(calls.kv.Put(put, metadata=calls.of("alice"))), PermissionDenied)
        (row,) = await calls.until_rows(user="alice", result="refused")
        assert row["key"] == '["UA",1545]'
