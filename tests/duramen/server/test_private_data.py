"""What a server leaves on the disk is closed to other users of the machine, whatever the umask it was started with."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

import duramen
from duramen.server.wiring.node_folder import NodeFolder
from duramen.verification.history import History, write_history
from router.endpoints.resp.server.sockets import RespSettings, RespSockets
from serving_tier.snapshots.snapshot_store import SnapshotStore


@pytest.fixture(autouse=True)
def _wide_umask() -> Iterator[None]:
    before = os.umask(0o000)
    yield
    os.umask(before)


def _wide(folder: Path) -> list[str]:
    """Everything from `folder` down that others have any right on, with its mode."""
    return [
        f"{path.relative_to(folder)} {stat.S_IMODE(path.stat().st_mode):04o}"
        for path in [folder, *sorted(folder.rglob("*"))]
        if path.stat().st_mode & 0o077
    ]


def test_a_database_in_a_program_is_private(tmp_path: Path) -> None:
    data = tmp_path / "new" / "data"
    with duramen.open(data) as database:
        table = database.create_table("orders")
        table.put(b"k", b"v")
        assert _wide(tmp_path / "new") == [], "an open database is private"
    assert _wide(tmp_path / "new") == [], "a closed one, too"


def test_a_data_folder_of_before_is_tightened(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with duramen.open(data) as database:
        database.create_table("orders").put(b"k", b"v")
    log = data / "log"
    for folder in (data, log) if log.exists() else (data,):  # the log may be in Kafka
        folder.chmod(0o755)
    with duramen.open(data) as database:
        assert database.table("orders").get(b"k") == b"v"
        assert _wide(data) == [], "the modes of the data folder and of the log in it were mended"


def test_a_folder_of_somebody_else_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(duramen.ForeignFolder):
        duramen.open(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


def test_the_socket_of_the_resp_endpoint_is_private(tmp_path: Path) -> None:
    path = tmp_path / "resp.sock"
    sockets = RespSockets.take(RespSettings(socket_path=path))
    try:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    finally:
        sockets.close()


async def test_a_snapshot_in_a_local_store_is_private(tmp_path: Path) -> None:
    store = SnapshotStore.open(tmp_path / "store")
    await store.write_document("flights/document", b"x")
    assert _wide(tmp_path / "store") == [], "the store's folders and files are private"


def test_node_folders_are_private(tmp_path: Path) -> None:
    NodeFolder.open(tmp_path / "n1", node_id="n1").close()
    (tmp_path / "n1").chmod(0o755)
    NodeFolder.open(tmp_path / "n1", node_id="n1").close()
    assert _wide(tmp_path / "n1") == [], "a node's folder of before is tightened as well"


def test_a_history_of_a_check_is_private(tmp_path: Path) -> None:
    write_history(History(partitions=1), tmp_path / "history.jsonl")
    assert _wide(tmp_path / "history.jsonl") == []
