"""Clients that begin a TLS handshake and do not go on: they end, hold few descriptors, and keep nobody out."""

from __future__ import annotations

import logging
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest
from kit.certs_at_hand import CertsAtHand
from kit.deadlines import patience_s, wait_until
from kit.resp.raw_client import Raw, Status
from kit.resp.server_thread import ServerThread

from router.endpoints.resp.bounds import tls_handshakes
from router.endpoints.resp.server.sockets import RespSettings

PONG: Final = Status("PONG")
CLIENT_HELLO_BEGINS: Final = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
HALF_OPEN: Final = 40


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> CertsAtHand:
    return CertsAtHand(tmp_path_factory.mktemp("certs"))


def settings(certs: CertsAtHand, **how: object) -> RespSettings:
    certificate, key = certs.path / "server.crt", certs.path / "server.key"
    return RespSettings(port=0, tls_certificate=certificate, tls_key=key, **how)  # type: ignore[arg-type]


@pytest.fixture(scope="module", params=[0, 1], ids=["one process", "a reader"])
def secured(
    certs: CertsAtHand, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[ServerThread]:
    running = ServerThread(
        tmp_path_factory.mktemp("secured"), settings(certs, readers=request.param, handshake_s=1.0)
    ).start()
    yield running
    running.close()


class SecureRaw(Raw):
    """A connection by TLS. `early`: the first bytes, sent before the handshake is answered for good."""

    def __init__(self, server: ServerThread, certs: CertsAtHand) -> None:
        super().__init__(server.address)
        context = ssl.create_default_context(cafile=certs.ca)
        self.socket = context.wrap_socket(self.socket, server_hostname="localhost")


def silent(server: ServerThread, data: bytes = b"") -> socket.socket:
    made = socket.create_connection(server.address, timeout=patience_s(20))
    made.sendall(data)
    return made


def is_over(made: socket.socket) -> bool:
    """Wait until the server has ended it."""
    try:
        while made.recv(1 << 12):
            pass  # an alert
    except ConnectionError:
        pass
    return True


def test_a_handshake_that_does_not_go_on_ends(secured: ServerThread, certs: CertsAtHand) -> None:
    half_open = [silent(secured, data) for data in (b"", CLIENT_HELLO_BEGINS, b"\x16") for _ in range(HALF_OPEN)]
    try:
        with SecureRaw(secured, certs) as raw:
            assert raw.call("PING") == PONG, "others are served meanwhile"
            assert all(map(is_over, half_open))
            assert raw.call("PING") == PONG
    finally:
        for each in half_open:
            each.close()


def test_bytes_one_by_one_do_not_prolong_it(secured: ServerThread) -> None:
    """The time is that of the whole handshake."""
    made = silent(secured)
    made.settimeout(0.05)
    ends_s = time.monotonic() + patience_s(20)
    with made:
        for number in range(10_000):
            assert time.monotonic() < ends_s, "it is still there"
            try:
                made.sendall((CLIENT_HELLO_BEGINS + bytes(20_000))[number : number + 1])
                if not made.recv(1 << 12):
                    return
            except TimeoutError:
                continue
            except ConnectionError:
                return


@pytest.mark.parametrize(
    "data",
    [b"PING\r\n", b"\x16\x03\x01\xff\xff" + b"x" * 70_000, b"\x80" * 100],
    ids=["a command", "a long record", "old TLS"],
)
def test_what_is_no_handshake_ends_at_once(secured: ServerThread, certs: CertsAtHand, data: bytes) -> None:
    with silent(secured) as made:
        with suppress(ConnectionError):
            made.sendall(data)
        assert is_over(made)
    with SecureRaw(secured, certs) as raw:
        assert raw.call("PING") == PONG


def test_commands_that_come_with_the_end_of_a_handshake_are_answered(secured: ServerThread, certs: CertsAtHand) -> None:
    for _ in range(50):
        with SecureRaw(secured, certs) as raw:
            raw.send(b"PING\r\nECHO here\r\n")
            assert (raw.reply(), raw.reply()) == (PONG, b"here")


def test_the_oldest_handshake_ends_for_the_next(
    certs: CertsAtHand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """None of them is a connection, and connections are not ended for them."""
    monkeypatch.setattr(tls_handshakes, "HANDSHAKES_MAX", 8)
    running = ServerThread(tmp_path, settings(certs, handshake_s=600.0)).start()
    half_open: list[socket.socket] = []
    try:
        with caplog.at_level(logging.WARNING), SecureRaw(running, certs) as before:
            assert before.call("PING") == PONG, "it is no handshake any more"
            half_open += [silent(running) for _ in range(30)]
            handshakes = running.server.handshakes
            assert handshakes is not None
            wait_until(lambda: handshakes.failed == 22)
            assert all(map(is_over, half_open[:22])), "the oldest ones"
            assert len(handshakes.under_way) == 8
            assert len(running.server.clients) == 1
            with SecureRaw(running, certs) as raw:
                assert raw.call("PING") == PONG
            assert before.call("PING") == PONG
        assert "others are under way, and it was the oldest one" in caplog.text
        assert caplog.text.count("TLS handshakes have failed") < 5, "a flood makes few lines"
    finally:
        for each in half_open:
            each.close()
        running.close()


def test_a_server_that_stops_ends_them(certs: CertsAtHand, tmp_path: Path) -> None:
    running = ServerThread(tmp_path, settings(certs, handshake_s=600.0)).start()
    half_open = [silent(running, CLIENT_HELLO_BEGINS) for _ in range(3)]
    wait_until(lambda: running.server.handshakes is not None and len(running.server.handshakes.under_way) == 3)
    running.close()
    assert all(map(is_over, half_open))
    for each in half_open:
        each.close()
