"""The writer against a dict, what it refuses, and what becomes of what it wrote."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import lmdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.deadlines import patience_s
from kit.spark.building import BASE, PARTITION, TABLE, entries_of, write_index

from log_tier.model.batch import Columns, encode_batch
from log_tier.model.batch_header import stamp_batch
from log_tier.model.errors import (
    DiskFull,
    IndexDamaged,
    InvalidKey,
    InvalidRequest,
    InvalidValue,
    SnapshotStoreUnavailable,
)
from log_tier.model.identifiers import Offset, Partition, PartitionId
from log_tier.model.record import KEY_BYTES_MAX, VALUE_BYTES_MAX, Operation
from serving_tier.fold.entry import LiveEntry
from serving_tier.index.lmdb.folder import verify_index
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.snapshots import SnapshotStore, install_snapshot
from spark_bulk.build.index_writer import Base, IndexWriter, RowColumn, store_index

KEYS = st.one_of(st.binary(min_size=1, max_size=4), st.binary(min_size=1, max_size=KEY_BYTES_MAX))
VALUES = st.one_of(st.binary(max_size=20), st.binary(max_size=3000), st.just(b"x" * 9000))
ENTRIES = st.builds(
    LiveEntry, VALUES, st.integers(0, BASE.offset).map(Offset), st.sampled_from([0, 0, 0, 1_000_001, 1_000_500])
)


@st.composite
def cuts(draw: st.DrawFn, length: int) -> list[slice]:
    places = sorted(draw(st.lists(st.integers(0, length), max_size=4)))
    return [slice(*pair) for pair in zip([0, *places], [*places, length], strict=True)]


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(KEYS, ENTRIES, max_size=60), st.data())
def test_an_index_holds_what_was_written(content: dict[bytes, LiveEntry], data: st.DataObject) -> None:
    """Any rows, in any chunks, as Arrow columns or lists, with versions and expiries or without."""
    as_arrow = data.draw(st.booleans(), "as Arrow")
    with_versions, with_expiries = data.draw(st.booleans(), "versions"), data.draw(st.booleans(), "expiries")
    transaction_bytes = data.draw(st.sampled_from([1, 100, 5000, 1 << 20]), "transaction")
    keys = sorted(content)
    entries = [content[key] for key in keys]
    expected = {
        key: LiveEntry(
            entry.value,
            entry.version if with_versions else BASE.offset,
            entry.expires_at_ms if with_expiries else 0,
        )
        for key, entry in zip(keys, entries, strict=True)
    }

    def column(values: list[bytes]) -> RowColumn:
        return pa.array(values, pa.binary()) if as_arrow else values

    with tempfile.TemporaryDirectory() as below:
        folder = Path(below) / "index"
        partition = PartitionId(TABLE, PARTITION)
        with IndexWriter.open(folder, partition=partition, base=BASE, transaction_bytes=transaction_bytes) as writer:
            for rows in data.draw(cuts(len(keys)), "chunks"):
                writer.write(
                    column(keys[rows]),
                    column([entry.value for entry in entries[rows]]),
                    versions=[entry.version for entry in entries[rows]] if with_versions else None,
                    expires_at_ms=[entry.expires_at_ms for entry in entries[rows]] if with_expiries else None,
                )
            assert writer.keys == len(keys)
            writer.finish()
        assert entries_of(folder) == expected
        index = LmdbIndex.open(folder, partition=PartitionId(TABLE, PARTITION))
        try:
            assert (index.applied, index.log_time_ms, index.verdicts_from) == (41, BASE.log_time_ms, 42)
            # What expires does so when the log's time comes to it, and is swept away.
            assert index.next_expiry_ms() == min(
                (entry.expires_at_ms for entry in expected.values() if entry.expires_at_ms), default=None
            )
            index.apply(noop(42, 1_000_400))
            left = {key: entry for key, entry in expected.items() if not 0 < entry.expires_at_ms <= 1_000_400}
            assert index.count() == index.statistics().entries == len(left)
            assert index.statistics().expiries == sum(entry.expires_at_ms > 0 for entry in left.values())
        finally:
            index.close()
        verify_index(folder)


def noop(offset: int, timestamp_ms: int) -> bytes:
    batch = encode_batch(Columns([b""], [b""], attributes=[int(Operation.NOOP)]))
    return stamp_batch(batch, base_offset=Offset(offset), timestamp_ms=timestamp_ms, unsynced=0)


def test_live_writes_go_on_behind_the_base(tmp_path: Path) -> None:
    """A conditional write on the version that a bulk row has succeeds, as on any other."""
    write_index(tmp_path / "index", [(b"a", b"1"), (b"b", b"2")])
    index = LmdbIndex.open(tmp_path / "index", partition=PartitionId(TABLE, PARTITION))
    columns = Columns(
        [b"a", b"b", b"c"], [b"10", b"20", b"30"], attributes=[1 | 3 << 8, 1 | 3 << 8, 1], versions=[41, 40, 0]
    )
    batch = stamp_batch(encode_batch(columns), base_offset=Offset(42), timestamp_ms=1_000_005, unsynced=0)
    applied = index.apply(batch)
    index.close()
    assert (applied.applied, applied.rejected) == (44, 1)
    assert entries_of(tmp_path / "index") == {
        b"a": LiveEntry(b"10", Offset(42), 0),
        b"b": LiveEntry(b"2", Offset(41), 0),
        b"c": LiveEntry(b"30", Offset(44), 0),
    }


def test_a_table_over_a_topic_of_others_begins_where_it_began(tmp_path: Path) -> None:
    base = Base(Offset(1041), 5, start=Offset(1000))
    write_index(tmp_path / "index", [(b"a", b"1")], base=base)
    assert entries_of(tmp_path / "index", start=Offset(1000)) == {b"a": LiveEntry(b"1", Offset(1041), 0)}
    with pytest.raises(IndexDamaged, match="from offset 1000 on, its table begins at 0"):
        entries_of(tmp_path / "index")


@pytest.mark.parametrize("as_arrow", [True, False], ids=["Arrow", "lists"])
@pytest.mark.parametrize(
    ("keys", "values", "error", "message"),
    [
        ([b"a", b"c", b"b"], None, InvalidRequest, r"the key b'b' comes after b'c': sort the rows"),
        ([b"a", b"b", b"b"], None, InvalidRequest, r"the key b'b' comes twice"),
        ([b"0"], None, InvalidRequest, r"the key b'0' comes after b'1'"),
        ([b"1"], None, InvalidRequest, r"the key b'1' comes twice"),
        ([b"\xff", b"\x7f"], None, InvalidRequest, r"the key b'\\x7f' comes after b'\\xff'"),
        ([b"a", b""], None, InvalidKey, r"the key b'' has 0 bytes; keys have 1 to 511"),
        ([b"a", b"k" * 512], None, InvalidKey, r"the key b'k{40}'… has 512 bytes; keys have 1 to 511"),
        ([b"a", b"b"], [b"", b"v" * (VALUE_BYTES_MAX + 1)], InvalidValue, r"the value of the key b'b' has 4194305 byt"),
    ],
    ids=["unsorted", "twice", "unsorted across calls", "twice across calls", "signed bytes", "empty", "long", "value"],
)
def test_what_is_no_rising_row_is_refused_by_name(
    keys: list[bytes],
    values: list[bytes] | None,
    error: type[InvalidRequest],
    message: str,
    as_arrow: bool,
    tmp_path: Path,
) -> None:
    def column(values: list[bytes]) -> RowColumn:
        return pa.array(values, pa.binary()) if as_arrow else values

    with IndexWriter.open(tmp_path / "index", partition=PartitionId(TABLE, PARTITION), base=BASE) as writer:
        writer.write(column([b"1"]), column([b""]))
        with pytest.raises(error, match=message):
            writer.write(column(keys), column(values or [b""] * len(keys)))
    with pytest.raises(IndexDamaged, match="rows of meta cannot be read"):
        entries_of(tmp_path / "index")


def test_the_longest_key_and_value_pass(tmp_path: Path) -> None:
    rows = [(b"\xff" * KEY_BYTES_MAX, b"v" * VALUE_BYTES_MAX)]
    write_index(tmp_path / "index", rows)
    assert {key: entry.value for key, entry in entries_of(tmp_path / "index").items()} == dict(rows)


def test_an_index_that_was_not_finished_is_none(tmp_path: Path) -> None:
    with IndexWriter.open(tmp_path / "index", partition=PartitionId(TABLE, PARTITION), base=BASE) as writer:
        writer.write([b"a"], [b"1"])
    with pytest.raises(IndexDamaged, match="rows of meta cannot be read"):
        entries_of(tmp_path / "index")


def test_a_full_map_is_reported_as_such(tmp_path: Path) -> None:
    with (
        IndexWriter.open(
            tmp_path / "index", partition=PartitionId(TABLE, PARTITION), base=BASE, map_bytes=1 << 20
        ) as writer,
        pytest.raises(DiskFull, match="has reached its limit of 1048576 bytes"),
    ):
        writer.write([b"%04d" % number for number in range(100)], [b"v" * 100_000] * 100)


async def test_an_index_becomes_a_snapshot_like_any_other(tmp_path: Path) -> None:
    rows = [(b"%06d" % number, b"value %d" % number) for number in range(5000)]
    write_index(tmp_path / "work" / "index", rows)
    store = SnapshotStore.open(tmp_path / "store")
    phases: list[str] = []
    manifest = await store_index(
        tmp_path / "work" / "index",
        store,
        partition=PartitionId(TABLE, PARTITION),
        table_name="flights",
        snapshot_id="b0b0" + "01",
        progress=lambda phase, done, whole: phases.append(phase),
    )
    assert (manifest.id, manifest.offset, manifest.log_time_ms, manifest.keys) == ("b0b001", 41, 1_000_000, 5000)
    assert {"copying", "verifying"} <= set(phases)
    assert list((tmp_path / "work").iterdir()) == []
    assert [one.path for one in await store.snapshots()] == [manifest.path]
    await store.verify(manifest)
    installed = await install_snapshot(store, manifest.path, tmp_path / "node", partition=PartitionId(TABLE, PARTITION))
    assert installed == manifest
    assert {key: entry.value for key, entry in entries_of(tmp_path / "node").items()} == dict(rows)


async def test_a_store_that_is_away_leaves_nothing_here(tmp_path: Path) -> None:
    write_index(tmp_path / "work" / "index", [(b"a", b"1")])
    (tmp_path / "store").write_text("no folder")
    with pytest.raises(SnapshotStoreUnavailable):
        await store_index(
            tmp_path / "work" / "index",
            SnapshotStore.open(tmp_path / "store"),
            partition=PartitionId(TABLE, PARTITION),
            table_name="flights",
        )
    assert list((tmp_path / "work").iterdir()) == []


def test_the_file_that_lmdb_wrote_is_in_append_order(tmp_path: Path) -> None:
    """Pages are filled to the brim: half of an index that was written at random is air."""
    rows = [(b"%08d" % number, b"v" * 100) for number in range(20_000)]
    write_index(tmp_path / "index", rows)
    with lmdb.open(str(tmp_path / "index"), readonly=True, lock=False, max_dbs=7) as env:
        data = env.open_db(b"data", create=False)
        with env.begin() as txn:
            stat = txn.stat(data)
    assert stat["entries"] == len(rows)
    # 126 bytes with the node's header and its pointer: 32 in a page of 4,096.
    assert stat["leaf_pages"] <= len(rows) / 32 + 1


_MEASURED = """
import asyncio, json, sys
from pathlib import Path
from kit.spark.building import BASE, PARTITION, TABLE
from log_tier.model.identifiers import PartitionId
from serving_tier.snapshots.snapshot_store import SnapshotStore
from spark_bulk.build.index_writer import IndexWriter, store_index
from spark_bulk.source.table.closed_index_file import ClosedIndexFile

