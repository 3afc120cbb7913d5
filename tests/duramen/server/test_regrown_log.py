"""A log that was put back from an older copy and then grew past what an index beside it has applied.

In a cluster clients append straight to the log, so nothing refuses what they write; the index has to find out.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from kit.deadlines import wait_until

import duramen
from duramen.blocking import Table

pytestmark = pytest.mark.embedded_log_only

KEYS = [b"kept", b"lost", b"between", b"later"]


def put_all(folder: Path, *pairs: tuple[bytes, bytes]) -> int:
    with duramen.open(folder) as database:
        table = database.table("flights")
        for key, value in pairs:
            offset = table.put(key, value).offset
        assert table.get(pairs[-1][0]) == pairs[-1][1], "the index has applied them"
    return int(offset)


def setting(tmp_path: Path) -> tuple[Path, Path]:
    """A database, and an older copy of its log that grows by itself, as other writers have it grow."""
    folder, other = tmp_path / "data", tmp_path / "other"
    with duramen.open(folder) as database:
        table = database.create_table("flights", partitions=1)
        table.put(b"kept", b"1")
        assert table.get(b"kept") == b"1", "the index has applied it"
    shutil.copytree(folder, other)
    return folder, other


def is_served(table: Table) -> bool:
    """Is the index built anew? Until then nothing is read of the old one."""
    try:
        found = table.get(b"lost")
    except duramen.IndexDiverged:
        return False
    assert found is None, "a key that the log never held"
    return True


@pytest.mark.parametrize("beyond", [0, 1, 5])
def test_an_index_of_another_history_is_not_served(tmp_path: Path, beyond: int) -> None:
    """Whether the log ends where the index does, one record later, or several."""
    folder, other = setting(tmp_path)
    applied = put_all(folder, (b"lost", b"2"), (b"lost", b"3"))
    last = put_all(other, (b"between", b"4"), (b"between", b"5"), *[(b"later", b"%d" % n) for n in range(beyond)])
    assert last == applied + beyond
    shutil.rmtree(folder / "log")
    shutil.copytree(other / "log", folder / "log")

    with duramen.open(folder) as database:
        table = database.table("flights")
        wait_until(lambda: is_served(table))
        assert table.get_many(KEYS) == [b"1", None, b"5", b"%d" % (beyond - 1) if beyond else None]
        table.put(b"lost", b"found")
        assert table.get(b"lost") == b"found"


def test_a_log_that_is_the_same_one_is_carried_on(tmp_path: Path) -> None:
    """An older copy of the index is no other history: it is behind, and follows."""
    folder, _ = setting(tmp_path)
    shutil.copytree(folder / "index", tmp_path / "index")
    put_all(folder, (b"between", b"2"))
    shutil.rmtree(folder / "index")
    shutil.copytree(tmp_path / "index", folder / "index")
    marker = next((folder / "index").glob("*/0/index.json"))
    inode = marker.parent.stat().st_ino
    with duramen.open(folder) as database:
        assert database.table("flights").get_many(KEYS) == [b"1", None, b"2", None]
    assert marker.parent.stat().st_ino == inode, "its folder was kept"
