"""One command that writes to many partitions is begun in some of them at a time: counted by the turn."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from kit.resp.loop_turns import LoopTurns
from kit.resp.server_thread import ServerThread

from log_tier.concurrency.sized_work import AT_ONCE_ITEMS_MAX
from router.endpoints.resp.data.rounds.command_rounds import CommandRounds
from router.endpoints.resp.server.sockets import RespSettings

PARTITIONS: Final = 160
FOLDER_BYTES_MAX: Final = 200_000_000
KEYS: Final = [b"key:%05d" % number for number in range(3000)]


@pytest.fixture
def wide() -> Iterator[ServerThread]:
    """In memory where that is possible: a partition's first write makes its files, and each has its syncs."""
    memory = Path("/dev/shm")
    has_room = memory.is_dir() and shutil.disk_usage(memory).free > FOLDER_BYTES_MAX
    with tempfile.TemporaryDirectory(dir=memory if has_room else None) as folder:
        server = ServerThread(Path(folder) / "data", RespSettings(port=0, table_partitions=PARTITIONS)).start()
        yield server
        server.close()


def test_partitions_are_written_some_at_a_time(wide: ServerThread, monkeypatch: pytest.MonkeyPatch) -> None:
    for keys in (KEYS, KEYS[:1500]):  # what is worked on in a thread, and what is not too much for the event loop
        with wide.connect() as raw, LoopTurns(wide, monkeypatch, CommandRounds, "begin") as begun:
            assert raw.call("MSET", *(word for key in keys for word in (key, b"value"))).text == "OK"
        assert begun.calls == PARTITIONS
        assert begun.most_in_one_turn <= AT_ONCE_ITEMS_MAX / 10
