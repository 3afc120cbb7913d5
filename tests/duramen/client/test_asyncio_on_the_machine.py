"""Callers of an event loop on a server's machine: their lone calls go by its socket, and nobody sees which way."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from kit.certs_at_hand import CertsAtHand
from kit.client.server_process import ServerProcess
from kit.client.with_users import WithUsers
from kit.deadlines import until_true, within

import duramen
from duramen import aio
from duramen.server.roles.all_in_one import SingleServer
from duramen.server.wiring.server_certificates import ServerCertificates
from log_tier.trust.trust_commands import RevokeRights
from router.endpoints.resp.server.sockets import RespSettings
from router.remote.grpc_connection import GrpcConnection

pytestmark = [
    pytest.mark.embedded_log_only,  # what is asked is the client's way, and not where the log is
    pytest.mark.skipif(sys.platform != "linux", reason="abstract sockets are Linux's"),
]

DEADLINE_S = 60.0


def is_short(database: aio.Database) -> bool:
    """Will its next small request go by the socket?"""
    connection = database.context.connection
    assert isinstance(connection, GrpcConnection)
    return connection.short_way is not None and connection.short_way.is_open


async def open_way(database: aio.Database, table: aio.Table) -> None:
    """By as many gets as it takes."""

    async def is_open() -> bool:
        await table.get(b"k")
        return is_short(database)

    await until_true(is_open)


async def test_what_goes_by_the_socket_is_what_goes_by_grpc(tmp_path: Path) -> None:
    """Values, versions, expiries, tokens and offsets, of two clients on different ways."""
    server = ServerProcess(tmp_path / "data", log=tmp_path / "server.log")
    try:
        async with await aio.connect(server.target) as short, await aio.connect(server.target, direct=False) as long:
            table = await short.create_table("flights", partitions=3)
            other = long.table("flights")
            await open_way(short, table)
            for number in range(30):
                key = b"k%d" % number
                done = await table.put(key, b"%d" % number)
                assert await other.get(key, after=done.token) == b"%d" % number
                theirs = await other.put(key, b"theirs", ttl=1000 if number % 2 else None)
                assert await table.get(key, after=theirs.token) == b"theirs"
                mine = await table.get_entry(key)
                assert mine == await other.get_entry(key)
                assert mine is not None
                assert mine.version == theirs.offset
                again = await table.put(key, b"mine", if_version=mine.version)
                assert again.offset > theirs.offset
                assert await table.delete(key)
                assert await table.get(key) is None
            assert is_short(short)
    finally:
        await asyncio.to_thread(server.close)


async def test_callers_go_on_through_kills(tmp_path: Path) -> None:
    """What was acknowledged is there, in its order; the version that a put returns fits; the socket is used again."""
    server = ServerProcess(tmp_path / "data", log=tmp_path / "server.log")
    try:
        async with await aio.connect(server.target, timeout=DEADLINE_S) as database:
            table = await database.create_table("flights")
            await open_way(database, table)
            counts, stop = [0] * 4, asyncio.Event()

            async def write(number: int) -> None:
                key = b"w%d" % number
                while not stop.is_set():
                    done = await table.put(key, b"%d" % (counts[number] + 1))
                    counts[number] += 1
                    entry = await table.get_entry(key)
                    assert entry is not None
                    assert (entry.value, entry.version) == (b"%d" % counts[number], done.offset)

            writers = [asyncio.create_task(write(number)) for number in range(4)]
            for _ in range(2):
                await until_true(goal(counts))
                await asyncio.to_thread(server.restart)
            await until_true(goal(counts))
            stop.set()
            async with within(DEADLINE_S * 3):
                await asyncio.gather(*writers)
            await open_way(database, table)
            for number, count in enumerate(counts):
                assert await table.get(b"w%d" % number) == b"%d" % count
    finally:
        await asyncio.to_thread(server.close)


def goal(counts: list[int]) -> Callable[[], Awaitable[bool]]:
    """Each has made thirty more."""
    aims = [count + 30 for count in counts]

    async def is_reached() -> bool:
        await asyncio.sleep(0.01)
        return all(map(int.__ge__, counts, aims))

    return is_reached


async def test_a_server_that_is_paused_ends_no_call_wrongly(tmp_path: Path) -> None:
    """A get and a put under way by the socket end in time with an error of ours, or when the server goes on."""
    server = ServerProcess(tmp_path / "data", log=tmp_path / "server.log")
    try:
        async with await aio.connect(server.target) as database:
            table = await database.create_table("flights")
            await table.put(b"k", b"before")
            await open_way(database, table)
            os.kill(server.process.pid, signal.SIGSTOP)
            try:
                with pytest.raises(duramen.DuramenError) as ended:
                    await table.get(b"k", timeout=0.2)
                assert ended.value.retryable
                putting = asyncio.create_task(table.put(b"k", b"after", timeout=DEADLINE_S))
                await asyncio.sleep(0)
            finally:
                os.kill(server.process.pid, signal.SIGCONT)
            done = await putting
            entry = await table.get_entry(b"k", timeout=DEADLINE_S)
            assert entry is not None
            assert (entry.value, entry.version) == (b"after", done.offset)
    finally:
        await asyncio.to_thread(server.close)


async def test_users_over_tls(tmp_path: Path) -> None:
    """They prove who they are at the socket, have their rights there, and lose them when they are revoked."""
    certs = CertsAtHand(tmp_path)
    server = await SingleServer.open(
        tmp_path / "data",
        host="localhost",
        port=0,
        certificates=ServerCertificates.open(certs.path),
        resp_endpoint=RespSettings(for_this_machine=True),
    )
    users = WithUsers(server)
    try:
        await users.add_user("root", "admin *", "read,write *")
        await users.add_user("alice", "read,write orders --key eu:")
        target, ca = f"duramens://localhost:{server.port}", certs.ca
        async with await aio.connect(target, token=users.tokens["root"], ca=ca) as root:
            orders = await root.create_table("orders")
            await orders.put(b"us:1", b"hidden")
            await open_way(root, orders)
        async with await aio.connect(target, token=users.tokens["alice"], ca=ca) as alice:
            table = alice.table("orders")
            await table.put(b"eu:1", b"mine")

            async def is_open() -> bool:
                assert await table.get(b"eu:1") == b"mine"
                return is_short(alice)

            await until_true(is_open)
            for call in (table.get(b"us:1"), table.put(b"us:1", b"x"), table.get_many([b"eu:1", b"us:1"])):
                with pytest.raises(duramen.PermissionDenied, match="alice"):
                    await call
            assert await table.get_many([b"eu:1", b"eu:2"]) == [b"mine", None]
            await users.submit(lambda seen: RevokeRights("alice", seen, "read,write orders --key eu:"))
            for call in (table.get(b"eu:1"), table.put(b"eu:1", b"x")):
                with pytest.raises(duramen.PermissionDenied, match="alice"):
                    await call
    finally:
        await server.close()


async def test_rows_conditions_and_a_dropped_table(tmp_path: Path) -> None:
    server = await SingleServer.open(tmp_path / "data", port=0, resp_endpoint=RespSettings(for_this_machine=True))
    try:
        async with await aio.connect(f"127.0.0.1:{server.port}") as database:
            table = await database.create_table("flights")
            await open_way(database, table)
            await table.put(b"k", b"1", if_absent=True)
            with pytest.raises(duramen.Rejected):
                await table.put(b"k", b"2", if_absent=True)
            assert await table.get(b"k") == b"1"
            await database.drop_table("flights")
            with pytest.raises(duramen.TableNotFound):
                await table.get(b"k")
            with pytest.raises(duramen.TableNotFound):
                await table.put(b"k", b"v")
            again = await database.create_table("flights")
            assert await again.get(b"k") is None
            with pytest.raises(duramen.InvalidKey):
                await again.get(b"")
    finally:
        await server.close()
