"""Programs that fork, for `test_fork.py`: each is run in a process of its own, as `python forked_programs.py NAME ...`.

What a program asserts, it asserts in the parent or in the child; a child that fails exits with another code than 0, and
one that hangs is ended by an alarm.
"""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import pickle
import signal
import socket
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duramen
from duramen import aio
from duramen.blocking import Database, Table
from duramen.client.model.results import Change
from duramen.client.watch import Watch

# A busy machine takes its time; what hangs, hangs for ever.
TIMEOUT_S = 60.0

# A child that hangs dies of this.
CHILD_S = 300


def in_child(work: Callable[[], object], *, code: int = 0) -> int:
    """Run `work` in a forked process that then ends as any program does: atexit, collector, destructors. Its pid."""
    pid = os.fork()
    if pid:
        return pid
    signal.alarm(CHILD_S)
    work()
    gc.collect()
    sys.exit(code)


def joined(*pids: int) -> None:
    for pid in pids:
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == 0, f"child {pid} ended with {os.waitstatus_to_exitcode(status)}"


def use(table: Table, key: bytes) -> None:
    """Every kind of call."""
    done = table.put(key, b"v", timeout=TIMEOUT_S)
    assert table.get(key) == b"v"
    assert table.get(key, after=done.token, timeout=TIMEOUT_S) == b"v"
    table.put(key, b"w")
    assert table.get_many([key, b"missing"], timeout=TIMEOUT_S) == [b"w", None]
    assert (key, b"w") in list(table.scan(timeout=TIMEOUT_S))
    changes = table.watch(start="earliest", timeout=TIMEOUT_S)
    next(changes)
    changes.close()
    assert table.update(b"n" + key, add=1).value == 1


def sockets() -> set[str]:
    """This process's TCP connections that are established, by their numbers in the kernel."""
    mine = set()
    for fd in os.listdir("/proc/self/fd"):
        try:
            mine.add(os.readlink(f"/proc/self/fd/{fd}"))
        except FileNotFoundError:
            continue
    # gRPC's own sockets are of IPv6, also to an address of IPv4.
    tables = [Path("/proc/net") / name for name in ("tcp", "tcp6")]
    lines = [line for table in tables if table.exists() for line in table.read_text().splitlines()[1:]]
    return {line.split()[9] for line in lines if line.split()[3] == "01" and f"socket:[{line.split()[9]}]" in mine}


def connection(target: str, ending: str) -> None:
    """A connection in two children and a grandchild, and the parent's afterwards."""
    db = duramen.connect(target)
    table = db.create_table("flights")
    use(table, b"parent")
    begun = table.scan()
    next(begun)
    watch = table.watch(start="earliest")
    next(watch)
    before, token = sockets(), db.token()
    assert before

    def child(key: bytes, *, deeper: bool = True) -> None:
        assert not deeper or db.token() == token, "what the parent has seen counts here"
        assert table.get(b"parent", timeout=TIMEOUT_S) == b"w"
        for iterator in (begun, watch) if deeper else ():  # what had come before the fork may be returned
            try:
                for _ in iterator:
                    pass
            except duramen.DatabaseForked:
                continue
            raise AssertionError("an iterator of the parent's goes on in the child")
        use(table, key)
        if deeper:
            joined(in_child(lambda: child(key + b" again", deeper=False)))
            use(table, key + b" once more")
        if ending == "close":
            db.close()

    joined(in_child(lambda: child(b"one")), in_child(lambda: child(b"two")), in_child(lambda: None))
    # Of those that were there one may have ended by itself: the one by which `connect` asked for the cluster's map.
    assert set() < sockets() <= before, "the parent has connected anew"
    use(table, b"parent again")
    assert len(list(begun)) >= 1
    next(watch)
    db.close()


