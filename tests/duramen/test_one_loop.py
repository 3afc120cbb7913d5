"""All connections of a process on one loop: what they leave behind, how they fail side by side, and how it all ends."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from kit.client.server_process import ServerProcess
from kit.deadlines import patience_s, wait_until
from kit.warm.warm_process import WarmProcess, run_warm

import duramen
from duramen.blocking import Database
from log_tier.concurrency.background_loop import background_loop, report_unless_late

pytestmark = pytest.mark.embedded_log_only

DEADLINE_S = 60

COUNTING = """
import collections, gc, json, sys, threading, time
import duramen
target, table_name, what = sys.argv[1:]

def use():
    with duramen.connect(target, direct=what != "far") as db:
        table = db.table(table_name)
        if what in ("get", "far"):
            table.get_many([b"k"])
        elif what == "put":
            table.put(b"k", b"v")
        elif what == "watch":
            next(iter(table.watch(start="earliest")))

def counts():
    for _ in range(3):
        gc.collect()
    found = collections.Counter(f"{type(one).__module__}.{type(one).__qualname__}" for one in gc.get_objects())
    found["threads"] = threading.active_count()
    found["blocks"] = sys.getallocatedblocks()
    return found

def rounds(number):
    for _ in range(number):
        use()
    return counts()

def growth(before):
    after = counts()
    grown = {name: after[name] - before[name] for name in after}
    # Caches of the interpreter (interned names, free lists) move by a few; one object a round would be a hundred.
    return {name: number for name, number in grown.items() if number >= (90 if name == "blocks" else 20)}

rounds(20)
time.sleep(0.5)  # gRPC lets go of a call's last parts in threads of its own: not to be counted as there before
before = rounds(10)
before = counts()  # while another one of its kind is held, as it is below
rounds(100)
deadline = time.monotonic() + 20
while (grown := growth(before)) and time.monotonic() < deadline:
    time.sleep(0.1)
print(json.dumps(grown))
"""


@pytest.mark.parametrize("what", ["nothing", "get", "put", "watch", "far"])
def test_a_hundred_connections_leave_nothing(server: ServerProcess, table_name: str, what: str) -> None:
    """Counted by objects of the collector and blocks of the allocator, in a process that does nothing else."""
    with server.connect() as db:
        db.create_table(table_name).put(b"k", b"v")
    done = run_warm(
        [sys.executable, "-c", COUNTING, server.target, table_name, what],
        text=True,
        timeout=patience_s(3 * DEADLINE_S),
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {}, "this grows with each connection"
    assert done.stderr == ""


def test_connections_share_a_loop_and_an_embedded_database_has_its_own(server: ServerProcess, tmp_path: Path) -> None:
    with server.connect() as one, server.connect() as other:
        assert one._loop._background is other._loop._background is background_loop()
        with duramen.open(tmp_path / "data") as here:
            assert here._loop._background is not background_loop()
        assert one.tables() == other.tables()
    with server.connect() as again:
        again.tables()


def test_closing_one_ends_its_calls_and_not_the_others(server: ServerProcess, table_name: str) -> None:
    with server.connect() as one, server.connect() as other:
        other.create_table(table_name, partitions=1).put(b"k", b"v")
        mine, others = one.table(table_name).watch(start="earliest"), other.table(table_name).watch(start="earliest")
        assert next(mine).key == next(others).key == b"k"
        with ThreadPoolExecutor(2) as threads:
            ended, goes_on = threads.submit(next, mine), threads.submit(next, others)
            one.close()
            assert isinstance(ended.exception(DEADLINE_S), duramen.DuramenError)
            other.table(table_name).put(b"k", b"w")
            assert goes_on.result(patience_s(DEADLINE_S)).value == b"w"
        others.close()


STORM = """
import sys, threading, time
import duramen
targets, ended = sys.argv[1:], threading.Event()

def begun(target):
    deadline = time.monotonic() + 60  # the server runs; a busy machine needs more than the second of a call
    while True:
        try:
            db = duramen.connect(target, timeout=1)
            try:
                return db, db.create_table("storm", if_missing=True, partitions=1)
            except BaseException:
                db.close()
                raise
        except duramen.DuramenError:
            if time.monotonic() > deadline:
                raise

def hammer(target):
    try:
        db, table = begun(target)
    finally:
        started.release()  # also where it fails: its traceback is the test's failure
    with db:
        while not ended.is_set():
            try:
                table.put(b"k", b"v")
                table.get_many([b"k"])
                next(iter(table.watch(start="earliest", timeout=1)))
            except duramen.DuramenError:
                pass

started = threading.Semaphore(0)
threads = [threading.Thread(target=hammer, args=(target,)) for target in targets for _ in range(3)]
for thread in threads:
    thread.start()
for _ in threads:
    started.acquire()
print("ready", flush=True)
for line in sys.stdin:  # one connection more, opened and closed, for each server that was killed
    for target in targets:
        try:
            duramen.connect(target, timeout=1).close()
        except duramen.DuramenError:
            pass
    print("next", flush=True)
ended.set()
for thread in threads:
    thread.join()
