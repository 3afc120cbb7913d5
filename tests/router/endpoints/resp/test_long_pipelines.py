"""Pipelines of any length: linear in what they ask for, with turns for others, and served if they are sent whole."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from kit.deadlines import wait_until
from kit.resp.loop_turns import LoopTurns
from kit.resp.raw_client import Raw, Status, packed
from kit.resp.server_thread import ServerThread

from log_tier.model.errors import LimitExceeded
from router.endpoints.resp.connection import pipeline
from router.endpoints.resp.connection.client import Client
from router.endpoints.resp.connection.turns import TURN
from router.endpoints.resp.data.rounds.command_run import CommandRun
from router.endpoints.resp.server.sockets import RespSettings
from router.endpoints.resp.wire.fallback_parser import _STEPS_MAX, FallbackParser
from router.endpoints.resp.wire.limits import OUTPUT_PAUSE_BYTES
from router.endpoints.resp.wire.reply_queue import ReplyQueue
from serving_tier.index.lmdb.lmdb_reads import LmdbReads

CAMPAIGN = bool(os.environ.get("DURAMEN_CAMPAIGN"))

MEGABYTE = 1_000_000


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerThread]:
    """An endpoint in this process, where its work can be counted."""
    running = ServerThread(tmp_path_factory.mktemp("alone"), RespSettings(port=0)).start()
    yield running
    running.close()


def drain(raw: Raw, size: int) -> None:
    """Read so many bytes, and no more."""
    while size:
        data = raw.socket.recv(min(size, 1 << 20))
        assert data, f"the server has ended the connection, {size} bytes before the end"
        size -= len(data)


def sent_aside(raw: Raw, data: bytes) -> threading.Thread:
    sender = threading.Thread(target=raw.send, args=(data,))
    sender.start()
    return sender


@pytest.mark.parametrize("partitions", [1, 8])
def test_large_values_are_read_about_once(
    alone: ServerThread, wide: ServerThread, key: str, monkeypatch: pytest.MonkeyPatch, partitions: int
) -> None:
    server = alone if partitions == 1 else wide
    count = 100
    read: list[int] = []
    stored_many, stored_one = LmdbReads.stored_many, LmdbReads.stored

    def many(self: Any, keys: Any, **named: Any) -> Any:
        try:
            found = stored_many(self, keys, **named)
        except LimitExceeded as error:
            read.append(int(error.fields["size"]))
            raise
        read.append(sum(map(len, filter(None, found or ()))))
        return found

    def one(self: Any, name: bytes) -> bytes | None:
        found = stored_one(self, name)
        read.append(len(found or b""))
        return found

    with server.connect() as raw:
        names = [f"{key}:{number}" for number in range(4)]
        for name in names:
            raw.call("SET", name, b"v" * MEGABYTE)
        monkeypatch.setattr(LmdbReads, "stored_many", many)
        monkeypatch.setattr(LmdbReads, "stored", one)
        sender = sent_aside(raw, b"".join(packed("GET", names[number % 4]) for number in range(count)))
        drain(raw, count * len(b"$1000000\r\n\r\n") + count * MEGABYTE)
        sender.join()
    assert sum(read) < 1.3 * count * MEGABYTE


def test_others_get_their_turn_between_large_replies(
    alone: ServerThread, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with alone.connect() as raw:
        raw.call("SET", key, b"v" * MEGABYTE)
        with LoopTurns(alone, monkeypatch, ReplyQueue, "flush") as turns:
            sender = sent_aside(raw, packed("GET", key) * 200)
            drain(raw, 200 * (MEGABYTE + len(b"$1000000\r\n\r\n")))
            sender.join()
    # Two of them at the most are more than OUTPUT_PAUSE_BYTES and flushed; the socket's turn may come in addition.
    assert OUTPUT_PAUSE_BYTES > MEGABYTE
    assert turns.most_in_one_turn <= 8
    assert turns.calls >= 100


@pytest.mark.parametrize("line", [packed("PING"), b"PING\r\n"], ids=["arrays", "lines"])
def test_others_get_their_turn_between_commands(
    alone: ServerThread, line: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    with alone.connect() as raw, LoopTurns(alone, monkeypatch, Client, "_start") as turns:
        sender = sent_aside(raw, line * 40_000)
        drain(raw, 40_000 * len(b"+PONG\r\n"))
        sender.join()
    assert turns.calls >= 40_000, "other connections to the server count as well"
    assert turns.most_in_one_turn <= 2 * TURN


def test_others_get_their_turn_between_runs(alone: ServerThread, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipeline of like commands is executed in runs of at most 512, and a turn takes a few of them."""
    count = 20_000
    data = b"".join(packed("INCR", f"{key}-{number}") for number in range(count))
    with (
        alone.connect() as raw,
        LoopTurns(alone, monkeypatch, CommandRun, "run") as executed,
        LoopTurns(alone, monkeypatch, pipeline, "gather") as gathered,
    ):
        sender = sent_aside(raw, data)
        assert {raw.reply() for _ in range(count)} == {1}
        sender.join()
    assert executed.calls >= 40
    assert executed.most_in_one_turn <= 8
    assert gathered.most_in_one_turn <= 8


