"""Calls that wait when the right to them or their token ends: they end with it, not when what they wait for comes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import pytest
from kit.client.held_server import HELD_KEY as KEY
from kit.client.held_server import HELD_TABLE as TABLE
from kit.client.held_server import HeldConnection, HeldServer, connected, held_server
from kit.client.waiting_calls import WAITING_CALLS, WAITING_COMMANDS
from kit.deadlines import patience_s, until, within
from kit.resp.raw_client import packed

from log_tier.model.errors import PermissionDenied, Unauthenticated
from log_tier.trust.trust_commands import GrantRights, RevokeRights
from router.endpoints.resp.commands import native

pytestmark = pytest.mark.embedded_log_only

DEADLINE_S: Final = 30
IN_FORCE_S: Final = 0.1
"""So soon after its offset a revocation has ended what it ends, and a token after its time."""


@pytest.fixture
async def held(tmp_path: Path) -> AsyncIterator[HeldServer]:
    async with held_server(tmp_path / "data") as made:
        yield made


@pytest.fixture
async def connection(held: HeldServer) -> AsyncIterator[HeldConnection]:
    async with connected(held) as made:
        yield made


@pytest.mark.parametrize("ending", ["grant", "token", "user"])
@pytest.mark.parametrize("what", WAITING_CALLS)
async def test_a_read_that_waits_ends(held: HeldServer, what: str, ending: str) -> None:
    call = asyncio.ensure_future(held.error(WAITING_CALLS[what](held, held.of("alice"))))
    other = asyncio.ensure_future(held.error(WAITING_CALLS[what](held, held.of("root"))))
    async with within(DEADLINE_S):
        await until(lambda: held.waiting > 0)
        in_force_s = await held.end(ending)
        refused = await call
        assert time.monotonic() - in_force_s < patience_s(IN_FORCE_S)
        assert isinstance(refused, PermissionDenied if ending == "grant" else Unauthenticated), refused
        assert not other.done(), "another user's goes on"
        held.log.release_reads()
        assert await other is None


async def test_reads_that_wait_end_with_their_token(held: HeldServer) -> None:
    """And each is in the audit once."""
    over_s = await held.expire()
    calls = {
        what: asyncio.ensure_future(held.error(call(held, held.of("alice")))) for what, call in WAITING_CALLS.items()
    }
    others = [asyncio.ensure_future(held.error(call(held, held.of("root")))) for call in WAITING_CALLS.values()]
    async with within(DEADLINE_S):
        words = set[str]()
        for what, call in calls.items():
            refused = await call
            assert isinstance(refused, Unauthenticated), what
            words.add(refused.message)
        assert -0.1 < time.monotonic() - over_s < patience_s(IN_FORCE_S)
        assert not any(other.done() for other in others), "another user's go on"
        held.log.release_reads()
        assert [await other for other in others] == [None] * len(others)
        refused = await held.error(WAITING_CALLS["KV/GetMany"](held, held.of("alice")))
        assert isinstance(refused, Unauthenticated)
        assert "has expired" in refused.message
        assert words == {refused.message}, "as the next call is refused"
    assert await held.refused(len(WAITING_CALLS) + 1) == {
        ("refused", "KV/Get", TABLE, KEY.decode()): 2,
        ("refused", "KV/GetMany", TABLE, KEY.decode()): 2,
        ("ended", "KV/Scan", TABLE, ""): 1,
        ("refused", "KeyValue/Read", TABLE, KEY.decode()): 1,
        ("refused", "KeyValue/Scan", TABLE, ""): 1,
        ("refused", "Console/Get", TABLE, KEY.decode()): 1,
        ("refused", "Console/Scan", TABLE, ""): 1,
    }


@pytest.mark.parametrize("what", WAITING_COMMANDS)
async def test_commands_that_wait_are_refused(
    held: HeldServer, connection: HeldConnection, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the connection goes on."""
    monkeypatch.setattr(native, "AWAIT_S", 600.0)
    commands = WAITING_COMMANDS[what](held)
    connection.writer.write(b"".join(packed(*words) for words in commands))
    async with within(DEADLINE_S):
        await until(lambda: held.waiting > 0)
        # Who has no right at all in a table may not wait for its offsets either.
        for grant in ("write orders", "read orders --key eu:", "read orders"):
            await held.submit(lambda seen, grant=grant: RevokeRights("alice", seen, grant))  # type: ignore[misc]
        in_force_s = time.monotonic()
        for _ in commands:
            assert (await connection.line()).startswith(b"-NOPERM "), what
        assert time.monotonic() - in_force_s < patience_s(IN_FORCE_S)
        await held.submit(lambda seen: GrantRights("alice", seen, "read orders --key eu:"))
        held.log.release_reads()
        assert await connection.call("GET", KEY) == b"$5"
        assert await connection.line() == b"after"


async def test_connections_whose_commands_wait_end_with_their_token(
    held: HeldServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And each is in the audit once, under what it waited for."""
    monkeypatch.setattr(native, "AWAIT_S", 600.0)
    over_s, connections = await held.expire(), list[HeldConnection]()
    async with AsyncExitStack() as opened, within(DEADLINE_S):
        for words in WAITING_COMMANDS.values():
            made = await opened.enter_async_context(connected(held))
            made.writer.write(b"".join(packed(*each) for each in words(held)))
            connections.append(made)
        for made in connections:
            assert (await made.line()).startswith(b"-NOAUTH ")
            assert await made.line() == b"", "and the connection is ended"
        assert -0.1 < time.monotonic() - over_s < patience_s(IN_FORCE_S)
    on_the_key = ("mget", "strlen", "exists", "ttl")
    assert await held.refused(14) == {
        ("refused", "get", TABLE, KEY.decode()): 6,
        **{("refused", name, TABLE, KEY.decode()): 1 for name in on_the_key},
        **{("refused", name, TABLE, ""): 1 for name in ("scan", "keys", "randomkey")},
        ("refused", "duramen.await", "", ""): 1,
    }


async def test_reads_that_wait_and_are_still_allowed_go_on(held: HeldServer, connection: HeldConnection) -> None:
    """Of several reads that run together, one is not allowed any more."""
    connection.writer.write(packed("GET", KEY) + packed("GET", b"us:1") + packed("STRLEN", KEY) + packed("PING"))
    async with within(DEADLINE_S):
        await until(lambda: held.waiting > 0)
        await held.submit(lambda seen: RevokeRights("alice", seen, "read orders"))
        await held.submit(lambda seen: GrantRights("root", seen, "read orders --key nothing:"))
        held.log.release_reads()
        assert [await connection.line() for _ in range(2)] == [b"$5", b"after"]
        assert (await connection.line()).startswith(b"-NOPERM ")
        assert [await connection.line() for _ in range(2)] == [b":5", b"+PONG"]


async def test_a_transaction_that_waits_is_judged_again(held: HeldServer, connection: HeldConnection) -> None:
    for words in (("MULTI",), ("GET", KEY)):
        await connection.call(*words)
    connection.writer.write(packed("EXEC"))
    async with within(DEADLINE_S):
        await until(lambda: held.waiting > 0)
        for grant in ("read orders", "read orders --key eu:"):
            await held.submit(lambda seen, grant=grant: RevokeRights("alice", seen, grant))  # type: ignore[misc]
        in_force_s = time.monotonic()
        assert (await connection.line()).startswith(b"-EXECABORT Transaction discarded, nothing was done: NOPERM ")
        assert time.monotonic() - in_force_s < patience_s(IN_FORCE_S)
