"""The blocking face: threads, interrupts, forgotten iterators, closing; and what importing and opening leave behind."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from kit.deadlines import patience_s, wait_until

import duramen
from duramen.blocking import Database
from duramen.client.transport.loop_thread import LoopThread
from duramen.server.roles.all_in_one import SingleServer as Server
from log_tier.concurrency.background_loop import background_loop

DEADLINE_S = 20


def test_many_threads_at_once(db: Database) -> None:
    table = db.create_table("flights", partitions=4)

    def work(number: int) -> int:
        for count in range(1, 21):
            assert table.update(b"n%d" % number, add=1).value == count
            assert table.get(b"n%d" % number) == b"%d" % count, "a thread does not read its own write"
            table.put(b"k%d.%d" % (number, count), b"v")
        return len(list(table.scan(prefix=b"k%d." % number)))

    with ThreadPoolExecutor(16) as threads:
        assert list(threads.map(work, range(16))) == [20] * 16
    assert len(list(table.scan(prefix=b"k"))) == 320


def test_what_one_thread_wrote_another_reads(db: Database) -> None:
    table = db.create_table("flights", partitions=1)
    barrier = threading.Barrier(2, timeout=DEADLINE_S)

    def write() -> None:
        for number in range(50):
            table.put(b"k", b"%d" % number)
            barrier.wait()
            barrier.wait()

    def read() -> None:
        for number in range(50):
            barrier.wait()
            assert table.get(b"k") == b"%d" % number
            barrier.wait()

    with ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(write), threads.submit(read)]:
            done.result(patience_s(DEADLINE_S))


def test_tokens_while_threads_write(db: Database) -> None:
    """The session belongs to the loop; asking for its token from another thread must not disturb it."""
    stop, wrote = threading.Event(), threading.Semaphore(0)

    def write(number: int) -> None:
        table = db.create_table(f"t{number}", partitions=8)
        while not stop.is_set():
            table.put_many([(b"k%d" % key, b"v") for key in range(50)])
            wrote.release()

    with ThreadPoolExecutor(2) as threads:
        writing = [threads.submit(write, number) for number in range(2)]
        try:
            assert wrote.acquire(timeout=DEADLINE_S)
            for _ in range(100):
                db.merge_token(db.token())
        finally:
            stop.set()
        for done in writing:
            done.result(patience_s(DEADLINE_S))
    seen = duramen.Token.parse(db.token())
    assert seen.session
    assert seen.tables


def test_closing_while_others_wait(db: Database, caplog: pytest.LogCaptureFixture) -> None:
    table = db.create_table("flights", partitions=2)
    table.put(b"k", b"v")
    endings: list[BaseException] = []
    watching, hammering = threading.Event(), threading.Event()

    def ending_of(work: Callable[[], None]) -> None:
        try:
            work()
        except duramen.DuramenError as error:
            endings.append(error)

    def watch() -> None:
        for _ in table.watch(start="earliest"):
            watching.set()

    def hammer() -> None:
        while True:
            table.get(b"k")
            table.put(b"other", b"v")
            hammering.set()

    idle = table.watch(start="earliest")
    next(idle)
    threads = [threading.Thread(target=ending_of, args=(work,)) for work in (watch, hammer)]
    for thread in threads:
        thread.start()
    assert watching.wait(patience_s(DEADLINE_S))
    assert hammering.wait(patience_s(DEADLINE_S))
    db.close()
    for thread in threads:
        thread.join(patience_s(DEADLINE_S))
        assert not thread.is_alive(), "a caller hangs"
    with pytest.raises(duramen.DatabaseClosed):
        next(idle)
    allowed = (duramen.DatabaseClosed, duramen.ShuttingDown, duramen.WriteUnknown, duramen.Disconnected)
    assert len(endings) == 2
    assert all(isinstance(error, allowed) for error in endings), endings
    assert "asynchronous generator" not in caplog.text


def test_a_scan_that_closing_cuts_short_is_not_taken_for_a_whole_one(db: Database) -> None:
    table = db.create_table("flights", partitions=2)
    table.put_many([(b"k%04d" % number, b"v") for number in range(1000)])
    scan = table.scan()
    seen = [next(scan)]
    db.close()
    with pytest.raises(duramen.DatabaseClosed, match="was closed"):
        seen.extend(scan)
    assert len(seen) < 1000


def open_files() -> dict[str, str]:
    found = {}
    for number in os.listdir("/proc/self/fd"):
        try:
            found[number] = os.readlink(f"/proc/self/fd/{number}")
        except FileNotFoundError:
            continue  # the listing's own
    return found


def duramen_threads() -> set[threading.Thread]:
    """Those of this process; servers that other tests share may have some."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("duramen")}


