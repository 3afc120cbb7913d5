"""Ports where every client shows a certificate: who gets in, and who may call the log there."""

from __future__ import annotations

import asyncio
import json
import os
import select
import shutil
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from kit.certs_at_hand import CertsAtHand
from kit.client.command_line import run_here
from kit.client.server_process import ServerProcess, run_duramen
from kit.deadlines import patience_s, within

from duramen import aio
from duramen.certificates.channel_files import ChannelFiles
from duramen.certificates.identity import CertificateIdentity, identity_of
from duramen.server.roles.grpc_server import GrpcServer
from duramen.server.roles.log_role import LogRole
from duramen.server.roles.node_role import NodeRole
from duramen.server.roles.router_role import RouterRole
from duramen.server.roles.servers_only import check_server
from duramen.server.wiring.server_certificates import ServerCertificates
from log_tier.model.errors import Disconnected, HandshakeFailed, PermissionDenied, PortInUse
from log_tier.proto import log_pb2, log_pb2_grpc
from log_tier.remote.remote_log import RemoteLog
from log_tier.rpc.channel import CHANNEL_OPTIONS
from log_tier.rpc.security import channel_credentials, secured, shown_certificate

pytestmark = pytest.mark.embedded_log_only

DEADLINE_S = 30


class Matrix:
    """Clients of a server, the right one and all others. The CA is old enough to have signed what has expired."""

    def __init__(self, path: Path) -> None:
        self.certs = CertsAtHand(path, days=-800)
        (self.certs.path / "server.crt").unlink()
        (self.certs.path / "server.key").unlink()
        self.certs.issue("server")
        others = CertsAtHand(path / "others")
        self.clients = {
            "right": self.certs.issue("n1"),
            "user": self.certs.issue("alice", user=True),
            "expired": self.certs.issue("was", days=-700),
            "early": self.certs.issue("will", days=30),
            "none": ChannelFiles(self.certs.ca),
            "other": others.client("server")._replace(ca=self.certs.ca),
            "stranger": others.client("server"),
        }

    def server(self) -> ServerCertificates:
        return ServerCertificates.open(self.certs.path)


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Matrix:
    return Matrix(tmp_path_factory.mktemp("matrix"))


@pytest.fixture
async def log(matrix: Matrix, tmp_path: Path) -> AsyncIterator[LogRole]:
    role = await LogRole.open(tmp_path / "log", host="127.0.0.1", port=0, certificates=matrix.server())
    yield role
    await role.close()


async def topics_of(port: int, client: ChannelFiles | None) -> list[Any]:
    """What the log at a port says of its topics to a client."""
    with secured(client):
        remote = await RemoteLog.open(f"localhost:{port}")
    try:
        return list(await remote.topics())
    finally:
        await remote.close()


class TestLogPort:
    async def test_a_server(self, log: LogRole, matrix: Matrix) -> None:
        assert await topics_of(log.port, matrix.clients["right"]) == []

    async def test_a_user_is_no_server(self, log: LogRole, matrix: Matrix) -> None:
        """Not by a single call, not by a stream, and not after a server was let in."""
        await topics_of(log.port, matrix.clients["right"])
        with pytest.raises(PermissionDenied, match=r"Log/Topics is for servers .* the user 'alice'"):
            await topics_of(log.port, matrix.clients["user"])
        channel = grpc.aio.secure_channel(
            f"localhost:{log.port}", channel_credentials(matrix.clients["user"]), options=CHANNEL_OPTIONS
        )
        async with channel:
            reading: Any = log_pb2_grpc.LogStub(channel)  # type: ignore[no-untyped-call]
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await reading.Read(log_pb2.LogReadRequest(), timeout=DEADLINE_S).read()
            assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
            health: Any = health_pb2_grpc.HealthStub(channel)
            reply = await health.Check(health_pb2.HealthCheckRequest(), timeout=DEADLINE_S)
            assert reply.status == health_pb2.HealthCheckResponse.SERVING

    @pytest.mark.parametrize("who", ["none", "other", "expired", "early"])
    async def test_who_is_not_let_in(self, log: LogRole, matrix: Matrix, who: str) -> None:
        with pytest.raises(Disconnected, match="closes on who shows no valid one") as refused:
            await topics_of(log.port, matrix.clients[who])
        assert refused.value.fields["sent"] == 0

    async def test_who_trusts_another_ca(self, log: LogRole, matrix: Matrix) -> None:
        with pytest.raises(HandshakeFailed, match="not of the CA"):
            await topics_of(log.port, matrix.clients["stranger"])

    async def test_plain_tcp(self, log: LogRole) -> None:
        with pytest.raises(Disconnected):
            await topics_of(log.port, None)


