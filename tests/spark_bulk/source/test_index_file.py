"""Rows read from an LMDB file page by page are those that its cursor gives, whatever their sizes, and none other."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import lmdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from log_tier.model.errors import IndexDamaged
from log_tier.model.prefix_range import prefix_range
from serving_tier.fold.entry import NEVER, stored_entry
from spark_bulk.source.model.key_ranges import ALL_KEYS, KeyRange
from spark_bulk.source.table.closed_index_file import ClosedIndexFile

Row = tuple[bytes, bytes, int, int]
"""Key, value, version, expiry."""

LOG_TIME_MS = 1_000


def write(folder: Path, rows: dict[bytes, tuple[bytes, int, int]], *, deleted: tuple[bytes, ...] = ()) -> Path:
    """An index file, with a second database as a real one has; written in random order, in several transactions."""
    folder.mkdir(exist_ok=True)
    with lmdb.open(str(folder), map_size=1 << 30, max_dbs=4, sync=False) as env:
        data, meta = env.open_db(b"data"), env.open_db(b"meta")
        pairs = list(rows.items())
        random.Random(7).shuffle(pairs)
        for first in range(0, len(pairs), 5000):
            with env.begin(write=True) as txn:
                for key, entry in pairs[first : first + 5000]:
                    txn.put(key, stored_entry(*entry), db=data)
                txn.put(b"state", b"x" * 24, db=meta)
        with env.begin(write=True) as txn:
            for key in deleted:
                txn.delete(key, db=data)
    return folder / "data.mdb"


def read(path: Path, keys: KeyRange = ALL_KEYS, **wanted: bool) -> list[Row]:
    with ClosedIndexFile.open(path) as file:
        return list(rows_of(file, keys, **wanted))


def rows_of(file: ClosedIndexFile, keys: KeyRange = ALL_KEYS, **wanted: bool) -> Iterator[Row]:
    for rows in file.rows(keys, log_time_ms=LOG_TIME_MS, **wanted):
        count = rows.count
        expiries = [NEVER] * count if rows.expiries is None else rows.expiries.tolist()
        found_keys = [b"?"] * count if rows.keys is None else rows.keys.to_pylist()
        found_values = [b"?"] * count if rows.values is None else rows.values.to_pylist()
        for column in (rows.keys, rows.values):
            if column is not None:
                column.validate(full=True)
                assert column.type == pa.binary()
        yield from zip(found_keys, found_values, rows.versions.tolist(), expiries, strict=True)


def expected(rows: dict[bytes, tuple[bytes, int, int]], keys: KeyRange = ALL_KEYS) -> list[Row]:
    return [
        (key, value, version, expiry)
        for key, (value, version, expiry) in sorted(rows.items())
        if (expiry == NEVER or expiry > LOG_TIME_MS) and key >= keys.start and (keys.end is None or key < keys.end)
    ]


def some_rows(count: int, seed: int = 1) -> dict[bytes, tuple[bytes, int, int]]:
    """Keys of 1 to 40 bytes; values of 0 to 200, and of more than a page; some that expire, or have."""
    source = random.Random(seed)
    found = {}
    for number in range(count):
        key = source.randbytes(source.choice([2, 3, 8, 12, 13, 40])) + b"%d" % number
        size = (
            source.choice([0, 1, 7, 12, 13, 100, 100, 200])
            if number % 97
            else source.choice([2000, 2030, 5000, 70_000])
        )
        found[key] = (
            source.randbytes(size),
            source.randrange(1 << 40),
            source.choice([0, 0, 0, 999, 1000, 1001, 1 << 50]),
        )
    return found


def test_every_row_in_order(tmp_path: Path) -> None:
    rows = some_rows(20_000)
    assert read(write(tmp_path, rows)) == expected(rows)


def test_a_file_that_was_deleted_from_and_written_again(tmp_path: Path) -> None:
    """Pages out of order, free pages, a tree that shrank: as a replay leaves it."""
    rows = some_rows(8000)
    gone = tuple(list(rows)[::3])
    path = write(tmp_path, rows, deleted=gone)
    kept = {key: entry for key, entry in rows.items() if key not in set(gone)}
    assert read(path) == expected(kept)
    kept.update(some_rows(3000, seed=2))
    write(tmp_path, some_rows(3000, seed=2))
    assert read(path) == expected(kept)


@pytest.mark.parametrize("value_bytes", [0, 3, 100])
def test_rows_that_are_all_alike(tmp_path: Path, value_bytes: int) -> None:
    rows = {b"%08d" % number: (bytes(value_bytes), number, NEVER) for number in range(30_000)}
    assert read(write(tmp_path, rows)) == expected(rows)


def test_few_rows_and_none(tmp_path: Path) -> None:
    for count in (0, 1, 2):
        rows = some_rows(count)
        folder = tmp_path / str(count)
        assert read(write(folder, rows)) == expected(rows)


def test_an_index_without_its_database_has_no_rows(tmp_path: Path) -> None:
    with lmdb.open(str(tmp_path), max_dbs=2) as env:
        env.open_db(b"meta")
    assert read(tmp_path / "data.mdb") == []


def test_columns_that_are_not_wanted_are_not_made(tmp_path: Path) -> None:
    path = write(tmp_path, {b"a": (b"1", 5, NEVER)})
    assert read(path, want_values=False) == [(b"a", b"?", 5, NEVER)]
    assert read(path, want_keys=False) == [(b"?", b"1", 5, NEVER)]


def test_long_values_come_in_batches_of_some_mib(tmp_path: Path) -> None:
    rows = {b"%03d" % number: (bytes([number]) * (1 << 20), number, NEVER) for number in range(40)}
    path = write(tmp_path, rows)
    with ClosedIndexFile.open(path) as file:
        sizes = [rows.values.nbytes for rows in file.rows(log_time_ms=0) if rows.values is not None]
    assert len(sizes) >= 4
    assert max(sizes) <= 11 << 20
    assert read(path) == expected(rows)


ROWS = some_rows(6000, seed=3)
ORDERED = sorted(ROWS)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("many"), ROWS)


key_or_none = st.none() | st.sampled_from(ORDERED) | st.binary(max_size=3)


@settings(max_examples=150, deadline=None)
@given(key_or_none, key_or_none)
def test_any_range(many: Path, start: bytes | None, end: bytes | None) -> None:
    keys = KeyRange(start or b"", end)
    assert read(many, keys) == expected(ROWS, keys)


@given(st.binary(max_size=2))
def test_any_prefix(many: Path, prefix: bytes) -> None:
    assert read(many, KeyRange(*prefix_range(prefix))) == [row for row in expected(ROWS) if row[0].startswith(prefix)]


def test_a_range_reads_the_leaves_that_can_hold_it(many: Path) -> None:
    with ClosedIndexFile.open(many) as file:
        everything = len(file._leaf_numbers(file._root, file._depth, ALL_KEYS))
        some = len(file._leaf_numbers(file._root, file._depth, KeyRange(ORDERED[3000], ORDERED[3010])))
    assert everything > 100
    assert some <= 3


# --- damage


def damaged(path: Path, page: int, at: int, what: bytes) -> None:
    with open(path, "r+b") as file:
        file.seek(page * 4096 + at)
        file.write(what)


@pytest.fixture
def plain(tmp_path: Path) -> tuple[Path, int]:
    """A file, and the number of one of its leaves."""
    path = write(tmp_path, {b"%06d" % number: (b"v" * 50, number, NEVER) for number in range(2000)})
    with ClosedIndexFile.open(path) as file:
        leaf = int(file._leaf_numbers(file._root, file._depth, ALL_KEYS)[5])
    return path, leaf


def first_node(path: Path, leaf: int) -> int:
    with open(path, "rb") as file:
        file.seek(leaf * 4096 + 16)
        return int(struct.unpack("=H", file.read(2))[0])


@pytest.mark.parametrize(
    ("at", "what", "said"),
    [
        (0, struct.pack("=I", 1 << 20), "reaches beyond its page"),
        (6, struct.pack("=H", 4000), "reaches beyond its page"),
        (4, struct.pack("=H", 4), "of another kind"),
        (0, struct.pack("=I", 7), "without a header"),
    ],
    ids=["value", "key", "kind", "header"],
)
def test_a_row_with_an_impossible_length_is_refused(plain: tuple[Path, int], at: int, what: bytes, said: str) -> None:
    path, leaf = plain
    damaged(path, leaf, first_node(path, leaf) + at, what)
    with pytest.raises(IndexDamaged, match=said):
        read(path)


def test_a_leaf_that_is_none_is_refused(plain: tuple[Path, int]) -> None:
    path, leaf = plain
    damaged(path, leaf, 10, struct.pack("=H", 0x40))
    with pytest.raises(IndexDamaged, match="where leaves should be"):
        read(path)


def test_flags_of_a_newer_version_are_refused(plain: tuple[Path, int]) -> None:
    path, leaf = plain
    damaged(path, leaf, first_node(path, leaf) + 8 + 6 + 7, b"\x02")
    with pytest.raises(IndexDamaged, match="flags 0x2"):
        read(path)


def test_a_value_that_lies_beyond_the_file_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, {b"a": (b"v" * 9000, 1, NEVER)})
    with ClosedIndexFile.open(path) as file:
        leaf = file._root
    damaged(path, leaf, first_node(path, leaf) + 8 + 1, struct.pack("=Q", 1 << 30))
    with pytest.raises(IndexDamaged, match="beyond its end"):
        read(path)


def test_a_file_that_was_cut_is_read_or_refused(plain: tuple[Path, int]) -> None:
    path, _ = plain
    data, refused = path.read_bytes(), 0
    for end in range(0, len(data), 1024):
        path.write_bytes(data[:end])
        try:
            read(path)
        except IndexDamaged:
            refused += 1
    assert refused


def test_a_page_whose_head_is_damaged_is_read_or_refused(plain: tuple[Path, int]) -> None:
    path, _ = plain
    data, refused = path.read_bytes(), 0
    flags, lower, upper, pointer = 10, 12, 14, 16
    for page in range(2, len(data) // 4096):
        for at, number in product((flags, lower, upper, pointer), (0, 1, 17, 0x7FFF, 0xFFFF)):
            changed = bytearray(data)
            struct.pack_into("=H", changed, page * 4096 + at, number)
            path.write_bytes(changed)
            try:
                read(path)
            except IndexDamaged:
                refused += 1
    assert refused


def test_a_tree_whose_pages_name_each_other_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, {b"%06d" % each: (b"v" * 50, each, NEVER) for each in range(2000)})
    with ClosedIndexFile.open(path) as file:
        root, depth = file._root, file._depth
    data = bytearray(path.read_bytes())
    branch = memoryview(data)[root * 4096 : root * 4096 + 4096]
    for pointer in struct.unpack_from(f"={(struct.unpack_from('=H', branch, 12)[0] - 16) // 2}H", branch, 16):
        struct.pack_into("=HHH", branch, pointer, root & 0xFFFF, root >> 16, 0)
    branch.release()
    described = data.find(b"data")
    while described >= 0:
        struct.pack_into("=H", data, described + 4 + 6, 40)
        described = data.find(b"data", described + 1)
    assert depth < 40
    path.write_bytes(data)
    with pytest.raises(IndexDamaged, match="names more pages than it has"):
        read(path)


def test_other_files_are_refused(tmp_path: Path) -> None:
    for name, data in (("empty", b""), ("short", b"x" * 100), ("other", b"x" * 20_000)):
        path = tmp_path / name
        path.write_bytes(data)
        with pytest.raises(IndexDamaged, match=name):
            ClosedIndexFile.open(path)
