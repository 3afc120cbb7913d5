"""A floor outlives what serves it: no error, drop or reopening makes a read older than an acknowledged write.

Each test holds the replica back, so that a floor that was lost shows as an old value.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest
from kit.cluster.one_machine import NO_TABLE, held, puts, write
from kit.deadlines import patience_s, until, wait_until
from kit.resp.raw_client import Raw, RawError, Status, packed
from kit.resp.server_thread import ServerThread

from duramen.client.model.results import Done
from duramen.client.model.session import Session
from duramen.client.transport.resp_fast_path import RespFastPath
from log_tier.model.identifiers import NOTHING, Offset, Partition, PartitionId
from log_tier.model.table_ref import TableRef
from log_tier.model.tokens import Token
from router.data.seam import NOT_FRESH
from router.endpoints.resp.connection.client import Client
from router.endpoints.resp.data.floors import Floors
from router.endpoints.resp.data.served_tables import ServedTable
from router.remote.resp_place import RespPlace

OK = Status("OK")
DEADLINE_S = 20.0
ZERO = Partition(0)

ABOUT_NO_TABLE: dict[str, tuple[bytes | str | int, ...]] = {
    "await": ("DURAMEN.AWAIT", NO_TABLE, 0, 5),
    "write": ("DURAMEN.WRITE", NO_TABLE, 0, puts((b"k", b"v"))),
    "read": ("DURAMEN.READ", NO_TABLE, 0, 5, "k"),
}


def table_of(server: ServerThread, name: str = "default") -> ServedTable:
    return server.run(lambda: server.server.tables.open(name))


@contextmanager
def behind(server: ServerThread, table: ServedTable, partition: Partition = ZERO) -> Iterator[None]:
    """Inside, the replica applies nothing."""
    with held(server.data_plane.node.replica(PartitionId(table.ref.id, partition))):
        yield


def asked_while_behind(server: ServerThread, connection: Raw, *words: bytes | str | int) -> None:
    """Send a read, and return when the server waits for the replica, or has answered, which it may not."""

    def busy() -> set[int]:
        clients = server.server.clients.values()
        return {client.id for client in clients if isinstance(client, Client) and client.task is not None}

    before = busy()
    connection.send(packed(*words))
    wait_until(
        lambda: select.select([connection.socket], [], [], 0)[0] or busy() - before, "the read waits or is answered"
    )


class Here(NamedTuple):
    """Where a client finds its table."""

    ref: TableRef | None


@pytest.mark.parametrize("command", list(ABOUT_NO_TABLE))
def test_an_error_about_another_table(server: ServerThread, key: str, command: str) -> None:
    with server.connect() as mine, server.connect() as other:
        assert mine.call("SET", key, "old") == OK
        assert mine.call("GET", key) == b"old"
        assert other.call("GET", key) == b"old"
        with behind(server, table_of(server)):
            assert mine.call("SET", key, "new") == OK
            assert isinstance(other.call(*ABOUT_NO_TABLE[command]), RawError)
            asked_while_behind(server, mine, "GET", key)
        assert mine.reply() == b"new"


def test_a_write_that_is_under_way_when_the_table_is_looked_for_again(server: ServerThread, key: str) -> None:
    """Its floor is noted where the reads behind it look."""
    with server.connect() as mine:
        assert mine.call("SET", key, "old") == OK
        assert mine.call("GET", key) == b"old"
        table = table_of(server)
        with behind(server, table):
            commit = server.data_plane.log.append_many
            gate = asyncio.Event()

            async def late(parts: object, **how: object) -> object:
                await gate.wait()
                return await commit(parts, **how)  # type: ignore[arg-type]

            server.data_plane.log.append_many = late  # type: ignore[assignment, method-assign]
            try:
                mine.send(packed("SET", key, "new"))
                server.run(lambda: until(lambda: bool(server.server.writer._rounds.under_way)))
                table.gone = True  # an error said that it may be gone
                assert table_of(server).ref == table.ref
            finally:
                del server.data_plane.log.append_many
                server.run(lambda: _open(gate))
            assert mine.reply() == OK
            asked_while_behind(server, mine, "GET", key)
        assert mine.reply() == b"new"


async def _open(gate: asyncio.Event) -> None:
    gate.set()


def test_a_table_that_may_be_gone_is_looked_for_and_stays_itself(server: ServerThread, raw: Raw, key: str) -> None:
    raw.call("SET", key, "1")
    table = table_of(server)
    table.gone = True
    assert table_of(server) is table
    assert not table.gone


def test_a_table_of_the_same_name_begins_anew(server: ServerThread, key: str) -> None:
    """It has floors of its own, and the dropped one's are let go."""
    with server.connect() as mine, server.connect() as other:
        for connection in (mine, other):
            connection.call("SELECT", "9")
        for number in range(50):
            assert mine.call("SET", key, f"before {number}") == OK
        before = table_of(server, "db9")
        assert other.call("GET", key) == b"before 49"
        server.run(lambda: server.data_plane.drop_table("db9", timeout=patience_s(10)))
        while isinstance(mine.call("SET", key, "old"), RawError):
            pass
        after = table_of(server, "db9")
        assert after.ref.id != before.ref.id
        assert before.gone
        assert set(server.server.tables._floors) == {each.ref.id for each in server.server.tables.served()}
        assert [other.call("GET", key) for _ in range(2)][-1] == b"old"
        with behind(server, after):
            assert mine.call("SET", key, "new") == OK
            asked_while_behind(server, mine, "GET", key)
        assert mine.reply() == b"new"
        with behind(server, after):
            assert mine.call("SET", key, "newer") == OK
            assert isinstance(other.call(*ABOUT_NO_TABLE["await"]), RawError)
            asked_while_behind(server, other, "GET", key)
        assert other.reply() == b"newer"


