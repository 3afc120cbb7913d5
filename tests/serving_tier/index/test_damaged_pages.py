"""An index whose process was killed: its pages are walked before LMDB, which ends the process at some, sees them."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import lmdb
import pytest
from kit.log.stored_log import PARTITION, TABLE, StoredLog, put

from log_tier.model.errors import IndexDamaged
from log_tier.model.identifiers import PartitionId
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.index.lmdb.pages import DamagedPage, NoMetaPage, check_trees, newest_meta

NAME = PartitionId(TABLE, PARTITION)
PAGE = 4096


def environment(folder: Path, seed: int, keys: int) -> bytes:
    """A file of everything that LMDB writes: large values, duplicates of all sizes, free pages, empty databases."""
    draw = random.Random(seed)
    with lmdb.open(str(folder), max_dbs=8, map_size=1 << 28, sync=False) as env:
        plain, large, dups, many = (
            env.open_db(name, dupsort=name in (b"dups", b"many")) for name in (b"plain", b"large", b"dups", b"many")
        )
        env.open_db(b"empty")
        for _ in range(3):
            with env.begin(write=True) as txn:
                for number in range(keys // 3):
                    key = draw.randbytes(draw.randrange(1, 60))
                    txn.put(key, draw.randbytes(draw.randrange(200)), db=plain)
                    txn.put(b"%d" % draw.randrange(10), draw.randbytes(12), db=dups)
                    txn.put(b"one", b"%09d" % number, db=many)
                    if number % 20 == 0:
                        txn.put(key, draw.randbytes(draw.randrange(2000, 30_000)), db=large)
            with env.begin(write=True) as txn:
                for key, _ in list(txn.cursor(plain))[::3]:
                    txn.delete(key, db=plain)
    return (folder / "data.mdb").read_bytes()


@pytest.mark.parametrize(("seed", "keys"), [(0, 0), (1, 1), (2, 100), (3, 3000), (4, 10_000)])
def test_what_lmdb_writes_passes(tmp_path: Path, seed: int, keys: int) -> None:
    check_trees(environment(tmp_path, seed, keys))


def used(data: bytes) -> list[int]:
    """The pages without which the walk fails: each of them is in use."""
    found = []
    for number in range(2, len(data) // PAGE):
        try:
            check_trees(with_bytes(data, number * PAGE, bytes(PAGE)))
        except DamagedPage:
            found.append(number)
    return found


def with_bytes(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


@pytest.mark.parametrize("field", [0, 10, 12, 14, 16], ids=["number", "flags", "lower", "upper", "pointer"])
def test_a_changed_header_of_a_page_in_use_is_found(tmp_path: Path, field: int) -> None:
    data = environment(tmp_path, 5, 600)
    pages = used(data)
    assert len(pages) > 20
    for number in pages:
        (value,) = struct.unpack_from("=H", data, number * PAGE + field)
        with pytest.raises(DamagedPage):
            check_trees(with_bytes(data, number * PAGE + field, struct.pack("=H", value ^ 0x8001)))


def test_a_cut_file_and_another_file_are_found(tmp_path: Path) -> None:
    data = environment(tmp_path, 6, 600)
    end = (newest_meta(data).last_page + 1) * PAGE
    with pytest.raises(DamagedPage, match=f"has {end - PAGE} bytes, its pages end at {end}"):
        check_trees(data[: end - PAGE])
    with pytest.raises(NoMetaPage):
        check_trees(bytes(len(data)))


@pytest.mark.parametrize("clean", [False, True], ids=["killed", "closed"])
def test_an_index_with_a_page_of_zeros_is_not_opened(tmp_path: Path, clean: bool) -> None:
    index, log = LmdbIndex.open(tmp_path, partition=NAME), StoredLog()
    for number in range(200):
        index.apply(log.append(put(b"key %d" % number, b"value" * 40)))
    index.close(clean=clean)
    data = (tmp_path / "data.mdb").read_bytes()
    for number in used(data):
        (tmp_path / "data.mdb").write_bytes(with_bytes(data, number * PAGE, bytes(PAGE)))
        with pytest.raises(IndexDamaged, match=r"data\.mdb has"):
            LmdbIndex.open(tmp_path, partition=NAME)
    (tmp_path / "data.mdb").write_bytes(data)
    LmdbIndex.open(tmp_path, partition=NAME).close()


def test_a_database_without_its_name_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    index, log = LmdbIndex.open(tmp_path, partition=NAME), StoredLog()
    index.apply(log.append(put(b"key", b"value")))
    index.close(clean=False)
    data = (tmp_path / "data.mdb").read_bytes()
    changed = data.replace(b"\x04\x00data", b"\x04\x00eata")
    assert changed != data
    check_trees(changed)
    (tmp_path / "data.mdb").write_bytes(changed)
    with pytest.raises(IndexDamaged, match="has 8 databases"):
        LmdbIndex.open(tmp_path, partition=NAME)
    assert (tmp_path / "data.mdb").read_bytes() == changed
