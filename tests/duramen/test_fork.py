"""Processes that fork: in the child, what is open in the parent works or says why not; the parent's is left alone."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kit.client.server_process import ServerProcess
from kit.deadlines import patience_s

import duramen
from duramen import aio

pytestmark = pytest.mark.embedded_log_only

DEADLINE_S = 300
PROGRAMS = Path(__file__).with_name("forked_programs.py")


def check_program(*arguments: str) -> None:
    """Run a program of `forked_programs.py`; it ends well, and neither it nor its children say anything else."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", str(PROGRAMS), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=patience_s(DEADLINE_S),
    )
    assert done.stderr == ""
    assert (done.returncode, done.stdout) == (0, "done\n")


@pytest.fixture(scope="module", params=[(), ("--resp-port", "0")], ids=["gRPC", "RESP endpoint"])
def lasting_process(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    """One for all programs: those fork, and the server does not."""
    folder = tmp_path_factory.mktemp("server")
    server = ServerProcess(folder / "data", log=folder / "server.log", arguments=request.param)
    yield server
    server.close()


@pytest.fixture
def target(lasting_process: ServerProcess) -> Iterator[str]:
    """The address of a server without a table."""
    yield lasting_process.target
    with lasting_process.connect() as database:
        for table in database.tables():
            database.drop_table(table.name)


@pytest.mark.parametrize("ending", ["close", "exit"])
def test_a_connection(target: str, ending: str) -> None:
    check_program("connection", target, ending)


def test_while_others_hold_locks(target: str) -> None:
    check_program("under_way", target)


def test_an_asynchronous_connection(target: str) -> None:
    check_program("asynchronous", target)


def test_what_the_parent_has_closed_and_not_collected(target: str) -> None:
    check_program("closed_before", target)


@pytest.mark.parametrize("how", ["close", "exit"])
def test_an_embedded_database(tmp_path: Path, how: str) -> None:
    check_program("embedded", str(tmp_path / "data"), how)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_pool(target: str, method: str) -> None:
    check_program("pooled", target, method)


def test_a_server_that_forks_its_workers(target: str) -> None:
    check_program("prefork", target)


def test_a_killed_parent_leaves_its_folder_to_the_next(tmp_path: Path) -> None:
    """Its children live on, and must not hold the lock that they inherited."""
    program = """
import os, sys, duramen
db = duramen.open(sys.argv[1])
db.create_table("flights", if_missing=True).put(b"k", b"v")
if not os.fork():
    sys.stdin.read()
    os._exit(0)
print("forked", flush=True)
os.kill(os.getpid(), 9)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "data")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"forked\n"
        assert process.wait(patience_s(DEADLINE_S)) == -signal.SIGKILL
        with duramen.open(tmp_path / "data") as db:
            assert db.table("flights").get(b"k") == b"v"
    finally:
        process.stdin.close()  # lets the child end
        process.stdout.close()


def test_pickled_they_are_their_address(server: ServerProcess, table_name: str) -> None:
    with server.connect(timeout=70.0) as db:
        table = db.create_table(table_name)
        table.put(b"k", b"v")
        other_db, other = pickle.loads(pickle.dumps((db, table)))
        assert other._owner is other_db
        assert other_db._inner.context._timeout == 70.0
        assert other_db.token() == db.token()
        assert other.name == table_name
        assert other.get(b"k") == b"v"
        other_db.close()
        assert table.get(b"k") == b"v"
        with pytest.raises(duramen.DatabaseClosed):
            other.get_many([b"k"])


async def test_asynchronous_ones_too(server: ServerProcess, table_name: str) -> None:
    async with await aio.connect(server.target) as db:
        table = await db.create_table(table_name)
        await table.put(b"k", b"v")
        async with pickle.loads(pickle.dumps(db)) as other:
            assert await other.table(table_name).get(b"k") == b"v"


def test_an_embedded_one_says_why_not(tmp_path: Path) -> None:
    with duramen.open(tmp_path / "data") as db:
        for one in (db, db.table("flights")):
            with pytest.raises(duramen.InvalidRequest, match="cannot be sent to another: serve it with `duramen up`"):
                pickle.dumps(one)


def test_a_server_that_is_away_when_the_first_call_comes(
    new_server: Callable[[Path], ServerProcess], tmp_path: Path
) -> None:
    """Unpickling needs no server; the calls say that there is none, within their time, and work when it is back."""
    server = new_server(tmp_path / "data")
    with server.connect() as db:
        table = db.create_table("flights")
        table.put(b"k", b"v")
        server.kill9()
        other = pickle.loads(pickle.dumps(table))
        with pytest.raises(duramen.Disconnected):
            other.get_many([b"k"], timeout=patience_s(1.0))
        server.restart()
        assert other.get_many([b"k"], timeout=patience_s(20.0)) == [b"v"]
        other._owner.close()
