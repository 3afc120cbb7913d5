"""Folders of tests in memory: `tmp_path` and `tmp_path_factory` for tests that are not about a disk.

A test of calls starts a log and some replicas, and waits for their syncs for half of its time. In memory a sync takes
no time, and nothing is written. A conftest that imports the fixtures and the hooks chooses this for its folder. Files
are read back as from a disk; a process that is killed leaves them as it does there. What power takes away no test sees
on a real disk either: that is what the simulated one is for. Memory is dearer than a disk, so what a fixture has made
goes with the fixture.

Without a file system in memory, or with little room in it, the folders are pytest's own.
"""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from shutil import disk_usage, rmtree  # as they are: tests replace the attributes of shutil
from typing import Any, Final

import pytest

__all__ = [
    "MemoryFolders",
    "pytest_fixture_post_finalizer",
    "pytest_fixture_setup",
    "tmp_path",
    "tmp_path_factory",
]

_MEMORY: Final = Path("/dev/shm")
_PREFIX: Final = "duramen-tests-"
_ROOM_MIN: Final = 4 << 30
"""A log takes 32 MB for its journals; what fixtures of a session have made stays until the run ends."""

_beginning: list[pytest.FixtureDef[Any]] = []
"""The fixtures that are set up now, each for the one before it."""
_made: dict[pytest.FixtureDef[Any], list[Path]] = {}
"""The folders of the fixtures that have not ended."""


class MemoryFolders:
    """Makes the folders of one process of a run; stands in for pytest's factory."""

    def __init__(self, on_disk: pytest.TempPathFactory, memory: Path = _MEMORY) -> None:
        self._on_disk = on_disk
        self._memory = memory
        self._root: Path | None = None
        self._lock = -1

    def mktemp(self, basename: str, numbered: bool = True) -> Path:
        """A new folder; in memory, unless that has no room."""
        if _room(self._memory) < _ROOM_MIN:
            return self._on_disk.mktemp(basename, numbered)
        if self._root is None:
            self._remove_dead()
            self._root, self._lock = self._locked_root()
        if not numbered:
            (folder := self._root / basename).mkdir()
        else:
            folder = Path(tempfile.mkdtemp(prefix=f"{basename}-", dir=self._root))
        if _beginning:
            _made.setdefault(_beginning[-1], []).append(folder)
        return folder

    def keep(self, folder: Path) -> Path:
        """Copy what a failed test left to the disk; where it is then."""
        if self._root is None or self._root not in folder.parents:
            return folder
        kept = self._on_disk.mktemp(folder.name)
        # Files of LMDB and of the log are longer than what they hold.
        subprocess.run(["cp", "-a", "--sparse=always", f"{folder}/.", kept], check=True)
        return kept

    def close(self) -> None:
        """Remove all folders in memory. Idempotent."""
        if self._root is not None:
            rmtree(self._root, ignore_errors=True)
            os.close(self._lock)
            self._root = None

    def _locked_root(self) -> tuple[Path, int]:
        root = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=self._memory))
        lock = os.open(root / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        return root, lock

    def _remove_dead(self) -> None:
        """Remove what killed runs have left: nobody has their locks."""
        for root in self._memory.glob(f"{_PREFIX}*"):
            try:
                lock = os.open(root / "lock", os.O_RDWR)
            except OSError:
                continue  # just begun, just removed, or of another user
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                continue
            else:
                rmtree(root, ignore_errors=True)
            finally:
                os.close(lock)


def _room(memory: Path) -> int:
    """Bytes that files there may still take; 0 where there is no such folder."""
    if not memory.is_dir():
        return 0
    available = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return min(disk_usage(memory).free, int(available[1]) << 10 if available else 0)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
    """Note whose folders are made meanwhile. Called for the fixtures of tests and modules that have these hooks."""
    _beginning.append(fixturedef)
    try:
        return (yield)
    finally:
        _beginning.pop()


def pytest_fixture_post_finalizer(fixturedef: pytest.FixtureDef[Any]) -> None:
    """Remove the folders of a fixture that has ended."""
    for folder in _made.pop(fixturedef, ()):
        rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def tmp_path_factory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemoryFolders]:
    folders = MemoryFolders(tmp_path_factory)
    yield folders
    folders.close()


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: MemoryFolders) -> Iterator[Path]:
    """A folder in memory; on the disk after a failure."""
    folder = tmp_path_factory.mktemp(re.sub(r"\W", "_", request.node.name)[:30])
    failed = request.session.testsfailed
    yield folder
    if request.session.testsfailed > failed:
        print(f"the files of {request.node.name} are in {tmp_path_factory.keep(folder)}")  # noqa: T201
    rmtree(folder, ignore_errors=True)
