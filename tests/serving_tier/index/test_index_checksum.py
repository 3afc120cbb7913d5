"""A clean close leaves a checksum of the whole file: LMDB has none, and a byte of a value may change unseen."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from kit.index.marker import change_marker
from kit.log.stored_log import PARTITION, TABLE, StoredLog, put

from log_tier.model.errors import IndexDamaged
from log_tier.model.identifiers import PartitionId
from serving_tier.index.lmdb import folder as folder_module
from serving_tier.index.lmdb.folder import verify_index
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.index.lmdb.open_environments import OpenEnvironments
from serving_tier.node.verification import verify_index_folder

NAME = PartitionId(TABLE, PARTITION)
VALUE = b"the value " * 20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An index of one key, closed cleanly."""
    folder = tmp_path / TABLE / str(PARTITION)
    write(folder, StoredLog())
    return folder


def write(folder: Path, log: StoredLog, *, clean: bool = True) -> None:
    index = LmdbIndex.open(folder, partition=NAME, environments=OpenEnvironments(1))
    index.apply(log.append(put(b"a", VALUE)))
    index.close(clean=clean)


def change_value(folder: Path) -> None:
    """Flip one bit of the value, wherever the file has it; the structure stays whole."""
    file = folder / "data.mdb"
    data = bytearray(file.read_bytes())
    at = data.find(VALUE)
    while at >= 0:
        data[at + 7] ^= 1
        at = data.find(VALUE, at + 1)
    file.write_bytes(data)
    verify_index(folder)


def damages(folder: Path) -> list[str]:
    return [finding.message for finding in verify_index_folder(folder) if finding.is_damage]


def test_a_changed_value_is_not_served(folder: Path) -> None:
    change_value(folder)
    with pytest.raises(IndexDamaged, match=r"data\.mdb has the checksum [0-9a-f]{8}, its marker says [0-9a-f]{8}"):
        LmdbIndex.at_rest(folder, partition=NAME, environments=OpenEnvironments(1))
    with pytest.raises(IndexDamaged, match="discard it and fold the log again"):
        LmdbIndex.open(folder, partition=NAME)


def test_a_changed_value_is_found_at_rest(folder: Path) -> None:
    assert damages(folder) == []
    change_value(folder)
    (message,) = damages(folder)
    assert str(folder / "data.mdb") in message
    assert "The log has everything that it held" in message


def test_a_value_that_changed_below_the_file_system_is_found_at_rest(folder: Path) -> None:
    """Such a file has the times that it had."""
    change_value(folder)
    stat = os.stat(folder / "data.mdb")
    now = [stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]
    change_marker(folder, lambda fields: fields["summary"].update(file=now))
    assert len(damages(folder)) == 1


def test_a_copy_of_the_folder_is_read_whole_and_believed(folder: Path) -> None:
    copy = folder.with_name("1")
    shutil.copytree(folder, copy)
    index = LmdbIndex.at_rest(copy, partition=NAME, environments=OpenEnvironments(1))
    assert index is not None
    assert index.get_value(b"a") == VALUE
    index.close()


def test_a_file_that_is_still_the_same_is_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []
    monkeypatch.setattr(folder_module, "data_checksum", lambda path: read.append(path))
    index = LmdbIndex.at_rest(folder, partition=NAME, environments=OpenEnvironments(1))
    assert index is not None
    assert index.get_value(b"a") == VALUE
    index.close()
    assert read == []


def test_the_checksum_goes_before_the_first_write_and_comes_with_the_next_clean_close(tmp_path: Path) -> None:
    folder, log = tmp_path / TABLE / str(PARTITION), StoredLog()
    write(folder, log)
    before = json.loads((folder / "index.json").read_bytes())["summary"]["checksum"]
    write(folder, log, clean=False)
    assert "summary" not in json.loads((folder / "index.json").read_bytes())
    assert damages(folder) == []
    write(folder, log)
    assert json.loads((folder / "index.json").read_bytes())["summary"]["checksum"] != before
    assert damages(folder) == []


def test_a_large_file_has_none(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_module, "CHECKSUM_BYTES_MAX", 4096)
    log = StoredLog()
    log.append(put(b"a", VALUE))
    write(folder, log)
    assert "checksum" not in json.loads((folder / "index.json").read_bytes())["summary"]
    assert damages(folder) == []
