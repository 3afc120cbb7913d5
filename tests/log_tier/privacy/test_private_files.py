"""Other users of the machine are kept out of folders and files, whatever the umask."""

from __future__ import annotations

import logging
import os
import stat
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from log_tier.privacy.private_files import make_private, private_opener, tighten


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct, autouse=True)
def _umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_every_folder_that_is_made_is_private(tmp_path: Path) -> None:
    make_private(tmp_path / "a" / "b")
    make_private(tmp_path / "a" / "b")
    assert [_mode(tmp_path / "a"), _mode(tmp_path / "a" / "b")] == [0o700, 0o700]


def test_threads_make_folders_in_one_that_is_missing(tmp_path: Path) -> None:
    """The folder above may be made by another one at any moment."""
    all_of_them = threading.Barrier(8)

    def make(name: str) -> None:
        try:
            for turn in range(40):
                all_of_them.wait(60)
                make_private(tmp_path / f"{turn}" / "table" / name)
        except BaseException:
            all_of_them.abort()
            raise

    with ThreadPoolExecutor(8) as threads:
        for done in [threads.submit(make, name) for name in "01234567"]:
            done.result()
    assert len(list(tmp_path.glob("*/table/*"))) == 320


def test_a_file_in_the_way_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with pytest.raises(FileExistsError):
        make_private(tmp_path / "a")
    with pytest.raises(NotADirectoryError):
        make_private(tmp_path / "a" / "b")


def test_a_file_that_is_made_is_private(tmp_path: Path) -> None:
    with open(tmp_path / "file", "w", opener=private_opener) as file:
        file.write("x")
    assert _mode(tmp_path / "file") == 0o600


@pytest.mark.parametrize("wide", [0o755, 0o777, 0o2770, 0o701])
def test_a_wide_folder_is_tightened(tmp_path: Path, wide: int) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    folder.chmod(wide)
    tighten(folder)
    assert _mode(folder) & 0o777 == 0o700


def test_where_nobody_can_make_a_folder() -> None:
    with pytest.raises(FileNotFoundError):
        make_private("/proc/self/nothing/below")


def test_a_missing_folder_stays_missing(tmp_path: Path) -> None:
    tighten(tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_who_does_not_own_the_folder_is_warned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    folder.chmod(0o755)

    def refused(path: Path, mode: int) -> None:
        raise PermissionError(1, "Operation not permitted", str(path))

    monkeypatch.setattr(os, "chmod", refused)
    with caplog.at_level(logging.WARNING):
        tighten(folder)
    assert f"chmod 700 {folder}" in caplog.text
