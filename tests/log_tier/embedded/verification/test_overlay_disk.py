"""An overlay behaves as the disk below would, and changes nothing there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duramen.testing.machine.memory_disk import MemoryDisk
from log_tier.embedded.storage.disk import Disk, LocalDisk, hold_lock
from log_tier.embedded.verification.overlay_disk import OverlayDisk
from log_tier.model.errors import FolderInUse

HOME = Path("/data")
NAMES = ("a", "b", "c")
SIZES = st.integers(0, 10_000)


def filled() -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_folder(HOME)
    for number, name in enumerate(NAMES[:2]):
        file = disk.open(HOME / name, write=True, create=True)
        file.pwrite((bytes(range(1, 256)) * 30 * (number + 1),), 0)
        file.close()
    return disk


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("pwrite"), st.sampled_from(NAMES), SIZES, st.integers(1, 9000)),
        st.tuples(st.just("truncate"), st.sampled_from(NAMES), SIZES),
        st.tuples(st.just("preallocate"), st.sampled_from(NAMES), SIZES, st.integers(1, 9000)),
        st.tuples(st.just("rename"), st.sampled_from(NAMES), st.sampled_from(NAMES)),
        st.tuples(st.just("unlink"), st.sampled_from(NAMES)),
    ),
    max_size=12,
)


def carry_out(disk: Disk, step: tuple[Any, ...]) -> object:
    """What a step did, or the kind of error by which it was refused."""
    what, name, *rest = step
    if what in ("rename", "unlink") and not disk.exists(HOME / name):
        return FileNotFoundError
    try:
        if what == "rename":
            disk.rename(HOME / name, HOME / rest[0])
        elif what == "unlink":
            disk.unlink(HOME / name)
        else:
            file = disk.open(HOME / name, write=True, create=what == "preallocate")
            try:
                if what == "pwrite":
                    file.pwrite((b"x" * rest[1], b"yz"), rest[0])
                else:
                    getattr(file, what)(*rest)
                file.fdatasync()
            finally:
                file.close()
    except OSError as error:
        return type(error)
    return None


def content(disk: Disk) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for name in disk.list(HOME):
        file = disk.open(HOME / name)
        found[name] = file.pread(1 << 20, 0)
        assert len(found[name]) == file.size()
        assert file.pread(700, 4000) == found[name][4000:4700]
        file.close()
        assert disk.exists(HOME / name)
    return found


@given(STEPS)
def test_it_is_as_the_disk_would_be(steps: list[tuple[Any, ...]]) -> None:
    model, below = filled(), filled()
    before, changes = content(below), below.steps
    overlay = OverlayDisk(below, hold=below.lock)
    for step in steps:
        if step[0] == "rename" and step[1] == step[2]:
            continue
        assert carry_out(overlay, step) == carry_out(model, step), step
        assert content(overlay) == content(model)
    assert (content(below), below.steps) == (before, changes)
    assert not below.open_files


def test_folders() -> None:
    below = filled()
    overlay = OverlayDisk(below, hold=below.lock)
    overlay.make_folder(HOME / "new")
    overlay.open(HOME / "new" / "file", write=True, create=True).close()
    assert (overlay.list(HOME), overlay.list(HOME / "new")) == (["a", "b", "new"], ["file"])
    overlay.unlink(HOME / "new" / "file")
    overlay.remove_folder(HOME / "new")
    assert overlay.list(HOME) == below.list(HOME) == ["a", "b"]
    assert list(overlay.identities(HOME, ("a", "new"))) == [None, None]


def test_a_file_is_made_only_where_that_is_asked_for() -> None:
    below = filled()
    for disk in (below, OverlayDisk(below, hold=below.lock)):
        for write in (False, True):
            with pytest.raises(FileNotFoundError):
                disk.open(HOME / "c", write=write)
        assert disk.list(HOME) == ["a", "b"]


def test_a_lock_is_held_and_not_written(tmp_path: Path) -> None:
    hold_lock(tmp_path / "lock")()  # nobody had the folder yet: nothing is made
    assert list(tmp_path.iterdir()) == []
    LocalDisk().lock(tmp_path / "lock")()
    text = (tmp_path / "lock").read_bytes()
    os.chmod(tmp_path / "lock", 0o444)
    release = hold_lock(tmp_path / "lock")
    program = "import sys; from pathlib import Path; from log_tier.embedded.storage.disk import hold_lock\n"
    program += "hold_lock(Path(sys.argv[1]))"
    other = [sys.executable, "-c", program, str(tmp_path / "lock")]
    refused = subprocess.run(other, capture_output=True, text=True, check=False)
    assert "is open in another Duramen, process" in refused.stderr
    release()
    assert subprocess.run(other, check=False).returncode == 0
    assert (tmp_path / "lock").read_bytes() == text


def test_an_owner_is_not_disturbed(tmp_path: Path) -> None:
    release = LocalDisk().lock(tmp_path / "lock")
    with pytest.raises(FolderInUse) as found:
        hold_lock(tmp_path / "lock")
    assert found.value.fields["pid"] == os.getpid()
    release()
