"""Folders of tests in memory are kept after a failure, and nothing is left in memory, also by a run that was killed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from kit.storage import memory_folders
from kit.storage.memory_folders import MemoryFolders

TESTS = Path(__file__).parents[1]


def test_every_folder_is_new_and_goes(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    folders = MemoryFolders(tmp_path_factory, tmp_path)
    made = [folders.mktemp("data"), folders.mktemp("data"), folders.mktemp("named", numbered=False)]
    assert len({*made}) == 3
    assert {each.parent.parent for each in made} == {tmp_path}
    (made[0] / "file").write_bytes(b"x")
    folders.close()
    folders.close()
    assert list(tmp_path.iterdir()) == []


def test_what_a_failed_test_left_goes_to_the_disk(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    folders = MemoryFolders(tmp_path_factory, tmp_path)
    folder = folders.mktemp("data")
    (folder / "log").mkdir()
    with (folder / "log" / "journal").open("wb") as file:
        file.truncate(1 << 30)
    kept = folders.keep(folder)
    folders.close()
    assert (kept / "log" / "journal").stat().st_size == 1 << 30
    assert (kept / "log" / "journal").stat().st_blocks < 1000, "holes stay holes"
    assert tmp_path not in kept.parents


def test_what_a_killed_run_left_is_removed_by_the_next_one(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    alive, dead = MemoryFolders(tmp_path_factory, tmp_path), MemoryFolders(tmp_path_factory, tmp_path)
    ours, left = alive.mktemp("ours"), dead.mktemp("left")
    os.close(dead._lock)  # as the end of its process does
    after = MemoryFolders(tmp_path_factory, tmp_path)
    after.mktemp("new")
    assert ours.is_dir()
    assert not left.exists()
    alive.close()
    after.close()


def test_without_room_the_folders_are_on_the_disk(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = MemoryFolders(tmp_path_factory, tmp_path / "missing").mktemp("data")
    assert tmp_path not in missing.parents
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(memory_folders, "disk_usage", lambda path: usage._replace(free=1 << 30))
    folders = MemoryFolders(tmp_path_factory, tmp_path)
    little = folders.mktemp("data")
    assert tmp_path not in little.parents
    assert folders.keep(little) == little
    folders.close()
    assert list(tmp_path.iterdir()) == []


def test_what_a_fixture_has_made_goes_with_the_fixture(tmp_path: Path) -> None:
    """Also that of a module, while what a session has made stays until its end."""
    (tmp_path / "conftest.py").write_text(
        "from kit.storage.memory_folders import (\n"
        "    pytest_fixture_post_finalizer, pytest_fixture_setup, tmp_path, tmp_path_factory,\n"
        ")\n"
        "import pytest\n"
        "@pytest.fixture(scope='session')\n"
        "def lasting(tmp_path_factory): return tmp_path_factory.mktemp('lasting')\n"
        "@pytest.fixture(scope='module')\n"
        "def shared(tmp_path_factory): return tmp_path_factory.mktemp('shared')\n"
        "made = []\n"
        "@pytest.fixture\n"
        "def seen(): return made\n"
    )
    (tmp_path / "test_first.py").write_text(
        "def test_one(lasting, shared, tmp_path, seen): seen += [lasting, shared, tmp_path]\n"
        "def test_two(lasting, shared, tmp_path, seen):\n"
        "    assert [each.is_dir() for each in seen] == [True, True, False]\n"
        "    assert shared == seen[1]\n"
    )
    (tmp_path / "test_second.py").write_text(
        "def test_three(lasting, shared, seen):\n"
        "    assert [each.is_dir() for each in seen] == [True, False, False]\n"
        "    assert shared != seen[1]\n"
        "    open('made', 'w').write(str(lasting))\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_first.py", "test_second.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    lasting = Path((tmp_path / "made").read_text())
    assert not lasting.exists()
