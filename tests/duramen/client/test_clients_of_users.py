"""Clients of a server with users: every call carries the proof, and a refusal comes at once, in its own words."""

from __future__ import annotations

import os
import pickle
import socketserver
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import hiredis
import pytest
from kit.client.command_line import run_here
from kit.client.with_users import WithUsers
from kit.deadlines import patience_s, within

import duramen
from duramen import aio
from duramen.client.model.session import Session
from duramen.client.transport.loop_thread import LoopThread
from duramen.client.transport.resp_fast_path import RespFastPath
from duramen.server.roles.all_in_one import SingleServer
from log_tier.access.client.kept_credentials import PasswordCredentials, TokenFileCredentials
from log_tier.access.guard import GrpcGuard
from log_tier.access.tokens import mint_token
from log_tier.model.identifiers import TableId
from log_tier.model.table_ref import TableRef
from log_tier.rpc.checked import Admit
from log_tier.rpc.credentials import proving
from log_tier.trust.trust_commands import RevokeRights, RevokeToken, SetPassword
from router.admin.client import AdminConnection
from router.data.seam import NOT_FRESH
from router.endpoints.resp.server.sockets import RespSettings
from router.remote.resp_place import RespPlace

pytestmark = pytest.mark.embedded_log_only  # what is asked is the client, and not where the log is

PASSWORD = "correct horse battery"
LONG_S = 600.0
"""Nobody waits so long for a refusal that comes at once."""


