"""A server with certificates: who gets in, and what everybody else hears."""

from __future__ import annotations

import asyncio
import pickle
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from kit.certs_at_hand import CertsAtHand, certificate_in, openssl
from kit.client.command_line import run_here
from kit.client.server_process import ServerProcess
from kit.cluster.up_cluster import UpCluster
from kit.deadlines import patience_s, wait_until

import duramen
from duramen import aio
from duramen.certificates.channel_files import ChannelFiles
from duramen.certificates.folder import CertificateFolder
from log_tier.catalog.remote.cluster_view import fetch_view
from log_tier.rpc.security import secured

pytestmark = pytest.mark.embedded_log_only  # TLS is of gRPC and RESP; the log is in the server's process


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> CertsAtHand:
    return CertsAtHand(tmp_path_factory.mktemp("secured"))


@pytest.fixture(scope="module")
def served(certs: CertsAtHand, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    path = tmp_path_factory.mktemp("served")
    arguments = ["--certs", str(certs.path), "--resp-port", "0"]
    server = ServerProcess(path / "data", log=path / "log", arguments=arguments)
    yield server
    server.close()


def pinged(port: int, ca: Path) -> bytes:
    """What Redis' own client gets for a PING over TLS."""
    command = ["redis-cli", "-h", "localhost", "-p", str(port), "--tls", "--cacert", str(ca), "PING"]
    return subprocess.run(command, capture_output=True, timeout=patience_s(30), check=False).stdout


def port_of(server: ServerProcess) -> int:
    return int(server.announcement["port"])


def test_a_client_with_the_ca_works(served: ServerProcess, certs: CertsAtHand) -> None:
    with duramen.connect(f"duramens://localhost:{port_of(served)}", ca=certs.ca) as db:
        table = db.create_table("flights", if_missing=True)
        table.put(b"a", b"1")
        with pickle.loads(pickle.dumps(db)) as again:
            assert again.table("flights").get(b"a") == b"1"


async def test_the_asynchronous_client_works(served: ServerProcess, certs: CertsAtHand) -> None:
    async with await aio.connect(f"duramens://localhost:{port_of(served)}", ca=certs.ca) as db:
        table = await db.create_table("flights", if_missing=True)
        await table.put(b"b", b"2")
        assert await table.get(b"b") == b"2"


def test_another_ca_is_refused(served: ServerProcess, certs: CertsAtHand) -> None:
    with pytest.raises(duramen.HandshakeFailed, match="not of the CA that was given") as refused:
        duramen.connect(f"duramens://localhost:{port_of(served)}", ca=certs.other_ca)
    assert refused.value.fields["sent"] == 0


def test_another_host_is_refused(served: ServerProcess, certs: CertsAtHand) -> None:
    with pytest.raises(duramen.HandshakeFailed, match="for other hosts"):
        duramen.connect(f"duramens://127.0.0.1:{port_of(served)}", ca=certs.ca)


def test_a_plain_client_hears_of_tls(served: ServerProcess) -> None:
    with pytest.raises(duramen.Disconnected, match="duramens://"):
        duramen.connect(f"localhost:{port_of(served)}", timeout=patience_s(5))


def test_a_client_with_tls_at_a_plain_server(certs: CertsAtHand, tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data", log=tmp_path / "log")
    try:
        with pytest.raises(duramen.HandshakeFailed, match="does not speak TLS"):
            duramen.connect(f"duramens://localhost:{port_of(server)}", ca=certs.ca)
    finally:
        server.close()


@pytest.mark.parametrize(("days", "words"), [(-400, "has expired"), (30, "not valid yet")])
def test_a_certificate_of_another_time_is_refused(tmp_path: Path, days: int, words: str) -> None:
    made = CertsAtHand(tmp_path, days)
    server = ServerProcess(tmp_path / "data", log=tmp_path / "log", arguments=["--certs", str(made.path)])
    try:
        with pytest.raises(duramen.HandshakeFailed, match=words):
            duramen.connect(f"duramens://localhost:{port_of(server)}", ca=made.ca)
    finally:
        server.close()


def test_what_cannot_be_is_refused_before_anything_is_sent(certs: CertsAtHand) -> None:
    with pytest.raises(duramen.InvalidRequest, match="needs the CA"):
        duramen.connect("duramens://localhost:1")
    with pytest.raises(duramen.InvalidRequest, match="with duramens://"):
        duramen.connect("localhost:1", ca=certs.ca)
    with pytest.raises(duramen.InvalidRequest, match="go together"):
        duramen.connect("duramens://localhost:1", ca=certs.ca, certificate=certs.ca)
    with pytest.raises(duramen.CertificateInvalid, match="cannot be read"):
        duramen.connect("duramens://localhost:1", ca=certs.path / "missing.crt")
    with pytest.raises(duramen.InvalidRequest, match="nothing proves the user alice"):
        duramen.connect("duramens://alice@localhost:1", ca=certs.ca)
    with pytest.raises(duramen.InvalidRequest, match="with TLS and without"):
        duramen.connect(["duramens://a:1", "b:1"], ca=certs.ca)


def test_commands_take_the_ca(served: ServerProcess, certs: CertsAtHand) -> None:
    at = f"duramens://localhost:{port_of(served)}"
    for command in (["health"], ["table", "list"], ["admin", "nodes"]):
        done = run_here(*command, "--ca", str(certs.ca), at=at)
        assert done.returncode == 0, (command, done.stderr)
    refused = run_here("health", "--ca", str(certs.other_ca), at=at)
    assert (refused.returncode, "not of the CA" in refused.stderr) == (5, True), refused.stderr


def test_openssl_verifies_the_server(served: ServerProcess, certs: CertsAtHand) -> None:
    asked = ["s_client", "-connect", f"localhost:{port_of(served)}", "-alpn", "h2", "-verify_return_error"]
    assert "ALPN protocol: h2" in openssl(*asked, "-verify_hostname", "localhost", "-CAfile", str(certs.ca))


def test_redis_clients_get_the_same_certificate(served: ServerProcess, certs: CertsAtHand) -> None:
    assert pinged(served.announcement["resp_port"], certs.ca) == b"PONG\n"


def test_a_new_certificate_is_used_without_a_restart(tmp_path: Path) -> None:
    made = CertsAtHand(tmp_path)
    server = ServerProcess(tmp_path / "data", log=tmp_path / "log", arguments=["--certs", str(made.path)])
    try:
        asked = ["s_client", "-connect", f"localhost:{port_of(server)}", "-alpn", "h2", "-CAfile", str(made.ca)]
        before = openssl(*asked)
        made.folder.rotate("server")
        after = openssl(*asked)
        assert certificate_in(before) != certificate_in(after)
        assert certificate_in(after) in (made.path / "server.crt").read_text()
        (made.path / "server.crt").write_text("no certificate")
        assert certificate_in(openssl(*asked)) == certificate_in(after)
        wait_until(lambda: "goes on with the old ones" in (tmp_path / "log").read_text(), "the server reports it")
    finally:
        server.close()


def test_redis_clients_get_a_new_certificate_without_a_restart(tmp_path: Path) -> None:
    made = CertsAtHand(tmp_path)
    arguments = ["--certs", str(made.path), "--resp-port", "0"]
    server = ServerProcess(tmp_path / "data", log=tmp_path / "log", arguments=arguments)
    try:
        asked = ["s_client", "-connect", f"localhost:{server.announcement['resp_port']}", "-CAfile", str(made.ca)]
        before = certificate_in(openssl(*asked))
        made.folder.rotate("server")
        after = certificate_in(openssl(*asked))
        assert before != after
        assert after in (made.path / "server.crt").read_text()
        (made.path / "server.crt").write_text("no certificate")
        assert certificate_in(openssl(*asked)) == after
    finally:
        server.close()


def test_a_folder_without_a_server_is_refused_with_the_command(tmp_path: Path) -> None:
    CertificateFolder(tmp_path / "certs").make_authority()
    done = run_here("up", "--data", str(tmp_path / "data"), "--port", "0", "--certs", str(tmp_path / "certs"))
    assert done.returncode == 1
    assert "duramen cert issue server --server" in done.stderr


def test_a_cluster_speaks_tls_between_its_servers_and_to_clients(tmp_path: Path) -> None:
    made = CertsAtHand(tmp_path, hosts=("localhost", "127.0.0.1"))
    cluster = UpCluster(tmp_path, certs=made.path)
    try:
        with duramen.connect(f"duramens://localhost:{cluster.port}", ca=made.ca, timeout=patience_s(30)) as db:
            table = db.create_table("flights", partitions=4, replicas=2)
            for number in range(20):
                table.put(b"%d" % number, b"v")
            assert [len(list(table.scan())), table.get(b"7", level="strong")] == [20, b"v"]
        with secured(ChannelFiles(made.ca)):
            view = asyncio.run(fetch_view(f"localhost:{cluster.port}", timeout=patience_s(30)))
        assert view.log_url == "", "the log is for servers: clients must not wait for it"
        assert sorted(cluster.ports) == ["log", "n1", "n2", "n3", "router"]
        for port in cluster.ports.values():
            with pytest.raises(duramen.HandshakeFailed, match="not of the CA"):
                duramen.connect(f"duramens://localhost:{port}", ca=made.other_ca)
        for port in cluster.endpoints.values():
            assert pinged(port, made.ca) == b"PONG\n"
    finally:
        cluster.close()
