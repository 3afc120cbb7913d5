"""What the system refuses an index is a typed error that names it, on every path to the file."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import lmdb
import pytest
from kit.log.stored_log import PARTITION, TABLE, StoredLog, put

from log_tier.model.errors import DiskFailed, DiskFull, DuramenError, FolderReadOnly, Overloaded
from log_tier.model.identifiers import PartitionId
from serving_tier.index.lmdb.environment import named_troubles
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.index.lmdb.open_environments import OpenEnvironments

NAME = PartitionId(TABLE, PARTITION)


@pytest.mark.parametrize(
    ("kind", "code", "wanted"),
    [
        (lmdb.ReadonlyError, errno.EACCES, FolderReadOnly),
        (lmdb.Error, errno.EPERM, FolderReadOnly),
        (lmdb.Error, errno.EROFS, FolderReadOnly),
        (lmdb.DiskError, errno.ENOSPC, DiskFull),
        (lmdb.Error, errno.EIO, DiskFull),
        (lmdb.Error, errno.EISDIR, DiskFailed),
        (lmdb.Error, errno.ESTALE, DiskFailed),
        (lmdb.LockError, errno.EAGAIN, DiskFailed),
        (lmdb.MemoryError, errno.ENOMEM, Overloaded),
    ],
)
def test_what_the_system_says_is_typed(
    tmp_path: Path, kind: type[lmdb.Error], code: int, wanted: type[DuramenError]
) -> None:
    said = f"{tmp_path}: {os.strerror(code)}"
    with pytest.raises(wanted) as caught, named_troubles(tmp_path, 1 << 20):
        raise kind(said)
    assert str(tmp_path) in str(caught.value)
    assert os.strerror(code) in str(caught.value)


def test_a_mistake_of_ours_stays_what_it_is(tmp_path: Path) -> None:
    with pytest.raises(lmdb.BadTxnError), named_troubles(tmp_path, 1 << 20):
        raise lmdb.BadTxnError("mdb_get: MDB_BAD_TXN: Transaction must abort, has a child, or is invalid")


def test_a_read_whose_file_cannot_be_opened_is_refused_with_the_index(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    index = LmdbIndex.open(folder, partition=NAME, environments=OpenEnvironments(1))
    index.apply(StoredLog().append(put(b"a", b"1")))
    index.close()
    resting = LmdbIndex.at_rest(folder, partition=NAME, environments=OpenEnvironments(1))
    assert resting is not None
    (folder / "lock.mdb").unlink()
    (folder / "lock.mdb").mkdir()
    with pytest.raises(DiskFailed, match=os.strerror(errno.EISDIR)):
        resting.get(b"a")
    (folder / "lock.mdb").rmdir()
    entry = resting.get(b"a")
    assert entry is not None
    assert entry.value == b"1"
    resting.close()


def test_a_marker_that_cannot_be_written_at_the_close_leaves_the_index_unclean(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is closed all the same: in this boot of the machine nothing is lost with the mark."""
    index = LmdbIndex.open(tmp_path / "index", partition=NAME)
    index.apply(StoredLog().append(put(b"a", b"1")))
    (tmp_path / "index" / "index.json.new").mkdir()
    index.close()
    assert f"{tmp_path / 'index'} was not closed cleanly: Is a directory" in caplog.text
    (tmp_path / "index" / "index.json.new").rmdir()
    again = LmdbIndex.open(tmp_path / "index", partition=NAME)
    assert again.get_value(b"a") == b"1"
    again.close()
