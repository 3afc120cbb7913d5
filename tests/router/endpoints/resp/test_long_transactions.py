"""An EXEC that takes longer than a turn of the event loop runs in a thread, and is what it is: atomic, WATCH exact."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from kit.resp.loop_turns import LoopTurns
from kit.resp.raw_client import Raw, Status, packed
from kit.resp.server_thread import ServerThread

from router.endpoints.resp.data import key_views
from router.endpoints.resp.data.rounds import partition_executor, queued_commands, round_keys
from router.endpoints.resp.server.sockets import RespSettings

OK = Status("OK")


@pytest.fixture
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerThread]:
    server = ServerThread(tmp_path_factory.mktemp("long"), RespSettings(port=0, table_partitions=1)).start()
    yield server
    server.close()


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every turn is too long at once; the threads in which rounds ran."""
    ran: list[str] = []
    run = queued_commands.execute

    def noted(*args: Any, **how: Any) -> Any:
        ran.append(threading.current_thread().name)
        return run(*args, **how)

    for module in (partition_executor, round_keys):
        monkeypatch.setattr(module, "execute", noted)
    monkeypatch.setattr(queued_commands, "EXECUTION_S", 0.0)
    return ran


def executed(raw: Raw, *commands: bytes) -> Any:
    raw.send(packed("MULTI") + b"".join(commands) + packed("EXEC"))
    replies = [raw.reply() for _ in range(len(commands) + 2)]
    return replies[-1]


def test_it_runs_in_a_thread_with_the_same_replies(alone: ServerThread, threads: list[str]) -> None:
    with alone.connect() as raw:
        commands = [packed("INCR", "a"), packed("APPEND", "a", "0"), packed("DEL", "b"), packed("GET", "a")]
        assert executed(raw, *commands) == [1, 2, 0, b"10"]
        assert executed(raw, *commands) == [11, 3, 0, b"110"]
        assert raw.call("GET", "a") == b"110"
    assert len(set(threads)) > 1, "it began in a turn and ran in a thread"


def test_a_pipeline_around_it_keeps_its_order(alone: ServerThread, threads: list[str]) -> None:
    with alone.connect() as raw:
        raw.send(
            packed("INCR", "n")
            + packed("MULTI")
            + packed("INCR", "n")
            + packed("INCR", "n")
            + packed("EXEC")
            + packed("INCR", "n")
            + packed("GET", "n")
        )
        queued = Status("QUEUED")
        assert [raw.reply() for _ in range(7)] == [1, OK, queued, queued, [2, 3], 4, b"4"]


@pytest.mark.parametrize("change", [("SET", "watched", "2"), ("DEL", "watched")], ids=" ".join)
def test_what_it_watched_has_changed(alone: ServerThread, threads: list[str], change: tuple[str, ...]) -> None:
    with alone.connect() as raw, alone.connect() as other:
        assert raw.call("SET", "watched", "1") == OK
        assert raw.call("WATCH", "watched") == OK
        other.call(*change)
        assert executed(raw, packed("INCR", "n"), packed("INCR", "n")) is None
        assert raw.call("GET", "n") is None


def test_several_at_once_count_every_increment_and_no_half_is_seen(alone: ServerThread, threads: list[str]) -> None:
    rounds, callers = 20, 4
    halves: list[Any] = []

    def count(number: int) -> None:
        with alone.connect() as raw:
            for _ in range(rounds):
                executed(raw, packed("INCR", "left"), packed("STRLEN", "left"), packed("INCR", "right"))
                left, right = raw.call("MGET", "left", "right")
                if left != right:
                    halves.append((number, left, right))

    workers = [threading.Thread(target=count, args=(number,)) for number in range(callers)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not halves
    with alone.connect() as raw:
        assert raw.call("MGET", "left", "right") == [b"%d" % (rounds * callers)] * 2


def test_connection_commands_alone_let_others_have_their_turn(alone: ServerThread) -> None:
    with alone.connect() as raw:
        assert executed(raw, *[packed("ECHO", "a")] * 3000) == [b"a"] * 3000


def test_replies_that_name_no_key_are_not_searched_for_offsets(
    alone: ServerThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    described = [packed("COMMAND"), packed("COMMAND", "DOCS"), packed("COMMAND", "LIST")]
    with alone.connect() as raw, LoopTurns(alone, monkeypatch, key_views, "with_versions") as counted:
        replies = executed(raw, *described, packed("SET", "k", "v"), packed("DURAMEN.GETV", "k"), *described)
        assert replies[3:5] == [OK, [b"v", raw.call("DURAMEN.GETV", "k")[1]]]
        assert replies[:3] == replies[5:] == [raw.call("COMMAND"), raw.call("COMMAND", "DOCS"), replies[2]]
    assert 0 < counted.calls <= 12, "the lists of hundreds of commands among them"
