"""`GET /events` and `GET /history` of a real server: changes, users, tokens that end, many streams, slow readers."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from kit.client.with_users import WithUsers
from kit.deadlines import until, until_true, within
from kit.event_stream import EventReader, ServerEvent, event_stream
from kit.http import http_get

from duramen import aio
from duramen.server.console.night_document import COLUMNS
from duramen.server.roles.all_in_one import SingleServer
from duramen.server.sight.http_limits import HttpLimits
from duramen.server.sight.observed import Observed
from log_tier.access.authenticator import bearer_header
from log_tier.concurrency.tasks import end_tasks
from log_tier.trust.trust_commands import GrantRights, RemoveUser, RevokeRights, RevokeToken
from router.admin.client import AdminConnection
from router.proto.admin_pb2 import AdminAuditedPart, AdminNoteAuditRequest


@pytest.fixture
async def users(server: SingleServer) -> WithUsers:
    async with await aio.connect(f"127.0.0.1:{server.port}") as db:
        for name in ("orders", "secret"):
            await db.create_table(name, partitions=1)
    made = WithUsers(server)
    await made.add_user("root", "admin *")
    await made.add_user("alice", "read orders")
    return made


def authorization(token: str) -> str:
    return f"Authorization: {bearer_header(token)}"


def rows_of(event: ServerEvent) -> list[dict[str, Any]]:
    return [dict(zip(COLUMNS, row, strict=True)) for row in event.data["rows"]]


def tables_of(event: ServerEvent) -> set[str]:
    return {row["table"] for row in rows_of(event)}


async def until_row(events: EventReader, table: str, **values: Any) -> dict[str, Any]:
    """The first row of a table that has these values."""
    async with within(60):
        while True:
            for row in rows_of(await events.next()):
                if row["table"] == table and values.items() <= row.items():
                    return row


async def until_audit(events: EventReader, *, fields: int) -> list[Any]:
    """The first audit of so many fields."""
    async with within(60):
        while True:
            for row in rows_of(await events.next()):
                for audit in row["audits"]:
                    if len(audit) == fields:
                        return list(audit)


async def test_the_whole_and_then_what_changes(server: SingleServer) -> None:
    async with await aio.connect(f"127.0.0.1:{server.port}") as db, event_stream(server.http_port) as events:
        assert (events.status, events.headers["content-type"]) == (200, "text/event-stream")
        assert events.headers["cache-control"] == "no-store"
        whole = await events.next()
        assert (whole.kind, whole.data["format"], whole.data["columns"]) == ("whole", 1, list(COLUMNS))
        assert whole.data["facts"]["ready"]
        table = await db.create_table("flights", partitions=2)
        await until_row(events, "flights", state="ready")
        done = await table.put(b"k", b"v")
        row = await until_row(events, "flights", last=done.offset, applied=done.offset)
        assert row["partition"] == done.partition
        change = await events.next()
        while change.data["rows"]:
            change = await events.next()
        assert change.kind == "change"
        assert {"uptime_s", "now_ms"} <= change.data["facts"].keys() < whole.data["facts"].keys()
        assert change.size < whole.size / 2
        await db.drop_table("flights")
        async with within(60):
            while not (gone := (await events.next()).data["gone"]):
                pass
        assert sorted(gone) == [["flights", 0], ["flights", 1]]


async def test_what_an_audit_found_comes_to_the_pages_that_are_open(server: SingleServer) -> None:
    """Short where all is equal: there may be thousands of partitions."""
    target = f"127.0.0.1:{server.port}"

    def note(verdict: str, reason: str = "") -> AdminNoteAuditRequest:
        part = AdminAuditedPart(partition=0, rows=7, until=6, verdict=verdict, reason=reason)
        return AdminNoteAuditRequest(table="flights", tier="export", name="s3://lake/flights", parts=[part])

    async with await aio.connect(target) as db, AdminConnection(target) as admin:
        await db.create_table("flights", partitions=1)
        await admin.note_audit(note("equal"))
        async with event_stream(server.http_port) as events:
            tier, rows, checked_ms = await until_audit(events, fields=3)
            assert (tier, rows) == ("export", 7)
            await admin.note_audit(note("different", "offsets 3 to 4"))
            _, _, later_ms, verdict, why = await until_audit(events, fields=5)
            assert (verdict, why) == ("different", "s3://lake/flights: offsets 3 to 4")
            assert later_ms >= checked_ms


@pytest.mark.embedded_log_only  # a log elsewhere says nothing of its syncs
async def test_the_history_of_a_real_server(server: SingleServer) -> None:
    async def seen() -> dict[str, Any]:
        code, _, body = await http_get(server.http_port, "/history?since=-60&step=1")
        assert code == 200
        found: dict[str, Any] = json.loads(body)
        return found

    async def is_there() -> bool:
        found = await seen()
        return any(found["all"]["written_per_s"]) and any(found["server"]["sync_p99_s"])

    async with await aio.connect(f"127.0.0.1:{server.port}") as db:
        table = await db.create_table("flights", partitions=1)

        async def written() -> bool:
            await table.put(b"k", b"v")
            return await is_there()

        await until_true(written)
    found = await seen()
    assert found["server"]["disk_free_bytes"][0] is None, "a minute ago there was no server"
    assert True in found["server"]["ready"]
    assert (await http_get(server.http_port, "/history?step=soon"))[0] == 400
    code, _, body = await http_get(server.http_port, "/history", host="evil.example")
    assert (code, b"server" in body and b"lag_records" in body) == (403, False)


async def test_a_head_opens_no_stream(server: SingleServer) -> None:
    async with event_stream(server.http_port, method="HEAD") as events:
        assert (events.status, await events.rest()) == (200, b"")
    async with event_stream(server.http_port, "Connection: close") as events:
        assert (await events.next()).kind == "whole"


async def test_streams_are_bounded(server: SingleServer) -> None:
    await server.serve_http(0, limits=HttpLimits(streams_max=2))
    async with event_stream(server.http_port) as first:
        await first.next()
        async with event_stream(server.http_port) as second:
            await second.next()
            async with event_stream(server.http_port) as third:
                assert (third.status, third.headers["retry-after"]) == (503, "5")
            assert (await http_get(server.http_port, "/livez"))[0] == 200

        async def let_in() -> bool:
            async with event_stream(server.http_port) as another:
                return another.status == 200

        await until_true(let_in)


async def test_fifty_streams_share_one_look(server: SingleServer, monkeypatch: pytest.MonkeyPatch) -> None:
    assert server.sight is not None
    looks, observe = 0, server.sight.observe

    async def counted() -> Observed:
        nonlocal looks
        looks += 1
        return await observe()

    async with AsyncExitStack() as opened:
        streams = [await opened.enter_async_context(event_stream(server.http_port)) for _ in range(50)]
        first = await asyncio.gather(*(each.next() for each in streams))
        assert {each.kind for each in first} == {"whole"}
        monkeypatch.setattr(server.sight, "observe", counted)
        begun_s = time.monotonic()
        for _ in range(3):
            await asyncio.gather(*(each.next() for each in streams))
        assert 1 <= looks <= 2 + (time.monotonic() - begun_s)


async def test_a_user_sees_its_tables(server: SingleServer, users: WithUsers) -> None:
    async with event_stream(server.http_port) as events:
        assert events.status == 401
    async with (
        event_stream(server.http_port, authorization(users.tokens["alice"])) as alice,
        event_stream(server.http_port, authorization(users.tokens["root"])) as root,
    ):
        while not (tables := tables_of(await alice.next())):
            pass  # the newest look may be older than the tables
        assert tables == {"orders"}
        while not {"orders", "secret"} <= (tables := tables_of(await root.next())):
            pass
        await users.submit(lambda seen: GrantRights("alice", seen, "read secret"))
        assert (await until_row(alice, "secret"))["partition"] == 0
        await users.submit(lambda seen: RevokeRights("alice", seen, "read secret"))
        async with within(60):
            while (event := await alice.next()).kind != "whole":
                pass
        assert tables_of(event) == {"orders"}
        code, _, body = await http_get(
            server.http_port, "/history?of=secret/0&of=orders/0", authorization(users.tokens["alice"])
        )
        assert (code, [each["table"] for each in json.loads(body)["of"]]) == (200, ["orders"])


async def test_who_is_admin_no_longer_sees_no_more(server: SingleServer, users: WithUsers) -> None:
    await users.add_user("bob", "admin *", "read orders")
    async with event_stream(server.http_port, authorization(users.tokens["bob"])) as events:
        await until_row(events, "secret")
        await users.submit(lambda seen: RevokeRights("bob", seen, "admin *"))
        async with within(60):
            while (event := await events.next()).kind != "whole":
                pass
        assert tables_of(event) == {"orders"}


async def test_the_first_user_ends_the_streams_of_nobody(server: SingleServer) -> None:
    async with event_stream(server.http_port) as events:
        await events.next()
        await WithUsers(server).add_user("root", "admin *")
        assert "token" in (await ended(events)).data["error"]


async def ended(events: EventReader) -> ServerEvent:
    """The last event of a stream."""
    async with within(60):
        while (event := await events.next()).kind != "end":
            pass
    with pytest.raises(EOFError):
        await events.next()
    return event


@pytest.mark.parametrize("how", ["token", "user"])
async def test_a_token_that_is_revoked_ends_its_stream(server: SingleServer, users: WithUsers, how: str) -> None:
    async with (
        event_stream(server.http_port, authorization(users.tokens["alice"])) as events,
        event_stream(server.http_port, authorization(users.tokens["root"])) as others,
    ):
        await events.next()
        if how == "token":
            await users.submit(lambda seen: RevokeToken("alice", seen, users.token_ids["alice"]))
        else:
            await users.submit(lambda seen: RemoveUser("alice", seen))
        assert "alice" in (await ended(events)).data["error"]
        assert (await others.next()).kind == "whole"
        assert (await others.next()).kind in ("whole", "change")


async def test_a_token_that_expires_ends_its_stream(server: SingleServer, users: WithUsers) -> None:
    expires_ms = time.time_ns() // 1_000_000 + 1_500
    token = await users.add_token("alice", expires_ms=expires_ms)
    async with event_stream(server.http_port, authorization(token)) as events:
        assert (await events.next()).kind == "whole"
        assert "expired" in (await ended(events)).data["error"]
        assert time.time_ns() // 1_000_000 >= expires_ms


@asynccontextmanager
async def slow_reader(server: SingleServer, users: WithUsers) -> AsyncIterator[None]:
    """A stream of alice that nobody reads, once more was sent than a kernel takes in its place."""
    async with await aio.connect(f"127.0.0.1:{server.port}", token=users.tokens["root"]) as db:
        await db.create_table("w" * 120, partitions=1024)
    await users.submit(lambda seen: GrantRights("alice", seen, f"read {'w' * 120}"))
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    client.connect(("127.0.0.1", server.http_port))
    reader, writer = await asyncio.open_connection(sock=client, limit=1)
    lines = ["GET /events HTTP/1.1", "Host: localhost", authorization(users.tokens["alice"]), "", ""]
    writer.write("\r\n".join(lines).encode())
    await reader.readexactly(1)

    changes = 0

    async def sends() -> None:
        nonlocal changes
        while True:  # each change of users has all streams sent the whole
            await users.submit(lambda seen: GrantRights("alice", seen, "read secret"))
            await asyncio.sleep(0.05)
            await users.submit(lambda seen: RevokeRights("alice", seen, "read secret"))
            await asyncio.sleep(0.05)
            changes += 2

    sending = asyncio.create_task(sends())
    try:
        await until(lambda: changes >= 60)  # 0.2 MB each, and a kernel holds 4 MB
        yield
    finally:
        await end_tasks(sending)
        writer.transport.abort()
        with suppress(ConnectionError):
            await writer.wait_closed()


@pytest.mark.embedded_log_only  # it makes many tables
async def test_a_slow_reader_is_let_go(server: SingleServer, users: WithUsers) -> None:
    await server.serve_http(0, limits=HttpLimits(streams_max=1, stream_timeout_s=0.2))
    async with slow_reader(server, users):
        await until_true(lambda: let_in(server, users))
        assert (await http_get(server.http_port, "/livez"))[0] == 200


@pytest.mark.embedded_log_only  # it makes many tables
async def test_a_revoked_token_ends_the_stream_of_a_slow_reader(server: SingleServer, users: WithUsers) -> None:
    await server.serve_http(0, limits=HttpLimits(streams_max=1, stream_timeout_s=600))
    async with slow_reader(server, users):
        assert not await let_in(server, users)
        await users.submit(lambda seen: RevokeToken("alice", seen, users.token_ids["alice"]))
        await until_true(lambda: let_in(server, users))


async def let_in(server: SingleServer, users: WithUsers) -> bool:
    """Is there room for one more stream?"""
    async with event_stream(server.http_port, authorization(users.tokens["root"])) as another:
        return another.status == 200


async def test_a_server_that_closes_ends_its_streams(tmp_path: Path) -> None:
    server = await SingleServer.open(tmp_path / "other", port=0)
    await server.serve_http(0)
    async with event_stream(server.http_port) as events:
        await events.next()
        await server.close()
        with suppress(EOFError, ConnectionError, asyncio.IncompleteReadError):
            while True:
                await events.next()
    await until(lambda: not [each for each in asyncio.all_tasks() if "history" in each.get_name()])
    with pytest.raises(OSError, match="Connect"):
        await http_get(server.http_port, "/livez")