print("done", flush=True)
"""


def test_closing_connections_while_servers_are_killed_says_nothing(
    new_server: Callable[[Path], ServerProcess], tmp_path: Path
) -> None:
    servers = [new_server(tmp_path / name) for name in ("one", "two")]
    with (tmp_path / "stderr").open("w+") as stderr:
        storm = WarmProcess(
            [sys.executable, "-c", STORM, *(server.target for server in servers)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
        assert storm.stdin is not None
        assert storm.stdout is not None
        try:
            assert storm.stdout.readline() == "ready\n"
            for server in servers * 2:
                server.kill9()
                storm.stdin.write("go\n")
                storm.stdin.flush()
                assert storm.stdout.readline() == "next\n"
                server.restart()
            storm.stdin.close()
            assert storm.stdout.readline() == "done\n"
            assert storm.wait(patience_s(DEADLINE_S)) == 0
        finally:
            storm.kill()
            storm.wait()
            storm.stdout.close()
        stderr.seek(0)
        assert stderr.read() == ""


def test_connecting_right_after_a_restart(new_server: Callable[[Path], ServerProcess], tmp_path: Path) -> None:
    """Another connection of this process has just failed, and waits before it tries again. The new one must not."""
    server = new_server(tmp_path / "data")
    with server.connect() as old:
        for _ in range(3):
            server.kill9()
            for _ in range(20):
                with pytest.raises(duramen.DuramenError):
                    old._loop.run(lambda: old._inner.connection.list_tables(timeout=0.2))
            server.start()
            with server.connect() as new:
                assert new.tables() == []


@pytest.mark.parametrize("how", ["left open", "closed", "in the middle of a watch"])
def test_the_interpreter_ends_without_a_word(server: ServerProcess, table_name: str, how: str) -> None:
    program = f"""
import duramen, threading
db = duramen.connect({server.target!r})
table = db.create_table({table_name!r})
table.put(b"k", b"v")
changes = table.watch(start="earliest")
next(changes)
if {how!r} == "closed":
    db.close()
elif {how!r} != "left open":
    begun = threading.Event()
    def wait():
        begun.set()
        next(changes)
    threading.Thread(target=wait, daemon=True).start()
    begun.wait()
"""
    done = run_warm(
        [sys.executable, "-W", "always", "-c", program],
        text=True,
        timeout=patience_s(DEADLINE_S),
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_many_threads_open_and_close_at_once(server: ServerProcess, table_name: str) -> None:
    def use(number: int) -> bytes | None:
        with server.connect() as db:
            table = db.create_table(table_name, if_missing=True)
            table.put(b"%d" % number, b"v")
            return table.get(b"%d" % number)

    def tasks(db: Database) -> int:
        async def count() -> int:
            return len(asyncio.all_tasks())

        return db._loop.run(count)

    with server.connect() as db:
        threads_before, tasks_before = threading.active_count(), tasks(db)
        with ThreadPoolExecutor(8) as threads:
            assert list(threads.map(use, range(40))) == [b"v"] * 40
        wait_until(lambda: tasks(db) <= tasks_before, what="no task is left of a closed connection")
        wait_until(lambda: threading.active_count() <= threads_before, what="no thread is left")


SHORT_LOOPS = """
import asyncio, sys, threading
import duramen, duramen.aio
target, table_name = sys.argv[1:]
ended = threading.Event()

def use(table):
    while not ended.is_set():
        table.put(b"k", b"v")

async def short():
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)  # it is not ours
    async with await duramen.aio.connect(target) as db:
        under_way = [asyncio.ensure_future(db.table(table_name).put(b"k", b"w")) for _ in range(3)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)  # they have been sent, and end with this loop

with duramen.connect(target) as db:
    threads = [threading.Thread(target=use, args=(db.table(table_name),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(60):
        asyncio.run(short())
    ended.set()
    for thread in threads:
        thread.join()
"""


def test_a_loop_that_ends_next_to_a_blocking_connection_says_nothing(server: ServerProcess, table_name: str) -> None:
    """gRPC hands late events of a closed loop's calls to it from whatever loop sees them: ours had a traceback each."""
    with server.connect() as db:
        db.create_table(table_name)
    done = run_warm(
        [sys.executable, "-c", SHORT_LOOPS, server.target, table_name],
        text=True,
        timeout=patience_s(DEADLINE_S),
    )
    assert (done.returncode, done.stderr) == (0, "")


CALLS_AT_THE_END = """
import asyncio, sys
import duramen, duramen.aio
target, table_name, what = sys.argv[1:]
seen = []

async def short():
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: seen.append(context["message"]))
    async with await duramen.aio.connect(target) as db:
        under_way = [asyncio.ensure_future(db.table(table_name).put(b"k", b"w")) for _ in range(3)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)  # they have been sent, and end with the connection
        if what == "calls that were cancelled":
            for each in under_way:
                each.cancel()
        elif what == "a watch that was left":
            async for _ in db.table(table_name).watch(start="earliest"):
                break
        for each in under_way:
            each.add_done_callback(lambda ended: ended.cancelled() or ended.exception())

for _ in range(60):
    asyncio.run(short())
print(len(seen), seen[:1])
"""


@pytest.mark.parametrize("what", ["calls under way", "calls that were cancelled", "a watch that was left"])
def test_a_connection_that_closes_over_its_calls_leaves_nothing_to_a_later_loop(
    server: ServerProcess, table_name: str, what: str
) -> None:
    """gRPC's events about calls of a loop that was closed came to the program's next one, some fifty in sixty loops."""
    with server.connect() as db:
        db.create_table(table_name).put(b"k", b"v")
    done = run_warm(
        [sys.executable, "-c", CALLS_AT_THE_END, server.target, table_name, what],
        text=True,
        timeout=patience_s(DEADLINE_S),
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "0 []\n", "")


def test_the_background_loop_reports_any_other_error() -> None:
    reported: list[str] = []
    for name, error in (
        ("PollerCompletionQueue._handle_events", RuntimeError("Event loop is closed")),
        ("PollerCompletionQueue._handle_events", RuntimeError("another one")),
        ("mine", RuntimeError("Event loop is closed")),
    ):
        report_unless_late(lambda context: reported.append(context["message"]), {"message": name, "exception": error})
    assert reported == ["PollerCompletionQueue._handle_events", "mine"]
