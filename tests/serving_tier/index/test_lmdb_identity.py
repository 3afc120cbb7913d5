"""Whose an index is and its applied offset, also above offset 0: what lies below its start is not missing."""

from __future__ import annotations

from pathlib import Path

import pytest
from kit.index.marker import change_marker
from kit.log.stored_log import PARTITION, TABLE, StoredLog, put

from log_tier.model.barrier import ORIGINAL
from log_tier.model.errors import IndexDamaged
from log_tier.model.identifiers import FIRST, Offset, Partition, PartitionId
from serving_tier.index.lmdb.environment import open_environment
from serving_tier.index.lmdb.format import IDENTITY, LIVE, START, STATE, VERSION, pack_start, unpack_start
from serving_tier.index.lmdb.lmdb_index import LmdbIndex


def opened(folder: Path, start: Offset = FIRST) -> LmdbIndex:
    return LmdbIndex.open(folder, partition=PartitionId(TABLE, PARTITION), start=start)


def stored(start: int) -> bytes:
    log = StoredLog()
    log.next_offset = start
    for number in range(30):
        log.append(put(b"key%d" % (number % 10), b"%d" % number), producer_id=5, sequence=number)
    return b"".join(log.batches)


def test_a_new_index_has_applied_all_that_is_before_its_start(tmp_path: Path) -> None:
    index = opened(tmp_path / "index", Offset(120))
    assert (index.applied, index.verdicts_from, index.count()) == (119, 120, 0)
    assert index.statistics().applied == 119
    empty = opened(tmp_path / "empty")
    assert index.digest() == empty.digest()
    empty.close()
    index.close()


def test_it_folds_and_counts_as_any_other(tmp_path: Path) -> None:
    index, same = opened(tmp_path / "index", Offset(120)), opened(tmp_path / "same")
    applied = index.apply(stored(120))
    assert (applied.applied, applied.records, applied.rejected, applied.duplicates) == (149, 30, 0, 0)
    assert same.apply(stored(120)).applied == 149
    assert (index.count(), index.digest()) == (10, same.digest())
    assert index.outcomes(Offset(120), Offset(149)) == {}
    assert index.apply(stored(120)).records == 0, "what was folded is not folded again"
    pinned = index.pinned()
    assert pinned.applied == 149
    pinned.close()
    index.close()
    same.close()


@pytest.mark.parametrize(("begun", "asked"), [(120, 0), (0, 120), (120, 121)])
def test_one_that_began_elsewhere_is_refused(tmp_path: Path, begun: int, asked: int) -> None:
    opened(tmp_path / "index", Offset(begun)).close()
    with pytest.raises(IndexDamaged, match=f"from offset {begun} on, its table begins at {asked}"):
        opened(tmp_path / "index", Offset(asked))
    opened(tmp_path / "index", Offset(begun)).close()


def test_it_is_found_again(tmp_path: Path) -> None:
    index = opened(tmp_path / "index", Offset(120))
    index.apply(stored(120))
    digest = index.digest()
    index.close()
    index = opened(tmp_path / "index", Offset(120))
    assert (index.applied, index.digest()) == (149, digest)
    index.close()


def test_the_row_of_the_start() -> None:
    assert (START, pack_start(Offset(0x0102))) == (b"start", b"\x02\x01" + bytes(6))
    assert unpack_start(pack_start(Offset(120))) == 120
    assert unpack_start(None) == 0


def test_an_index_of_another_partition_inside_the_file_is_refused(tmp_path: Path) -> None:
    opened(tmp_path / "index").close()
    change_marker(tmp_path / "index", lambda fields: fields.update(partition=4))
    with pytest.raises(IndexDamaged, match=r"partition .*4.*discard"):
        LmdbIndex.open(tmp_path / "index", partition=PartitionId(TABLE, Partition(4)))


@pytest.mark.parametrize("row", [IDENTITY, STATE, START, VERSION, LIVE])
def test_a_row_that_cannot_be_read_is_damage(tmp_path: Path, row: bytes) -> None:
    opened(tmp_path / "index").close()
    change_marker(tmp_path / "index", lambda fields: fields["summary"].pop("checksum"))
    env, databases = open_environment(tmp_path / "index", map_bytes=1 << 24)
    with env.begin(write=True) as txn:
        txn.put(row, b"?", db=databases.meta)
    env.close()
    with pytest.raises(IndexDamaged, match="rows of meta cannot be read"):
        opened(tmp_path / "index")


def test_the_version_is_found_again(tmp_path: Path) -> None:
    index = opened(tmp_path / "index")
    assert (index.version, index.live) == (ORIGINAL.version, ORIGINAL)
    index.become(7)
    index.close()
    index = opened(tmp_path / "index")
    assert (index.version, index.live) == (7, ORIGINAL)
    index.close()
