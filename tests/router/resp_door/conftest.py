"""One door and one Redis server for all tests here; each uses keys of its own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from door_thread import DoorThread
from raw_client import Raw
from real_redis import RealRedis

from router.resp_door.sockets import DoorSettings

_numbers = itertools.count()


@pytest.fixture(scope="session", params=[0, 2], ids=["one process", "two readers"])
def door(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[DoorThread]:
    """A database of one machine with its fast door; and one whose clients are served by reader processes."""
    settings = DoorSettings(port=0, readers=request.param)
    running = DoorThread(tmp_path_factory.mktemp("door"), settings).start()
    yield running
    running.close()


@pytest.fixture(scope="session")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DoorThread]:
    """A door whose tables have eight partitions."""
    running = DoorThread(tmp_path_factory.mktemp("wide"), DoorSettings(port=0, table_partitions=8)).start()
    yield running
    running.close()


@pytest.fixture(scope="session")
def redis_server(door: DoorThread, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealRedis]:
    """A real Redis server for each door: what one example leaves in both, the next one finds in both."""
    running = RealRedis(tmp_path_factory.mktemp("redis"))
    yield running
    running.close()


@pytest.fixture
def raw(door: DoorThread) -> Iterator[Raw]:
    """A connection to the door."""
    with door.connect() as connection:
        yield connection


@pytest.fixture
def key() -> str:
    """A name that no other test of this process uses."""
    return f"{next(_numbers)}-key"  # a number behind it makes no other test's key
