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


Commands = list[tuple[bytes | str, ...]]

BEHIND: dict[str, Commands] = {
    "APPEND": [("APPEND", KEY, "later")],
    "a run": [("APPEND", KEY, "later")] * 40,
    "a mixed run": [*[("SET", KEY, "later"), ("APPEND", KEY, "x"), ("INCR", b"eu:n")] * 20],
    "EXEC": [("MULTI",), ("SET", KEY, "later"), ("EXEC",)],
    "MSET": [("MSET", KEY, "later", b"eu:2", "later")],
}
"""What is sent behind a change that the log has, and waits for a round until that is written."""


async def begun(held: HeldServer, connection: HeldConnection, behind: Commands) -> None:
    """An APPEND is in the log and has no answer; what came behind it waits for the next round."""
    held.log.release_reads()
    assert await connection.call("DURAMEN.LEVEL", "session") == b"+OK"
    assert (await connection.call("APPEND", KEY, "")).startswith(b":"), "the table is at hand"
    held.log.hold_appends()
    connection.writer.write(packed("APPEND", KEY, "late"))
    await until(lambda: held.log.appending > 0)
    connection.writer.write(b"".join(packed(*words) for words in behind))
    async with connected(held) as other:
        for _ in range(5):  # so many turns of the server's loop, and more, it has had the commands
            assert await other.call("PING") == b"+PONG"


@pytest.mark.parametrize("ending", ["grant", "token", "user"])
@pytest.mark.parametrize("what", BEHIND)
async def test_what_waits_for_a_round_is_refused_there(
    held: HeldServer, connection: HeldConnection, what: str, ending: str
) -> None:
    """It was let in while it was allowed, and nothing of it is in the log when the right ends."""
    behind = BEHIND[what]
    async with within(DEADLINE_S):
        await begun(held, connection, behind)
        if ending == "grant":
            await held.submit(lambda seen: RevokeRights("alice", seen, "write orders"))
        else:
            await held.end(ending)
        held.log.release_appends()
        assert await connection.line() == b":9", "what had begun is answered"
        replies = [await connection.line() for _ in behind]
        if what == "EXEC":
            assert replies.pop(0) == b"+OK"
            assert replies.pop(0) == b"+QUEUED"
        expected = b"-NOPERM " if ending == "grant" else b"-NOAUTH "
        for reply in replies:
            assert reply.startswith(b"-EXECABORT " if what == "EXEC" else expected), replies
            assert expected.strip(b"-") in reply
        found = await held.kv.Get(
            kv_pb2.KVGetRequest(table=TABLE, key=KEY, level=kv_pb2.KV_LEVEL_STRONG), metadata=held.of("root")
        )
        assert found.value == b"afterlate"
    assert (await held.refused(len(replies))).total() == len(replies), "each is noted"


@pytest.mark.parametrize("what", BEHIND)
async def test_what_waits_for_a_round_and_is_still_allowed_goes_on(
    held: HeldServer, connection: HeldConnection, what: str
) -> None:
    behind = BEHIND[what]
    async with within(DEADLINE_S):
        await begun(held, connection, behind)
        await held.submit(lambda seen: GrantRights("alice", seen, "read,write orders --key eu:"))
        await held.submit(lambda seen: RevokeRights("alice", seen, "write orders"))
        held.log.release_appends()
        replies = [await connection.line() for _ in range(1 + len(behind))]
        assert not any(reply.startswith(b"-") for reply in replies), replies


async def test_of_a_run_only_what_is_forbidden_is_refused(held: HeldServer, connection: HeldConnection) -> None:
    await held.submit(lambda seen: GrantRights("alice", seen, "read,write orders --key eu:"))
    await held.submit(lambda seen: GrantRights("alice", seen, "read,write orders --key us:"))
    behind: Commands = [("INCR", key) for _ in range(20) for key in (b"eu:n", b"us:n")]
    async with within(DEADLINE_S):
        await begun(held, connection, behind)
        await held.submit(lambda seen: RevokeRights("alice", seen, "write orders"))
        await held.submit(lambda seen: RevokeRights("alice", seen, "read,write orders --key us:"))
        held.log.release_appends()
        assert await connection.line() == b":9"
        replies = [await connection.line() for _ in behind]
        assert replies[::2] == [b":%d" % (number + 1) for number in range(20)]
        assert {reply[:8] for reply in replies[1::2]} == {b"-NOPERM "}
