"""The short way to one server, against a server that says what a test has it say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import hiredis
import pytest
from kit.deadlines import until

from log_tier.model.errors import Disconnected
from log_tier.model.identifiers import Offset, Partition, PartitionId, TableId
from log_tier.tracing.span import TRACED
from router.data.requests import PastRead, ReadPart, WritePart
from router.remote.resp_place import NOWHERE, RespPlace
from router.remote.short_way import ShortWay

TIMEOUT_S = 60.0
PLACE = PartitionId(TableId("a" * 22), Partition(3))
READ = ReadPart(PLACE, [b"k"], Offset(7))
WRITE = WritePart(PLACE, b"a batch")
FOUND = b"*4\r\n:9\r\n*1\r\n$1\r\nv\r\n*1\r\n:8\r\n$-1\r\n"
WRITTEN = b"*2\r\n:12\r\n:1700000000000\r\n"
OK = b"+OK\r\n"

Answer = Callable[[list[bytes]], bytes | None]
"""A command → its reply; None: the server says nothing more."""


class ScriptedServer:
    """An endpoint that answers each command by a function."""

    def __init__(self) -> None:
        self.answer: Answer = answers
        self.asked: list[list[bytes]] = []
        self.described = 0
        self.place = NOWHERE
        self.writers: list[asyncio.StreamWriter] = []
        """Of its connections: that of the reads, and that of the writes."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        words = hiredis.Reader()
        while data := await reader.read(65536):
            words.feed(data)
            while (command := words.gets()) is not False:
                self.asked.append(command)
                reply = self.answer(command)
                if reply is not None:
                    writer.write(reply)

    async def describe(self) -> RespPlace:
        self.described += 1
        return self.place

    def say(self, data: bytes) -> None:
        """Unasked, to all."""
        for writer in self.writers:
            writer.write(data)

    def hang_up(self) -> None:
        for writer in self.writers:
            writer.close()
        self.writers.clear()


def answers(command: list[bytes]) -> bytes | None:
    return {b"DURAMEN.FETCH": FOUND, b"DURAMEN.WRITE": WRITTEN, b"AUTH": OK}[command[0]]


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    made = ScriptedServer()
    async with await asyncio.start_server(made.serve, "127.0.0.1", 0) as listening:
        made.place = RespPlace("127.0.0.1", listening.sockets[0].getsockname()[1])
        yield made
        made.hang_up()


@pytest.fixture
async def way(server: ScriptedServer) -> AsyncIterator[ShortWay]:
    made = ShortWay(server.describe, secured=False)
    yield made
    await made.close()


async def open_way(way: ShortWay) -> None:
    way.look()
    await until(lambda: way.is_open)


async def test_it_is_looked_for_ever_more_seldom_until_it_is_there(server: ScriptedServer, way: ShortWay) -> None:
    there, server.place = server.place, NOWHERE
    assert await way.read([READ], timeout=TIMEOUT_S) is None
    assert await way.write([WRITE], timeout=TIMEOUT_S) is None
    assert (way.look_at, server.described) == (16, 0)
    for look_at in (32, 64):
        way.look()
        way.look()
        await until(lambda: way._opening is None)
        way.look_at = look_at
    assert server.described == 2, "two at once are one"
    server.place = there
    await open_way(way)
    assert way.look_at == 16
    assert server.asked == []


async def test_a_small_read_and_a_batch_go_by_it(server: ScriptedServer, way: ShortWay) -> None:
    await open_way(way)
    server.asked.clear()
    results = await way.read([READ], timeout=TIMEOUT_S)
    assert results is not None
    assert results[0] == (9, [b"v"], [8], None, None)
    written = await way.write([WRITE], timeout=TIMEOUT_S)
    assert written is not None
    assert written[0] == (12, 1700000000000, (), False)
    assert server.asked == [
        [b"DURAMEN.FETCH", b"a" * 22, b"3", b"7", b"k"],
        [b"DURAMEN.WRITE", b"a" * 22, b"3", b"a batch"],
    ]


