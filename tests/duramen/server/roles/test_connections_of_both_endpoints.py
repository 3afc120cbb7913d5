"""The bound of a user's connections at gRPC, which counts peers, and at both endpoints together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
from kit.client.audited_server import AuditedCalls, audited_server
from kit.deadlines import until, within
from kit.resp.raw_client import Raw, Status

import duramen
from duramen.server.roles.all_in_one import SingleServer
from log_tier.model.errors import DuramenError, Overloaded
from log_tier.trust.trust_commands import SetQuota
from router.endpoints.resp.server.sockets import RespSettings
from router.proto import kv_pb2, kv_pb2_grpc

GET = kv_pb2.KVGetRequest(table="orders", key=b"k")
OPTIONS = [("grpc.use_local_subchannel_pool", 1)]
"""A channel has a connection of its own."""


class Peers:
    """Connections of users to one server, each of its own."""

    def __init__(self, server: SingleServer, calls: AuditedCalls) -> None:
        self.server = server
        self.calls = calls
        self._channels: list[grpc.aio.Channel] = []

    def connect(self) -> kv_pb2_grpc.KVStub:
        channel = grpc.aio.insecure_channel(f"127.0.0.1:{self.server.port}", options=OPTIONS)
        self._channels.append(channel)
        return kv_pb2_grpc.KVStub(channel)  # type: ignore[no-untyped-call]

    async def call(self, peer: kv_pb2_grpc.KVStub, user: str) -> DuramenError | None:
        return await self.calls.error(peer.Get(GET, metadata=self.calls.of(user)))

    async def bound(self, user: str, connections: int) -> None:
        await self.calls.submit(lambda seen: SetQuota(f"user:{user}", seen, connections=connections))

    def count(self, user: str) -> int:
        return self.server.access.quotas.connections.count(user)

    async def close(self) -> None:
        for channel in self._channels:
            await channel.close(None)


@pytest.fixture
async def peers(tmp_path: Path) -> AsyncIterator[Peers]:
    async with audited_server(tmp_path / "data", resp=RespSettings(port=0)) as (server, calls):
        for user, grants in (("root", ["admin *"]), ("alice", ["read orders"]), ("bob", ["read orders"])):
            await calls.add_user(user, *grants)
        made = Peers(server, calls)
        yield made
        await made.close()


async def test_over_the_bound_a_new_peer_is_refused(peers: Peers) -> None:
    await peers.bound("alice", 2)
    first, second, third = (peers.connect() for _ in range(3))
    for peer in (first, second, first):
        assert await peers.call(peer, "alice") is None
    error = await peers.call(third, "alice")
    assert isinstance(error, Overloaded)
    assert "user:alice has a quota of 2 open connections at this server" in error.message
    assert error.fields["wait_ms"] in (1000, "1000")
    assert await peers.call(third, "bob") is None, "another user has no bound"
    assert [await peers.call(peer, "alice") for peer in (first, second)] == [None, None]
    watch = third.Watch(kv_pb2.KVWatchRequest(table="orders"), metadata=peers.calls.of("alice"))
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        async with within(30):
            await watch.read()
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert (peers.count("alice"), peers.count("bob")) == (2, 1)


async def test_a_quota_that_changes_ends_no_connection(peers: Peers) -> None:
    every = [peers.connect() for _ in range(3)]
    assert [await peers.call(peer, "alice") for peer in every] == [None] * 3
    await peers.bound("alice", 1)
    assert [await peers.call(peer, "alice") for peer in every] == [None] * 3
    assert isinstance(await peers.call(peers.connect(), "alice"), Overloaded)
    await peers.bound("alice", 4)
    assert await peers.call(peers.connect(), "alice") is None


async def test_a_stream_holds_its_place_and_ends(peers: Peers) -> None:
    peer = peers.connect()
    watch = peer.Watch(kv_pb2.KVWatchRequest(table="orders"), metadata=peers.calls.of("alice"))
    async with within(30):
        await watch.read()
    (held,) = peers.server.access.quotas.connections._peers.values()
    assert held.streams == 1
    watch.cancel()
    await until(lambda: held.streams == 0)


async def test_both_endpoints_count_together(peers: Peers) -> None:
    await peers.bound("alice", 2)
    address = ("127.0.0.1", peers.server.resp_port)
    token = peers.calls.tokens["alice"].text
    raw, other = await asyncio.to_thread(Raw, address), await asyncio.to_thread(Raw, address)
    with raw, other:
        assert await asyncio.to_thread(raw.call, "AUTH", "alice", token) == Status("OK")
        first = peers.connect()
        assert await peers.call(first, "alice") is None
        assert isinstance(await peers.call(peers.connect(), "alice"), Overloaded)
        reply = await asyncio.to_thread(other.call, "AUTH", "alice", token)
        assert reply.text.startswith("TRYAGAIN user:alice has a quota of 2 open connections")
        raw.close()
        await until(lambda: peers.count("alice") == 1)
        assert await asyncio.to_thread(other.call, "AUTH", "alice", token) == Status("OK")
        assert await peers.call(first, "alice") is None


async def test_a_client_of_ours_goes_on_by_grpc_where_its_fast_path_has_no_place(peers: Peers) -> None:
    await peers.calls.add_user("carol", "read,write orders")
    await peers.bound("carol", 2)  # it asks for the way by one connection, and goes by another one
    token = peers.calls.tokens["carol"].text

    def use() -> list[bytes | None]:
        with duramen.connect(f"127.0.0.1:{peers.server.port}", token=token) as db:
            orders = db.table("orders")
            orders.put(b"k", b"v")
            return [orders.get(b"k") for _ in range(20)]

    assert await asyncio.to_thread(use) == [b"v"] * 20
    assert peers.count("carol") == 2
