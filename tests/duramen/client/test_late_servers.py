"""connect() tries until its timeout: servers that are away, silent, or not there yet when it begins."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import pytest
from kit.certs_at_hand import CertsAtHand
from kit.client.black_hole import BlackHole
from kit.client.tcp_proxy import TcpProxy
from kit.client.with_users import WithUsers
from kit.deadlines import until, within
from kit.held_port import HeldPort

import duramen
from duramen import aio
from duramen.client.transport import connect
from duramen.server.roles.all_in_one import SingleServer
from duramen.server.wiring.server_certificates import ServerCertificates
from log_tier.catalog.remote.cluster_question import ask_cluster

pytestmark = pytest.mark.embedded_log_only  # the client waits; the server's log makes no difference

DEADLINE_S: Final = 60.0

# A timeout that no test waits for.
LONG_S: Final = 3600.0


class LateServer:
    """A port that is kept for a server, and how often clients have asked for its cluster map."""

    def __init__(self, opened: AsyncExitStack, folder: Path, certs: CertsAtHand | None) -> None:
        self.opened = opened
        self._folder = folder
        self._certs = certs
        self.port = opened.enter_context(HeldPort()).number
        self.asked: list[str] = []

    def at(self, port: int) -> str:
        return f"127.0.0.1:{port}" if self._certs is None else f"localhost:{port}"

    async def come(self, port: int | None = None) -> SingleServer:
        """The server begins to listen."""
        certificates = None if self._certs is None else ServerCertificates.open(self._certs.path)
        port = self.port if port is None else port
        server = await SingleServer.open(self._folder, port=port, certificates=certificates)
        self.opened.push_async_callback(server.close)
        return server

    async def asked_again(self, beginning: asyncio.Task[aio.Database], port: int) -> None:
        """Wait until a try at this port has failed and another one begun."""
        await until(lambda: self.asked.count(self.at(port)) >= 2 or beginning.done())

    def begin(self, *ports: int, timeout: float = LONG_S) -> asyncio.Task[aio.Database]:
        """Begin to connect."""
        scheme, ca = ("", None) if self._certs is None else ("duramens://", self._certs.ca)
        target = scheme + ",".join(self.at(port) for port in ports or (self.port,))
        return asyncio.ensure_future(aio.connect(target, timeout=timeout, ca=ca))

    async def check_connected(self, beginning: asyncio.Task[aio.Database]) -> None:
        """Wait until it is connected, and use it."""
        async with within(DEADLINE_S):
            database = await beginning
        self.opened.push_async_callback(database.close)
        table = await database.create_table("flights")
        await table.put(b"k", b"v")
        assert await table.get(b"k") == b"v"


@pytest.fixture(params=["plain", "tls"])
async def late(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[LateServer]:
    async with AsyncExitStack() as opened:
        made = LateServer(opened, tmp_path / "data", CertsAtHand(tmp_path) if request.param == "tls" else None)

        async def counted(target: str, *, timeout: float) -> Any:
            made.asked.append(target)
            return await ask_cluster(target, timeout=timeout)

        monkeypatch.setattr(connect, "ask_cluster", counted)
        yield made


async def test_a_server_that_is_away_at_first(late: LateServer) -> None:
    beginning = late.begin()
    await late.asked_again(beginning, late.port)
    await late.come()
    await late.check_connected(beginning)


async def test_several_servers_that_are_all_away_at_first(late: LateServer) -> None:
    others = [late.opened.enter_context(HeldPort()).number for _ in range(2)]
    beginning = late.begin(others[0], late.port, others[1])
    await late.asked_again(beginning, others[1])
    await late.come()
    await late.check_connected(beginning)


async def test_a_listener_that_never_answers_and_then_becomes_a_server(late: LateServer) -> None:
    """A restarted server listens before it has opened its log: the system takes connections, and nobody reads them."""
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    with listening:
        listening.bind(("127.0.0.1", late.port))
        listening.listen()
        beginning = late.begin()
        await late.asked_again(beginning, late.port)  # gRPC gives its own attempts 5 s
    await late.come()
    await late.check_connected(beginning)


async def test_a_proxy_whose_server_comes_late(late: LateServer) -> None:
    """It takes connections and closes them while there is no server."""
    proxy = TcpProxy(late.port)
    await proxy.start()
    late.opened.push_async_callback(proxy.close)
    beginning = late.begin(proxy.port)
    await late.asked_again(beginning, proxy.port)
    await late.come()
    await late.check_connected(beginning)


async def test_a_silent_server_keeps_nobody_from_another_that_comes_late(late: LateServer) -> None:
    """Neither one that stays silent in front of it, nor one behind it."""
    with socket.create_server(("127.0.0.1", 0)) as before, socket.create_server(("127.0.0.1", 0)) as behind:
        silent = [listening.getsockname()[1] for listening in (before, behind)]
        beginning = late.begin(silent[0], late.port, silent[1])
        await until(lambda: late.at(silent[1]) in late.asked or beginning.done())
        await late.come()
        await late.check_connected(beginning)


async def test_a_network_that_loses_everything_at_first(late: LateServer) -> None:
    await late.come()
    hole = BlackHole(f"127.0.0.1:{late.port}")
    await hole.start()
    late.opened.push_async_callback(hole.close)
    hole.cut("replies")
    beginning = late.begin(hole.port)
    await late.asked_again(beginning, hole.port)
    hole.heal()
    await late.check_connected(beginning)


async def test_nobody_comes(late: LateServer) -> None:
    """The error says why, and not only that the time is over."""
    with pytest.raises(duramen.Disconnected, match=r"refused.*is it running") as caught:
        await late.begin(timeout=1.0)
    assert caught.value.fields == {"sent": 0}
    assert len(late.asked) > 2


async def test_who_gives_up_leaves_nothing_under_way(late: LateServer) -> None:
    before = asyncio.all_tasks()
    beginning = late.begin(late.port, late.opened.enter_context(HeldPort()).number)
    await late.asked_again(beginning, late.port)
    beginning.cancel()
    with pytest.raises(asyncio.CancelledError):
        await beginning
    await until(lambda: asyncio.all_tasks() <= before)


async def test_a_blocking_program_waits_too(tmp_path: Path) -> None:
    with HeldPort() as held:
        connecting_thread = asyncio.ensure_future(
            asyncio.to_thread(duramen.connect, f"127.0.0.1:{held.number}", timeout=LONG_S)
        )
        await asyncio.wait({connecting_thread}, timeout=0.5)  # nobody listens meanwhile
        server = await SingleServer.open(tmp_path / "data", port=held.number)
        try:
            async with within(DEADLINE_S):
                database = await connecting_thread
            assert await asyncio.to_thread(database.tables) == []
            await asyncio.to_thread(database.close)
        finally:
            await server.close()


@pytest.mark.parametrize("several", [False, True])
async def test_certificates_that_do_not_fit_are_an_error_at_once(tmp_path: Path, several: bool) -> None:
    certs = CertsAtHand(tmp_path)
    certificates = ServerCertificates.open(certs.path)
    server = await SingleServer.open(tmp_path / "data", host="localhost", port=0, certificates=certificates)
    try:
        for host, ca, words in (("127.0.0.1", certs.ca, "for other hosts"), ("localhost", certs.other_ca, "of the CA")):
            targets = [f"duramens://{host}:{server.port}"] * (2 if several else 1)
            async with within(DEADLINE_S):
                with pytest.raises(duramen.HandshakeFailed, match=words):
                    await aio.connect(targets, ca=ca, timeout=LONG_S)
    finally:
        await server.close()


@pytest.mark.parametrize("several", [False, True])
async def test_a_server_that_refuses_the_user_is_an_error_at_once(tmp_path: Path, several: bool) -> None:
    server = await SingleServer.open(tmp_path / "data", port=0)
    try:
        users = WithUsers(server)
        await users.add_user("alice", "admin *")
        proofs: list[dict[str, Any]] = [{}, {"user": "alice", "password": "wrong"}, {"token": "wrong"}]
        for proof in proofs:
            targets: Sequence[str] = [users.target] * (2 if several else 1)
            async with within(DEADLINE_S):
                with pytest.raises((duramen.Unauthenticated, duramen.InvalidRequest)):
                    await aio.connect(targets, timeout=LONG_S, **proof)
    finally:
        await server.close()


async def test_another_server_is_found_behind_one_whose_certificate_does_not_fit(tmp_path: Path) -> None:
    certs = CertsAtHand(tmp_path)
    certificates = ServerCertificates.open(certs.path)
    server = await SingleServer.open(tmp_path / "data", host="localhost", port=0, certificates=certificates)
    try:
        targets = f"duramens://127.0.0.1:{server.port},localhost:{server.port}"
        async with within(DEADLINE_S), await aio.connect(targets, ca=certs.ca, timeout=LONG_S) as database:
            assert await database.tables() == []
    finally:
        await server.close()
