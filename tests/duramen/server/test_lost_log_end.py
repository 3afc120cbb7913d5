"""A partition's log lost its end while its server was stopped, and its index is folded anew from what is left.

Every read that promises anything is refused with both offsets; `eventual` serves what is left; nothing is written.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from kit.clients.kv_servers import KVClient, Way, refused, served
from kit.deadlines import within
from kit.resp.server_thread import ServerThread
from kit.storage.lost_end import DAMAGES, lose_the_end

import duramen
from duramen import aio
from log_tier.rows.table_spec import TableSpec
from router.proto import kv_pb2 as kv

pytestmark = pytest.mark.embedded_log_only

KEYS = [b"k%d" % number for number in range(20)]
SESSION: dict[str, Any] = {"level": kv.KV_LEVEL_SESSION}
EVENTUAL: dict[str, Any] = {"level": kv.KV_LEVEL_EVENTUAL}
LOST = r"flights/0 has applied {applied}, and its log is known to have held offset \d+.*level eventual"


def fill(folder: Path, damage: str) -> int:
    """Write twenty keys, and lose the log's end; return the last offset that is left."""
    with duramen.open(folder) as database:
        table = database.create_table("flights", partitions=1)
        for key in KEYS:
            table.put(key, b"v")
    lose_the_end(folder, KEYS[-1], damage)
    return 17 if damage in ("zeroed", "truncated") else -1


@contextmanager
def refusal(applied: int) -> Iterator[None]:
    with pytest.raises(duramen.LogDamaged, match=LOST.format(applied=applied)) as caught:
        yield
    assert caught.value.fields["partition"] == 0
    assert caught.value.fields["applied"] == applied
    assert int(caught.value.fields["asked"]) > applied


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_program_reads_no_short_prefix_in_silence(tmp_path: Path, damage: str) -> None:
    left = fill(tmp_path, damage)
    with duramen.open(tmp_path) as database:
        table = database.table("flights")
        levels: list[Any] = ["session", "strong", duramen.bounded(60)]
        for level in levels:
            reads: list[Callable[[Any], object]] = [
                lambda level: table.get(b"k0", level=level),
                lambda level: table.get_many(KEYS, level=level),
                lambda level: list(table.scan(level=level)),
            ]
            for read in reads:
                with refusal(left):
                    read(level)
        kept = [b"v" if number <= left else None for number in range(len(KEYS))]
        assert table.get_many(KEYS, level="eventual") == kept
        assert len(list(table.scan(level="eventual"))) == left + 1
        with refusal(left):
            table.get(b"k0")  # what an eventual read showed is no promise


@pytest.mark.parametrize("damage", ["zeroed", "removed"])
def test_nothing_is_written_there(tmp_path: Path, damage: str) -> None:
    fill(tmp_path, damage)
    with duramen.open(tmp_path) as database:
        table = database.table("flights")
        writes: list[Callable[[], object]] = [
            lambda: table.put(b"k0", b"w"),
            lambda: table.put(b"k0", b"w", if_version=0),
            lambda: table.put(b"new", b"w", if_absent=True),
            lambda: table.update(b"n", add=1),
            lambda: table.delete(b"k0", if_version=0),
            lambda: table.put_many([(b"d", b"4"), (b"e", b"5")]),
        ]
        for write in writes:
            with pytest.raises(duramen.LogDamaged, match=r"is known to have been on stable storage|is missing"):
                write()


def test_a_session_that_saw_what_is_lost_is_refused_by_the_same_error(tmp_path: Path) -> None:
    with duramen.open(tmp_path) as database:
        table = database.create_table("flights", partitions=1)
        tokens = [table.put(key, b"v").token for key in KEYS]
    lose_the_end(tmp_path, KEYS[-1], "zeroed")
    with duramen.open(tmp_path) as database:
        table = database.table("flights")
        for token in tokens[18:]:
            with refusal(17):
                table.get(b"k0", after=token)
        assert table.get(b"k17", after=tokens[17]) == b"v", "a token names what its holder needs, and that is there"
        with refusal(17):
            table.get(b"k17", after=tokens[3], level=duramen.bounded(60))