@pytest.fixture
async def users(tmp_path: Path) -> AsyncIterator[WithUsers]:
    server = await SingleServer.open(tmp_path / "data", port=0)
    made = WithUsers(server)
    try:
        await made.add_user("root", "admin *", "read,write *")
        yield made
    finally:
        await server.close()


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each method was called, refused or not. To be asked for before the server."""
    counted: Counter[str] = Counter()

    def count(name: str) -> None:
        admitting = getattr(GrpcGuard, name)

        def counting(self: GrpcGuard, method: str) -> Admit:
            admit = admitting(self, method)

            async def counted_admit(request: Any, context: Any) -> None:
                counted[method.rpartition("/")[2]] += 1
                if admit is not None:
                    await admit(request, context)

            return counted_admit

        monkeypatch.setattr(GrpcGuard, name, counting)

    count("admitting")
    count("admitting_streams")
    return counted


async def check_works(database: aio.Database, name: str) -> None:
    """Every kind of call of a client."""
    table = await database.create_table(name, partitions=2)
    await table.put(b"k", b"v")
    assert await table.get(b"k") == b"v"
    assert [pair async for pair in table.scan()] == [(b"k", b"v")]
    async for change in table.watch(start="earliest"):
        assert change.key == b"k"
        break
    assert name in [each.name for each in await database.tables()]
    await database.drop_table(name)


async def test_every_kind_of_call_carries_the_proof(users: WithUsers, tmp_path: Path) -> None:
    await users.add_user("alice", "read,write,admin *", password=PASSWORD)
    file = tmp_path / "alice.token"
    file.write_text(users.tokens["alice"])
    file.chmod(0o600)
    ways: list[dict[str, Any]] = [
        {"token": users.tokens["alice"]},
        {"token_file": file},
        {"user": "alice", "password": PASSWORD},
        {"user": "alice", "token": users.tokens["alice"]},
    ]
    for number, way in enumerate(ways):
        for direct in (True, False):
            async with await aio.connect(users.target, direct=direct, **way) as database:
                await check_works(database, f"table{number}{direct}")
                async with pickle.loads(pickle.dumps(database)) as again:
                    await check_works(again, f"again{number}{direct}")
    async with await aio.connect(f"alice@{users.target}", password=PASSWORD) as database:
        await check_works(database, "named")


async def test_the_environment_proves_who_calls(users: WithUsers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DURAMEN_TOKEN", users.tokens["root"])
    async with await aio.connect(users.target) as database:
        await check_works(database, "flights")
    assert os.environ["DURAMEN_TOKEN"] == users.tokens["root"]


@pytest.mark.parametrize("way", ["nothing", "another token", "another password"])
async def test_who_proves_nothing_hears_it_at_once(calls: Counter[str], users: WithUsers, way: str) -> None:
    proofs: dict[str, dict[str, Any]] = {
        "nothing": {},
        "another token": {"token": mint_token("root").text},
        "another password": {"user": "root", "password": PASSWORD},
    }
    async with within(60):
        with pytest.raises(duramen.Unauthenticated) as refused:
            await aio.connect(users.target, timeout=LONG_S, **proofs[way])
    assert sum(calls.values()) == 1, f"a refusal is no reason to call again: {calls}"
    assert PASSWORD not in str(refused.value)


async def test_a_right_that_is_missing_is_said_at_once(calls: Counter[str], users: WithUsers) -> None:
    async with await aio.connect(users.target, token=users.tokens["root"]) as root:
        await root.create_table("orders")
    await users.add_user("alice", "read orders --key eu:")
    async with await aio.connect(users.target, token=users.tokens["alice"], timeout=LONG_S) as database:
        table = database.table("orders")
        assert await table.get(b"eu:1") is None

        async def scanned() -> None:
            async for _ in table.scan():
                raise AssertionError("the table is empty, and may not be read")

        async def watched() -> None:
            async for _ in table.watch():
                raise AssertionError("the table is empty, and may not be watched")

        refusals: list[tuple[Callable[[], Awaitable[Any]], str, str]] = [
            (lambda: table.put(b"eu:1", b"v"), "Write", "write orders --key eu:1"),
            (lambda: table.get(b"us:1"), "Read", "read orders --key us:1"),
            (lambda: table.get_many([b"eu:1", b"us:1"]), "Read", "read orders --key us:1"),
            (scanned, "Scan", "read orders"),
            (watched, "Watch", "read orders"),
            (lambda: database.drop_table("orders"), "Drop", "admin orders"),
            (lambda: database.create_table("more"), "Create", "admin more"),
        ]
        async with within(60):
            for call, method, missing in refusals:
                before = calls[method]
                with pytest.raises(duramen.PermissionDenied, match=f"user alice may not.*'{missing}"):
                    await call()
                assert calls[method] == before + 1, f"{method}: a refusal is no reason to call again"


async def test_a_revoked_token_ends_a_watch_and_all_later_calls(users: WithUsers) -> None:
    async with await aio.connect(users.target, token=users.tokens["root"]) as root:
        table = await root.create_table("orders")
        await users.add_user("alice", "read,write orders")
        async with await aio.connect(users.target, token=users.tokens["alice"], timeout=LONG_S) as database:
            watch = aiter(database.table("orders").watch(start="earliest"))
            await table.put(b"k", b"v")
            async with within(60):
                assert (await anext(watch)).key == b"k"
                await users.submit(lambda seen: RevokeToken("alice", seen, users.token_ids["alice"]))
                with pytest.raises(duramen.Unauthenticated, match="was revoked"):
                    await anext(watch)
                with pytest.raises(duramen.Unauthenticated):
                    await database.table("orders").get(b"k")
        assert await table.get(b"k") == b"v", "another user's calls go on"


async def test_a_revoked_grant_ends_a_scan_between_two_pages(users: WithUsers) -> None:
    await users.add_user("alice", "read,write,admin orders")
    async with await aio.connect(users.target, token=users.tokens["alice"], timeout=LONG_S) as database:
        table = await database.create_table("orders", partitions=1)
        for key in (b"%c" % letter for letter in range(97, 109)):
            await table.put(key, b"x" * (3 << 20))
        scan = aiter(table.scan())
        assert (await anext(scan))[0] == b"a"
        await users.submit(lambda seen: RevokeRights("alice", seen, "read,write,admin orders"))
        async with within(60):
            with pytest.raises(duramen.PermissionDenied):
                assert len([key async for key, _ in scan]) < 11, "the pages end with the grant"


async def test_another_token_in_the_file_counts_for_open_clients(users: WithUsers, tmp_path: Path) -> None:
    file = tmp_path / "root.token"
    file.write_text(users.tokens["root"])
    file.chmod(0o600)
    first = users.token_ids["root"]
    async with await aio.connect(users.target, token_file=file) as database:
        await check_works(database, "one")
        newer = tmp_path / "newer"
        newer.write_text(await users.add_token("root"))
        newer.chmod(0o600)
        os.replace(newer, file)
        await users.submit(lambda seen: RevokeToken("root", seen, first))
        await check_works(database, "two")


async def test_another_password_ends_what_the_old_one_proved(users: WithUsers) -> None:
    await users.add_user("alice", "read orders", password=PASSWORD)
    async with await aio.connect(users.target, user="alice", password=PASSWORD) as database:
        assert await database.tables() == []
        await users.submit(lambda seen: SetPassword("alice", seen, ""))
        with pytest.raises(duramen.Unauthenticated):
            await database.tables()


async def test_calls_of_other_services_carry_it_too(users: WithUsers) -> None:
    async with await aio.connect(users.target, token=users.tokens["root"]) as database:
        credentials = database.context._address
        assert credentials is not None
        with proving(credentials.credentials):
            admin = AdminConnection(users.target, timeout=patience_s(30))
        try:
            assert [node.node for node in await admin.nodes()] == ["n1"]
        finally:
            await admin.close()


# --- blocking callers and the endpoint of the Redis protocol


@pytest.fixture
def blocking_users(tmp_path: Path) -> Iterator[tuple[WithUsers, LoopThread]]:
    """A server in a thread of this process, with an endpoint of the Redis protocol."""
    loop = LoopThread()
    settings = RespSettings(host="127.0.0.1", port=0)
    server = loop.run(lambda: SingleServer.open(tmp_path / "data", port=0, resp_endpoint=settings))
    try:
        made = WithUsers(server)
        loop.run(lambda: made.add_user("root", "admin *", "read,write *"))
        yield made, loop
    finally:
        loop.run(server.close)
        loop.stop()


def test_blocking_callers_are_served_in_every_case(blocking_users: tuple[WithUsers, LoopThread]) -> None:
    users, loop = blocking_users
    with duramen.connect(users.target, token=users.tokens["root"]) as database:
        table = database.create_table("orders")
        for number in range(20):
            table.put(b"k", b"%d" % number)
            assert table.get(b"k") == b"%d" % number
        loop.run(lambda: users.submit(lambda seen: RevokeToken("root", seen, users.token_ids["root"])))
        with pytest.raises(duramen.Unauthenticated):
            list(table.scan())
    with pytest.raises(duramen.Unauthenticated):
        duramen.connect(users.target, timeout=LONG_S)


def test_commands_prove_who_calls(blocking_users: tuple[WithUsers, LoopThread], tmp_path: Path) -> None:
    users, _ = blocking_users
    file = tmp_path / "root.token"
    file.write_text(users.tokens["root"] + "\n")
    file.chmod(0o600)
    made = run_here("--token-file", str(file), "table", "create", "orders", at=users.target)
    assert (made.returncode, made.stderr) == (0, "")
    listed = run_here("--token-file", str(file), "admin", "nodes", at=f"duramen://root@{users.target}")
    assert listed.returncode == 0, listed.stderr
    refused = run_here("table", "list", at=users.target)
    assert (refused.returncode, "is no user" in refused.stderr) == (6, True), refused.stderr
    file.chmod(0o644)
    refused = run_here("--token-file", str(file), "table", "list", at=users.target)
    assert (refused.returncode, f"chmod 600 {file}" in refused.stderr) == (2, True), refused.stderr
    refused = run_here("get", "orders", "k", at=f"root:secret@{users.target}")
    assert (refused.returncode, "has a password in it" in refused.stderr) == (2, True), refused.stderr
    assert "secret" not in refused.stderr


class _Endpoint(socketserver.ThreadingTCPServer):
    """Speaks as much of the Redis protocol as the fast path asks: AUTH with one secret, and reads of one value."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Speaking)
        self.secrets = {b"right"}
        self.logins: list[tuple[bytes, ...]] = []
        self.connections = 0
        self.thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def end(self) -> None:
        self.shutdown()
        self.server_close()
        self.thread.join()


