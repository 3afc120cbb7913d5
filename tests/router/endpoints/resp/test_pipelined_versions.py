"""DURAMEN.SETV in pipelines: many in one commit, and each decided by the log, also where a replica is behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.cluster.one_machine import held, puts
from kit.deadlines import wait_until
from kit.resp.raw_client import Raw, Status, packed
from kit.resp.server_thread import ServerThread

from log_tier.model.identifiers import NOTHING, Offset, Partition, PartitionId
from router.endpoints.resp.data.key_views import Overlay, PendingVersion, Undecided
from serving_tier.fold.entry import NEVER, LiveEntry
from serving_tier.replica.replica import Replica

OK = Status("OK")
NOW = 1_000_000
ABSENT = Offset(-1)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerThread]:
    """A server without reader processes, whose replica a test may hold."""
    running = ServerThread(tmp_path_factory.mktemp("alone")).start()
    yield running
    running.close()


def sent(raw: Raw, commands: Sequence[Sequence[bytes | str | int]]) -> list[Any]:
    """Send all of it in one piece; its replies."""
    raw.send(b"".join(packed(*words) for words in commands))
    return [raw.reply() for _ in commands]


def place_of(server: ServerThread) -> tuple[PartitionId, Replica]:
    table = server.run(lambda: server.server.tables.open("default"))
    place = PartitionId(table.ref.id, Partition(0))
    return place, server.data_plane.node.replica(place)


def entry(version: int) -> LiveEntry:
    return LiveEntry(b"v", Offset(version), NEVER)


# --- what a command does with what it sees


@pytest.mark.parametrize(
    ("there", "asked", "puts_it", "guarded"),
    [
        (None, -1, True, False),
        (7, 7, True, False),
        (7, 5, False, False),
        (7, 12, False, True),
        (None, 5, False, False),
        (None, 12, False, True),
        (7, -1, False, True),
    ],
)
def test_another_version_is_said_where_it_is_sure_or_judged(
    there: int | None, asked: int, puts_it: bool, guarded: bool
) -> None:
    """Read at offset 10. Version 12 may be one that the replica has not applied yet; 5 never comes back."""
    view = Overlay({b"k": None if there is None else entry(there)}, NOW, read_at=Offset(10))
    reply = view.put_over(b"k", Offset(asked), b"w", NEVER)
    assert (reply == PendingVersion(0) and view.keys == [b"k"]) == puts_it
    assert (reply is None and not view.keys) == (not puts_it)
    assert view.guarded == guarded
    assert view.conditions == {b"k": NOTHING if there is None else there}


def test_a_version_that_the_log_has_not_given_yet_is_waited_for() -> None:
    view = Overlay({b"k": entry(7)}, NOW, read_at=Offset(10))
    view.put(b"k", b"w")
    assert view.put_over(b"k", Offset(7), b"x", NEVER) is None, "it was overtaken by the put"
    assert view.put_over(b"k", ABSENT, b"x", NEVER) is None
    with pytest.raises(Undecided):
        view.put_over(b"k", Offset(11), b"x", NEVER)
    view.remove(b"k")
    assert view.put_over(b"k", Offset(11), b"x", NEVER) is None, "it is not there, whatever the log says"
    assert view.put_over(b"k", ABSENT, b"x", NEVER) == PendingVersion(2)
    assert view.keys == [b"k"] * 3


# --- at a server


def test_the_version_of_an_earlier_command_of_the_pipeline(alone: ServerThread, key: str) -> None:
    """A program that knows which offsets the log gives is answered by what the log gave."""
    with alone.connect() as raw:
        place, _ = place_of(alone)
        following = alone.run(lambda: alone.data_plane.log.bounds(place)).latest + 1
        replies = sent(
            raw,
            [
                ("SET", key, "a"),
                ("DURAMEN.SETV", key, "b", following),
                ("DURAMEN.SETV", key, "c", following),
                ("GET", key),
                ("DURAMEN.SETV", key, "d", following - 1),
            ],
        )
        assert replies[0] == OK
        assert replies[1] > following
        assert replies[2:] == [None, b"b", None]
        first, second = sent(raw, [("DURAMEN.SETV", f"{key}-x", "a", -1), ("DURAMEN.SETV", f"{key}-x", "b", -1)])
        assert (raw.call("DURAMEN.GETV", f"{key}-x"), second) == ([b"a", first], None)


@pytest.mark.parametrize("others", [0, 20])
@pytest.mark.parametrize("asked", ["the old one", "the new one", "none"])
def test_at_a_replica_that_is_behind_the_log_decides(alone: ServerThread, key: str, asked: str, others: int) -> None:
    """What another server has written is in the log, and not here: neither the old version nor none is there any more,
    and the new one is. `others`: more commands in the pipeline.
    """
    more = [("INCR", f"{key}-{number}") for number in range(others)]
    with alone.connect() as raw:
        place, replica = place_of(alone)
        old = -1 if asked == "none" else raw.call("DURAMEN.SETV", key, "a", -1)
        assert raw.call("GET", key) == (None if asked == "none" else b"a"), "it is applied before the replica is held"
        before = alone.server.writer.records
        with held(replica):
            new = alone.run(lambda: alone.data_plane.log.append(place, puts((key.encode(), b"b")))).base_offset
            version = new if asked == "the new one" else old
            raw.send(b"".join(packed(*words) for words in [("DURAMEN.SETV", key, "c", version), *more]))
            wait_until(lambda: alone.server.writer.records != before, "the log has got it")
        reply, *counts = [raw.reply() for _ in range(1 + others)]
        assert (reply is not None) == (asked == "the new one")
        assert counts == [1] * others
        assert raw.call("GET", key) == (b"b" if reply is None else b"c")


def test_two_pipelines_at_once_lose_no_increment(server: ServerThread, key: str) -> None:
    """Optimistic increments of few keys by several connections, some hundred commands under way at once."""
    keys = [f"{key}-{number}" for number in range(5)]
    granted: list[int] = []

    def count() -> None:
        done = 0
        with server.connect() as raw:
            for _ in range(30):
                found = sent(raw, [("DURAMEN.GETV", each) for each in keys])
                asks = [(int(each[0]), each[1]) if each else (0, -1) for each in found]
                writes = [
                    ("DURAMEN.SETV", each, value + 1, version)
                    for each, (value, version) in zip(keys, asks, strict=True)
                ]
                done += sum(reply is not None for reply in sent(raw, writes * 3))
        granted.append(done)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with server.connect() as raw:
        assert sum(map(int, raw.call("MGET", *keys))) == sum(granted) >= 30 * 5


_KEYS = st.sampled_from(["a", "b"])
_COMMANDS = st.one_of(
    st.tuples(st.just("DURAMEN.SETV"), _KEYS, st.integers(-1, 12)),
    st.tuples(st.sampled_from(["SET", "DEL", "INCR"]), _KEYS, st.just(0)),
)


@settings(max_examples=100, deadline=None)
@given(commands=st.lists(_COMMANDS, min_size=1, max_size=30))
def test_every_version_in_a_pipeline_is_compared_exactly(alone: ServerThread, commands: list[Any]) -> None:
    """Versions count from the log's end before the pipeline, so some are those that its own commands are given; a
    DURAMEN.GETV behind each command says which.
    """
    with alone.connect() as raw:
        place, _ = place_of(alone)
        raw.call("DEL", "a", "b")
        start = alone.run(lambda: alone.data_plane.log.bounds(place)).latest + 1
        words: list[tuple[Any, ...]] = []
        for name, key, number in commands:
            asked = number if number < 0 else start + number
            words.append({"SET": (name, key, "1"), "DURAMEN.SETV": (name, key, "5", asked)}.get(name, (name, key)))
            words.append(("DURAMEN.GETV", key))
        replies = sent(raw, words)
    versions = {"a": -1, "b": -1}
    for (name, key, *rest), reply, found in zip(words[::2], replies[::2], replies[1::2], strict=True):
        before, after = versions[key], -1 if found is None else found[1]
        if name == "DURAMEN.SETV":
            assert reply == (after if rest[1] == before else None), (rest, before, replies)
            assert (after > before) == (rest[1] == before)
        versions[key] = after
