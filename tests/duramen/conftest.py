"""Servers for tests: one shared by a whole session, and new ones for tests that break them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kit.client.server_process import ServerProcess

import duramen
from duramen.blocking import Database
from duramen.client.transport.loop_thread import LoopThread
from duramen.server.roles.all_in_one import SingleServer as Server
from router.endpoints.resp.server.sockets import RespSettings

_numbers = itertools.count()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server for the whole session. A test that kills it restarts it; use a table of your own (`table_name`)."""
    folder = tmp_path_factory.mktemp("server")
    running = ServerProcess(folder / "data", log=folder / "server.log")
    yield running
    running.close()


@pytest.fixture
def new_server(tmp_path: Path) -> Iterator[Callable[[Path], ServerProcess]]:
    """Makes servers on folders of the test's own, and ends them."""
    running: list[ServerProcess] = []

    def make(data: Path) -> ServerProcess:
        made = ServerProcess(data, log=tmp_path / f"server-{len(running)}.log")
        running.append(made)
        return made

    yield make
    for one in running:
        one.close()


@pytest.fixture
def table_name() -> str:
    """A name that no other test of this process uses."""
    return f"table{next(_numbers)}"


@pytest.fixture
def database(server: ServerProcess) -> Iterator[Database]:
    """A connection to the session's server."""
    with server.connect() as connected:
        yield connected


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Server]:
    """A server in a thread of this process."""
    loop = LoopThread()
    server = loop.run(lambda: Server.open(tmp_path / "served", port=0))
    yield server
    loop.run(server.close)
    loop.stop()


@pytest.fixture(scope="module")
def lasting_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The same for all tests of a module. What `emptied_server` is for."""
    loop = LoopThread()
    server = loop.run(lambda: Server.open(tmp_path_factory.mktemp("lasting") / "data", port=0))
    yield server
    loop.run(server.close)
    loop.stop()


@pytest.fixture
def emptied_server(lasting_server: Server) -> Iterator[Server]:
    """A module's server with no table, for tests that leave nothing but tables: a start takes longer than they do."""
    yield lasting_server
    with duramen.connect(f"127.0.0.1:{lasting_server.port}") as database:
        for table in database.tables():
            database.drop_table(table.name)


@pytest.fixture
def served_fast(tmp_path: Path) -> Iterator[Server]:
    """The same with a RESP endpoint, which blocking clients use."""
    loop = LoopThread()
    server = loop.run(lambda: Server.open(tmp_path / "served", port=0, resp_endpoint=RespSettings(port=0)))
    yield server
    loop.run(server.close)
    loop.stop()


@pytest.fixture(params=["here", "gRPC", "RESP endpoint"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    if request.param == "here":
        opened = duramen.open(tmp_path / "data")
    else:
        server = request.getfixturevalue("served" if request.param == "gRPC" else "served_fast")
        opened = duramen.connect(f"127.0.0.1:{server.port}")
    with opened:
        yield opened