partition = PartitionId(TABLE, PARTITION)
root, rows = Path(sys.argv[1]), int(sys.argv[2])
value = bytes(range(100))
with IndexWriter.open(root / "index", partition=partition, base=BASE) as writer:
    for first in range(0, rows, 10_000):
        writer.write([b"%016d" % number for number in range(first, first + 10_000)], [value] * 10_000)
    writer.finish()
manifest = asyncio.run(
    store_index(root / "index", SnapshotStore.open(root / "store"), table_name="t", partition=partition)
)
with ClosedIndexFile.open(root / "store" / manifest.path / "data.mdb") as file:
    assert sum(part.count for part in file.rows(log_time_ms=0)) == rows
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(json.dumps({"bytes": manifest.bytes, "peak": int(status["VmHWM"].split()[0]) * 1024}))
"""


def test_memory_does_not_grow_with_the_partition(tmp_path: Path) -> None:
    """A process's peak, what it maps of files included, for an index and for one three times as large; written, copied
    and read back as rows.
    """

    def measured(rows: int) -> dict[str, int]:
        below = tmp_path / str(rows)
        below.mkdir()
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path])}
        command = [sys.executable, "-c", _MEASURED, str(below), str(rows)]
        done = subprocess.run(command, capture_output=True, check=True, env=environment, timeout=patience_s(120))
        found: dict[str, int] = json.loads(done.stdout)
        return found

    small, large = measured(800_000), measured(2_400_000)
    assert large["bytes"] > 2.9 * small["bytes"] > 200 << 20
    assert large["peak"] < 1.2 * small["peak"], (small, large)


def test_the_partition_of_another_index_is_its_own(tmp_path: Path) -> None:
    write_index(tmp_path / "index", [(b"a", b"1")])
    with pytest.raises(IndexDamaged, match=r"is the index of .*/2, not of .*/3"):
        entries_of(tmp_path / "index", partition=Partition(3))