def test_nothing_is_left_after_close(tmp_path: Path) -> None:
    before = duramen_threads()

    def use() -> None:
        with duramen.open(tmp_path / "data") as db:
            table = db.create_table("flights", if_missing=True)
            table.put(b"k", b"v")
            assert table.get(b"k") == b"v"
            assert len(list(table.scan())) == 1
            changes = table.watch(start="earliest")
            next(changes)

    use()
    gc.collect()
    threads, files = len(os.listdir("/proc/self/task")), open_files()
    for _ in range(3):
        use()
    gc.collect()
    wait_until(lambda: len(os.listdir("/proc/self/task")) <= threads, what="no more threads")
    assert duramen_threads() <= before
    left = {number: name for number, name in open_files().items() if number not in files}
    assert not left


def test_nothing_is_left_of_a_connection(served: Server) -> None:
    def use() -> None:
        with duramen.connect(f"127.0.0.1:{served.port}") as db:
            table = db.create_table("flights", if_missing=True)
            table.put(b"k", b"v")
            assert table.get(b"k") == b"v"

    use()
    before = duramen_threads()  # with the loop that all connections of the process share
    # gRPC keeps some threads and files of its own for the whole process: what counts is that they do not grow.
    threads, files = len(os.listdir("/proc/self/task")), len(open_files())
    for _ in range(5):
        use()
    gc.collect()
    wait_until(lambda: len(os.listdir("/proc/self/task")) <= threads + 1, what="no more threads")
    wait_until(lambda: len(open_files()) <= files + 2, what="no more open files")
    assert duramen_threads() <= before


@pytest.mark.embedded_log_only
def test_what_cannot_be_opened_leaves_nothing(tmp_path: Path) -> None:
    background_loop()
    before = duramen_threads()
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(duramen.ForeignFolder, match=r"holds notes\.txt, which Duramen did not make"):
        duramen.open(tmp_path)
    with pytest.raises(duramen.Disconnected):
        duramen.connect("127.0.0.1:1", timeout=0.5)
    wait_until(lambda: duramen_threads() <= before, what="its threads end")


def test_the_loops_own_thread_may_not_wait_for_itself() -> None:
    loop = LoopThread()

    async def nothing() -> None:
        return None

    async def wait_for_itself() -> None:
        with pytest.raises(AssertionError, match="would never end"):
            loop.run(nothing)

    loop.run(wait_for_itself)
    loop.stop()
    loop.stop()
    with pytest.raises(duramen.DatabaseClosed):
        loop.run(nothing)


def test_stopping_ends_what_runs() -> None:
    loop = LoopThread()
    endings: list[BaseException] = []
    waiting = threading.Event()

    async def forever() -> None:
        waiting.set()
        await asyncio.Event().wait()

    def call() -> None:
        try:
            loop.run(forever)
        except duramen.DatabaseClosed as error:
            endings.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    assert waiting.wait(patience_s(DEADLINE_S))
    loop.stop()
    thread.join(patience_s(DEADLINE_S))
    assert [str(error) for error in endings] == ["this database was closed while the call was under way"]


HEAVY = (
    "grpc",
    "lmdb",
    "pandas",
    "pyspark",
    "confluent_kafka",
    "pyarrow",
    "uvloop",
    "google.protobuf",
    "fsspec",
    "cryptography",
    "fastavro",
    "pydantic",
)


SERVED = """
import asyncio, pathlib, tempfile
from duramen.server.roles.all_in_one import SingleServer
async def serve():
    await (await SingleServer.open(pathlib.Path(tempfile.mkdtemp()), port=0)).close()
asyncio.run(serve())"""
RESP = (
    "router.endpoints.resp.server.resp_server",
    "router.endpoints.resp.readers",
    "router.endpoints.resp.commands",
)
ROUTED = ("log_tier.catalog.commands", "log_tier.remote", "router.membership", "router.routing.routed_connection")
"""What a client of one server has no use for."""
UNSERVED = ("cryptography", "fsspec", "email", "pyarrow", "pydantic", "fastavro", "confluent_kafka", *RESP)
"""What a server on one machine has no use for without certificates, a snapshot and a RESP endpoint."""


@pytest.mark.parametrize(
    ("program", "heavy"),
    [
        (SERVED, UNSERVED),
        ("import duramen.server.roles.node_role", UNSERVED),
        ("import duramen.server.roles.router_role", UNSERVED),
        ("import duramen.server.roles.log_role", UNSERVED),
        ("import duramen", HEAVY),
        ("import duramen; duramen.TableNotFound, duramen.Token", HEAVY),
        ("import duramen, tempfile; duramen.open(tempfile.mkdtemp()).close()", ("grpc", *HEAVY[2:6])),
        ("import duramen.aio", HEAVY),
        ("import duramen.server.registry.schema_registry", ("confluent_kafka", "pandas", "pyspark")),
        ("import duramen.client.transport.connect", (*HEAVY[1:7], "fsspec", "serving_tier.node", *ROUTED)),
    ],
)
def test_imports_stay_light(program: str, heavy: tuple[str, ...]) -> None:
    check = f"{program}; import sys; print(*[name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
