"""Every endpoint of a server whose certificate is a wrong one, with the clients that people have for it.

What clients show at ports that ask for a certificate is in test_peer_port.py; here it is what a server shows, at every
port, and what a client's certificate is worth at ports that ask for none.
"""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

import grpc
import pytest
from kit.certs_at_hand import CertsAtHand
from kit.client.command_line import run_here
from kit.client.server_process import ServerProcess, run_duramen
from kit.deadlines import patience_s, until, within
from kit.http import http_get
from kit.resp.raw_client import Raw, RawError

import duramen
from duramen import aio
from duramen.certificates.channel_files import ChannelFiles
from duramen.server.roles.all_in_one import SingleServer
from duramen.server.roles.http_port import opened_with_http
from duramen.server.roles.log_role import LogRole
from duramen.server.roles.node_role import NodeRole
from duramen.server.roles.router_role import RouterRole
from duramen.server.wiring.server_certificates import ServerCertificates
from log_tier.model.errors import HandshakeFailed
from log_tier.remote.remote_log import RemoteLog
from log_tier.rpc.problems import error_of_call
from log_tier.rpc.security import channel_credentials, secured
from log_tier.trust.trust_commands import AddUser
from router.endpoints.resp.server.sockets import RespSettings
from serving_tier.proto import node_pb2, node_pb2_grpc

pytestmark = pytest.mark.embedded_log_only

DEADLINE_S: Final = 30

ADVICE: Final = {
    "another host": "for other hosts",
    "another CA": "not of the CA that was given",
    "expired": "has expired",
    "early": "not valid yet",
}
"""What is wrong with a server's certificate, and what our clients say of it."""

OPENSSL: Final = {
    "another host": "ostname mismatch",
    "another CA": "certificate verify failed",
    "expired": "certificate has expired",
    "early": "certificate is not yet valid",
}
"""What OpenSSL says, whose words all other clients use."""


class Wrong(NamedTuple):
    """A server with a wrong certificate, and the files of a client that would trust the right one."""

    what: str
    certs: CertsAtHand
    client: ChannelFiles

    def trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.client.ca))


def wrong(path: Path, what: str) -> Wrong:
    days = {"expired": -400, "early": 30}.get(what, 0)
    hosts = ("elsewhere.example",) if what == "another host" else ("localhost",)
    certs = CertsAtHand(path, days, hosts)
    client = certs.issue("client")
    return Wrong(what, certs, client._replace(ca=certs.other_ca) if what == "another CA" else client)


@pytest.fixture(scope="module", params=ADVICE)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Wrong:
    return wrong(tmp_path_factory.mktemp("wrong"), request.param)


@pytest.fixture(scope="module")
def served(made: Wrong, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """All ports of one server in a process of its own; a reader process accepts connections of the Redis protocol."""
    path = tmp_path_factory.mktemp("served")
    arguments = ["--certs", str(made.certs.path), "--resp-port", "0", "--resp-readers", "1"]
    arguments += ["--peer-port", "0", "--http-port", "0"]
    server = ServerProcess(path / "data", log=path / "log", arguments=arguments)
    yield server
    server.close()


def at(served: ServerProcess, port: str = "port") -> str:
    return f"localhost:{served.announcement[port]}"


def test_data(served: ServerProcess, made: Wrong) -> None:
    with pytest.raises(HandshakeFailed, match=ADVICE[made.what]) as refused:
        duramen.connect(f"duramens://{at(served)}", ca=made.client.ca)
    assert refused.value.fields["sent"] == 0


async def test_data_for_an_asynchronous_client(served: ServerProcess, made: Wrong) -> None:
    with pytest.raises(HandshakeFailed, match=ADVICE[made.what]):
        await aio.connect(f"duramens://{at(served)}", ca=made.client.ca)


@pytest.mark.parametrize("command", ["health", "admin nodes", "table list", "user list", "audit"])
def test_commands(served: ServerProcess, made: Wrong, command: str) -> None:
    done = run_here(*command.split(), "--ca", str(made.client.ca), at=f"duramens://{at(served)}")
    assert (done.returncode, ADVICE[made.what] in done.stderr) == (5, True), (command, done.stderr)


async def test_a_peer_port(served: ServerProcess, made: Wrong) -> None:
    """A server that calls another one, with a right certificate of its own."""
    credentials = channel_credentials(made.client)
    async with grpc.aio.secure_channel(at(served, "peer_port"), credentials) as channel:
        status: Any = node_pb2_grpc.NodeStub(channel)  # type: ignore[no-untyped-call]
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await status.Status(node_pb2.StatusRequest(once=True), timeout=patience_s(DEADLINE_S)).read()
    refused = error_of_call(failure.value, "a node")
    assert isinstance(refused, HandshakeFailed), refused
    assert ADVICE[made.what] in refused.message


def test_the_redis_protocol(served: ServerProcess, made: Wrong) -> None:
    raw = Raw(("localhost", int(served.announcement["resp_port"])))
    with raw, pytest.raises(ssl.SSLCertVerificationError, match=OPENSSL[made.what]):
        made.trust().wrap_socket(raw.socket, server_hostname="localhost")


def test_redis_own_client(served: ServerProcess, made: Wrong) -> None:
    """It compares no name of a host; all else it refuses."""
    command = ["redis-cli", "-h", "localhost", "-p", str(served.announcement["resp_port"]), "--tls"]
    command += ["--cacert", str(made.client.ca), "PING"]
    done = subprocess.run(command, capture_output=True, timeout=patience_s(DEADLINE_S), check=False)
    assert (done.stdout == b"PONG\n") == (made.what == "another host"), done.stderr


@pytest.mark.parametrize("path", ["/metrics", "/status", "/", "/console/call", "/events", "/subjects"])
async def test_http(served: ServerProcess, made: Wrong, path: str) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match=OPENSSL[made.what]):
        await http_get(int(served.announcement["http_port"]), path, tls=made.trust())


