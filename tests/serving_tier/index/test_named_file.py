"""A marker's summary names the file that it is of; what is another file now is looked at before it is believed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from kit.index.marker import change_marker
from kit.log.stored_log import PARTITION, TABLE, StoredLog, put

from log_tier.model.errors import IndexDamaged
from log_tier.model.identifiers import Offset, PartitionId
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.index.lmdb.open_environments import OpenEnvironments

NAME = PartitionId(TABLE, PARTITION)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An index of one key, closed cleanly."""
    index = LmdbIndex.open(tmp_path / "index", partition=NAME, environments=OpenEnvironments(1))
    index.apply(StoredLog().append(put(b"a", b"1")))
    index.close()
    return tmp_path / "index"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that were opened."""
    names: list[str] = []
    real = os.open

    def noted(path: Any, *arguments: Any, **more: Any) -> int:
        names.append(Path(path).name)
        return real(path, *arguments, **more)

    monkeypatch.setattr(os, "open", noted)
    return names


def at_rest(folder: Path) -> LmdbIndex | None:
    return LmdbIndex.at_rest(folder, partition=NAME, environments=OpenEnvironments(1))


def change_summary(folder: Path, **fields: Any) -> None:
    change_marker(folder, lambda marker: marker["summary"].update(fields))


def test_a_file_that_is_still_the_same_is_not_opened(folder: Path, opened: list[str]) -> None:
    index = at_rest(folder)
    assert index is not None
    assert index.applied == Offset(0)
    assert opened == ["index.json"]
    assert index.get_value(b"a") == b"1"
    index.close()


@pytest.mark.parametrize("change", ["copied", "touched", "not named"])
def test_another_file_is_looked_at(folder: Path, opened: list[str], change: str) -> None:
    """A copy of a folder, and one that an earlier version has closed, are as good."""
    data = folder / "data.mdb"
    if change == "copied":
        shutil.copy2(data, folder / "copy")
        os.replace(folder / "copy", data)
    elif change == "touched":
        os.utime(data)
    else:
        change_summary(folder, file=None)
    opened.clear()
    index = at_rest(folder)
    assert index is not None
    assert opened == ["index.json", "data.mdb"]
    assert index.get_value(b"a") == b"1"
    index.close()


@pytest.mark.parametrize("damage", ["zeros", "cut", "gone"])
@pytest.mark.parametrize("named", ["as it was", "not named", "as something else"])
def test_damage_is_refused_before_anything_is_believed(folder: Path, damage: str, named: str) -> None:
    data = folder / "data.mdb"
    if damage == "zeros":
        data.write_bytes(bytes(data.stat().st_size))
    elif damage == "cut":
        os.truncate(data, 4096)
    else:
        data.unlink()
    if named != "as it was":
        change_summary(folder, file=None if named == "not named" else "a word")
    with pytest.raises(IndexDamaged, match="discard"):
        at_rest(folder)


def test_damage_without_a_trace_in_the_files_times_is_refused_at_its_first_use(folder: Path) -> None:
    data = folder / "data.mdb"
    data.write_bytes(bytes(data.stat().st_size))
    stat = data.stat()
    change_summary(folder, file=[stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns])
    index = at_rest(folder)
    assert index is not None
    with pytest.raises(IndexDamaged, match="it is no LMDB file"):
        index.get_value(b"a")
    index.close()


def test_an_index_that_was_put_to_rest_names_its_file_too(tmp_path: Path, opened: list[str]) -> None:
    folder, environments, log = tmp_path / "index", OpenEnvironments(1), StoredLog()
    index = LmdbIndex.open(folder, partition=NAME, environments=environments)
    for number in range(3):
        index.apply(log.append(put(b"a", b"%d" % number)))
        assert index.rest()
    opened.clear()
    again = at_rest(folder)
    assert again is not None
    assert opened == ["index.json"]
    assert (again.applied, again.get_value(b"a")) == (Offset(2), b"2")
    again.close()
    index.close()
