"""Rows of the audit of calls that have their keys as JSON."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from kit.client.audited_server import AuditedCalls, audited_server

from log_tier.audit.audit_event import TEXT_MAX
from log_tier.audit.audit_settings import AuditSettings
from log_tier.model.errors import PermissionDenied
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
