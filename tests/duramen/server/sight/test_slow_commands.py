"""Slow commands of the Redis protocol: in the same ring as those of gRPC, and in SLOWLOG."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio
from kit.client.command_line import run_here
from kit.client.server_process import ServerProcess
from kit.client.with_users import WithUsers
from kit.deadlines import until, wait_until
from kit.log.held_log import HeldLog
from kit.log.held_step import HeldStep
from kit.log.sample_batches import plain_batch

from duramen.cli.sight.slow_page import slow_page
from duramen.server.roles.all_in_one import SingleServer
from duramen.server.wiring.single_machine import MachineParts
from duramen.testing.machine.memory_disk import MemoryDisk
from log_tier.embedded import EmbeddedLog
from log_tier.embedded.storage.settings import EngineSettings
from log_tier.model.identifiers import Partition, PartitionId, TableId
from log_tier.model.log import Log
from log_tier.rows.definition import TableDefinition
from log_tier.rows.key_fields import KeyField
from log_tier.rows.table_spec import TableSpec
from log_tier.rows.tuple_key import pack_key
from log_tier.slow_calls.slow_call import NO_SUBJECT, SlowCall
from router.endpoints.resp.server.sockets import RespSettings

pytestmark = pytest.mark.embedded_log_only  # the disk and the log of these are in this process

HELD_S = 0.12


@asynccontextmanager
async def served(folder: Path, log: Log) -> AsyncIterator[SingleServer]:
    async def opened(_: str) -> Log:
        return log

    server = await SingleServer.open(
        folder,
        port=0,
        machine=MachineParts(open_log=opened),
        slow_call_ms=40,
        resp_endpoint=RespSettings(port=0),
    )
    try:
        yield server
    finally:
        await server.close()


@asynccontextmanager
async def connected(server: SingleServer, **options: Any) -> AsyncIterator[Any]:
    client: Any = redis.asyncio.Redis(port=server.resp_port, **options)
    try:
        yield client
    finally:
        await client.aclose()


async def log_on(disk: MemoryDisk) -> EmbeddedLog:
    return await EmbeddedLog.open("/log", disk=disk, settings=EngineSettings(quick_commit_s=0.0))


async def held_sync(disk: MemoryDisk, *work: Any) -> None:
    """Do the work while the disk stands for a while in its next sync."""
    held = HeldStep(disk, "sync", lambda path: path.suffix == ".log")
    tasks = [asyncio.ensure_future(each) for each in work]
    await held.reached()
    began_s = time.monotonic()
    await until(lambda: time.monotonic() - began_s > HELD_S)
    held.let_go()
    await asyncio.gather(*tasks)


def newest(server: SingleServer, what: str) -> SlowCall:
    found = [call for call in server.access.slow.ring.newest() if call.what == what]
    assert found, server.access.slow.ring.newest()
    return found[0]


async def pipelined(client: Any) -> None:
    async with client.pipeline(transaction=False) as commands:
        await commands.incr("n").get("n").append("a", "x").execute()


async def transacted(client: Any) -> None:
    async with client.pipeline(transaction=True) as commands:
        await commands.set("t", "v").incr("n").execute()


@pytest.mark.parametrize(
    ("what", "key", "items"),
    [("set", b"k" * 32, 3), ("incrby", b"n", 3), ("del", b"k", 3), ("mset", b"a", 5), ("pipeline", b"n", 3)],
)
async def test_a_slow_disk_shows_as_synced(tmp_path: Path, what: str, key: bytes, items: int) -> None:
    disk = MemoryDisk()
    async with served(tmp_path / "data", await log_on(disk)) as server, connected(server, client_name="web") as client:
        await client.set("first", "v")
        work: dict[str, Callable[[], Awaitable[Any]]] = {
            "set": lambda: client.set("k" * 40, "secret"),
            "incrby": lambda: client.incr("n"),
            "del": lambda: client.delete("k", "n"),
            "mset": lambda: client.mset({"a": "secret", "b": "secret"}),
            "pipeline": lambda: pipelined(client),
        }
        await client.set("k", "v")
        await held_sync(disk, work[what]())
        call = newest(server, {"pipeline": "incrby"}.get(what, what))
        assert (call.protocol, call.outcome, call.client) == ("resp", "done", "web")
        assert (call.subject.table, call.partition, call.subject.key) == ("default", 0, key)
        assert call.subject.items == items
        synced_s = call.parts["synced"]
        assert synced_s is not None
        assert HELD_S <= synced_s <= call.took_s
        entries = await client.execute_command("SLOWLOG GET", -1)
    entry = next(each for each in entries if each["id"] == call.number)
    assert entry["duration"] == int(call.took_s * 1e6)
    assert b"secret" not in entry["command"]
    assert entry["command"].startswith(call.what.encode() + b" " + key)


async def test_a_key_as_json_is_the_stored_one(tmp_path: Path) -> None:
    """Grants on a key prefix decide who is shown it, and its partition says which request carried the command."""
    disk, stored = MemoryDisk(), pack_key("UA", 1545)
    async with served(tmp_path / "data", await log_on(disk)) as server, connected(server) as client:
        definition = TableDefinition(key=(KeyField("carrier", "str"), KeyField("flight", "int")), value="json")
        planes = await server.data_plane.create_table(TableSpec("planes", 8, definition=definition), timeout=30)
        await client.execute_command("SELECT planes")
        await client.set('["UA",1545]', "1")
        await held_sync(disk, client.set('["UA",1545]', "2"))
        call = newest(server, "set")
    assert (call.subject.table, call.subject.key) == ("planes", stored)
    assert call.partition == planes.partition_of(stored)
    assert (call.parts["synced"] or 0.0) >= HELD_S


async def test_a_transaction_is_one_call(tmp_path: Path) -> None:
    disk = MemoryDisk()
    async with served(tmp_path / "data", await log_on(disk)) as server, connected(server) as client:
        await client.set("first", "v")
        await held_sync(disk, transacted(client))
        call = newest(server, "exec")
    assert (call.subject.table, call.subject.key) == ("default", None)
    assert call.took_s >= HELD_S


async def test_a_write_of_duramens_own_client_names_its_table_by_id(tmp_path: Path) -> None:
    disk = MemoryDisk()
    async with served(tmp_path / "data", await log_on(disk)) as server, connected(server) as client:
        await client.set("first", "v")
        table = await server.data_plane.find_table("default", timeout=30)
        await held_sync(disk, client.execute_command("DURAMEN.WRITE", table.id, 0, plain_batch("k")))
        call = newest(server, "duramen.write")
        slow = server.access.slow
        made_up = slow.subject_at(PartitionId(TableId("nobody's"), Partition(0)), b"k")
        beyond = slow.subject_at(PartitionId(table.id, Partition(99)), b"k")
    assert (call.subject.table, call.partition, call.subject.key) == ("default", 0, b"k")
    assert (call.parts["synced"] or 0.0) >= HELD_S
    assert made_up == beyond == NO_SUBJECT


async def test_hostile_words_stay_text(tmp_path: Path) -> None:
    disk = MemoryDisk()
    async with served(tmp_path / "data", await log_on(disk)) as server, connected(server, client_name="<b>") as client:
        await client.set("first", "v")
        await held_sync(disk, client.set(b"\x1b[2J\r\n\xff", "v"))
        call = newest(server, "set")
        document = json.loads(await server.access.slow.slow_json())
    shown = next(each for each in document["calls"] if each["number"] == call.number)
    assert shown["key"].startswith("base64:")
    assert all(line.isprintable() for line in slow_page(document))


async def test_a_read_that_waits_for_a_token(tmp_path: Path) -> None:
    log = HeldLog(await log_on(MemoryDisk()))
    async with served(tmp_path / "data", log) as server, connected(server, single_connection_client=True) as client:
        await client.set("k", "v")
        log.hold_reads()
        await client.set("k", "w")
        token = await client.execute_command("DURAMEN.TOKEN")
        async with connected(server, single_connection_client=True) as other:
            await other.execute_command("DURAMEN.AFTER", token)
            reading = asyncio.ensure_future(other.get("k"))
            began_s = time.monotonic()
            await until(lambda: time.monotonic() - began_s > HELD_S)
            log.release_reads()
            assert await reading == b"w"
        call = newest(server, "get")
    assert (call.subject.table, call.subject.key) == ("default", b"k")
    assert max(call.parts, key=lambda name: call.parts[name] or 0.0) == "waited"


async def test_a_wait_of_duramens_own_client_is_all_waiting(tmp_path: Path) -> None:
    log = HeldLog(await log_on(MemoryDisk()))
    async with served(tmp_path / "data", log) as server, connected(server) as client:
        await client.set("k", "v")
        table = await server.data_plane.find_table("default", timeout=30)
        log.hold_reads()
        await client.set("k", "w")
        waiting = asyncio.ensure_future(client.execute_command("DURAMEN.AWAIT", table.id, 0, 1))
        began_s = time.monotonic()
        await until(lambda: time.monotonic() - began_s > HELD_S)
        log.release_reads()
        await waiting
        call = newest(server, "duramen.await")
    assert (call.subject.table, call.partition) == ("default", 0)
    assert call.parts == {"waited": call.took_s}


async def test_quick_commands_and_waits_leave_nothing(tmp_path: Path) -> None:
    async with served(tmp_path / "data", await log_on(MemoryDisk())) as server, connected(server) as client:
        for number in range(50):
            await client.set(f"k{number}", "v")
            assert await client.get(f"k{number}") == b"v"
        await client.execute_command("WAIT", 5, 60)
        assert [call for call in server.access.slow.ring.newest() if call.what == "wait"] == []
        before = len(server.access.slow.ring)
        assert before <= await client.slowlog_len() <= len(server.access.slow.ring)


async def test_two_users(tmp_path: Path) -> None:
    disk = MemoryDisk()
    async with served(tmp_path / "data", await log_on(disk)) as server:
        async with connected(server) as client:
            await held_sync(disk, client.set("eu:1", "v"))
        users = WithUsers(server)
        await users.add_user("root", "admin *")
        await users.add_user("reader", "read default --key eu:")
        await users.add_user("writer", "write default")
        await users.add_user("stranger", "read other")
        seen = {}
        for name, token in users.tokens.items():
            async with connected(server, username=name, password=token) as client:
                entries = await client.slowlog_get(100)
                seen[name] = [
                    (each["command"], bool(each["client_address"]))
                    for each in entries
                    if each["command"].startswith(b"set ")
                ]
                if name != "root":
                    with pytest.raises(redis.asyncio.ResponseError, match="no permissions"):
                        await client.slowlog_reset()
        assert seen == {
            "root": [(b"set eu:1 ... (1 more arguments)", True)],
            "reader": [(b"set eu:1 ... (1 more arguments)", False)],
            "writer": [(b"set ... (2 more arguments)", False)],
            "stranger": [],
        }
        async with connected(server, username="root", password=users.tokens["root"]) as client:
            await client.slowlog_reset()
            # A busy machine makes the command itself slow.
            assert not [each for each in await client.slowlog_get(100) if each["command"].startswith(b"set ")]


def test_slow_reads_of_reader_processes_are_in_the_slow_log(tmp_path: Path) -> None:
    """A value of megabytes takes longer than a millisecond to read; what it forwards, its server measures."""
    arguments = ["--resp-port", "0", "--resp-readers", "1", "--slow-call-ms", "1"]
    server = ServerProcess(tmp_path / "data", log=tmp_path / "log", arguments=arguments)
    key, large = b"large" * 20, b"v" * (3 << 20)

    def slow_gets() -> list[dict[str, Any]]:
        done = run_here("slow", "--json", "--count", "0", "--at", server.target)
        assert done.returncode == 0, done.stderr
        calls: list[dict[str, Any]] = json.loads(done.stdout)["calls"]
        return [call for call in calls if call["call"] == "get" and "read_ms" in call["parts"]]

    try:
        with redis.Redis(port=int(server.announcement["resp_port"])) as client:
            client.set(key, large)
            wait_until(lambda: client.get(key) == large and slow_gets())
            call = slow_gets()[0]
            assert (call["table"], call["partition"], call["key"]) == ("default", 0, "large" * 6 + "la")
            assert (call["protocol"], call["outcome"], call["items"]) == ("resp", "done", 2)
            assert call["parts"] == {"read_ms": call["duration_ms"]}
            assert call["duration_ms"] >= 1
            assert call["peer"].startswith("127.0.0.1:")
            entry = next(each for each in client.slowlog_get(100) if each["command"].startswith(b"get "))
            assert entry["command"] == b"get " + key[:32]
            written = [each for each in client.slowlog_get(100) if each["command"].startswith(b"set ")]
            assert [each["client_address"] for each in written] == [call["peer"].encode()], "of the same connection"
    finally:
        server.close()
