"""Blocking clients on a server's machine: every `duramen up` has a socket for them, with TLS and users as well."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kit.certs_at_hand import CertsAtHand
from kit.client.server_process import ServerProcess
from kit.client.with_users import WithUsers
from kit.deadlines import wait_until

import duramen
from duramen.blocking import Database, Table
from duramen.client.model.results import Done
from duramen.client.transport.loop_thread import LoopThread
from duramen.client.transport.resp_fast_path import RespFastPath, reachable_place
from duramen.server.roles.all_in_one import SingleServer
from duramen.server.wiring.server_certificates import ServerCertificates
from log_tier.trust.trust_commands import RevokeRights
from router.endpoints.resp.server.sockets import RespSettings
from router.remote.resp_place import NOWHERE, RespPlace

pytestmark = [
    pytest.mark.embedded_log_only,  # what is asked is the client's way, and not where the log is
    pytest.mark.skipif(sys.platform != "linux", reason="abstract sockets are Linux's"),
]

FOR_THIS_MACHINE = RespSettings(for_this_machine=True)


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    made = LoopThread()
    yield made
    made.stop()


def way_of(database: Database) -> RespPlace | None:
    fast_path: RespFastPath | None = database._inner.context.fast_path
    return None if fast_path is None else fast_path.place


def check_short_way(database: Database, table: Table) -> None:
    """After some calls a get and a put go by the socket."""

    def is_found() -> bool:
        table.get(b"k")
        way = way_of(database)
        return way is not None and bool(way.machine_socket)

    wait_until(is_found, what="the socket")
    assert table._fast_path is not None
    assert isinstance(table._fast_path.put(b"k", b"short"), Done)
    assert table._fast_path.get(b"k") == b"short"


def test_every_server_of_one_machine_has_the_socket(tmp_path: Path) -> None:
    """A real `duramen up` without options, killed and started again under a client."""
    server = ServerProcess(tmp_path / "data", log=tmp_path / "server.log")
    try:
        with duramen.connect(server.target, timeout=60) as database:
            assert way_of(database) == NOWHERE, "a client with few calls does without"
            table = database.create_table("flights")
            table.put(b"first", b"1")
            check_short_way(database, table)
            server.restart()
            for _ in range(2):  # one finds out that the connection is gone, the next that there is no socket
                assert table.get(b"first") == b"1"
            assert way_of(database) == NOWHERE
            check_short_way(database, table)
            with duramen.connect(server.target) as other:
                assert way_of(other) == way_of(database), "it is open already"
            with duramen.connect(server.target, direct=False) as other:
                assert way_of(other) is None
                assert other.table("flights").get(b"k") == b"short"
    finally:
        server.close()


def test_two_servers_of_one_machine_are_not_mixed_up(tmp_path: Path, loop: LoopThread) -> None:
    names = ("one", "two")
    opening = partial(SingleServer.open, port=0, resp_endpoint=FOR_THIS_MACHINE)
    servers = [loop.run(partial(opening, tmp_path / name)) for name in names]
    try:
        for name, server in zip(names, servers, strict=True):
            with duramen.connect(f"127.0.0.1:{server.port}") as database:
                table = database.create_table("flights")
                table.put(b"who", name.encode())
                check_short_way(database, table)
        for name, server in zip(names, servers, strict=True):
            with duramen.connect(f"127.0.0.1:{server.port}") as database:
                table = database.table("flights")
                assert table.get(b"who") == name.encode()
                assert table.get(b"who") == name.encode()
    finally:
        for server in servers:
            loop.run(server.close)


def test_users_over_tls_take_the_socket_with_their_proof(tmp_path: Path, loop: LoopThread) -> None:
    certs = CertsAtHand(tmp_path)
    certificates = ServerCertificates.open(certs.path)

    async def opened() -> SingleServer:
        return await SingleServer.open(
            tmp_path / "data", host="localhost", port=0, certificates=certificates, resp_endpoint=FOR_THIS_MACHINE
        )

    server = loop.run(opened)
    users = WithUsers(server)
    try:
        loop.run(lambda: users.add_user("root", "admin *", "read,write *"))
        loop.run(lambda: users.add_user("alice", "read,write orders --key eu:"))
        target, ca = f"duramens://localhost:{server.port}", certs.ca
        with duramen.connect(target, token=users.tokens["root"], ca=ca) as root:
            orders = root.create_table("orders")
            orders.put(b"us:1", b"hidden")
            check_short_way(root, orders)
        with duramen.connect(target, token=users.tokens["alice"], ca=ca) as alice:
            way = way_of(alice)
            assert way is not None
            assert way.machine_socket
            table = alice.table("orders")
            table.put(b"eu:1", b"mine")
            assert table._fast_path is not None
            assert table._fast_path.get(b"eu:1") == b"mine"
            for call in (lambda: table.get(b"us:1"), lambda: table.put(b"us:1", b"x")):
                with pytest.raises(duramen.PermissionDenied, match="alice"):
                    call()
            loop.run(lambda: users.submit(lambda seen: RevokeRights("alice", seen, "read,write orders --key eu:")))
            with pytest.raises(duramen.PermissionDenied, match="alice"):
                table.get(b"eu:1")
            with pytest.raises(duramen.PermissionDenied, match="alice"):
                table.put(b"eu:1", b"x")
    finally:
        loop.run(server.close)


NOBODY = "duramen-nobody-listens-here"


@pytest.mark.parametrize(
    ("place", "terms", "expected"),
    [
        (RespPlace("h", 1), {}, RespPlace("h", 1)),
        (RespPlace("h", 1, NOBODY), {}, RespPlace("h", 1)),
        (RespPlace("h", 0, NOBODY), {}, NOWHERE),
        (RespPlace("h", 1, NOBODY), {"secured": True}, NOWHERE),
        (RespPlace("h", 1, secured=True), {}, NOWHERE),
        (RespPlace("h", 1, users=True), {}, NOWHERE),
        (RespPlace("h", 1, users=True), {"has_secret": True}, RespPlace("h", 1, users=True)),
    ],
)
def test_where_the_socket_is_not_of_this_machine(place: RespPlace, terms: dict[str, Any], expected: RespPlace) -> None:
    assert reachable_place(place, **{"secured": False, "has_secret": False, **terms}) == expected