def test_a_token_holds_for_partitions_that_were_not_read_yet(wide: ServerThread, key: str) -> None:
    """A write that this server acknowledged to another key is no reason to let go of what the token asks for."""
    table = table_of(wide)
    one, two = (f"{key}-{number}" for number in _of_two_partitions(table, key))
    behind_it = table.partition_of(one.encode())
    with wide.connect() as mine, wide.connect() as other:
        assert mine.call("SET", one, "old") == OK
        assert mine.call("GET", one) == b"old"
        wide.run(
            lambda: wide.data_plane.node.replica(PartitionId(table.ref.id, behind_it)).wait_applied(
                table.seen[behind_it], timeout=patience_s(9)
            )
        )
        with behind(wide, table, behind_it):
            # By another server, as far as this one knows.
            token = wide.run(lambda: _put(wide, table, one.encode(), b"new"))
            neighbour = next(k for k in _keys(key) if table.partition_of(k.encode()) == behind_it and k != one)
            assert mine.call("SET", neighbour, "1") == OK
            assert other.call("DURAMEN.AFTER", token) == OK
            assert other.call("GET", two) is None
            asked_while_behind(wide, other, "GET", one)
        assert other.reply() == b"new"


def _keys(key: str) -> Iterator[str]:
    return (f"{key}-{number}" for number in range(1000))


def _of_two_partitions(table: ServedTable, key: str) -> tuple[int, int]:
    first = table.partition_of(f"{key}-0".encode())
    return 0, next(n for n in range(1000) if table.partition_of(f"{key}-{n}".encode()) != first)


async def _put(server: ServerThread, table: ServedTable, key: bytes, value: bytes) -> str:
    partition = table.partition_of(key)
    done = await write(server.data_plane, table.ref, partition, puts((key, value)))
    return str(Token.of(table.ref.id, partition, done.base_offset))


def test_floors_only_rise_and_keep_fresh_keys_until_they_are_applied() -> None:
    floors = Floors(2)
    floors.wrote(ZERO, [b"a", b"b"], Offset(1), Offset(-1))
    floors.wrote(ZERO, [b"a"], Offset(2), Offset(-1))
    assert (floors.needed(ZERO, [b"a"]), floors.needed(ZERO, [b"b"]), floors.needed(ZERO, [b"c"])) == (2, 1, NOTHING)
    floors.wrote(ZERO, [b"c"], Offset(3), Offset(1))
    assert floors.fresh[ZERO] == {b"a": 2, b"c": 3}
    floors.raise_floor(ZERO, Offset(2))
    floors.raise_floor(ZERO, Offset(1))
    assert (floors.floor, floors.seen) == ([2, NOTHING], [3, NOTHING])
    floors.wrote(Partition(1), [b"x"], Offset(7), None)
    assert floors.needed(Partition(1), [b"y"]) == 7, "without a replica here everything waits"


def test_the_python_client_keeps_its_floors_over_a_new_connection(server: ServerThread, key: str) -> None:
    """They belong to its session: a connection that broke, and one of another thread, know them."""
    table = table_of(server)
    client = RespFastPath(RespPlace("127.0.0.1", server.server.port), Session(), compress=False)
    short = client.table(Here(table.ref))
    try:
        assert isinstance(short.put(key.encode(), b"old"), Done)
        while short.get(key.encode()) is NOT_FRESH:
            pass
        with behind(server, table):
            assert isinstance(short.put(key.encode(), b"new"), Done)
            line = client.line()
            assert line is not None
            client.drop(line)
            assert short.get(key.encode()) is NOT_FRESH
        while (found := short.get(key.encode())) is NOT_FRESH:
            pass
        assert found == b"new"
    finally:
        client.close()


def test_a_token_that_names_a_partition_too_many_harms_nobody(server: ServerThread, raw: Raw, key: str) -> None:
    raw.call("SET", key, "1")
    table = table_of(server)
    strange = str(Token({table.ref.id: {ZERO: Offset(0), Partition(table.partitions): Offset(0)}}))
    assert raw.call("DURAMEN.AFTER", strange) == OK
    assert [raw.call("GET", key) for _ in range(2)] == [b"1", b"1"]
