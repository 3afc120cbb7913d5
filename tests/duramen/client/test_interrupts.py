"""Interrupts of blocking calls, and iterators that end early: closed, forgotten, or found by the collector."""

from __future__ import annotations

import asyncio
import gc
import threading
import warnings
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest
from kit.deadlines import patience_s, wait_until

import duramen
from duramen.blocking import Database
from duramen.client.transport.loop_thread import LoopThread
from duramen.server.roles.all_in_one import SingleServer as Server
from log_tier.concurrency.background_loop import BackgroundLoop
from log_tier.concurrency.handed_call import HandedCall

pytestmark = pytest.mark.embedded_log_only  # what is asked is the client, and not where the log is

DEADLINE_S = 20

T = TypeVar("T")


class Interrupt(BaseException):
    """Simulates a KeyboardInterrupt: it comes out of the wait, in the waiting thread."""


def interrupted(call: Callable[[], object], when: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a blocking call and interrupt its wait, as Ctrl-C does, once `when` is set."""
    inner, caller = HandedCall.result, threading.get_ident()

    def result(self: HandedCall[object]) -> object:
        if threading.get_ident() != caller:
            return inner(self)  # a thread of the log's, say
        assert when.wait(patience_s(DEADLINE_S))
        raise Interrupt

    monkeypatch.setattr(HandedCall, "result", result)
    try:
        with pytest.raises(Interrupt):
            call()
    finally:
        monkeypatch.setattr(HandedCall, "result", inner)


def test_an_interrupt_cancels_the_call(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    table = db.create_table("flights")
    started, cancelled = threading.Event(), threading.Event()

    async def slow(*args: object, **kwargs: object) -> object:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return None

    inner = table._inner.get_many
    table._inner.get_many = slow  # type: ignore[assignment, method-assign]
    interrupted(lambda: table._loop.run(lambda: table._inner.get_many([b"k"])), started, monkeypatch)
    assert cancelled.wait(patience_s(DEADLINE_S)), "the work goes on although nobody waits for it"
    table._inner.get_many = inner  # type: ignore[method-assign]
    assert table.get_many([b"k"]) == [None]


@pytest.mark.parametrize("owner", [LoopThread, BackgroundLoop])
def test_an_interrupt_before_the_hand_over_leaves_no_coroutine(
    db: Database, monkeypatch: pytest.MonkeyPatch, owner: type
) -> None:
    """Python would print of one that nobody awaits, and of our lines, into the user's terminal."""
    table = db.create_table("flights")

    def interrupted_before(*args: object) -> object:
        raise Interrupt

    name = {LoopThread: "run", BackgroundLoop: "submit"}[owner]
    calls: list[Callable[[], object]] = [
        lambda: table.get(b"k", level="strong"),
        lambda: table.put(b"k", b"v", ttl=60),
        lambda: table.get_many([b"k"]),
        lambda: next(table.watch()),
        lambda: list(table.scan()),
        lambda: table.writer("name").__enter__(),
        lambda: db.create_table("others"),
        db.tables,
        db.token,
    ]
    with warnings.catch_warnings(record=True) as printed, monkeypatch.context() as patched:
        warnings.simplefilter("always")
        patched.setattr(owner, name, interrupted_before)
        for call in calls:
            with pytest.raises(Interrupt):
                call()
        gc.collect()
    assert [str(each.message) for each in printed] == []
    assert table.put(b"k", b"v")


def watching_tasks(loop: LoopThread) -> int:
    async def count() -> int:
        return sum("watch " in task.get_name() or "Watch" in repr(task) for task in asyncio.all_tasks())

    return loop.run(count)


def test_an_interrupted_watch_is_closed(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The step that is being cancelled and the closing of the same generator must not meet."""
    table = db.create_table("flights", partitions=2)
    table.put(b"k", b"v")
    changes = table.watch(start="earliest")
    assert next(changes).key == b"k"
    inner, calls, caller = HandedCall.result, [], threading.get_ident()

    def result(self: HandedCall[object]) -> object:
        if threading.get_ident() != caller:
            return inner(self)
        calls.append(1)
        if len(calls) == 1:
            raise Interrupt
        return inner(self)

    monkeypatch.setattr(HandedCall, "result", result)
    with pytest.raises(Interrupt):
        next(changes)
    monkeypatch.undo()
    with pytest.raises(StopIteration):
        next(changes)
    wait_until(lambda: watching_tasks(db._loop) == 0, what="nobody watches")


def test_an_interrupt_before_the_wait_closes_the_watch(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C may come when the next step is under way and nobody holds its future yet: nobody else can end it."""
    table = db.create_table("flights", partitions=2)
    table.put(b"k", b"v")
    changes = table.watch(start="earliest")
    assert next(changes).key == b"k"
    hand_over = LoopThread._hand_over

    def interrupted_behind(self: LoopThread, call: Callable[[], Awaitable[T]]) -> HandedCall[T]:
        monkeypatch.setattr(LoopThread, "_hand_over", hand_over)
        hand_over(self, call)
        raise Interrupt

    monkeypatch.setattr(LoopThread, "_hand_over", interrupted_behind)
    with ThreadPoolExecutor(1) as thread:
        ending = thread.submit(next, changes).exception
        try:
            assert isinstance(ending(DEADLINE_S), Interrupt)
        finally:
            table.put(b"k", b"another change ends the wait, if nothing else does")
    wait_until(lambda: watching_tasks(db._loop) == 0, what="nobody watches")


@pytest.mark.parametrize("how", ["closed", "forgotten", "left by an error"])
def test_iterators_that_end_early_free_the_servers_side(served: Server, how: str) -> None:
    with duramen.connect(f"127.0.0.1:{served.port}") as db:
        table = db.create_table("flights", partitions=2)
        table.put_many([(b"k%d" % number, b"v") for number in range(1000)])
        streams = served.shell.streams
        changes = table.watch(start="earliest")
        next(changes)
        wait_until(lambda: len(streams) == 1, what="1 streams at the server")
        scan = table.scan()
        next(scan)
        if how == "closed":
            changes.close()
            scan.close()
        elif how == "forgotten":
            del changes, scan
            gc.collect()
        else:
            with pytest.raises(Interrupt):
                changes.throw(Interrupt())
            del scan
        wait_until(lambda: len(streams) == 0, what="0 streams at the server")
        assert table.get(b"k1") == b"v"


def test_an_iterator_that_the_collector_finds_in_the_loops_thread(db: Database) -> None:
    """There, waiting for the loop would wait for ever."""
    table = db.create_table("flights")
    table.put(b"k", b"v")
    changes = [table.watch(start="earliest")]
    next(changes[0])

    async def forget() -> None:
        changes.clear()
        gc.collect()

    db._loop.run(forget)
    wait_until(lambda: watching_tasks(db._loop) == 0, what="nobody watches")
    assert table.get(b"k") == b"v"


def test_an_iterator_that_the_collector_finds_inside_a_call(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its closing is a call too: it must not wait for the lock that the first one holds."""
    table = db.create_table("flights")
    table.put(b"k", b"v")
    cycle: list[object] = [table.watch(start="earliest")]
    next(cycle[0])  # type: ignore[call-overload]
    cycle.append(cycle)
    inner = HandedCall.begin

    def collecting(self: HandedCall[object]) -> None:
        monkeypatch.setattr(HandedCall, "begin", inner)
        gc.collect()
        inner(self)

    monkeypatch.setattr(HandedCall, "begin", collecting)
    del cycle
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(table.get_many, [b"k"]).result(patience_s(DEADLINE_S)) == [b"v"]
    wait_until(lambda: watching_tasks(db._loop) == 0, what="nobody watches")
