"""Calls that wait when the first user comes, and the gate is closed: they are judged as if they came now."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest
from kit.client.held_server import HELD_KEY, HELD_TABLE, HeldServer, connected, held_server
from kit.client.waiting_calls import WAITING_CALLS, WAITING_COMMANDS
from kit.deadlines import patience_s, until, within
from kit.resp.raw_client import packed

from log_tier.access.tokens import MintedToken, mint_token
from log_tier.model.errors import PermissionDenied, Unauthenticated
from log_tier.trust.trust_commands import AddUser, RevokeRights
from router.endpoints.resp.commands import native
from router.proto import kv_pb2

pytestmark = pytest.mark.embedded_log_only

DEADLINE_S: Final = 30
IN_FORCE_S: Final = 0.1
"""So soon after the first user is there, what nobody proved has ended."""

SINGLE: Final = [what for what in WAITING_CALLS if what != "KV/Scan"]
"""A stream is nobody's until it is begun again."""


@pytest.fixture
async def held(tmp_path: Path) -> AsyncIterator[HeldServer]:
    async with held_server(tmp_path / "data", users=False) as made:
        yield made


async def close_gate(held: HeldServer, *grants: str, token: MintedToken | None = None) -> float:
    """Add the first user, root; when that was in force at the latest, on the loop's clock."""
    token = held.tokens["root"] = token or mint_token("root")
    await held.submit(
        lambda seen: AddUser(
            "root", seen, grants=grants or ("read,write,admin *",), token=token.id, sha256=token.sha256
        )
    )
    return time.monotonic()


async def test_calls_that_wait_are_refused(held: HeldServer) -> None:
    calls = {what: asyncio.ensure_future(held.error(call(held, ()))) for what, call in WAITING_CALLS.items()}
    async with within(DEADLINE_S):
        await until(lambda: held.waiting == len(calls))
        in_force_s = await close_gate(held)
        for what, call in calls.items():
            assert isinstance(await call, Unauthenticated), what
        assert time.monotonic() - in_force_s < patience_s(IN_FORCE_S)
        held.log.release_reads()
    assert await held.refused(len(calls), user="") == {
        ("refused", "KV/Get", HELD_TABLE, HELD_KEY.decode()): 2,
        ("refused", "KV/GetMany", HELD_TABLE, HELD_KEY.decode()): 1,
        ("ended", "KV/Scan", HELD_TABLE, ""): 1,
        ("refused", "KeyValue/Read", HELD_TABLE, HELD_KEY.decode()): 1,
        ("refused", "KeyValue/Scan", HELD_TABLE, ""): 1,
        ("refused", "Console/Get", HELD_TABLE, HELD_KEY.decode()): 1,
        ("refused", "Console/Scan", HELD_TABLE, ""): 1,
    }


@pytest.mark.parametrize("what", SINGLE)
@pytest.mark.parametrize("grant", ["read *", "read ships"])
async def test_who_has_the_first_users_token_is_judged_by_it(held: HeldServer, what: str, grant: str) -> None:
    """A program may come with it before this server has the map of the user."""
    token = held.tokens["root"] = mint_token("root")
    call = asyncio.ensure_future(held.error(WAITING_CALLS[what](held, held.of("root"))))
    async with within(DEADLINE_S):
        await until(lambda: held.waiting > 0)
        await close_gate(held, "admin *", grant, token=token)
        if grant == "read *":
            held.log.release_reads()
            assert await call is None
        else:
            refused = await call
            assert isinstance(refused, PermissionDenied), refused


async def test_a_read_goes_on_being_judged(held: HeldServer) -> None:
    """It was let in by nobody's leave, and is its user's from the first user on."""
    token = held.tokens["root"] = mint_token("root")
    call = asyncio.ensure_future(held.error(WAITING_CALLS["KV/GetMany"](held, held.of("root"))))
    async with within(DEADLINE_S):
        await until(lambda: held.waiting > 0)
        await close_gate(held, "admin *", "read *", token=token)
        await held.submit(lambda seen: RevokeRights("root", seen, "read *"))
        in_force_s = time.monotonic()
        assert isinstance(await call, PermissionDenied)
        assert time.monotonic() - in_force_s < patience_s(IN_FORCE_S)


async def test_a_write_that_was_let_in_is_answered(held: HeldServer) -> None:
    held.log.hold_appends()
    put = asyncio.ensure_future(
        held.error(held.kv.Put(kv_pb2.KVPutRequest(table=HELD_TABLE, key=HELD_KEY, value=b"written")))
    )
    async with within(DEADLINE_S):
        await until(lambda: held.log.appending > 0)
        await close_gate(held)
        held.log.release_appends()
        assert await put is None
        held.log.release_reads()
        get = kv_pb2.KVGetRequest(table=HELD_TABLE, key=HELD_KEY, level=kv_pb2.KV_LEVEL_STRONG)
        assert (await held.kv.Get(get, metadata=held.of("root"))).value == b"written"


@pytest.mark.parametrize("what", WAITING_COMMANDS)
async def test_commands_that_wait_are_refused(held: HeldServer, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the connection goes on, for who logs in."""
    monkeypatch.setattr(native, "AWAIT_S", 600.0)
    commands = WAITING_COMMANDS[what](held)
    async with connected(held) as connection, within(DEADLINE_S):
        connection.writer.write(b"".join(packed(*words) for words in commands))
        await until(lambda: held.waiting > 0)
        in_force_s = await close_gate(held)
        for _ in commands:
            assert (await connection.line()).startswith(b"-NOAUTH "), what
        assert time.monotonic() - in_force_s < patience_s(IN_FORCE_S)
        assert await connection.call("AUTH", "root", held.tokens["root"].text) == b"+OK"
        held.log.release_reads()
        assert await connection.call("GET", HELD_KEY) == b"$5"
        assert await connection.line() == b"after"
