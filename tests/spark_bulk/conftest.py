"""Makes the helpers of this folder importable, and gives the tests of Spark a real server."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from kit.client.server_process import ServerProcess

from duramen.blocking import Database, Table

PARTITIONS = 8

_numbers = itertools.count()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """`duramen up` in a process of its own."""
    folder = tmp_path_factory.mktemp("server")
    process = ServerProcess(folder / "data", log=folder / "server.log")
    yield process
    process.close()


@pytest.fixture
def database(server: ServerProcess) -> Iterator[Database]:
    """A connection to the server."""
    with server.connect() as found:
        yield found


@pytest.fixture
def table(database: Database) -> Table:
    """A new table of eight partitions."""
    return database.create_table(f"bulk{next(_numbers)}", partitions=PARTITIONS)
