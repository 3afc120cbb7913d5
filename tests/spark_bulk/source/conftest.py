"""A server for all tests of the data source; `spark` is in the conftest of all tests."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from kit.client.server_process import ServerProcess

import duramen
from duramen.blocking import Database

_numbers = itertools.count()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server for the whole session; use a table of your own (`table_name`)."""
    folder = tmp_path_factory.mktemp("server")
    running = ServerProcess(folder / "data", log=folder / "server.log")
    yield running
    running.close()


@pytest.fixture
def table_name() -> str:
    """A name that no other test of this process uses."""
    return f"spark{next(_numbers)}"


@pytest.fixture
def database(server: ServerProcess) -> Iterator[Database]:
    """A connection to the server."""
    with duramen.connect(server.target, timeout=20) as connected:
        yield connected
