"""Where the endpoint is: ports, sockets of the file system, passwords, TLS."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest
import redis
from kit.deadlines import patience_s
from kit.resp.raw_client import Raw, RawError, Status
from kit.resp.server_thread import ServerThread

from log_tier.model.errors import InvalidRequest, PortInUse
from router.endpoints.resp.server.sockets import RespSettings, RespSockets

OK = Status("OK")

READERS = pytest.mark.parametrize("readers", [0, 1])


class TestSecrets:
    @READERS
    def test_a_password(self, tmp_path: Path, readers: int) -> None:
        running = ServerThread(tmp_path, RespSettings(port=0, password="secret", readers=readers)).start()
        try:
            with running.connect() as raw:
                assert raw.call("GET", "a") == RawError("NOAUTH Authentication required.")
                assert raw.call("HELLO", "3").text.startswith("NOAUTH HELLO must be called")
                wrong = RawError("WRONGPASS invalid username-password pair or user is disabled.")
                assert raw.call("AUTH", "wrong") == wrong
                assert raw.call("AUTH", "somebody", "secret") == wrong
                assert raw.call("GET", "a") == RawError("NOAUTH Authentication required.")
                assert raw.call("AUTH", "secret") == OK
                assert raw.call("SET", "a", "1") == OK
            with running.connect() as raw:
                assert raw.call("HELLO", "3", "AUTH", "default", "secret")[b"proto"] == 3
                assert raw.call("GET", "a") == b"1"
                raw.call("RESET")
                assert raw.call("GET", "a") == RawError("NOAUTH Authentication required.")
        finally:
            running.close()

    @READERS
    def test_a_unix_socket(self, tmp_path: Path, readers: int) -> None:
        """It is the server's own, even if reader processes have the port."""
        path = tmp_path / "s"
        settings = RespSettings(socket_path=path, port=0 if readers else None, readers=readers)
        running = ServerThread(tmp_path / "data", settings).start()
        try:
            with Raw(str(path)) as raw:
                assert raw.call("SET", "a", "1") == OK
                if readers:
                    with running.connect() as other:
                        assert other.call("GET", "a") == b"1"
                assert f"addr={path}:0 " in raw.call("CLIENT", "INFO").decode()
        finally:
            running.close()
        assert not path.exists()

    @READERS
    def test_tls(self, tmp_path: Path, readers: int) -> None:
        certificate, secret = tmp_path / "cert.pem", tmp_path / "key.pem"
        make = shutil.which("openssl")
        if make is None:
            pytest.skip("openssl is not installed, and makes the certificate of this test")
        subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
        command = [make, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", *subject]
        subprocess.run([*command, "-keyout", str(secret), "-out", str(certificate)], check=True, capture_output=True)
        server = RespSettings(port=0, tls_certificate=certificate, tls_key=secret, readers=readers)
        running = ServerThread(tmp_path / "data", server).start()
        try:
            with redis.Redis(
                port=running.server.port, ssl=True, ssl_ca_certs=str(certificate), host="127.0.0.1"
            ) as client:
                assert client.set("a", "1")
                assert client.get("a") == b"1"
            with running.connect() as plain:
                plain.send(b"PING\r\n")
                with pytest.raises((ConnectionError, IndexError)):
                    plain.reply()
        finally:
            running.close()

    def test_tls_that_cannot_be(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidRequest, match="needs both a certificate and its key"):
            RespSockets.take(RespSettings(port=0, tls_certificate=tmp_path / "cert.pem"))
        with pytest.raises(InvalidRequest, match="cannot be used for TLS"):
            RespSockets.take(RespSettings(port=0, tls_certificate=tmp_path / "cert.pem", tls_key=tmp_path / "key.pem"))


class TestSockets:
    def test_a_port_is_taken_once(self) -> None:
        taken = RespSockets.take(RespSettings(port=0))
        with pytest.raises(PortInUse, match="--resp-port"):
            RespSockets.take(RespSettings(port=taken.port))
        taken.close()
        RespSockets.take(RespSettings(port=taken.port)).close()

    def test_a_unix_socket_of_a_killed_server_is_taken_over(self, tmp_path: Path) -> None:
        path = tmp_path / "s"
        taken = RespSockets.take(RespSettings(socket_path=path))
        with pytest.raises(PortInUse, match="another server may have it"):
            RespSockets.take(RespSettings(socket_path=path))
        taken.unix[0].close()  # as the kernel does for a process that is killed: the file stays
        again = RespSockets.take(RespSettings(socket_path=path))
        again.close()
        path.write_text("no socket")
        with pytest.raises(PortInUse):
            RespSockets.take(RespSettings(socket_path=path))
        assert path.read_text() == "no socket"


async def test_a_reply_in_two_pieces_does_not_wait_for_an_acknowledgement() -> None:
    """A client acknowledges the first piece after 40 ms: EXEC behind the replies of its transaction came so late."""
    loop = asyncio.get_running_loop()
    for sockets in (RespSockets.take(RespSettings(port=0)), RespSockets.take(RespSettings(port=0, readers=1))):
        connected: asyncio.Future[asyncio.BaseTransport] = loop.create_future()

        class Connection(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport, made: Any = connected) -> None:
                made.set_result(transport)

        (listening,) = (each for each in (sockets.tcp, *sockets.shared) if each is not None)
        server = await loop.create_server(Connection, sock=listening)
        with socket.create_connection(("127.0.0.1", sockets.port), timeout=patience_s(20)):
            accepted = await connected
            no_delay = accepted.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            accepted.close()
        server.close()
        await server.wait_closed()
        sockets.close()
        assert no_delay
