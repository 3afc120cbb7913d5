"""Commands about a whole table of many partitions look at some of them in a turn of the event loop."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from kit.deadlines import wait_until
from kit.resp.loop_turns import LoopTurns
from kit.resp.raw_client import packed
from kit.resp.server_thread import ServerThread

from log_tier.concurrency.sized_work import AT_ONCE_ITEMS_MAX
from router.endpoints.resp.data.openings import OPENED_MAX
from router.endpoints.resp.server.sockets import RespSettings
from serving_tier.index.lmdb import index_file
from serving_tier.index.lmdb.lmdb_index import LmdbIndex

PARTITIONS: Final = 300


def test_the_first_command_opens_the_file_of_its_key_alone(tmp_path: Path) -> None:
    """All of them were opened in one turn of the event loop: 0.7 s with 1,024 partitions."""
    server = ServerThread(tmp_path / "new", RespSettings(port=0, table_partitions=PARTITIONS)).start()
    try:
        with server.connect() as raw:
            assert raw.call("SET", "key", "value").text == "OK"
            assert raw.call("GET", "key") == b"value"
            assert sum(not replica.index.is_at_rest for replica in server.data_plane.node) == 1
            keys = [f"key:{number}" for number in range(20)]
            assert raw.call("MGET", *keys) == [None] * 20
            assert raw.call("MSET", *(word for key in keys for word in (key, key))).text == "OK"
            assert raw.call("MGET", *keys) == [key.encode() for key in keys]
    finally:
        server.close()


@pytest.mark.parametrize("kind", ["GET", "MGET", "INCR", "all"])
def test_a_pipeline_opens_few_files_in_a_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """One command opened few, and a thousand of them opened all 300 in one turn of the event loop."""
    server = ServerThread(tmp_path / "rest", RespSettings(port=0, table_partitions=PARTITIONS)).start()
    try:
        with server.connect() as raw, LoopTurns(server, monkeypatch, index_file, "open_environment") as counted:
            keys = [f"key:{number}" for number in range(1000)]
            commands = [(name, key) for key in keys for name in (("GET", "INCR", "MGET") if kind == "all" else (kind,))]
            raw.send(b"".join(packed(*command) for command in commands))
            replies = [raw.reply() for _ in commands]
        assert replies[0] in ([None], None, 1)
        assert len(set(map(repr, replies))) <= 4, "equal commands have equal replies"
        assert counted.most_in_one_turn <= OPENED_MAX
    finally:
        server.close()


def test_a_description_for_readers_opens_no_file(tmp_path: Path) -> None:
    """To describe a table to its reader processes, the event loop opened the file of each partition in one turn."""
    settings = RespSettings(port=0, table_partitions=PARTITIONS, readers=1)
    server = ServerThread(tmp_path / "read", settings).start()
    try:
        with server.connect() as raw:
            assert raw.call("SET", "key", "value").text == "OK"
            assert raw.call("GET", "key") == b"value"
            assert sum(not replica.index.is_at_rest for replica in server.data_plane.node) == 1
            assert server.server.pages is not None
            tally = server.server.pages.tally
            before = tally.total()
            wait_until(lambda: raw.call("GET", "key") == b"value" and tally.total() > before)
            keys = [f"key:{number}" for number in range(40)]
            assert raw.call("MSET", *(word for key in keys for word in (key, key))).text == "OK"
            before = tally.total()
            wait_until(lambda: raw.call("MGET", *keys) == [key.encode() for key in keys] and tally.total() > before)
    finally:
        server.close()


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerThread]:
    server = ServerThread(tmp_path_factory.mktemp("wide"), RespSettings(port=0, table_partitions=PARTITIONS)).start()
    with server.connect() as raw:
        for number in range(5):
            assert raw.call("SET", f"key:{number}", "value").text == "OK"
    yield server
    server.close()


@pytest.mark.parametrize("method", ["count", "statistics"])
def test_partitions_are_counted_some_at_a_time(
    wide: ServerThread, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    with wide.connect() as raw, LoopTurns(wide, monkeypatch, LmdbIndex, method) as counted:
        assert b"db0:keys=5,expires=0" in raw.call("INFO")
        assert raw.call("DBSIZE") == 5
    assert counted.calls >= PARTITIONS
    assert counted.most_in_one_turn <= AT_ONCE_ITEMS_MAX / 5
