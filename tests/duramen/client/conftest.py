"""Servers in this process, their files in memory, and clients of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from kit.client.in_between import InBetween
from kit.storage.memory_folders import (
    pytest_fixture_post_finalizer,
    pytest_fixture_setup,
    tmp_path,
    tmp_path_factory,
)

from duramen import aio
from duramen.client.database import Database
from duramen.client.table import Table
from duramen.server.roles.all_in_one import SingleServer as Server
from duramen.server.wiring.single_machine import open_local_data
from router.data.local_data import LocalData

__all__ = ["pytest_fixture_post_finalizer", "pytest_fixture_setup", "tmp_path", "tmp_path_factory"]

Connected = Callable[..., Awaitable[Database]]


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Server]:
    """A server in this process."""
    opened = await Server.open(tmp_path / "data", port=0)
    yield opened
    await opened.close()


@pytest.fixture
async def connected(machine: Server) -> AsyncIterator[Connected]:
    """Makes clients of `machine` over gRPC."""
    made: list[Database] = []

    async def connect(**how: Any) -> Database:
        made.append(await aio.connect(f"127.0.0.1:{machine.port}", **how))
        return made[-1]

    yield connect
    for database in made:
        await database.close()


@pytest.fixture
async def remote(connected: Connected) -> Database:
    """A client over gRPC."""
    return await connected()


@pytest.fixture
async def flights(remote: Database) -> Table:
    """A table of that client."""
    return await remote.create_table("flights", partitions=4)


@pytest.fixture
async def data_plane(tmp_path: Path) -> AsyncIterator[LocalData]:
    """The core, with no endpoint."""
    opened = await open_local_data(tmp_path / "data")
    yield opened
    await opened.close()


@pytest.fixture
async def between(data_plane: LocalData) -> InBetween:
    """A connection to the data plane whose behaviour the test sets."""
    return InBetween(data_plane)


@pytest.fixture
async def local(between: InBetween) -> AsyncIterator[Database]:
    """A client of that connection."""
    database = Database(between)
    await database.create_table("flights", partitions=4)
    yield database
    # The core belongs to its own fixture.
    await database.context.writes.close()
    await database.context.reads.close()
