"""What the Redis protocol's endpoint notes in `_duramen_audit`, with and without reader processes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from kit.client.audited_server import AuditedCalls, audited_server
from kit.deadlines import until, until_true
from kit.resp.raw_client import Raw, RawError, Status, packed

from log_tier.audit.audit_queue import REFUSED_KEYS_PER_S
from log_tier.audit.audit_settings import AuditSettings
from log_tier.model.identifiers import AUDIT_TABLE
from log_tier.trust.trust_commands import RevokeRights
from router.endpoints.resp.server.sockets import RespSettings
from router.endpoints.resp.wire.limits import AT_ONCE_WORDS_MAX

pytestmark = pytest.mark.embedded_log_only  # rows in Kafka: test_auditing.py

PASSWORD = "correct horse battery"
OK = Status("OK")


class AuditedEndpoint:
    """A server with the user `alice`, who may read and write `eu:` of `default`, and `root`, who may do everything."""

    def __init__(self, calls: AuditedCalls, port: int) -> None:
        self.calls = calls
        self.port = port

    async def say(self, *commands: tuple[str | int, ...], user: str = "") -> list[Any]:
        """The replies on a connection of its own, in a thread: readers wait for this event loop."""
        return await asyncio.to_thread(self._say, commands, user)

    def _say(self, commands: tuple[tuple[str | int, ...], ...], user: str) -> list[Any]:
        with Raw(("127.0.0.1", self.port)) as raw:
            if user:
                assert raw.call("AUTH", user, self.calls.tokens[user].text) == OK
            raw.send(b"".join(packed(*each) for each in commands))
            return [raw.reply() for _ in commands]


@asynccontextmanager
async def audited_endpoint(folder: Path, readers: int, audit: AuditSettings) -> AsyncIterator[AuditedEndpoint]:
    settings = RespSettings(port=0, readers=readers)
    async with audited_server(folder, audit=audit, resp=settings) as (server, calls):
        await calls.add_user("root", "admin *", "read,write *")
        await calls.add_user("alice", "read,write default --key eu:", password=PASSWORD)
        await until(lambda: calls.catalog.map.named(AUDIT_TABLE) is not None)
        yield AuditedEndpoint(calls, server.resp_port)


@pytest.fixture(params=[0, 2], ids=["one process", "two readers"])
def readers(request: pytest.FixtureRequest) -> int:
    found: int = request.param
    return found


@pytest.fixture
async def endpoint(tmp_path: Path, readers: int) -> AsyncIterator[AuditedEndpoint]:
    """Its rows are written soon: no test with it needs equal events in one row."""
    async with audited_endpoint(tmp_path / "data", readers, AuditSettings(window_s=0.05)) as opened:
        yield opened


async def test_logins_by_redis(endpoint: AuditedEndpoint) -> None:
    assert await endpoint.say(("AUTH", "alice", PASSWORD)) == [OK]
    (row,) = await endpoint.calls.until_rows(kind="login", user="alice", proof="password")
    assert (row["result"], row["address"], row["action"]) == ("allowed", "127.0.0.1", "login")
    await endpoint.say(("PING",), user="alice")
    (row,) = await endpoint.calls.until_rows(kind="login", user="alice", proof="token")
    assert row["credential"] == endpoint.calls.tokens["alice"].id
    for name, shown in (("alice", "alice"), ("my secret typed as a name", "")):
        (reply,) = await endpoint.say(("HELLO", 3, "AUTH", name, "wrong password"))
        assert reply.text.startswith("WRONGPASS")
        (row,) = await endpoint.calls.until_rows(kind="login", result="refused", user=shown)
        assert (row["proof"], row["address"], row["detail"]) == ("nothing", "127.0.0.1", "the proof is none")
    text = json.dumps(await endpoint.calls.rows())
    assert "wrong password" not in text
    assert "my secret" not in text


async def test_refused_commands(endpoint: AuditedEndpoint) -> None:
    replies = await endpoint.say(
        ("SET", "eu:1", "v"), ("SET", "us:1", "v"), ("GET", "us:1"), ("FLUSHDB",), ("ACL", "LIST"), user="alice"
    )
    assert replies[0] == OK
    assert all(reply.text.startswith("NOPERM") for reply in replies[1:])
    (row,) = await endpoint.calls.until_rows(user="alice", action="set")
    assert (row["kind"], row["result"], row["table"], row["key"]) == ("write", "refused", "default", "us:1")
    assert row["detail"] == "what is missing is 'write default --key us:1'"
    assert (row["address"], row["version"]) == ("127.0.0.1", endpoint.calls.catalog.map.version)
    for action, kind, table in (("get", "read", "default"), ("flushdb", "admin", "default"), ("acl|list", "admin", "")):
        (row,) = await endpoint.calls.until_rows(user="alice", action=action)
        assert (row["kind"], row["result"], row["table"], row["count"]) == (kind, "refused", table, 1)


async def test_commands_of_nobody(endpoint: AuditedEndpoint) -> None:
    replies = await endpoint.say(("GET", "us:1"), ("PING",), ("SELECT",), ("FLUSHDB",))
    assert replies == [RawError("NOAUTH Authentication required.")] * 4
    for action, kind, table in (
        ("get", "read", "default"),
        ("ping", "call", ""),
        ("select", "call", ""),
        ("flushdb", "admin", "default"),
    ):
        (row,) = await endpoint.calls.until_rows(user="", action=action)
        assert (row["kind"], row["result"], row["table"], row["detail"]) == (kind, "refused", table, "no proof")


async def test_a_transaction_and_very_many_keys_are_one_row_each(endpoint: AuditedEndpoint) -> None:
    calls = endpoint.calls
    await calls.add_user("carol", "read,write default --key eu:")
    many = [f"us:{number}" for number in range(AT_ONCE_WORDS_MAX + 1)]
    queued = await endpoint.say(("MULTI",), ("MGET", *many), ("EXEC",), ("MGET", *many), user="carol")
    assert queued[2].text.startswith("EXECABORT")
    assert queued[3].text.startswith("NOPERM")

    async def are_counted() -> bool:
        return sum(int(row["count"]) for row in await calls.rows(user="carol", action="mget")) >= 2

    await until_true(are_counted)
    rows = await calls.rows(user="carol", action="mget")
    assert [row["kind"] for row in rows] == ["read"] * len(rows)
    assert sum(row["count"] for row in rows) == 2


async def test_administration_is_noted_when_it_is_answered(endpoint: AuditedEndpoint) -> None:
    replies = await endpoint.say(
        ("SET", "k", "v"), ("FLUSHDB",), ("ACL", "USERS"), ("CLIENT", "LIST"), ("ACL", "GETUSER", "root"), user="root"
    )
    assert replies[:2] == [OK, OK]
    for action, table in (("flushdb", "default"), ("acl|users", ""), ("client|list", "")):
        (row,) = await endpoint.calls.until_rows(user="root", action=action)
        assert (row["kind"], row["result"], row["table"]) == ("admin", "done", table)
        assert row["offset"] >= row["version"] >= 0
    # What belongs to everybody, and reads and writes that nobody chose, give no row.
    assert not [row for row in await endpoint.calls.rows() if row["action"] in ("acl|getuser", "set")]


async def test_a_flood_of_refused_commands_makes_few_rows(tmp_path: Path, readers: int) -> None:
    async with audited_endpoint(tmp_path / "data", readers, AuditSettings()) as endpoint:
        calls, count, loop = endpoint.calls, 5000, asyncio.get_running_loop()
        begun_s = loop.time()
        replies = await endpoint.say(*(("SET", f"us:{number}", "v") for number in range(count)), user="alice")
        assert all(reply.text.startswith("NOPERM") for reply in replies)

        async def are_counted() -> bool:
            counts: list[int] = [row["count"] for row in await calls.rows(user="alice", result="refused")]
            return sum(counts) == count

        await until_true(are_counted)
        rows = await calls.rows(user="alice", result="refused")
        assert len(rows) <= (REFUSED_KEYS_PER_S + 1) * (loop.time() - begun_s + 2)
        assert {row["key"] for row in rows if row["count"] > 1} <= {""}, "a row of several keys names none"


async def test_a_subscription_that_a_revocation_ends(endpoint: AuditedEndpoint) -> None:
    calls = endpoint.calls
    await calls.add_user("dora", "read default")

    def listen() -> Any:
        with Raw(("127.0.0.1", endpoint.port)) as raw:
            assert raw.call("AUTH", "dora", calls.tokens["dora"].text) == OK
            raw.call("SUBSCRIBE", "__keyevent@0__:set")
            asyncio.run_coroutine_threadsafe(
                calls.submit(lambda seen: RevokeRights("dora", seen, "read default")), loop
            ).result(30)
            return raw.reply()

    loop = asyncio.get_running_loop()
    assert (await asyncio.to_thread(listen)).text.startswith("NOPERM")
    (row,) = await calls.until_rows(user="dora", result="ended")
    assert (row["kind"], row["table"], row["action"]) == ("read", "default", "subscribe")
