"""Sessions: read your writes, monotonic reads, tokens between clients, and what each level waits for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.deadlines import patience_s
from kit.index.thread_only import thread_only

import duramen
from duramen.client.database import Database
from duramen.client.model.session import Session
from duramen.client.table import Table
from duramen.server.roles.all_in_one import SingleServer as Server
from log_tier.model.identifiers import NOTHING, Offset, Partition, table_id_from_bytes
from log_tier.model.table_ref import TableRef
from log_tier.model.tokens import Token
from serving_tier.replica.replica import Replica

DEADLINE_S = 20

Connect = Callable[..., Awaitable[Database]]


@contextmanager
def lagging(machine: Server) -> Iterator[None]:
    """Inside, no replica applies anything."""
    may_go = threading.Event()
    replicas: list[Replica] = list(machine.data_plane.node)

    def held(apply: Callable[[Any], object]) -> Callable[[Any], object]:
        def waiting(chunk: Any) -> object:
            may_go.wait()
            return apply(chunk)

        return waiting

    for replica in replicas:
        replica.index.fold_in = held(replica.index.fold_in)  # type: ignore[assignment, method-assign]
    try:
        with thread_only():
            yield
    finally:
        may_go.set()
        for replica in replicas:
            del replica.index.fold_in


async def test_a_lagging_replica_lets_a_session_wait_and_nobody_else(
    machine: Server, flights: Table, connected: Connect
) -> None:
    await flights.put(b"k", b"old")
    assert await flights.get(b"k") == b"old"
    stranger = (await connected()).table("flights")
    friend = (await connected()).table("flights")
    assert await friend.get(b"k") == b"old"
    with lagging(machine):
        done = await flights.put(b"k", b"new")
        assert await stranger.get(b"k") == b"old"
        assert await flights.get(b"k", level="eventual") == b"old"
        friend.lookup.context.session.merge(Token.parse(done.token))
        long, short = patience_s(60.0), patience_s(0.5)
        waiting = [
            asyncio.ensure_future(call)
            for call in (
                flights.get(b"k", timeout=long),
                flights.get_many([b"k"], timeout=long),
                anext(flights.scan(timeout=long)),
                stranger.get(b"k", level="strong", timeout=long),
                stranger.get(b"k", after=done.token, timeout=long),
                stranger.get(b"k", after=done.token, level="eventual", timeout=long),
                friend.get(b"k", timeout=long),
            )
        ]
        ended, _ = await asyncio.wait(waiting, timeout=0.1)
        assert not ended
        behind = await asyncio.gather(
            flights.get(b"k", timeout=short),
            anext(flights.scan(timeout=short)),
            stranger.get(b"k", level="strong", timeout=short),
            return_exceptions=True,
        )
        for error in behind:
            assert isinstance(error, duramen.ReplicaBehind)
            assert "has applied 0, the token asks 1; the log ends at 1" in error.message
        with pytest.raises(duramen.WriteUnknown, match="is in the log at offset 2"):
            await flights.update(b"k", append=b"!", timeout=patience_s(1.0))
    results = await asyncio.gather(*waiting)
    scanned = results[2]
    assert isinstance(scanned, tuple)
    assert results == [b"new", [b"new"], (b"k", b"new"), *[b"new"] * 4] or scanned[1] == b"new!"
    assert await flights.get(b"k", level="strong") == b"new!"


async def test_what_was_read_is_never_unread(machine: Server, flights: Table, connected: Connect) -> None:
    """Monotonic reads: what a client has seen, in whatever way, its later reads contain."""
    await flights.put(b"k", b"v")
    done = await flights.put(b"k", b"w")
    ways: list[Callable[[Table], object]] = [
        lambda table: table.get(b"k", level="strong"),
        lambda table: table.get(b"k", after=done.token),
        lambda table: table.get_many([b"k"], after=done.token),
        lambda table: anext(table.scan(after=done.token)),
        lambda table: anext(table.watch(start="earliest")),
        lambda table: table.put(b"k", b"w"),
        lambda table: table.update(b"n", add=1),
        lambda table: table.batch().put(b"k", b"w").commit(),
        lambda table: table.put_many([(b"k", b"w")]),
    ]
    for way in ways:
        reader = (await connected()).table("flights")
        await way(reader)  # type: ignore[misc]
        seen = Token.parse(str(reader.lookup.context.session.token())).tables[done.table_id]
        assert seen, "the session has learnt nothing"
        ref = reader.lookup.ref
        assert ref is not None
        assert reader.lookup.context.session.offsets(ref) == [seen.get(Partition(n), NOTHING) for n in range(4)]


async def test_an_eventual_read_teaches_nothing(flights: Table, connected: Connect) -> None:
    await flights.put(b"k", b"v")
    assert await flights.get(b"k") == b"v"
    reader: Database = await connected()
    await reader.table("flights").get(b"k", level="eventual")
    await reader.table("flights").get_many([b"k"], level="eventual")
    assert [pair async for pair in reader.table("flights").scan(level="eventual")] == [(b"k", b"v")]
    assert not any(Token.parse(reader.token()).tables.values())


async def test_strong_sees_every_acknowledged_write_at_once(flights: Table, connected: Connect) -> None:
    other = (await connected()).table("flights")
    for number in range(100):
        await flights.put(b"k%d" % (number % 5), b"%d" % number)
        assert await other.get(b"k%d" % (number % 5), level="strong") == b"%d" % number


async def test_after_sees_another_clients_write_at_once(flights: Table, connected: Connect) -> None:
    other = (await connected()).table("flights")
    for number in range(100):
        done = await flights.put(b"k%d" % (number % 5), b"%d" % number)
        assert await other.get(b"k%d" % (number % 5), after=done.token) == b"%d" % number


async def test_a_session_carries_over(remote: Database, flights: Table, connected: Connect) -> None:
    ships = await remote.create_table("ships", partitions=2)
    await flights.put(b"k", b"1")
    await ships.put(b"k", b"2")
    other: Database = await connected()
    other.merge_token(remote.token())
    assert other.token() == remote.token()
    assert [await other.table(name).get(b"k") for name in ("flights", "ships")] == [b"1", b"2"]
    third: Database = await connected()
    assert await third.table("ships").get(b"k", after=remote.token()) == b"2", "a session's token is for every table"


TOPICS = [TableRef(table_id_from_bytes(bytes([number]) * 16), f"t{number}", number + 1) for number in range(3)]
tokens = st.dictionaries(
    st.sampled_from([topic.id for topic in TOPICS]),
    st.dictionaries(st.integers(0, 4).map(Partition), st.integers(0, 50).map(Offset), max_size=4),
    max_size=3,
).map(lambda tables: Token(tables, session=True))
seen_steps = st.tuples(st.sampled_from(TOPICS), st.integers(0, 2), st.integers(0, 50).map(Offset))


@settings(deadline=None)
@given(st.lists(tokens | seen_steps, max_size=20))
def test_a_session_only_rises_and_forgets_nothing(steps: list[Any]) -> None:
    session = Session()
    model: dict[tuple[str, int], int] = {}
    lists = {topic.id: session.offsets(topic) for topic in TOPICS[:2]}
    for step in steps:
        if isinstance(step, Token):
            session.merge(step)
            entries = [(table, p, o) for table, offsets in step.tables.items() for p, o in offsets.items()]
        else:
            topic, partition, offset = step
            if partition >= topic.partitions:
                continue
            session.saw(topic, Partition(partition), offset)
            entries = [(topic.id, Partition(partition), offset)]
        for table, number, offset in entries:
            model[table, number] = max(model.get((table, number), -1), offset)
        for topic in TOPICS:
            assert session.offsets(topic) == [model.get((topic.id, n), -1) for n in range(topic.partitions)]
        for topic in TOPICS[:2]:
            assert session.offsets(topic) is lists[topic.id], "other threads look at this very list"
        carried = Token.parse(str(session.token()))
        flat = {(table, p): o for table, offsets in carried.tables.items() for p, o in offsets.items()}
        assert flat == model
