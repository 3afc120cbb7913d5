"""Callers at a peer port, where the certificate says who calls."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from kit.certs_at_hand import CertsAtHand
from kit.deadlines import patience_s

from duramen.server.roles.all_in_one import SingleServer
from duramen.server.wiring.server_certificates import ServerCertificates
from log_tier.access.authenticator import bearer_header
from log_tier.access.tokens import mint_token
from log_tier.model.errors import PermissionDenied, Unauthenticated
from log_tier.proto import log_pb2
from log_tier.rows.table_spec import TableSpec
from log_tier.rpc.problems import error_of_call
from log_tier.rpc.security import channel_credentials
from log_tier.trust.trust_commands import AddToken, AddUser, GrantRights, RemoveUser
from router.proto import kv_pb2

pytestmark = pytest.mark.embedded_log_only

GET = kv_pb2.KVGetRequest(table="orders", key=b"k")
TOPICS = log_pb2.TopicsRequest()


class PeerPort:
    """A server with users, a port without certificates of clients, and one with them."""

    def __init__(self, server: SingleServer, certs: CertsAtHand) -> None:
        self.server = server
        self.certs = certs
        self.catalog = server.data_plane.catalog

    async def error(self, name: str, method: str, request: Any, header: str = "", *, peer: bool = True) -> Any:
        """The type of the error of a call by the holder of a certificate; None if it has none."""
        port = self.server.shell.peer_port if peer else self.server.port
        metadata = (("authorization", header),) if header else ()
        async with grpc.aio.secure_channel(
            f"localhost:{port}", channel_credentials(self.certs.client(name))
        ) as channel:
            call = channel.unary_unary(f"/duramen.v1.{method}", None, None)
            try:
                await call(request.SerializeToString(), metadata=metadata, timeout=patience_s(30))
            except grpc.aio.AioRpcError as failure:
                return type(error_of_call(failure, "the server"))
        return None


@pytest.fixture
async def peers(tmp_path: Path) -> AsyncIterator[PeerPort]:
    certs = CertsAtHand(tmp_path)
    for user in ("alice", "stranger"):
        certs.issue(user, user=True)
    server = await SingleServer.open(
        tmp_path / "data", host="localhost", port=0, peer_port=0, certificates=ServerCertificates.open(certs.path)
    )
    made = PeerPort(server, certs)
    try:
        await server.data_plane.create_table(TableSpec("orders", 2), timeout=patience_s(30))
        for name, grant in (("root", "admin *"), ("alice", "read orders")):
            await made.catalog.submit(AddUser(name, made.catalog.map.version, "", (grant,)))
        yield made
    finally:
        await server.close()


async def test_a_certificate_of_a_server_may_do_everything(peers: PeerPort) -> None:
    assert await peers.error("server", "Log/Topics", TOPICS) is None
    assert await peers.error("server", "KV/Get", GET) is None


async def test_a_certificate_of_a_user_has_its_grants(peers: PeerPort) -> None:
    assert await peers.error("alice", "KV/Get", GET) is None
    assert await peers.error("alice", "KV/Put", kv_pb2.KVPutRequest(table="orders", key=b"k")) is PermissionDenied
    assert await peers.error("alice", "Log/Topics", TOPICS) is PermissionDenied
    await peers.catalog.submit(RemoveUser("alice", peers.catalog.map.version))
    assert await peers.error("alice", "KV/Get", GET) is Unauthenticated


async def test_a_certificate_of_no_user_proves_nothing(peers: PeerPort) -> None:
    assert await peers.error("stranger", "KV/Get", GET) is Unauthenticated
    assert await peers.error("stranger", "Log/Topics", TOPICS) is Unauthenticated


async def test_a_port_that_asks_for_no_certificate_takes_none_as_proof(peers: PeerPort) -> None:
    for name in ("server", "alice"):
        assert await peers.error(name, "KV/Get", GET, peer=False) is Unauthenticated


async def test_a_token_counts_more_than_the_certificate(peers: PeerPort) -> None:
    """Who gives a token acts as its user, also a server: it does not have more rights by its certificate."""
    token = mint_token("alice")
    await peers.catalog.submit(AddToken("alice", peers.catalog.map.version, token.id, token.sha256))
    header = bearer_header(token.text)
    assert await peers.error("server", "Log/Topics", TOPICS, header) is PermissionDenied
    assert await peers.error("stranger", "KV/Get", GET, header) is None
    assert await peers.error("server", "KV/Get", GET, bearer_header(mint_token("alice").text)) is Unauthenticated


async def test_a_user_that_is_named_like_a_server_is_none(peers: PeerPort) -> None:
    await peers.catalog.submit(AddUser("server", peers.catalog.map.version))
    peers.certs.issue("n9", user=True)
    await peers.catalog.submit(AddUser("n9", peers.catalog.map.version))
    assert await peers.error("n9", "KV/Get", GET) is PermissionDenied
    await peers.catalog.submit(GrantRights("n9", peers.catalog.map.version, "read orders"))
    assert await peers.error("n9", "KV/Get", GET) is None
    assert await peers.error("n9", "Log/Topics", TOPICS) is PermissionDenied
