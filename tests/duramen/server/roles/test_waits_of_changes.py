"""Changes by the Redis protocol whose right ends while they wait: made or refused, and nothing in between."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest
from kit.client.held_server import HELD_KEY as KEY
from kit.client.held_server import HELD_TABLE as TABLE
from kit.client.held_server import HeldConnection, HeldServer, connected, held_server
from kit.deadlines import patience_s, until, within
from kit.resp.raw_client import packed

from log_tier.trust.trust_commands import GrantRights, RevokeRights
from router.proto import kv_pb2

pytestmark = pytest.mark.embedded_log_only

DEADLINE_S: Final = 30
IN_FORCE_S: Final = 0.1
"""So soon after its offset a revocation has ended what it ends."""


@pytest.fixture
async def held(tmp_path: Path) -> AsyncIterator[HeldServer]:
    async with held_server(tmp_path / "data") as made:
        yield made


@pytest.fixture
async def connection(held: HeldServer) -> AsyncIterator[HeldConnection]:
    async with connected(held) as made:
        yield made


CHANGES: Final = {
    "EXEC": (("MULTI",), ("SET", KEY, "late"), ("EXEC",)),
    "EXEC of what is watched": (("WATCH", KEY), ("MULTI",), ("SET", KEY, "late"), ("EXEC",)),
    "APPEND": (("APPEND", KEY, "late"),),
    "MSET": (("MSET", KEY, "late", b"eu:2", "late"),),
}
"""Changes that wait, before they are made, until the replica has applied what was written last."""


@pytest.mark.parametrize("ending", ["grant", "expiry"])
@pytest.mark.parametrize("what", CHANGES)
async def test_a_change_that_waits_is_not_made(held: HeldServer, what: str, ending: str) -> None:
    """What was let in before its right ended, and not begun, leaves nothing in the table."""
    *first, last = CHANGES[what]
    await held.submit(lambda seen: GrantRights("alice", seen, "write orders --key eu:"))
    if ending == "expiry":
        await held.expire()
    async with connected(held) as made, within(DEADLINE_S):
        if first and first[0][0] == "WATCH":
            held.log.release_reads()
            await made.call(*first.pop(0))
            held.log.hold_reads(held.table)
            await held.put(b"watched")
        for words in first:
            assert not (await made.call(*words)).startswith(b"-"), words
        made.writer.write(packed(*last))
        await until(lambda: held.waiting > 0)
        if ending == "expiry":
            assert (await made.line()).startswith(b"-NOAUTH ")
            assert await made.line() == b""
            held.log.release_reads()
        else:
            for grant in ("write orders", "write orders --key eu:"):
                await held.submit(lambda seen, grant=grant: RevokeRights("alice", seen, grant))  # type: ignore[misc]
            in_force_s = time.monotonic()
            refused_with = await made.line()
            assert time.monotonic() - in_force_s < patience_s(IN_FORCE_S)
            assert refused_with.startswith(b"-EXECABORT " if what.startswith("EXEC") else b"-NOPERM ")
            assert b"NOPERM " in refused_with
            assert b"write orders --key eu:1" in refused_with, "what is missing"
            assert held.waiting == 0
            held.log.release_reads()
            assert await made.call("PING") == b"+PONG", "the connection goes on"
        found = await held.kv.Get(
            kv_pb2.KVGetRequest(table=TABLE, key=KEY, level=kv_pb2.KV_LEVEL_STRONG), metadata=held.of("root")
        )
        assert found.value in (b"after", b"watched")
    refused = await held.refused(1)
    assert refused.total() == 1, refused
    ((result, action, _, _),) = refused
    assert (result, action) in [("refused", str(words[0]).lower()) for words in CHANGES[what]]


@pytest.mark.parametrize("what", CHANGES)
async def test_a_change_that_waits_and_is_still_allowed_goes_on(held: HeldServer, what: str) -> None:
    """However often users and grants change meanwhile; and it is made once."""
    *first, last = CHANGES[what]
    if first and first[0][0] == "WATCH":
        first.pop(0)
    async with connected(held) as made, within(DEADLINE_S):
        for words in first:
            await made.call(*words)
        made.writer.write(packed(*last))
        await until(lambda: held.waiting > 0)
        await held.submit(lambda seen: GrantRights("alice", seen, "read,write orders --key eu:"))
        await held.submit(lambda seen: RevokeRights("alice", seen, "write orders"))
        for number in range(20):
            await held.submit(lambda seen, number=number: GrantRights("root", seen, f"read t{number}"))  # type: ignore[misc]
        held.log.release_reads()
        assert not (await made.line()).startswith(b"-")
        found = await held.kv.Get(
            kv_pb2.KVGetRequest(table=TABLE, key=KEY, level=kv_pb2.KV_LEVEL_STRONG), metadata=held.of("root")
        )
        assert found.value == (b"afterlate" if what == "APPEND" else b"late")


@pytest.mark.parametrize("ending", ["grant", "token", "user"])
async def test_a_change_that_has_begun_is_answered(held: HeldServer, connection: HeldConnection, ending: str) -> None:
    """It may have happened, so nobody says that it was refused. The next command is."""
    held.log.release_reads()
    held.log.hold_appends()
    connection.writer.write(packed("APPEND", KEY, "late"))
    async with within(DEADLINE_S):
        await until(lambda: held.log.appending > 0)
        if ending == "grant":
            await held.submit(lambda seen: RevokeRights("alice", seen, "write orders"))
        else:
            await held.end(ending)
        held.log.release_appends()
        assert await connection.line() == b":9"
        assert (await connection.call("APPEND", KEY, "later")).startswith(
            b"-NOPERM " if ending == "grant" else b"-NOAUTH "
        )
    assert (await held.refused(1)).total() == 1