def test_others_get_their_turn_while_lines_are_parsed(alone: ServerThread, monkeypatch: pytest.MonkeyPatch) -> None:
    with alone.connect() as raw, LoopTurns(alone, monkeypatch, FallbackParser, "_step") as turns:
        sender = sent_aside(raw, b"\r\n" * 200_000 + b"PING\r\n")
        assert raw.reply() == Status("PONG")
        sender.join()
    assert turns.calls >= 200_000
    assert turns.most_in_one_turn <= 4000


def test_a_turn_of_the_fallback_parser_that_ends_with_the_data(alone: ServerThread) -> None:
    with alone.connect() as raw:
        for lines in range(_STEPS_MAX - 3, _STEPS_MAX + 3):
            raw.send(b"\r\n" * lines + b"PING\r\n")
            assert raw.reply() == Status("PONG")
            assert raw.call("ECHO", b"%d" % lines) == b"%d" % lines


@pytest.mark.parametrize("piece", [1000, 7000])
def test_a_long_argument_in_small_pieces_is_copied_about_once(piece: int) -> None:
    """What hiredis does not take is held by the fallback parser; it must not copy all of it for each piece."""
    framer = FallbackParser()
    size = 3_000_000
    data = b"*2\r\n$4\r\nECHO\r\n$%d\r\n%b\r\n" % (size, b"x" * size)
    commands = []
    held = framer._data
    for at in range(0, len(data), piece):
        commands += framer.take(data[at : at + piece])
        assert framer._data is held, "the same buffer, which grows"
    assert commands == [[b"ECHO", b"x" * size]]


def test_a_pipeline_that_is_sent_whole_before_anything_is_read(impatient: ServerThread, key: str) -> None:
    """As redis-py does it. The kernel's buffers hold a few megabytes, and the connection may stall for 0.3 s."""
    name = key + "k" * 400
    count = 400_000 if CAMPAIGN else 40_000
    client = redis.Redis(port=impatient.server.port, retry=None)
    try:
        client.set(name, "v" * 3000)
        pipe = client.pipeline(transaction=False)
        for _ in range(count // 2):
            pipe.get(name)
            pipe.strlen(name)
        replies = pipe.execute()
        assert len(replies) == count
        assert set(replies) == {b"v" * 3000, 3000}
    finally:
        client.close()


def test_what_is_sent_without_reading_is_noticed(alone: ServerThread, key: str) -> None:
    with alone.connect() as raw:
        raw.call("SET", key, b"v" * MEGABYTE)
        client = alone.server.clients[raw.call("CLIENT", "ID")]
        raw.send(packed("GET", key) * 40)
        wait_until(lambda: client.reply_queue.stalled, "it has left replies unread")
        client.reply_queue._heard = False
        raw.send(packed("GET", key))
        wait_until(lambda: client.reply_queue._heard, "what came is a sign of life")
        drain(raw, 41 * (MEGABYTE + len(b"$1000000\r\n\r\n")))
        assert raw.call("PING") == Status("PONG")


class FakeTimer:
    def cancel(self) -> None:
        """It was due already, or is not wanted any more."""


class FakeLoop:
    """Holds the callback that is due next."""

    def call_later(self, delay_s: float, callback: Any) -> FakeTimer:
        self.due = callback
        return FakeTimer()


class FakeTransport:
    unread = 0

    def set_write_buffer_limits(self, high: int) -> None:
        assert high == OUTPUT_PAUSE_BYTES

    def get_write_buffer_size(self) -> int:
        return self.unread

    def write(self, data: bytes) -> None:
        self.unread += len(data)


def test_progress_in_either_direction_is_a_sign_of_life() -> None:
    transport, loop = FakeTransport(), FakeLoop()
    dropped: list[str] = []
    reply_queue = ReplyQueue(
        transport,  # type: ignore[arg-type]
        loop,  # type: ignore[arg-type]
        filled=lambda: None,
        encode_error=lambda error: b"",
        drop=dropped.append,
        stall_s=5,
    )
    reply_queue.push(b"x" * 1000)
    reply_queue.stall()
    for _ in range(3):
        reply_queue.heard()
        loop.due()
        transport.unread -= 1
        loop.due()
    assert not dropped
    loop.due()
    assert dropped == ["it has neither read nor sent anything for 5 s, and 997 bytes of replies wait for it"]