class TestTwoPorts:
    @staticmethod
    @asynccontextmanager
    async def serving(matrix: Matrix) -> AsyncIterator[tuple[GrpcServer, list[bytes | None]]]:
        """A shell with both ports, and the certificates that its callers showed."""
        shell = await GrpcServer.listen("127.0.0.1", 0, certificates=matrix.server(), peer_port=0)
        shown: list[bytes | None] = []

        async def note(_request: bytes, context: Any) -> bytes:
            shown.append(shown_certificate(context))
            return b""

        handlers = {"Note": grpc.unary_unary_rpc_method_handler(note)}
        shell.registry.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("test.Noting", handlers)])
        await shell.start(())
        yield shell, shown
        await shell.close()

    @staticmethod
    async def called(port: int | None, client: ChannelFiles) -> None:
        credentials = channel_credentials(client)
        async with grpc.aio.secure_channel(f"localhost:{port}", credentials, options=CHANNEL_OPTIONS) as channel:
            note = channel.unary_unary("/test.Noting/Note", bytes, bytes)
            await note(b"", timeout=DEADLINE_S)

    async def test_the_peer_port_knows_who_calls(self, matrix: Matrix) -> None:
        async with self.serving(matrix) as (shell, shown):
            assert shell.peer_address == f"127.0.0.1:{shell.peer_port}"
            for who in ("right", "user"):
                await self.called(shell.peer_port, matrix.clients[who])
            assert [identity_of(each or b"") for each in shown] == [
                CertificateIdentity("server", "n1"),
                CertificateIdentity("user", "alice"),
            ]
            assert shown[0] == (matrix.certs.path / "n1.crt").read_bytes()

    async def test_the_other_port_asks_nobody(self, matrix: Matrix) -> None:
        """Also where a client would show one, of whatever time and CA."""
        async with self.serving(matrix) as (shell, shown):
            for who in ("right", "user", "none", "expired", "other"):
                await self.called(shell.port, matrix.clients[who])
            assert shown == [None] * 5

    @pytest.mark.parametrize("who", ["none", "other", "expired", "early"])
    async def test_who_is_not_let_in(self, matrix: Matrix, who: str) -> None:
        async with self.serving(matrix) as (shell, shown):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await self.called(shell.peer_port, matrix.clients[who])
            assert (refused.value.code(), shown) == (grpc.StatusCode.UNAVAILABLE, [])

    async def test_both_ports_take_new_certificates(self, tmp_path: Path) -> None:
        matrix = Matrix(tmp_path)
        async with self.serving(matrix) as (shell, shown):
            for _ in range(2):
                matrix.certs.folder.rotate("server")
                new = (matrix.certs.path / "server.crt").read_bytes()
                for port in (shell.port, shell.peer_port):
                    got = await asyncio.to_thread(ssl.get_server_certificate, ("localhost", port or 0))
                    assert got == new.decode()
            assert shown == []

    async def test_a_peer_port_that_is_taken(self, matrix: Matrix) -> None:
        async with self.serving(matrix) as (shell, _):
            with pytest.raises(PortInUse, match=f"port {shell.peer_port} .*--peer-port"):
                await GrpcServer.listen("127.0.0.1", 0, certificates=matrix.server(), peer_port=shell.peer_port)
        with pytest.raises(PortInUse, match="there is no port 70000"):
            await GrpcServer.listen("127.0.0.1", 0, certificates=matrix.server(), peer_port=70_000)


@pytest.mark.parametrize(
    ("certificate", "words"),
    [(None, "a client without a certificate"), (b"no certificate", "a certificate without a name")],
)
def test_no_server_at_all(certificate: bytes | None, words: str) -> None:
    with pytest.raises(PermissionDenied, match=f"/x/Y is for servers of the cluster, and {words}"):
        check_server(certificate, "/x/Y")