async def test_a_log_of_a_process_of_its_own(made: Wrong, tmp_path: Path) -> None:
    """A client of the log, and a node, which ends and says why."""
    certificates = ServerCertificates.open(made.certs.path)
    log = await LogRole.open(tmp_path / "log", host="127.0.0.1", port=0, certificates=certificates)
    try:
        with secured(made.client):
            remote = await RemoteLog.open(f"localhost:{log.port}")
        with pytest.raises(HandshakeFailed, match=ADVICE[made.what]):
            await remote.topics()
        await remote.close()
        own = CertsAtHand(tmp_path / "node")
        if made.what != "another CA":
            made.certs.issue("n1")
            for name in ("ca.crt", "n1.crt", "n1.key"):
                (own.path / name.replace("n1", "server")).write_bytes((made.certs.path / name).read_bytes())
        arguments = ["serve", "node", "--data", str(tmp_path / "n1"), "--log", f"grpc://localhost:{log.port}"]
        ended = await asyncio.to_thread(run_duramen, *arguments, "--port", "0", "--certs", str(own.path))
        assert (ended.returncode != 0, len(ended.stderr.splitlines())) == (True, 1), ended.stderr
        assert ADVICE[made.what] in ended.stderr
    finally:
        await log.close()


async def test_nodes_do_not_call_one_whose_certificate_is_for_another_host(tmp_path: Path) -> None:
    """The log lets it in, since its certificate is a server's; who would call it sees that it is another machine's."""
    certs = CertsAtHand(tmp_path)
    other = wrong(tmp_path / "other", "another host").certs
    (certs.path / "ca.crt").write_bytes(certs.ca.read_bytes() + other.ca.read_bytes())
    (other.path / "ca.crt").write_bytes(certs.ca.read_bytes())
    where: Any = {"host": "127.0.0.1", "port": 0}
    async with AsyncExitStack() as opened, within(DEADLINE_S):
        right = ServerCertificates.open(certs.path)
        log = await LogRole.open(tmp_path / "log", certificates=right, **where)
        opened.push_async_callback(log.close)
        where |= {"log_url": f"grpc://localhost:{log.port}", "peer_port": 0, "advertise": "localhost:0"}
        nodes: dict[str, NodeRole] = {}
        for name, folder in (("n1", certs), ("n2", other)):
            with secured(folder.client("server")):
                certificates = ServerCertificates.open(folder.path)
                nodes[name] = await NodeRole.open(tmp_path / name, node_id=name, certificates=certificates, **where)
                opened.push_async_callback(nodes[name].close)
        with secured(certs.client("server")):
            del where["advertise"]
            router = await RouterRole.open(certificates=right, **where)
            opened.push_async_callback(router.close)
        members = router.connection.membership.members
        await until(lambda: members["n1"].alive)
        await until(lambda: members["n2"].known)
        assert (sorted(router.catalog.map.nodes), members["n2"].alive) == (["n1", "n2"], False)
        assert "for other hosts" in members["n2"].view.reason


async def test_a_certificate_proves_nothing_where_none_is_asked_for(tmp_path: Path) -> None:
    """That of a server and that of a user, once there are users. `test_users_by_certificate.py` has gRPC's ports."""
    certs = CertsAtHand(tmp_path)
    certs.issue("root", user=True)
    resp = RespSettings(port=0, tls_certificate=certs.path / "server.crt", tls_key=certs.path / "server.key")
    opening = SingleServer.open(
        tmp_path / "data", port=0, certificates=ServerCertificates.open(certs.path), resp_endpoint=resp
    )
    server = await opened_with_http(opening, 0, ServerCertificates.open(certs.path))
    catalog = server.data_plane.catalog
    try:
        await catalog.submit(AddUser("root", catalog.map.version, "", ("admin *", "read,write *")))
        for name in ("server", "root"):
            shows = ssl.create_default_context(cafile=str(certs.ca))
            shows.load_cert_chain(certs.path / f"{name}.crt", certs.path / f"{name}.key")
            for path in ("/status", "/metrics", "/events", "/subjects"):
                status, *_ = await http_get(server.http_port, path, tls=shows)
                assert status == 401, (name, path)

            def asked(shows: ssl.SSLContext = shows) -> object:
                with Raw(("localhost", server.resp_port)) as raw:
                    raw.socket = shows.wrap_socket(raw.socket, server_hostname="localhost")
                    return raw.call("GET", "k")

            assert await asyncio.to_thread(asked) == RawError("NOAUTH Authentication required.")
    finally:
        await server.close()
