"""An endpoint whose catalog has users, for all tests here; each makes users of its own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from kit.resp.server_thread import ServerThread

from log_tier.rows.table_spec import TableSpec
from router.endpoints.resp.server.sockets import RespSettings

PASSWORD = "correct horse battery"

_numbers = itertools.count()


@pytest.fixture(scope="session", params=[0, 2], ids=["one process", "two readers"])
def guarded(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[ServerThread]:
    """With a table `orders`, the user `root`, who may do everything, and `alice`, who may do everything to keys of
    `default` that begin with `eu:`. One whose clients are served by reader processes, too.
    """
    running = ServerThread(tmp_path_factory.mktemp("users"), RespSettings(port=0, readers=request.param)).start()
    running.add_user("root", "admin *", "read,write *", password=PASSWORD)
    running.run(lambda: running.data_plane.create_table(TableSpec("orders", 1), timeout=20))
    running.add_user("alice", "read,write default --key eu:", password=PASSWORD)
    yield running
    running.close()


@pytest.fixture
def name() -> str:
    """A user that no other test has."""
    return f"user{next(_numbers)}"
