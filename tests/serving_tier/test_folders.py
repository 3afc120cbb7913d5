"""Folders that cannot be removed or renamed: the error is ours and names them, and what is optional is left."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from log_tier.model.errors import DiskFailed, DiskFull, FolderReadOnly
from serving_tier.disk import KernelCalls
from serving_tier.folders import clear_away, discard, rename


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "0.old").mkdir()
    (tmp_path / "0.old" / "data.mdb").write_bytes(b"1")
    return tmp_path / "0.old"


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Any, *_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(shutil, "rmtree", refuse)


def test_a_folder_a_file_and_nothing(folder: Path) -> None:
    file = folder.with_name("file")
    file.write_bytes(b"")
    for path in (folder, file, folder.with_name("nothing")):
        discard(path)
        assert not path.exists()


@pytest.mark.usefixtures("refused")
def test_a_folder_that_cannot_be_removed_is_named(folder: Path) -> None:
    with pytest.raises(FolderReadOnly, match=f"{folder} cannot be removed: Permission denied"):
        discard(folder)


@pytest.mark.usefixtures("refused")
def test_a_folder_that_nobody_needs_stays(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    clear_away(folder)
    assert folder.exists()
    assert f"{folder} cannot be removed" in caplog.text
    assert "It is not used, and stays" in caplog.text


@pytest.mark.parametrize(("number", "kind"), [(errno.EIO, DiskFailed), (errno.ENOSPC, DiskFull)])
def test_a_folder_that_keeps_its_name(
    folder: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[Exception]
) -> None:
    def refuse(_: object, old: Path, new: Path) -> None:
        raise OSError(number, os.strerror(number), str(old))

    monkeypatch.setattr(KernelCalls, "rename", refuse)
    with pytest.raises(kind, match=f"{folder} cannot become .*0: {os.strerror(number)}"):
        rename(folder, folder.with_name("0"))