@pytest.mark.parametrize("shows", ["nothing", "what another CA signed", "a user's"])
async def test_a_stolen_disk_is_no_member(log: LogRole, matrix: Matrix, tmp_path: Path, shows: str) -> None:
    """A node that was a member is started on its disk without its certificate: it ends, and says in one line why."""
    arguments = ["serve", "node", "--data", str(tmp_path / "n1"), "--log", f"grpc://localhost:{log.port}"]
    arguments += ["--port", "0", "--json"]
    member = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "duramen", *arguments, "--certs", str(matrix.certs.path)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
    )
    assert member.stdout is not None
    async with within(DEADLINE_S):
        assert json.loads(await member.stdout.readline())["peer_port"] > 0
        member.terminate()
        await member.communicate()
    thief = tmp_path / "thief"
    thief.mkdir()
    client = matrix.clients["other" if shows == "what another CA signed" else "user"]
    for source, name in zip(client, ("ca.crt", "server.crt", "server.key"), strict=True):
        assert source is not None
        shutil.copy(source, thief / name)
    certs = [] if shows == "nothing" else ["--certs", str(thief)]
    ended = await asyncio.to_thread(run_duramen, *arguments, *certs)
    assert ended.returncode != 0
    [line] = ended.stderr.splitlines()
    assert ("no server's certificate" if shows == "a user's" else "closes on who shows no valid one") in line


async def test_servers_call_nodes_at_their_peer_port(log: LogRole, matrix: Matrix, tmp_path: Path) -> None:
    """Clients at the other one, without a certificate; both by the same map."""
    settings: Any = {"log_url": f"grpc://localhost:{log.port}", "host": "127.0.0.1", "port": 0, "peer_port": 0}
    settings["certificates"] = matrix.server()
    async with AsyncExitStack() as opened, within(DEADLINE_S):
        nodes: dict[str, NodeRole] = {}
        with secured(matrix.clients["right"]):
            for name in ("n1", "n2"):
                where = "localhost:0"
                nodes[name] = await NodeRole.open(tmp_path / name, node_id=name, advertise=where, **settings)
                opened.push_async_callback(nodes[name].close)
            router = await RouterRole.open(**settings)
            opened.push_async_callback(router.close)
        entries = router.catalog.map.nodes
        assert {name: entry.address for name, entry in entries.items()} == {
            name: f"localhost:{node.port}" for name, node in nodes.items()
        }
        members = router.connection.membership.members
        assert {name: (member.address, member.alive) for name, member in members.items()} == {
            name: (f"localhost:{node.shell.peer_port}", True) for name, node in nodes.items()
        }
        client = await aio.connect(f"duramens://localhost:{nodes['n1'].port}", ca=matrix.certs.ca)
        opened.push_async_callback(client.close)
        table = await client.create_table("flights", partitions=4, replicas=1)
        for number in range(16):
            await table.put(b"%d" % number, b"v")
            assert await table.get(b"%d" % number) == b"v"
        through = await aio.connect(f"duramens://localhost:{nodes['n1'].port}", ca=matrix.certs.ca, direct=False)
        opened.push_async_callback(through.close)
        flights = through.table("flights")
        assert [await flights.get(b"%d" % number, level="strong") for number in range(16)] == [b"v"] * 16


class TestUp:
    def test_openssl_at_the_peer_port(self, tmp_path: Path) -> None:
        certs = CertsAtHand(tmp_path)
        certs.issue("alice", user=True)
        arguments = ["--certs", str(certs.path), "--peer-port", "0"]
        server = ServerProcess(tmp_path / "data", log=tmp_path / "log", arguments=arguments)
        try:
            at = f"localhost:{server.announcement['peer_port']}"
            asked = ["openssl", "s_client", "-connect", at, "-alpn", "h2", "-CAfile", str(certs.ca), "-quiet"]
            shown = ["-cert", str(certs.path / "alice.crt"), "-key", str(certs.path / "alice.key")]
            # The client's preface and an empty SETTINGS frame; the server's own SETTINGS answer it.
            preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
            nobody = subprocess.run(asked, input=preface, capture_output=True, timeout=patience_s(60), check=False)
            assert (nobody.returncode != 0, nobody.stdout) == (True, b""), nobody.stderr
            alice = subprocess.Popen([*asked, *shown], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            assert alice.stdin is not None
            alice.stdin.write(preface)
            alice.stdin.flush()
            assert read_bytes(alice, 9)[3] == 4, "a SETTINGS frame"
            alice.kill()
            alice.communicate(timeout=patience_s(60))
        finally:
            server.close()

    def test_a_peer_port_needs_certificates(self, tmp_path: Path) -> None:
        for command in (["up"], ["serve", "node"]):
            done = run_here(*command, "--data", str(tmp_path / "data"), "--port", "0", "--peer-port", "7171")
            assert (done.returncode, "goes with --certs" in done.stderr) == (2, True), done.stderr


def read_bytes(process: subprocess.Popen[bytes], count: int) -> bytes:
    assert process.stdout is not None
    found = b""
    while len(found) < count and select.select([process.stdout], [], [], patience_s(30))[0]:
        piece = os.read(process.stdout.fileno(), count - len(found))
        if not piece:
            break
        found += piece
    assert len(found) == count, found
    return found
