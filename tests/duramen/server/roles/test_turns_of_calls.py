"""Calls of gRPC next to a flood of the Redis protocol: they stand in the same line as their own user's commands."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import pytest
from kit.deadlines import patience_s, within
from kit.guarded_grpc import Guarded
from kit.resp.raw_client import packed

from duramen.server.roles.all_in_one import SingleServer
from log_tier.model.errors import Overloaded, PermissionDenied
from log_tier.rows.table_spec import TableSpec
from log_tier.trust.trust_commands import RevokeRights
from router.endpoints.resp.server.sockets import RespSettings
from router.endpoints.turns import shared_turns
from router.endpoints.turns.shared_turns import SHORT_TURN_S, SharedTurns
from router.proto import kv_pb2

pytestmark = pytest.mark.embedded_log_only

FLOODING: Final = 8
"""Connections of the flood, each with more commands than a turn has, again and again."""
COMMANDS: Final = packed("PING") * 5000
PUT: Final = kv_pb2.KVPutRequest(table="orders", key=b"k", value=b"v")


class SeenTurns(SharedTurns):
    """The line of a server, which notes whose calls have waited in it."""

    made: SeenTurns

    def __init__(self, *how: object) -> None:
        super().__init__(*how)  # type: ignore[arg-type]
        SeenTurns.made = self
        self.waited: list[object] = []
        self.shortest_s = self.turn_s

    def must_wait(self, user: object) -> bool:
        waits = super().must_wait(user)
        self.shortest_s = min(self.shortest_s, self.turn_s)
        return waits

    async def take_turn(self, user: object) -> None:
        self.waited.append(user)
        await super().take_turn(user)


@pytest.fixture
async def guarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Guarded]:
    monkeypatch.setattr("duramen.server.roles.guarding.SharedTurns", SeenTurns)
    server = await SingleServer.open(tmp_path / "data", port=0, resp_endpoint=RespSettings(port=0))
    made = Guarded(server)
    try:
        await server.data_plane.create_table(TableSpec("orders", 2), timeout=patience_s(30))
        await made.add_user("root", "admin *", "read,write *")
        for name in ("mallory", "alice"):
            await made.add_user(name, "read,write orders")
        yield made
    finally:
        await made.channel.close(None)
        await server.close()


@asynccontextmanager
async def flood(guarded: Guarded, user: str) -> AsyncIterator[None]:
    """Commands of a user by the Redis protocol, without end; in there when the line has some of them."""

    async def connection() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", guarded.server.resp_port)
        try:
            writer.write(packed("AUTH", user, guarded.tokens[user].text))
            assert await reader.readline() == b"+OK\r\n"
            while True:
                writer.write(COMMANDS)
                await reader.readexactly(len(b"+PONG\r\n") * 5000)
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async with AsyncExitStack() as ends:
        tasks = [asyncio.create_task(connection()) for _ in range(FLOODING)]
        for task in tasks:
            ends.push_async_callback(asyncio.wait, [task])
            ends.callback(task.cancel)
        async with within(30):
            while user not in SeenTurns.made._waiting:
                assert not any(task.done() for task in tasks), "the flood has ended"
                await asyncio.sleep(0)
        yield


async def test_a_call_waits_behind_its_users_own_commands_and_nobody_elses(guarded: Guarded) -> None:
    async with flood(guarded, "mallory"), within(60):
        while len(SeenTurns.made.waited) < 20 or SeenTurns.made.shortest_s != SHORT_TURN_S:
            users = ["mallory"] * 8 + ["alice", "root"]
            calls = [guarded.error(guarded.kv.Put(PUT, metadata=guarded.of(user))) for user in users]
            assert await asyncio.gather(*calls) == [None] * len(users)
    assert set(SeenTurns.made.waited) == {"mallory"}


async def test_a_call_is_judged_by_the_rights_of_the_time_after_its_turn(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A revocation that comes while a call waits is in force for it."""
    waits, goes_on = asyncio.Event(), asyncio.Event()

    async def take_turn(_self: SeenTurns, _user: object) -> None:
        waits.set()
        await goes_on.wait()

    monkeypatch.setattr(SeenTurns, "must_wait", lambda _self, user: user == "alice")
    monkeypatch.setattr(SeenTurns, "take_turn", take_turn)
    call = asyncio.ensure_future(guarded.error(guarded.kv.Put(PUT, metadata=guarded.of("alice"))))
    async with within(30):
        await waits.wait()
        await guarded.submit(lambda seen: RevokeRights("alice", seen, "read,write orders"))
        goes_on.set()
        assert isinstance(await call, PermissionDenied)


async def test_too_many_calls_in_the_line_are_refused_and_those_that_left_are_not_counted(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_turns, "CALLS_MAX", 2)
    turns = SeenTurns.made
    stands = [asyncio.create_task(turns.take_turn("alice")) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(Overloaded, match="2 calls wait for their turn"):
        await turns.take_turn("bob")
    stands[0].cancel()
    async with within(30):
        await asyncio.wait(stands)
        await turns.take_turn("bob")
    assert [task.cancelled() for task in stands] == [True, False]
    assert not turns._waiting
