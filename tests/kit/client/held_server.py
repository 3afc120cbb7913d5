"""A server whose replica waits, so that reads do, and changes that look at what is there, until a test lets go."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

from duramen.server.roles.all_in_one import SingleServer
from duramen.server.wiring.single_machine import MachineParts
from duramen.testing.machine.memory_disk import MemoryDisk
from kit.client.audited_server import audit_rows
from kit.deadlines import patience_s, until_true
from kit.guarded_grpc import Guarded
from kit.log.held_log import HeldLog
from kit.resp.raw_client import packed
from log_tier.concurrency.clocks import SYSTEM_CLOCK
from log_tier.embedded import EmbeddedLog
from log_tier.model.identifiers import TableId
from log_tier.model.log import Log
from log_tier.rows.table_spec import TableSpec
from log_tier.trust.trust_commands import RemoveUser, RevokeRights, RevokeToken
from router.endpoints.resp.server.sockets import RespSettings
from router.proto import console_pb2_grpc, keyvalue_pb2_grpc, kv_pb2

__all__ = ["HELD_KEY", "HELD_TABLE", "HeldConnection", "HeldServer", "connected", "held_server"]

HELD_TABLE: Final = "orders"
HELD_KEY: Final = b"eu:1"
_EXPIRES_S: Final = 1.5
_EXPIRES_MAX_S: Final = 8.0
"""A busy machine has patience for longer than a read waits."""


class HeldServer(Guarded):
    """A server with users, whose replica of `orders` waits for the log: it has not applied what was written last."""

    def __init__(self, server: SingleServer, log: HeldLog) -> None:
        super().__init__(server)
        self.log = log
        self.key_value: Any = keyvalue_pb2_grpc.KeyValueStub(self.channel)  # type: ignore[no-untyped-call]
        self.console: Any = console_pb2_grpc.ConsoleStub(self.channel)  # type: ignore[no-untyped-call]
        self.table: TableId
        self.token = ""

    async def hold(self, *, users: bool) -> None:
        self.table = (await self.server.data_plane.create_table(TableSpec(HELD_TABLE, 1), timeout=patience_s(30))).id
        if users:
            await self.add_user("root", "admin *", "read,write *")
            await self.add_user("alice", "read orders", "read orders --key eu:", "write orders")
        await self.put(b"before")
        get = kv_pb2.KVGetRequest(table=HELD_TABLE, key=HELD_KEY, after=self.token)
        await self.kv.Get(get, metadata=self.of("alice"))
        self.log.hold_reads(self.table)
        await self.put(b"after")

    async def put(self, value: bytes) -> None:
        put = kv_pb2.KVPutRequest(table=HELD_TABLE, key=HELD_KEY, value=value)
        self.token = (await self.kv.Put(put, metadata=self.of("root"))).token

    def of(self, name: str) -> tuple[tuple[str, str], ...]:
        """The metadata of a call with the token of a user; nothing where there are no users."""
        return super().of(name) if name in self.tokens else ()

    @property
    def waiting(self) -> int:
        """Reads that wait for the replica; those that were gathered are one."""
        (replica,) = (each for each in self.server.data_plane.node if each.id.table == self.table)
        return len(replica.progress._waiters)

    async def end(self, ending: str) -> float:
        """Take alice's right away; when that was in force at the latest, on the loop's clock."""
        if ending == "grant":
            for grant in ("read orders", "read orders --key eu:"):
                await self.submit(lambda seen, grant=grant: RevokeRights("alice", seen, grant))  # type: ignore[misc]
        elif ending == "token":
            await self.submit(lambda seen: RevokeToken("alice", seen, self.tokens["alice"].id))
        else:
            await self.submit(lambda seen: RemoveUser("alice", seen))
        return time.monotonic()

    async def expire(self) -> float:
        """Give alice a token that expires soon; when, on the loop's clock."""
        lives_s = min(patience_s(_EXPIRES_S), _EXPIRES_MAX_S)
        await self.add_token("alice", expires_ms=SYSTEM_CLOCK.wall_ms() + round(lives_s * 1000))
        return time.monotonic() + lives_s

    async def refused(self, count: int, *, user: str = "alice") -> Counter[tuple[str, str, str, str]]:
        """What was refused of a user's and ended, when it is as often: results, actions, tables and keys."""
        found: Counter[tuple[str, str, str, str]] = Counter()

        async def are_there() -> bool:
            found.clear()
            for row in await audit_rows(self.server.data_plane):
                if row["user"] == user and row["result"] in ("refused", "ended"):
                    found[row["result"], row["action"], row["table"], row["key"]] += row["count"]
            return found.total() >= count

        await until_true(are_there)
        return found


@asynccontextmanager
async def held_server(folder: Path, *, users: bool = True) -> AsyncIterator[HeldServer]:
    log = HeldLog(await EmbeddedLog.open("/log", disk=MemoryDisk()))

    async def opened(_: str) -> Log:
        return log

    server = await SingleServer.open(
        folder, port=0, machine=MachineParts(open_log=opened), resp_endpoint=RespSettings(port=0)
    )
    made = HeldServer(server, log)
    try:
        await made.hold(users=users)
        yield made
    finally:
        log.release_reads()
        log.release_appends()
        await made.channel.close(None)
        await server.close()


class HeldConnection:
    """A connection of alice by the Redis protocol, whose reads wait until the replica has applied what is there."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def call(self, *words: bytes | str | int) -> bytes:
        """The first line of the reply."""
        self.writer.write(packed(*words))
        return await self.line()

    async def line(self) -> bytes:
        return (await self.reader.readline()).strip()


@asynccontextmanager
async def connected(held: HeldServer) -> AsyncIterator[HeldConnection]:
    """By alice, or by anybody where there are no users."""
    reader, writer = await asyncio.open_connection("127.0.0.1", held.server.resp_port)
    made = HeldConnection(reader, writer)
    try:
        login = [("AUTH", "alice", held.tokens["alice"].text)] if held.tokens else []
        for words in (*login, ("SELECT", HELD_TABLE), ("DURAMEN.LEVEL", "strong")):
            assert await made.call(*words) == b"+OK", words
        yield made
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