@asynccontextmanager
async def damaged(way: Way, folder: Path) -> AsyncIterator[int]:
    """The port of a server whose table has lost its end, at 17."""
    async with served(way, folder) as ports:
        client = KVClient(ports[0])
        await client.create(partitions=1, replicas=1 if way == "single" else 3)
        for key in KEYS:
            await client.put(key, b"v")
        await client.channel.close(None)
    lose_the_end(folder, KEYS[-1], "zeroed")
    async with served(way, folder) as ports:
        yield ports[0]


@pytest.mark.parametrize("way", ["single", "node", "router"])
async def test_clients_of_every_server_are_refused(tmp_path: Path, way: Way) -> None:
    """A log in the same process, and one over gRPC behind three nodes."""
    async with within(60), damaged(way, tmp_path) as port:
        client = KVClient(port)
        for call in (
            lambda **how: client.get(b"k0", **how),
            lambda **how: client.get_many(KEYS, **how),
            lambda **how: client.scan(**how),
        ):
            for level in (SESSION, {"level": kv.KV_LEVEL_BOUNDED, "max_lag_ms": 60_000}, {"level": kv.KV_LEVEL_STRONG}):
                found = await refused(call(**level))
                assert found.reason == "log_damaged", found
                assert "flights/0 has applied 17, and its log is known to have held offset" in found.message
        assert (await client.get(b"k17", **EVENTUAL)).value == b"v"
        assert sum(len(page.entries) for page in await client.scan(**EVENTUAL)) == 18
        for write in (client.put(b"k0", b"w", if_version=0), client.update(b"n", add=kv.KVNumber(integer=1))):
            assert (await refused(write)).reason == "log_damaged"
        await client.channel.close(None)
        for direct in (True, False):
            async with await aio.connect(f"127.0.0.1:{port}", direct=direct) as database:
                table = database.table("flights")
                with refusal(17):
                    await table.get(b"k0")
                with refusal(17):
                    [entry async for entry in table.scan()]
                assert await table.get_many([b"k0", b"k18"], level="eventual") == [b"v", None]
                with refusal(17):
                    await table.get_many(KEYS)


def test_the_redis_protocol_refuses_and_an_eventual_read_raises_no_floor(tmp_path: Path) -> None:
    server = ServerThread(tmp_path).start()
    try:
        server.run(lambda: server.data_plane.create_table(TableSpec("default", 1), timeout=20))
        with server.connect() as raw:
            for key in KEYS:
                assert raw.call("SET", key, "v").text == "OK"
    finally:
        server.close()
    lose_the_end(tmp_path, KEYS[-1], "zeroed")
    server = ServerThread(tmp_path).start()
    try:
        with server.connect() as strict, server.connect() as eventual:
            eventual.call("DURAMEN.LEVEL", "eventual")
            for _ in range(2):
                for command in (
                    ["GET", "k0"],
                    ["MGET", "k0", "k19"],
                    ["EXISTS", "k19"],
                    ["SCAN", "0"],
                    ["INCR", "n"],
                    ["SET", "k0", "w"],
                    ["SET", "k19", "w", "NX"],
                    ["DURAMEN.SETV", "k0", "w", "0"],
                    ["DEL", "k0"],
                ):
                    reply = strict.call(*command)
                    assert "offset 19 is known to have been on stable storage" in reply.text, (command, reply)
                strict.call("MULTI")
                strict.call("GET", "k0")
                strict.call("SET", "k0", "w")
                assert "offset 19 is known to have been on stable storage" in strict.call("EXEC").text
                assert eventual.call("MGET", "k17", "k19") == [b"v", None]
                assert len(eventual.call("SCAN", "0", "COUNT", "100")[1]) == 18
    finally:
        server.close()
