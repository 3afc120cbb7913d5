"""What keeps a copy from being looked at is not damage of the copy."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import lmdb
import pytest
from kit.index.live_index import LiveIndex
from kit.log.stored_log import PARTITION, TABLE

from log_tier.model.errors import DiskFailed, DuramenError, FolderReadOnly, Overloaded, SnapshotDamaged
from log_tier.model.identifiers import PartitionId
from serving_tier.snapshots.contents import read_contents


@contextmanager
def no_descriptors() -> Iterator[None]:
    """This process has no file left to open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as taken:
        first = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        taken.callback(os.close, first)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
        taken.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        while (another := _another(first)) is not None:
            taken.callback(os.close, another)
        yield


def _another(file: int) -> int | None:
    try:
        return os.dup(file)
    except OSError:
        return None


def test_a_want_of_descriptors_is_no_damage(live: LiveIndex) -> None:
    live.close()
    with no_descriptors(), pytest.raises(Overloaded, match=r"Too many open files.*ulimit"):
        read_contents(live.folder)
    assert read_contents(live.folder).partition == PartitionId(TABLE, PARTITION)


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        (errno.EIO, DiskFailed),
        (errno.ENOMEM, Overloaded),
        (errno.ENFILE, Overloaded),
        (errno.EACCES, FolderReadOnly),
        (errno.ENOENT, SnapshotDamaged),
    ],
)
def test_what_the_system_refuses_is_named(
    live: LiveIndex, monkeypatch: pytest.MonkeyPatch, said: int, wanted: type[DuramenError]
) -> None:
    def refuse(path: str, **_: object) -> None:
        raise lmdb.Error(f"{path}: {os.strerror(said)}")

    monkeypatch.setattr(lmdb, "open", refuse)
    with pytest.raises(wanted, match=os.strerror(said)):
        read_contents(live.folder)


def test_what_is_no_copy_is_damaged(tmp_path: Path) -> None:
    with pytest.raises(SnapshotDamaged):
        read_contents(tmp_path / "nothing")
    (tmp_path / "data.mdb").write_bytes(bytes(8192))
    with pytest.raises(SnapshotDamaged, match="use another snapshot"):
        read_contents(tmp_path)
