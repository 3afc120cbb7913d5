"""One endpoint and one Redis server for all tests here; each uses keys of its own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from kit.resp.raw_client import Raw
from kit.resp.real_redis import RealRedis
from kit.resp.server_thread import ServerThread

from router.endpoints.resp.server.sockets import RespSettings

_numbers = itertools.count()


@pytest.fixture(scope="session", params=[0, 2], ids=["one process", "two readers"])
def server(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[ServerThread]:
    """A database of one machine with its RESP endpoint; and one whose clients are served by reader processes."""
    settings = RespSettings(port=0, readers=request.param)
    running = ServerThread(tmp_path_factory.mktemp("resp"), settings).start()
    yield running
    running.close()


@pytest.fixture(scope="session", params=[0, 1], ids=["one process", "a reader"])
def impatient(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[ServerThread]:
    """One that drops a client which neither reads nor sends for 0.3 s."""
    settings = RespSettings(port=0, readers=request.param, stall_s=0.3)
    running = ServerThread(tmp_path_factory.mktemp("impatient"), settings).start()
    yield running
    running.close()


@pytest.fixture(scope="session")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerThread]:
    """An endpoint whose tables have eight partitions."""
    running = ServerThread(tmp_path_factory.mktemp("wide"), RespSettings(port=0, table_partitions=8)).start()
    yield running
    running.close()


@pytest.fixture(scope="session")
def redis_server(server: ServerThread, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealRedis]:
    """A real Redis server for each endpoint: what one example leaves in both, the next one finds in both."""
    running = RealRedis(tmp_path_factory.mktemp("redis"))
    yield running
    running.close()


@pytest.fixture
def raw(server: ServerThread) -> Iterator[Raw]:
    """A connection to the endpoint."""
    with server.connect() as connection:
        yield connection


@pytest.fixture
def key() -> str:
    """A name that no other test of this process uses."""
    return f"{next(_numbers)}-key"  # a number behind it makes no other test's key