class _Speaking(socketserver.BaseRequestHandler):
    server: _Endpoint

    def handle(self) -> None:
        self.server.connections += 1
        reader: Any = hiredis.Reader()
        secret = b""
        while data := self.request.recv(65536):
            reader.feed(data)
            while (words := reader.gets()) is not False:
                if words[0] == b"AUTH":
                    self.server.logins.append(tuple(words[1:]))
                    secret = words[2] if words[2] in self.server.secrets else b""
                    self.request.sendall(b"+OK\r\n" if secret else b"-WRONGPASS no such user\r\n")
                elif secret in self.server.secrets:
                    self.request.sendall(b"*2\r\n:7\r\n$5\r\nvalue\r\n")
                else:
                    self.request.sendall(b"-NOAUTH Authentication required.\r\n")


class _Finding:
    """A table that is known."""

    ref: TableRef | None = TableRef(TableId("A" * 22), "orders", 1)


@pytest.fixture
def endpoint() -> Iterator[_Endpoint]:
    made = _Endpoint()
    yield made
    made.end()


def fast_path(endpoint: _Endpoint, credentials: Any) -> RespFastPath:
    host, port = endpoint.server_address[:2]
    return RespFastPath(RespPlace(str(host), port), Session(), compress=False, credentials=credentials)


def test_a_line_of_a_user_begins_with_its_proof(endpoint: _Endpoint) -> None:
    path = fast_path(endpoint, PasswordCredentials("alice", "right"))
    try:
        for _ in range(3):
            assert path.table(_Finding()).get(b"k") == b"value"
        assert endpoint.logins == [(b"alice", b"right")]
    finally:
        path.close()


def test_a_secret_that_is_refused_is_sent_once(endpoint: _Endpoint) -> None:
    path = fast_path(endpoint, PasswordCredentials("alice", "wrong"))
    try:
        for _ in range(3):
            assert path.table(_Finding()).get(b"k") is NOT_FRESH
            assert path.table(_Finding()).put(b"k", b"v") is None
        assert endpoint.logins == [(b"alice", b"wrong")]
    finally:
        path.close()


def test_a_line_whose_proof_is_void_is_replaced_with_the_next_token(endpoint: _Endpoint, tmp_path: Path) -> None:
    old, new = mint_token("alice").text, mint_token("alice").text
    endpoint.secrets = {old.encode()}
    file = tmp_path / "alice.token"
    file.write_text(old)
    file.chmod(0o600)
    path = fast_path(endpoint, TokenFileCredentials(file))
    try:
        table = path.table(_Finding())
        assert table.get(b"k") == b"value"
        endpoint.secrets = {new.encode()}
        assert [table.get(b"k") for _ in range(3)] == [NOT_FRESH] * 3, "what the endpoint refuses goes by gRPC"
        assert [login[1] for login in endpoint.logins] == [old.encode()] * 2
        file.write_text(new)
        assert table.get(b"k") == b"value"
        assert endpoint.connections == 3
    finally:
        path.close()