def under_way(target: str) -> None:
    """Forks while other threads of the parent are in the middle of calls, and hold locks."""
    db = duramen.connect(target)
    table = db.create_table("flights")
    ended = threading.Event()

    def hammer(number: int) -> None:
        key = b"h%d" % number
        while not ended.is_set():
            table.put(key, b"v")
            assert table.get(key) == b"v"
            table.get_many([key])

    threads = [threading.Thread(target=hammer, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for number in range(12):

        def child(key: bytes = b"c%d" % number) -> None:
            table.put(key, b"v", timeout=TIMEOUT_S)
            assert table.get(key, timeout=TIMEOUT_S) == b"v"
            assert table.get(key) == b"v"

        joined(in_child(child))
    ended.set()
    for thread in threads:
        thread.join()
    assert table.get_many([b"c%d" % number for number in range(12)]) == [b"v"] * 12
    db.close()


def asynchronous(target: str) -> None:
    """`duramen.aio`, with an event loop of its own in the child."""

    async def used(database: aio.Database, key: bytes) -> None:
        table = database.table("flights")
        done = await table.put(key, b"v", timeout=TIMEOUT_S)
        assert await table.get(key, after=done.token, timeout=TIMEOUT_S) == b"v"
        assert key in [key async for key, _ in table.scan(timeout=TIMEOUT_S)]

    async def begin() -> aio.Database:
        database = await aio.connect(target)
        await database.create_table("flights")
        return database

    async def watched(database: aio.Database) -> Watch[Change]:
        return await database.table("flights").watch()

    async def rest() -> None:
        """What gRPC still has under way when a channel was closed."""
        await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()} or {asyncio.create_task(asyncio.sleep(0))})

    loop = asyncio.new_event_loop()
    database = loop.run_until_complete(begin())
    watch = loop.run_until_complete(watched(database))
    watching = loop.create_task(anext(watch))
    loop.run_until_complete(used(database, b"parent"))

    async def child(key: bytes) -> None:
        await used(database, key)
        await database.close()

    before = sockets()
    joined(
        in_child(lambda: asyncio.run(child(b"one"))),
        in_child(lambda: asyncio.run(child(b"two"))),
        in_child(lambda: None),
    )
    assert set() < sockets() <= before
    loop.run_until_complete(used(database, b"parent again"))
    assert loop.run_until_complete(watching).key == b"parent"
    loop.run_until_complete(database.close())
    loop.run_until_complete(rest())
    loop.close()


def embedded(data: str, how: str) -> None:
    """An embedded database is the parent's, whatever the child does."""
    db = duramen.open(data)
    table = db.create_table("flights", partitions=2)
    use(table, b"parent")
    begun = table.scan()
    next(begun)

    def child() -> None:
        calls: list[Callable[[], object]] = [
            lambda: table.get(b"parent"),
            lambda: table.put(b"k", b"v", timeout=TIMEOUT_S),
            lambda: table.get_many([b"parent"]),
            lambda: list(table.scan()),
            lambda: next(table.watch()),
            lambda: table.describe(),
            db.tables,
            lambda: db.create_table("other"),
        ]
        for call in calls:
            try:
                call()
            except duramen.DatabaseForked as error:
                assert "duramen up" in str(error)  # noqa: PT017 - what to do is in the message
            else:
                raise AssertionError("the child can use what is open in the parent")
        if how == "close":
            begun.close()
            db.close()

    for _ in range(3):
        joined(in_child(child))
        use_again = table.put(b"k", b"v")
        assert table.get(b"k", after=use_again.token) == b"v"
    assert len(list(begun)) >= 1
    # A child that lives on does not keep the folder.
    release, hold = os.pipe()

    def wait_for_release() -> None:
        os.close(hold)
        os.read(release, 1)

    waiting = in_child(wait_for_release)
    db.close()
    with duramen.open(data) as again:
        assert again.table("flights").get(b"k") == b"v"
        again.table("flights").put(b"k", b"w")
    with duramen.open(data) as again:
        assert again.table("flights").get(b"k") == b"w"
    os.close(hold)
    joined(waiting)


