"""The structure of a copied file: everything that LMDB writes passes, and what a disk does to pages does not."""

from __future__ import annotations

import random
from pathlib import Path

import lmdb
import pytest
from lmdb.verify import verify

from log_tier.model.errors import SnapshotDamaged
from serving_tier.snapshots.manifest import PIECE_BYTES
from serving_tier.snapshots.page_check import PageCheck

PAGE = 4096


def check(data: bytes) -> None:
    pages = PageCheck("the file")
    for at in range(0, max(len(data), 1), PIECE_BYTES):
        pages.feed(data[at : at + PIECE_BYTES])
    pages.finish()


def copy_of(folder: Path, seed: int, keys: int) -> bytes:
    """A compact copy of an environment with everything in it: large values, sorted duplicates of all sizes, deletes."""
    draw = random.Random(seed)
    (folder / "copy").mkdir(parents=True)
    with lmdb.open(str(folder), max_dbs=8, map_size=1 << 28, sync=False) as env:
        plain, large, dups, many = (
            env.open_db(name, dupsort=name in (b"dups", b"many")) for name in (b"plain", b"large", b"dups", b"many")
        )
        env.open_db(b"empty")
        with env.begin(write=True) as txn:
            for number in range(keys):
                key = draw.randbytes(draw.randrange(1, 60))
                txn.put(key, draw.randbytes(draw.randrange(200)), db=plain)
                txn.put(b"%d" % draw.randrange(10), draw.randbytes(12), db=dups)
                txn.put(b"one", b"%09d" % number, db=many)
                if number % 20 == 0:
                    txn.put(key, draw.randbytes(draw.randrange(2000, 30_000)), db=large)
        with env.begin(write=True) as txn:
            for key, _ in list(txn.cursor(plain))[::3]:
                txn.delete(key, db=plain)
        env.copy(str(folder / "copy"), compact=True)
    assert verify(str(folder / "copy" / "data.mdb")) == []  # type: ignore[no-untyped-call]
    return (folder / "copy" / "data.mdb").read_bytes()


@pytest.mark.parametrize(("seed", "keys"), [(0, 0), (1, 1), (2, 100), (3, 3000), (4, 10_000)])
def test_what_lmdb_writes_passes(tmp_path: Path, seed: int, keys: int) -> None:
    check(copy_of(tmp_path, seed, keys))


def test_an_environment_of_nothing_passes(tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    with lmdb.open(str(tmp_path)) as env:
        env.copy(str(tmp_path / "copy"), compact=True)
    check((tmp_path / "copy" / "data.mdb").read_bytes())


def test_every_page_that_became_another_one_is_found(tmp_path: Path) -> None:
    """Zeros, the next page's bytes, another page's header: whatever LMDB would follow into nowhere."""
    good = copy_of(tmp_path, 5, 1500)
    count = len(good) // PAGE
    # The pages after the first of a large value have no header and no structure: the checksums alone watch over them.
    free, place = set(), 2
    while place < count:
        flags = int.from_bytes(good[place * PAGE + 10 : place * PAGE + 12], "little")
        pages = int.from_bytes(good[place * PAGE + 12 : place * PAGE + 16], "little") if flags == 4 else 1
        free |= set(range(place + 1, place + pages))
        place += pages
    assert 50 < len(free) < count - 50
    for page in sorted(set(range(count)) - free):
        for filling in (bytes(PAGE), b"\xff" * PAGE, good[(page + 1) % count * PAGE :][:PAGE]):
            bad = bytearray(good)
            bad[page * PAGE : (page + 1) * PAGE] = filling
            if filling == good[page * PAGE : (page + 1) * PAGE]:
                continue
            with pytest.raises(SnapshotDamaged, match="the file"):
                check(bytes(bad))


@pytest.mark.parametrize("kept", [0, 1, 15, 100, PAGE, PAGE + 100, 2 * PAGE, 3 * PAGE, -PAGE, -1])
def test_a_file_that_was_cut_is_found(tmp_path: Path, kept: int) -> None:
    with pytest.raises(SnapshotDamaged, match="the file"):
        check(copy_of(tmp_path, 6, 300)[:kept])


def test_a_file_that_is_no_copy_is_refused(tmp_path: Path) -> None:
    """A live file has free pages, which a snapshot has no use for."""
    with lmdb.open(str(tmp_path), map_size=1 << 24) as env:
        for number in range(20):
            with env.begin(write=True) as txn:
                txn.put(b"key", bytes(number * 500))
    with pytest.raises(SnapshotDamaged, match=r"no compact copy|its meta page says|ends inside"):
        check((tmp_path / "data.mdb").read_bytes())


def test_a_circle_is_found(tmp_path: Path) -> None:
    good = copy_of(tmp_path, 7, 3000)
    count = len(good) // PAGE
    branches = [
        page
        for page in range(2, count)
        if good[page * PAGE + 8 : page * PAGE + 12] == b"\0\0\1\0"
        and int.from_bytes(good[page * PAGE : page * PAGE + 8], "little") == page
    ]
    assert branches
    for page in branches:
        for child in (page, 0, 1, page + 1, 1 << 40, None):
            bad = bytearray(good)
            first, second = (int.from_bytes(good[page * PAGE + at : page * PAGE + at + 2], "little") for at in (16, 18))
            number = good[page * PAGE + second :][:6] if child is None else child.to_bytes(6, "little")
            bad[page * PAGE + first : page * PAGE + first + 6] = number
            with pytest.raises(SnapshotDamaged, match=rf"page {page} names page \d+ as its child"):
                check(bytes(bad))


def test_a_page_too_many_is_found(tmp_path: Path) -> None:
    good = copy_of(tmp_path, 8, 100)
    extra = bytearray(good[-PAGE:])
    extra[:8] = (len(good) // PAGE).to_bytes(8, "little")
    with pytest.raises(SnapshotDamaged, match=r"has \d+ pages, its meta page says"):
        check(good + bytes(extra))


@pytest.mark.parametrize("wild", [0, 15, -2, PAGE - 7, 0xFFFF])
def test_a_pointer_out_of_its_entries_is_found(tmp_path: Path, wild: int) -> None:
    """`wild` < 0: just before the entries begin, in the free space."""
    good = copy_of(tmp_path, 9, 100)
    last = len(good) - PAGE
    upper = int.from_bytes(good[last + 14 : last + 16], "little")
    bad = bytearray(good)
    bad[last + 16 : last + 18] = (wild if wild >= 0 else upper + wild).to_bytes(2, "little")
    with pytest.raises(SnapshotDamaged, match="has a pointer outside of its entries"):
        check(bytes(bad))
