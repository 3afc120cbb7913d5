"""Commands that read and write are answered before the fold, where it is known how it is going to decide."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from kit.cluster.one_machine import held
from kit.deadlines import wait_until
from kit.resp.raw_client import packed
from kit.resp.server_thread import ServerThread

from log_tier.model.identifiers import Offset, Partition, PartitionId
from router.endpoints.resp.data.key_views import Overlay
from router.endpoints.resp.data.stored_entries import StoredEntries
from serving_tier.fold.entry import LiveEntry, stored_entry
from serving_tier.replica.replica import Replica

NOW = 1_000_000


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerThread]:
    """A server without reader processes, whose replica a test may hold."""
    running = ServerThread(tmp_path_factory.mktemp("alone")).start()
    yield running
    running.close()


def replica_of(server: ServerThread) -> Replica:
    table = server.run(lambda: server.server.tables.open("default"))
    return server.data_plane.node.replica(PartitionId(table.ref.id, Partition(0)))


def test_the_replies_do_not_wait_for_the_fold_and_what_follows_sees_them(alone: ServerThread, key: str) -> None:
    """With the replica held, pipelines on keys that it knows are answered; who reads those keys waits for it."""
    keys = [f"{key}-{number}" for number in range(300)]
    with alone.connect() as raw, alone.connect() as other:
        assert raw.call("SET", key, "1").text == "OK"
        assert raw.call("GET", key) == b"1"
        before = alone.server.writer.records
        with held(replica_of(alone)):
            raw.send(b"".join(packed("INCR", each) for each in [key, *keys]))
            assert [raw.reply() for _ in range(301)] == [2, *[1] * 300]
            raw.send(packed("INCR", key))
            other.send(packed("GET", key) + packed("DEL", *keys[:20]) + packed("MGET", *keys[:40]))
            with alone.connect() as third:
                assert third.call("PING").text == "PONG"
            assert alone.server.writer.records == before + 301, "these two wait for what they are to see"
        assert raw.reply() == 3
        assert other.reply() in (b"2", b"3")
        assert [other.reply(), other.reply()] == [20, [None] * 20 + [b"1"] * 20]


def test_where_an_entry_expires_the_fold_decides(alone: ServerThread, key: str) -> None:
    """Whether it is there depends on the log's time."""
    with alone.connect() as raw:
        assert raw.call("SET", key, "1", "EX", "100").text == "OK"
        assert raw.call("GET", key) == b"1"
        before, batches = alone.server.writer.records, alone.server.writer.batches
        with held(replica_of(alone)):
            raw.send(packed("INCR", key))
            wait_until(lambda: alone.server.writer.records > before, "the log has it")
            assert alone.server.writer.batches == batches + 1
        assert (raw.reply(), raw.call("TTL", key)) == (2, 100)


LOOKS: dict[str, Callable[[Overlay], object]] = {
    "get": lambda view: view.get(b"k"),
    "get_each": lambda view: view.get_each([b"k", b"l"]),
    "is_there_each": lambda view: view.is_there_each([b"k", b"l"]),
    "version": lambda view: view.version(b"k"),
    "append": lambda view: view.append(b"k", b"x"),
    "put_over": lambda view: view.put_over(b"k", Offset(3), b"x", 0),
}


@pytest.mark.parametrize("is_stored", [False, True])
@pytest.mark.parametrize("expires_at_ms", [0, NOW - 1, NOW, NOW + 1])
@pytest.mark.parametrize("look", LOOKS)
def test_conditions_on_what_expires_hold_at_no_offset(look: str, expires_at_ms: int, is_stored: bool) -> None:
    held_entry = LiveEntry(b"5", Offset(3), expires_at_ms)
    found = {b"k": held_entry, b"l": None}
    stored = StoredEntries([b"k", b"l"], [stored_entry(*held_entry), None], 0)
    view = Overlay(stored if is_stored else found, NOW, read_at=Offset(7))
    assert view.holds_at == 7
    LOOKS[look](view)
    assert view.conditions
    assert view.holds_at == (None if expires_at_ms else 7)


def test_what_the_log_s_time_has_passed_stays_absent() -> None:
    view = Overlay(StoredEntries([b"k"], [stored_entry(b"5", 3, NOW - 1)], NOW), NOW, read_at=Offset(7))
    assert view.get(b"k") is None
    assert view.holds_at == 7