LARGE: dict[str, Callable[[ShortWay], Awaitable[object]]] = {
    "several parts": lambda way: way.read([READ, READ], timeout=TIMEOUT_S),
    "the log's end": lambda way: way.read([READ._replace(strong=True)], timeout=TIMEOUT_S),
    "a bound on the lag": lambda way: way.read([READ._replace(lag_max_ms=1)], timeout=TIMEOUT_S),
    "the past": lambda way: way.read([READ._replace(past=PastRead(Offset(1)))], timeout=TIMEOUT_S),
    "many keys": lambda way: way.read([READ._replace(keys=[b"k"] * 257)], timeout=TIMEOUT_S),
    "several batches": lambda way: way.write([WRITE, WRITE], timeout=TIMEOUT_S),
    "outcomes": lambda way: way.write([WRITE._replace(outcomes=True)], timeout=TIMEOUT_S),
    "a large batch": lambda way: way.write([WRITE._replace(batch=bytes((1 << 20) + 1))], timeout=TIMEOUT_S),
}


@pytest.mark.parametrize("name", LARGE)
async def test_all_else_goes_by_grpc(server: ScriptedServer, way: ShortWay, name: str) -> None:
    await open_way(way)
    server.asked.clear()
    assert await LARGE[name](way) is None
    assert await way.read([READ], timeout=TIMEOUT_S) is not None
    assert len(server.asked) == 1


async def test_a_traced_call_goes_by_grpc(server: ScriptedServer, way: ShortWay) -> None:
    await open_way(way)
    server.asked.clear()
    before = TRACED.set((object(),))  # type: ignore[arg-type]
    try:
        assert await way.read([READ], timeout=TIMEOUT_S) is None
        assert await way.write([WRITE], timeout=TIMEOUT_S) is None
    finally:
        TRACED.reset(before)
    assert server.asked == []


async def test_a_read_that_is_refused_goes_by_grpc(server: ScriptedServer, way: ShortWay) -> None:
    await open_way(way)
    server.answer = lambda _: b"-TRYAGAIN not yet\r\n"
    assert await way.read([READ], timeout=TIMEOUT_S) is None
    assert way.is_open
    server.answer = answers
    assert await way.read([READ], timeout=TIMEOUT_S) is not None


async def test_a_batch_that_is_surely_not_written_goes_by_grpc(server: ScriptedServer, way: ShortWay) -> None:
    await open_way(way)
    for refusal in (b"-NOTWRITTEN OOM full\r\n", b"-NOPERM alice\r\n"):
        server.answer = lambda _, refusal=refusal: refusal  # type: ignore[misc]
        assert await way.write([WRITE], timeout=TIMEOUT_S) is None
        assert way.is_open


@pytest.mark.parametrize("what", ["another error", "no more", "silence"])
async def test_a_batch_that_may_be_written_is_in_doubt(server: ScriptedServer, way: ShortWay, what: str) -> None:
    """And the next try goes by gRPC."""
    await open_way(way)

    def answer(command: list[bytes]) -> bytes | None:
        if what == "no more":
            server.hang_up()
        return b"-ERR no idea\r\n" if what == "another error" else None

    server.answer = answer
    with pytest.raises(Disconnected):
        await way.write([WRITE], timeout=0.05 if what == "silence" else TIMEOUT_S)
    assert not way.is_open
    assert await way.write([WRITE], timeout=TIMEOUT_S) is None


async def test_a_callers_short_time_ends_no_other_call(server: ScriptedServer, way: ShortWay) -> None:
    """One gives up soon: the write under way, and who reads next, know nothing of it."""
    await open_way(way)
    server.answer = lambda _: None
    writing = asyncio.create_task(way.write([WRITE], timeout=TIMEOUT_S))
    assert await way.read([READ], timeout=0.05) is None
    assert way.is_open
    reading = asyncio.create_task(way.read([READ], timeout=TIMEOUT_S))
    await until(lambda: len(server.asked) == 3)
    server.writers[0].write(FOUND + FOUND.replace(b"v\r\n", b"w\r\n"))
    server.writers[1].write(WRITTEN)
    read, written = await reading, await writing
    assert read is not None
    assert written is not None
    assert read[0].values == [b"w"], "and not what the first one asked for"


async def test_a_server_that_is_silent_costs_a_read_its_patience(server: ScriptedServer, way: ShortWay) -> None:
    """Also where the only caller has given up."""
    await open_way(way)
    server.answer = lambda _: None
    assert await way.read([READ], timeout=0.05) is None
    await until(lambda: not way.is_open)
    assert await way.read([READ], timeout=TIMEOUT_S) is None