def pooled(target: str, method: str) -> None:
    """multiprocessing: the table travels as an argument, or is inherited."""
    db = duramen.connect(target)
    table = db.create_table("flights")
    context = multiprocessing.get_context(method)
    global inherited
    inherited = table
    done = table.put(b"parent", b"v")
    with context.Pool(3) as pool:
        keys = [b"k%d" % number for number in range(9)]
        assert pool.starmap(put_and_get, [(db, table, key) for key in keys], chunksize=1) == [b"v"] * 9
        if method == "fork":
            assert pool.map(get_inherited, [b"parent"] * 3) == [b"v"] * 3
        pool.close()
        pool.join()
    assert table.get_many(keys, level="strong") == [b"v"] * 9
    assert table.get(b"parent", after=done.token) == b"v"
    db.close()


inherited: Table


def put_and_get(db: Database, table: Table, key: bytes) -> bytes | None:
    assert table.get(b"parent", timeout=TIMEOUT_S) == b"v", "what the sender wrote is seen"
    table.put(key, b"v", timeout=TIMEOUT_S)
    assert {found.name for found in db.tables()} >= {"flights"}
    return table.get(key)


def get_inherited(key: bytes) -> bytes | None:
    return inherited.get(key, timeout=TIMEOUT_S)


def prefork(target: str) -> None:
    """A server that connects, then forks its workers, replaces one that dies, and stops them with a signal."""
    db = duramen.connect(target)
    table = db.create_table("flights")
    table.put(b"k", b"from the master")
    listening = socket.create_server(("127.0.0.1", 0))

    def worker() -> None:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        while True:
            accepted, _ = listening.accept()
            with accepted:
                word = accepted.recv(100)
                if word == b"die":
                    os._exit(9)
                table.put(word, b"%d" % os.getpid(), timeout=TIMEOUT_S)
                accepted.sendall(table.get(word) + b" " + table.get(b"k"))  # type: ignore[operator]

    def ask(word: bytes) -> bytes:
        with socket.create_connection(listening.getsockname(), timeout=CHILD_S) as client:
            client.sendall(word)
            return client.recv(1000)

    def started() -> int:
        """A worker's pid. A signal that comes before the worker has its handler waits for it."""
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        pid = in_child(worker)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        return pid

    workers = {started() for _ in range(3)}
    for number in range(12):
        pid, _, seen = ask(b"request %d" % number).partition(b" ")
        assert int(pid) in workers
        assert seen == b"from the master"
    assert ask(b"die") == b""
    ended, status = os.wait()
    assert os.waitstatus_to_exitcode(status) == 9
    workers = workers - {ended} | {started()}
    assert ask(b"after").endswith(b" from the master")
    for process in workers:
        os.kill(process, signal.SIGTERM)
    joined(*workers)
    use(table, b"the master goes on")
    db.close()


def closed_before(target: str) -> None:
    """What the parent closed, or dropped unclosed, waits for the collector when it forks: channels and calls of its
    core of gRPC, in circles. The child's collector must not destroy them, for that takes the parent's threads.
    """
    gc.disable()
    db = duramen.connect(target)
    table = db.create_table("flights", if_missing=True)
    pickle.loads(pickle.dumps(table)).put(b"k", b"v")
    with duramen.connect(target) as other:
        assert other.table("flights").get(b"k", level="strong") == b"v"
    del other

    def work() -> None:
        use(table, b"in the child")
        gc.collect()
        use(table, b"after the collection")
        mine = Circle()
        gone = weakref.ref(mine)
        del mine
        gc.collect()
        assert gone() is None, "the child's own garbage is collected"
        joined(in_child(lambda: use(table, b"in its child")))

    joined(in_child(work))
    gc.collect()
    use(table, b"in the parent")
    db.close()


class Circle:
    """Garbage that only the collector finds."""

    def __init__(self) -> None:
        self.itself = self


PROGRAMS: dict[str, Any] = {
    each.__name__: each for each in (connection, under_way, asynchronous, closed_before, embedded, pooled, prefork)
}

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]](*sys.argv[2:])
    sys.stdout.write("done\n")
