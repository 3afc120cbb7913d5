"""Pipelines as programs: their commands run in order on what those before them left, and share commits."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.cluster.one_machine import held, puts
from kit.deadlines import wait_until
from kit.resp.raw_client import Raw, RawError, Status, packed
from kit.resp.real_redis import RealRedis
from kit.resp.server_thread import ServerThread

from log_tier.model.identifiers import Partition, PartitionId

OK = Status("OK")
QUEUED = Status("QUEUED")
WRONG = RawError("ERR value is not an integer or out of range")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerThread]:
    """A server without reader processes, whose event loop a test may hold."""
    running = ServerThread(tmp_path_factory.mktemp("alone")).start()
    yield running
    running.close()


def pipeline(raw: Raw, commands: Sequence[Sequence[bytes | str | int]]) -> list[Any]:
    """Send all of it in one piece; its replies."""
    raw.send(b"".join(packed(*words) for words in commands))
    return [raw.reply() for _ in commands]


@pytest.mark.parametrize(
    "words",
    [
        *[("INCR",), ("SET", "v", "NX"), ("DEL",), ("EXPIRE", "100"), ("APPEND", "v"), ("GETSET", "v")],
        *[("DURAMEN.SETV", "v", "-1"), ("DURAMEN.SETV", "v", "-1", "EX", "100")],
    ],
    ids=" ".join,
)
def test_many_commands_share_a_commit(alone: ServerThread, key: str, words: tuple[str, ...]) -> None:
    """2,000 commands that read and write are a few batches of the log, and not one each."""
    with alone.connect() as raw:
        keys = [f"{key}-{number}" for number in range(2000)]
        if words[0] in ("DEL", "EXPIRE"):
            assert set(pipeline(raw, [("SET", each, "1") for each in keys])) == {OK}
        before = alone.server.writer.batches
        replies = pipeline(raw, [(words[0], each, *words[1:]) for each in keys])
        if words[0] == "DURAMEN.SETV":
            assert [found for _, found in pipeline(raw, [("DURAMEN.GETV", each) for each in keys])] == replies
            assert pipeline(raw, [(words[0], each, *words[1:]) for each in keys]) == [None] * 2000
        else:
            assert set(replies) <= {1, OK, None}
        assert alone.server.writer.batches - before <= 40


def test_set_and_get_in_turn(alone: ServerThread, key: str) -> None:
    with alone.connect() as raw:
        before = alone.server.writer.batches
        commands = [words for n in range(1000) for words in (("SET", key, n), ("GET", key))]
        assert pipeline(raw, commands) == [reply for n in range(1000) for reply in (OK, b"%d" % n)]
        assert alone.server.writer.batches - before <= 40


def test_each_command_sees_those_before_it(server: ServerThread, key: str) -> None:
    with server.connect() as raw:
        assert pipeline(
            raw,
            [
                ("SET", key, "5"),
                ("GET", key),
                ("INCR", key),
                ("APPEND", key, "0"),
                ("GET", key),
                ("INCRBY", key, "x"),
                ("EXPIRE", key, "100"),
                ("TTL", key),
                ("SET", key, "word"),
                ("INCR", key),
                ("TTL", key),
                ("PING",),
                ("MULTI",),
                ("SET", key, "1"),
                ("INCR", key),
                ("EXEC",),
                ("GETDEL", key),
                ("EXISTS", key),
                ("SET", key, "2", "XX"),
                ("NOSUCH",),
                ("APPEND", key, "ab"),
                ("STRLEN", key),
            ],
        ) == [
            *(OK, b"5", 6, 2, b"60", WRONG, 1, 100, OK, WRONG, -1, Status("PONG")),
            *(OK, QUEUED, QUEUED, [OK, 2], b"2", 0, None),
            RawError("ERR unknown command 'NOSUCH', with args beginning with: "),
            *(2, 2),
        ]
        assert raw.call("GET", key) == b"ab"


def test_over_several_partitions(wide: ServerThread, key: str) -> None:
    with wide.connect() as raw:
        keys = [f"{key}-{number}" for number in range(20)]
        pairs = [word for each in keys for word in (each, "1")]
        replies = pipeline(
            raw,
            [
                ("INCR", keys[0]),
                ("MSET", *pairs),
                *(("INCR", each) for each in keys),
                ("MGET", *keys),
                ("DEL", *keys[:10]),
                ("EXISTS", *keys),
                ("MSETNX", *pairs),
                ("INCR", keys[0]),
            ],
        )
        crossed = RawError("CROSSSLOT Keys in request don't hash to the same slot")
        assert replies[:2] == [1, OK]
        assert replies[2:22] == [2] * 20
        assert replies[22:] == [[b"2"] * 20, 10, 10, crossed, 1]


def test_versions_of_what_was_just_written(alone: ServerThread, key: str) -> None:
    """What DURAMEN.GETV says in a pipeline or a transaction is what the next condition needs."""
    with alone.connect() as raw:
        _, _, (value, version) = pipeline(raw, [("INCR", f"{key}-a"), ("INCR", key), ("DURAMEN.GETV", key)])
        assert (value, raw.call("DURAMEN.GETV", key)) == (b"1", [b"1", version])
        replies = pipeline(raw, [("MULTI",), ("INCR", key), ("DURAMEN.GETV", key), ("GET", f"{key}-a"), ("EXEC",)])
        count, (value, version), _ = replies[-1]
        assert (count, value) == (2, b"2")
        assert raw.call("DURAMEN.SETV", key, "3", version) > version


@pytest.mark.parametrize("count", [5, 1500])
def test_a_rejected_pipeline_runs_again_as_a_whole(alone: ServerThread, key: str, count: int) -> None:
    """Another writer of the log comes in between: no command takes effect before those that came before it."""
    keys = [f"{key}-{number}" for number in range(count)]
    with alone.connect() as raw:
        assert pipeline(raw, [("INCR", each) for each in keys]) == [1] * count
        assert raw.call("GET", keys[-1]) == b"1", "they are applied before the replica is held"
        table = alone.run(lambda: alone.server.tables.open("default"))
        replica = alone.data_plane.node.replica(PartitionId(table.ref.id, Partition(0)))
        before = alone.server.writer.records
        with held(replica):
            batch = puts((keys[2].encode(), b"20"))
            alone.run(lambda: alone.data_plane.log.append(PartitionId(table.ref.id, Partition(0)), batch))
            raw.send(b"".join(packed("INCR", each) for each in keys) + packed("GET", keys[2]))
            wait_until(lambda: alone.server.writer.records != before, "the increments are written")
        assert [raw.reply() for _ in range(count + 1)] == [2, 2, 21, *[2] * (count - 3), b"21"]
        versions = [version for _, version in pipeline(raw, [("DURAMEN.GETV", each) for each in keys])]
        assert versions == sorted(versions), "they took effect in their order"


def test_nobody_reads_what_is_not_on_stable_storage(alone: ServerThread, key: str) -> None:
    """While the log has not acknowledged a round, another connection reads what was there before."""
    with alone.connect() as raw, alone.connect() as other:
        assert raw.call("SET", key, "old") == OK
        assert raw.call("GET", key) == b"old", "it is applied before the replica is held"
        table = alone.run(lambda: alone.server.tables.open("default"))
        before = alone.server.writer.records
        with held(alone.data_plane.node.replica(PartitionId(table.ref.id, Partition(0)))):
            raw.send(packed("GETSET", key, "new") + packed("GET", key))
            wait_until(lambda: alone.server.writer.records != before, "the round is written")
            # A write to the key waits for the round; it answers when the round has ended, after it.
            other.send(packed("GET", f"{key}-other"))
            assert other.reply() is None
            other.send(packed("SET", key, "last"))
        assert [raw.reply(), raw.reply()] == [b"old", b"new"]
        assert other.reply() == OK
        assert other.call("GET", key) == b"last"


def test_a_client_that_leaves_is_carried_through(alone: ServerThread, key: str) -> None:
    with alone.connect() as raw:
        raw.send(b"".join(packed("INCR", key) for _ in range(100)))
        assert raw.reply() == 1
    with alone.connect() as other:
        wait_until(lambda: other.call("GET", key) == b"100", "all increments have counted")


def test_many_large_values(alone: ServerThread, key: str) -> None:
    """What does not fit in one batch of the log is several rounds."""
    with alone.connect() as raw:
        value = "x" * 1_000_000
        commands = [("GETSET", f"{key}-{n % 3}", value) for n in range(30)]
        replies = pipeline(raw, commands)
        assert [reply and len(reply) for reply in replies] == [None] * 3 + [1_000_000] * 27


def test_pipelines_of_many_connections(server: ServerThread, key: str) -> None:
    """Increments of the same keys by several pipelines, while another one sets other keys: each counts once."""
    replies: list[list[int]] = []

    def count() -> None:
        with server.connect() as raw:
            replies.append(pipeline(raw, [("INCR", f"{key}-{number % 7}") for number in range(700)]))

    threads = [threading.Thread(target=count) for _ in range(5)]
    for thread in threads:
        thread.start()
    with server.connect() as raw:
        pipeline(raw, [("SET", f"{key}-plain-{number}", "1") for number in range(500)])
        for thread in threads:
            thread.join()
        assert raw.call("MGET", *(f"{key}-{number}" for number in range(7))) == [b"500"] * 7
    assert all(each[at::7] == sorted(each[at::7]) for each in replies for at in range(7))
    assert sorted(reply for each in replies for reply in each[::7]) == list(range(1, 501))


# --- against a real server, and against a model


_NAMES = st.sampled_from(["a", "b", "c"])
_COMMANDS = st.one_of(
    st.tuples(st.sampled_from(["GET", "INCR", "DEL", "GETDEL", "STRLEN", "EXISTS", "PERSIST", "DECR"]), _NAMES),
    st.tuples(st.sampled_from(["SET", "APPEND", "SETNX", "GETSET"]), _NAMES, st.sampled_from(["1", "7", "x"])),
    st.tuples(st.just("SET"), _NAMES, st.just("5"), st.sampled_from(["NX", "XX", "GET", "KEEPTTL"])),
    st.tuples(st.sampled_from(["EXPIRE"]), _NAMES, st.sampled_from(["1000", "-1", "x"])),
    st.tuples(st.sampled_from(["MGET", "DEL", "EXISTS"]), _NAMES, _NAMES),
    st.tuples(st.sampled_from(["MSET", "MSETNX"]), _NAMES, st.just("3"), _NAMES, st.just("4")),
    st.tuples(st.sampled_from(["MULTI", "EXEC", "DISCARD", "PING"])),
    st.tuples(st.just("WATCH"), _NAMES),
)


@settings(max_examples=60, deadline=None)
@given(commands=st.lists(_COMMANDS, min_size=1, max_size=40))
def test_pipelines_are_like_redis(
    server: ServerThread, redis_server: RealRedis, commands: list[tuple[str, ...]]
) -> None:
    """Every pipeline has the replies that a real server gives."""
    clean = [("DEL", "{p}a", "{p}b", "{p}c")]
    named = [tuple("{p}" + word if word in "abc" else word for word in words) for words in commands]
    with server.connect() as ours, Raw(redis_server.address) as theirs:
        assert pipeline(ours, clean)[0] >= 0
        pipeline(theirs, clean)
        assert pipeline(ours, named) == pipeline(theirs, named)


@settings(max_examples=40, deadline=None)
@given(
    stretches=st.lists(st.tuples(_COMMANDS, st.sampled_from([1, 1, 3, 10])), min_size=1, max_size=12),
    cuts=st.lists(st.integers(0, 2000), max_size=4),
    wide_keys=st.booleans(),
)
def test_a_pipeline_in_pieces_is_its_commands_one_by_one(
    alone: ServerThread,
    wide: ServerThread,
    stretches: list[tuple[tuple[str, ...], int]],
    cuts: list[int],
    wide_keys: bool,
) -> None:
    """Whatever is in it, wherever its bytes are cut: the same replies, to the byte, and the same keys after it."""
    server = wide if wide_keys else alone
    names = [f"{name}{number}" for name in "abc" for number in range(10)]
    commands = [
        tuple(f"{word}{number}" if word in ("a", "b", "c") else word for word in words)
        for words, times in stretches
        for number in range(times)
        if server is alone or words[0] not in ("MULTI", "MSETNX", "WATCH")
    ]
    found: list[list[Any]] = []
    for as_one in (True, False):
        with server.connect() as raw:
            raw.call("DEL", *names)
            if as_one:
                data = b"".join(packed(*words) for words in commands)
                for start, end in pairwise([0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]):
                    raw.send(data[start:end])
                replies = [raw.reply() for _ in commands]
            else:
                replies = [raw.call(*words) for words in commands]
            raw.call("DISCARD")
            left = [raw.call("GET", name) for name in names]
            found.append([replies, left, [raw.call("TTL", name) > 0 for name in names]])
    assert found[0] == found[1]


_STEPS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(["watch", "get", "incr", "set", "exec-incr", "exec-set", "unwatch"])),
    min_size=1,
    max_size=30,
)


@settings(max_examples=60, deadline=None)
@given(steps=_STEPS)
def test_interleaved_watchers_are_like_a_sequence(alone: ServerThread, steps: list[tuple[int, str]]) -> None:
    """Three connections, all sent at once: some order of their commands explains every reply.

    Each change of the key gives a new count; so the replies of what was granted, put in order, name the sequence, and
    a transaction whose watched count is not the one before its own must have been aborted.
    """
    key = "sequence"
    sends: list[list[tuple[Any, ...]]] = [[], [], []]
    scripts: dict[str, list[tuple[Any, ...]]] = {
        "watch": [("WATCH", key), ("GET", key)],
        "get": [("GET", key)],
        "incr": [("INCR", key)],
        "set": [("INCRBY", key, "1")],
        "exec-incr": [("MULTI",), ("GET", key), ("INCR", key), ("EXEC",)],
        "exec-set": [("MULTI",), ("INCR", key), ("GET", key), ("EXEC",)],
        "unwatch": [("UNWATCH",)],
    }
    for who, what in steps:
        sends[who] += scripts[what]
    raws = [alone.connect() for _ in range(3)]
    try:
        raws[0].call("SET", key, "0")
        for raw, commands in zip(raws, sends, strict=True):
            raw.send(b"".join(packed(*words) for words in commands))
        replies = [[raw.reply() for _ in commands] for raw, commands in zip(raws, sends, strict=True)]
        final = int(raws[0].call("GET", key))
    finally:
        for raw in raws:
            raw.close()
    granted: list[int] = []
    for commands, answers in zip(sends, replies, strict=True):
        seen = 0
        watched: int | None = None
        watching = False
        for words, answer in zip(commands, answers, strict=True):
            if words[0] == "WATCH":
                watching = True
            elif words[0] == "UNWATCH":
                watching, watched = False, None
            elif words[0] == "GET" and answer != QUEUED:
                assert int(answer) >= seen, "a connection's reads never go back"
                seen = int(answer)
                watched = seen if watching and watched is None else watched
            elif words[0] in ("INCR", "INCRBY") and answer != QUEUED:
                assert answer > seen
                seen = answer
                granted.append(answer)
            elif words[0] == "EXEC":
                if answer is None:
                    assert watching, "nothing was watched and nothing failed"
                else:
                    count = next(each for each in answer if isinstance(each, int))
                    before = next(int(each) for each in answer if isinstance(each, bytes))
                    assert before in (count - 1, count)
                    assert count > seen
                    if watched is not None:
                        assert count <= watched + 1, f"granted with {count} after {watched} was watched"
                    seen = count
                    granted.append(count)
                watching, watched = False, None
    assert sorted(granted) == list(range(1, final + 1)), "every change counts once"