async def test_a_read_does_not_wait_for_a_write(server: ScriptedServer, way: ShortWay) -> None:
    await open_way(way)
    server.answer = lambda command: None if command[0] == b"DURAMEN.WRITE" else FOUND
    writing = asyncio.create_task(way.write([WRITE], timeout=TIMEOUT_S))
    await until(lambda: any(each[0] == b"DURAMEN.WRITE" for each in server.asked))
    assert await way.read([READ], timeout=TIMEOUT_S) is not None
    assert await way.write([WRITE], timeout=TIMEOUT_S) is None, "nor does a second write"
    server.writers[1].write(WRITTEN)
    result = await writing
    assert result is not None
    assert result[0].base_offset == 12


async def test_a_late_reply_answers_nobody_else(server: ScriptedServer, way: ShortWay) -> None:
    """Its caller was cancelled."""
    await open_way(way)
    server.answer = lambda _: None
    first = asyncio.create_task(way.read([READ], timeout=TIMEOUT_S))
    await until(lambda: server.asked and server.asked[-1][0] == b"DURAMEN.FETCH")
    count = len(server.asked)
    first.cancel()
    second = asyncio.create_task(way.read([READ._replace(keys=[b"other"])], timeout=TIMEOUT_S))
    await until(lambda: len(server.asked) > count)
    server.writers[0].write(FOUND + FOUND.replace(b"v\r\n", b"w\r\n"))
    result = await second
    assert result is not None
    assert result[0].values == [b"w"]


@pytest.mark.parametrize("said", [b"+unasked\r\n", b"\0nonsense"])
async def test_what_nobody_asked_for_ends_the_line(server: ScriptedServer, way: ShortWay, said: bytes) -> None:
    await open_way(way)
    server.say(said)
    await until(lambda: not way.is_open)
    assert await way.read([READ], timeout=TIMEOUT_S) is None
    await open_way(way)
    assert await way.read([READ], timeout=TIMEOUT_S) is not None


class Secret:
    """Credentials whose secret changes."""

    user = "alice"

    def __init__(self, text: str) -> None:
        self.text = text

    def secret(self) -> str:
        return self.text

    def header(self) -> str:
        return self.text


async def test_a_user_proves_who_it_is_first(server: ScriptedServer) -> None:
    secret = Secret("wrong")

    def answer(command: list[bytes]) -> bytes | None:
        if command[0] == b"AUTH":
            return OK if command[2] == b"right" else b"-WRONGPASS no\r\n"
        return FOUND

    server.answer = answer
    server.place = server.place._replace(users=True)
    way = ShortWay(server.describe, secured=False, credentials=secret)
    try:
        for _ in range(2):
            way.look()
            await until(lambda: way._opening is None)
        assert not way.is_open
        assert server.asked == [[b"AUTH", b"alice", b"wrong"]], "it is asked once"
        secret.text = "right"
        await open_way(way)
        assert server.asked[-2:] == [[b"AUTH", b"alice", b"right"]] * 2, "two lines"
        server.answer = lambda _: b"-NOAUTH it ended\r\n"
        assert await way.read([READ], timeout=TIMEOUT_S) is None
        assert not way.is_open
    finally:
        await way.close()


@pytest.mark.parametrize("terms", ["users and no secret", "TLS by TCP", "a secured client", "nowhere"])
async def test_where_there_is_no_way(server: ScriptedServer, terms: str) -> None:
    server.place = {
        "users and no secret": server.place._replace(users=True),
        "TLS by TCP": server.place._replace(secured=True),
        "a secured client": server.place._replace(machine_socket="duramen-nobody-listens-here"),
        "nowhere": NOWHERE,
    }[terms]
    way = ShortWay(server.describe, secured=terms == "a secured client")
    way.look()
    await until(lambda: way._opening is None)
    assert (way.is_open, server.described) == (False, 1)
    await way.close()


async def test_closed_in_every_state(server: ScriptedServer) -> None:
    for state in ("new", "opening", "asking"):
        way = ShortWay(server.describe, secured=False)
        if state == "opening":
            way.look()
        if state == "asking":
            await open_way(way)
            server.answer = lambda _: None
            reading = asyncio.create_task(way.read([READ], timeout=TIMEOUT_S))
            await asyncio.sleep(0)
            await way.close()
            assert await reading is None
        await way.close()
        await way.close()
        assert not way.is_open
        assert await way.read([READ], timeout=TIMEOUT_S) is None
