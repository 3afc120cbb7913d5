"""Calls over their user's quota, which are refused before their message is read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from kit.deadlines import patience_s
from kit.guarded_grpc import Guarded

from duramen.server.roles.all_in_one import SingleServer
from log_tier.model.errors import InvalidRequest, Overloaded
from log_tier.rows.table_spec import TableSpec
from log_tier.trust.trust_commands import SetQuota
from router.proto import kv_pb2

pytestmark = pytest.mark.embedded_log_only


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[Guarded]:
    """A server whose user alice is over her quota for hours."""
    server = await SingleServer.open(tmp_path / "data", port=0)
    made = Guarded(server)
    try:
        await server.data_plane.create_table(TableSpec("orders", 2), timeout=patience_s(30))
        await made.add_user("root", "admin *", "read,write *")
        await made.add_user("alice", "write orders")
        await made.submit(lambda seen: SetQuota("user:alice", seen, bytes_in_s=10))
        put = kv_pb2.KVPutRequest(table="orders", key=b"k", value=bytes(100_000))
        await made.kv.Put(put, metadata=made.of("alice"))
        yield made
    finally:
        await made.channel.close(None)
        await server.close()


async def test_who_is_over_its_quota_is_refused_before_its_message_is_read(guarded: Guarded) -> None:
    """What does not parse, and what never comes, are refused by the quota; other users are not."""
    garbage = guarded.channel.unary_unary("/duramen.v1.KV/Put", None, None)
    unsent: Any = guarded.channel.stream_unary("/duramen.v1.KV/Put", None, None)
    for call in (garbage(b"\xff", metadata=guarded.of("alice")), unsent(metadata=guarded.of("alice"))):
        refusal = await guarded.error(call)
        assert isinstance(refusal, Overloaded), refusal
        assert "user:alice has a quota of 10 bytes of requests a second" in refusal.message
        assert int(refusal.fields["wait_ms"]) > 1_000_000
    assert isinstance(await guarded.error(garbage(b"\xff", metadata=guarded.of("root"))), InvalidRequest)
    health = health_pb2_grpc.HealthStub(guarded.channel)
    answer = await health.Check(health_pb2.HealthCheckRequest(), metadata=guarded.of("alice"))
    assert answer.status == health_pb2.HealthCheckResponse.SERVING, "it has no quota"


async def test_refusals_that_nobody_waits_for_come_a_hundred_a_second(guarded: Guarded) -> None:
    """Half of the callers go away before they hear theirs; another user is answered meanwhile."""
    put = kv_pb2.KVPutRequest(table="orders", key=b"k", value=b"v")
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    calls = [guarded.kv.Put(put, metadata=guarded.of("alice")) for _ in range(250)]
    refused = [asyncio.ensure_future(guarded.error(call)) for call in calls[:200]]
    assert (
        await guarded.error(guarded.kv.Get(kv_pb2.KVGetRequest(table="orders", key=b"k"), metadata=guarded.of("root")))
        is None
    )
    for call in calls[200:]:
        call.cancel()
    assert {type(error) for error in await asyncio.gather(*refused)} == {Overloaded}
    assert loop.time() - began_s >= 0.9, "a hundred at once, and the others in a second"
