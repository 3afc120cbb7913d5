"""A server with its RESP endpoint, as `duramen up --resp-port 0` starts it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from kit.client.server_process import ServerProcess
from kit.resp.reader_counts import NONE_AND_TWO

_numbers = itertools.count()


@pytest.fixture(scope="session", params=NONE_AND_TWO)
def resp_server(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[ServerProcess]:
    """One for the whole session; and one whose clients are served by reader processes."""
    folder = tmp_path_factory.mktemp("resp")
    arguments = ["--resp-port", "0", "--resp-readers", str(request.param)]
    running = ServerProcess(folder / "data", log=folder / "server.log", arguments=arguments)
    yield running
    running.close()


@pytest.fixture
def port(resp_server: ServerProcess) -> int:
    """Of the RESP endpoint."""
    return int(resp_server.announcement["resp_port"])


@pytest.fixture
def key() -> str:
    """A name that no other test of this process uses."""
    return f"{next(_numbers)}-key"  # a number behind it makes no other test's key
