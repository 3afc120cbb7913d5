"""One table from errors of the system to typed ones, and every part that opens files uses it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import lmdb
import pytest

from log_tier.concurrency.disk_errors import disk_refusal
from log_tier.embedded.storage.disk import SyncFailed
from log_tier.embedded.storage.refusal import no_room, refusal_of
from log_tier.model.errors import DiskFailed, DiskFull, DuramenError, FolderReadOnly, LogStopped, Overloaded
from serving_tier.index.lmdb.environment import named_troubles
from serving_tier.index.lmdb.folder import folder_trouble
from serving_tier.snapshots.local_disk import local_troubles

KINDS: dict[int, type[DuramenError]] = {
    errno.ENOSPC: DiskFull,
    errno.EDQUOT: DiskFull,
    errno.EFBIG: DiskFull,
    errno.EROFS: FolderReadOnly,
    errno.EACCES: FolderReadOnly,
    errno.EPERM: FolderReadOnly,
    errno.EMFILE: Overloaded,
    errno.ENFILE: Overloaded,
    errno.EBUSY: DiskFailed,
    errno.ENODEV: DiskFailed,
}


def refused(code: int, filename: str | None = None) -> OSError:
    return OSError(code, os.strerror(code), filename)


def of_local_troubles(error: OSError, folder: Path) -> DuramenError:
    with pytest.raises(DuramenError) as caught, local_troubles(folder):
        raise error
    return caught.value


def of_lmdb(error: OSError, folder: Path) -> DuramenError:
    with pytest.raises(DuramenError) as caught, named_troubles(folder, 1 << 20):
        raise lmdb.Error(f"{folder}: {error.strerror}")
    return caught.value


@pytest.mark.parametrize("code", KINDS, ids=errno.errorcode.get)
@pytest.mark.parametrize("part", [refusal_of, folder_trouble, of_local_troubles, of_lmdb])
def test_every_part_gives_the_same_class(
    tmp_path: Path, part: Callable[[OSError, Path], DuramenError], code: int
) -> None:
    found = part(refused(code), tmp_path)
    assert type(found) is KINDS[code]
    assert str(tmp_path) in found.message
    assert os.strerror(code) in found.message
    if code == errno.EFBIG:
        assert "ulimit -f" in found.message


def test_the_words_name_the_file_once_the_effect_and_the_remedy() -> None:
    def said(code: int, filename: str | None = None) -> str:
        return disk_refusal(
            refused(code, filename), "/d cannot be written", path="/d", effect="nothing is lost"
        ).message

    assert said(errno.ENOSPC) == (
        "/d cannot be written: No space left on device: make room and try again; nothing is lost"
    )
    assert said(errno.EACCES, "/d/x").startswith("/d cannot be written: Permission denied (/d/x): make it writable")
    assert said(errno.EIO) == (
        "/d cannot be written: Input/output error; nothing is lost: look at the disk and the kernel's log, then try "
        "again"
    )


def test_a_failed_sync_stops_the_log_whatever_its_number() -> None:
    assert isinstance(refusal_of(SyncFailed(errno.ENOSPC, "full"), Path("log")), LogStopped)


def test_a_batch_is_refused_for_want_of_space_or_descriptors_alone() -> None:
    assert isinstance(no_room(refused(errno.ENOSPC), Path("p")), DiskFull)
    assert isinstance(no_room(refused(errno.EMFILE), Path("p")), Overloaded)
    for error in (refused(errno.EIO), SyncFailed(errno.ENOSPC, "full")):
        with pytest.raises(OSError, match=error.strerror or ""):
            no_room(error, Path("p"))
