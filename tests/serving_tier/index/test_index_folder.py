from __future__ import annotations

import errno
import json
import os
from contextvars import copy_context
from io import RawIOBase
from pathlib import Path

import pytest
from kit.log.stored_log import PARTITION, TABLE, StoredLog, put

from log_tier.model.errors import IndexDamaged
from log_tier.model.identifiers import Partition, PartitionId, TableId, table_id_from_bytes
from serving_tier.disk import NODE_DISK, KernelCalls
from serving_tier.index.lmdb.folder import claim_folder, read_boot_id, summary_of_folder, verify_index
from serving_tier.index.lmdb.lmdb_index import LmdbIndex

OTHER = table_id_from_bytes(bytes(16))


def open_at(path: Path, *, boot: str = "first", table: TableId = TABLE, partition: Partition = PARTITION) -> LmdbIndex:
    return LmdbIndex.open(path, partition=PartitionId(table, partition), boot_id=lambda: boot)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An index with some entries, closed cleanly."""
    index, log = open_at(tmp_path / "index"), StoredLog()
    for n in range(20):
        index.apply(log.append(*[put(b"%d-%d" % (n, m), bytes(200)) for m in range(50)]))
    index.close()
    return tmp_path / "index"


def test_the_boot_id_is_the_kernels() -> None:
    assert len(read_boot_id()) == 36
    assert read_boot_id() == read_boot_id()


def test_a_clean_index_outlives_the_boot(folder: Path) -> None:
    index = open_at(folder, boot="second")
    assert index.count() == 1000
    index.close()


def test_an_unclean_index_is_trusted_in_the_boot_that_wrote_it_and_in_no_other(folder: Path) -> None:
    open_at(folder, boot="second").close(clean=False)
    index = open_at(folder, boot="second")
    assert index.count() == 1000
    index.close(clean=False)
    with pytest.raises(IndexDamaged, match=r"boot second, now third.*discard"):
        open_at(folder, boot="third")
    with pytest.raises(IndexDamaged, match="boot second"):
        open_at(folder, boot="third")


def test_the_marker_says_unclean_while_the_index_is_open(folder: Path) -> None:
    index = open_at(folder)
    assert json.loads((folder / "index.json").read_bytes())["clean"] is False
    index.close()
    marker = json.loads((folder / "index.json").read_bytes())
    summary = marker.pop("summary")
    assert len(marker.pop("check")) == 8
    assert (summary["state"][:3], summary["start"], summary["keys"]) == ([999, 1_000_000, 0], 0, 1000)
    assert summary["state"][3][:5] == [950, 50, 1_000_000, 0, 0]
    assert marker == {
        "format": "duramen index",
        "version": 3,
        "table": TABLE,
        "partition": PARTITION,
        "boot_id": "first",
        "clean": True,
    }


def test_no_flipped_bit_of_a_marker_passes(folder: Path) -> None:
    """What is at rest is answered from the marker: keys, expiries, and the applied offset until the file is opened."""
    marker = (folder / "index.json").read_bytes()
    for bit in range(len(marker) * 8):
        flipped = bytearray(marker)
        flipped[bit // 8] ^= 1 << bit % 8
        (folder / "index.json").write_bytes(flipped)
        with pytest.raises(IndexDamaged, match=r"index\.json"):
            summary_of_folder(folder, partition=PartitionId(TABLE, PARTITION), boot="first")


def test_a_marker_of_an_earlier_version_has_no_checksum(folder: Path) -> None:
    fields = json.loads((folder / "index.json").read_bytes())
    del fields["check"]
    (folder / "index.json").write_text(json.dumps(fields))
    open_at(folder).close()
    assert "check" in json.loads((folder / "index.json").read_bytes())


def test_another_tables_index_is_refused(folder: Path) -> None:
    with pytest.raises(IndexDamaged, match=f"of {TABLE}/3, not of {OTHER}/3"):
        open_at(folder, table=OTHER)
    with pytest.raises(IndexDamaged, match=f"not of {TABLE}/4"):
        open_at(folder, partition=Partition(4))


def test_files_without_a_marker_are_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(IndexDamaged, match=r"no index\.json: discard"):
        claim_folder(tmp_path, partition=PartitionId(TABLE, PARTITION))
    assert os.listdir(tmp_path) == ["letter.txt"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "cannot be read"),
        ("{", "cannot be read"),
        ("[]", "cannot be read"),
        ('{"format": "duramen index"}', "cannot be read"),
        ('{"format":"x","version":1,"table":"","partition":0,"boot_id":"","clean":true}', "tells of 'x' version 1"),
        (
            '{"format":"duramen index","version":4,"table":"","partition":0,"boot_id":"","clean":true}',
            "version 4, this process has 'duramen index' version 3",
        ),
    ],
)
def test_a_marker_that_says_nothing_or_something_else_is_refused(folder: Path, text: str, why: str) -> None:
    (folder / "index.json").write_text(text)
    with pytest.raises(IndexDamaged, match=why):
        open_at(folder)


def test_a_missing_data_file_is_refused(folder: Path) -> None:
    (folder / "data.mdb").unlink()
    with pytest.raises(IndexDamaged, match=r"data\.mdb is missing"):
        open_at(folder)


@pytest.mark.parametrize("kept", [0, 1, 100, 4096, 4200, 8191, 8192, 0.5, 0.99])
def test_a_file_that_was_cut_is_refused_before_lmdb_maps_it(folder: Path, kept: float) -> None:
    file = folder / "data.mdb"
    size = file.stat().st_size
    os.truncate(file, int(size * kept) if isinstance(kept, float) else kept)
    with pytest.raises(IndexDamaged, match="discard"):
        open_at(folder)


@pytest.mark.parametrize("place", [0, 4096], ids=["meta 0", "meta 1"])
@pytest.mark.parametrize("field", [0, 10, 16, 20, 40], ids=["number", "flags", "magic", "version", "page size"])
def test_a_damaged_meta_page_is_refused_before_lmdb_maps_it(folder: Path, place: int, field: int) -> None:
    with open(folder / "data.mdb", "r+b") as file:
        file.seek(place + field)
        old = file.read(1)
        file.seek(place + field)
        file.write(bytes([old[0] ^ 0xFF]))
    with pytest.raises(IndexDamaged, match="discard"):
        open_at(folder)


def test_zeros_and_garbage_are_refused(folder: Path) -> None:
    for content in (bytes(1 << 16), b"garbage!" * 8192):
        (folder / "data.mdb").write_bytes(content)
        with pytest.raises(IndexDamaged, match="no LMDB file of this kind"):
            open_at(folder)


def test_verify_passes_a_good_file_and_names_the_fault_of_a_bad_one(folder: Path) -> None:
    verify_index(folder)
    with open(folder / "data.mdb", "r+b") as file:
        pages = os.path.getsize(folder / "data.mdb") // 4096
        for page in range(2, pages):
            file.seek(page * 4096 + 10)
            file.write(b"\xff\xff")
    with pytest.raises(IndexDamaged, match=r"faults, the first: .*discard"):
        verify_index(folder)


def test_a_folder_claimed_by_a_process_that_died_before_it_made_the_file_is_refused(tmp_path: Path) -> None:
    claim_folder(tmp_path / "index", partition=PartitionId(TABLE, PARTITION), boot_id=lambda: "first")
    with pytest.raises(IndexDamaged, match="missing: discard"):
        open_at(tmp_path / "index")


class DiskWithoutRoom(KernelCalls):
    """Its first write finds no room."""

    def __init__(self) -> None:
        self.is_full = True

    def write(self, file: RawIOBase, data: bytes | memoryview) -> int:
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(file, data)


def test_a_folder_whose_first_marker_found_no_room_is_claimed_when_there_is_room(tmp_path: Path) -> None:
    """Nothing is in it but the beginning of its marker: there is no index that could be damaged."""
    disk, partition = DiskWithoutRoom(), PartitionId(TABLE, PARTITION)

    def claim() -> None:
        NODE_DISK.set(disk)
        with pytest.raises(OSError, match="No space"):
            claim_folder(tmp_path / "index", partition=partition)
        disk.is_full = False
        claim_folder(tmp_path / "index", partition=partition)

    copy_context().run(claim)
    assert [each.name for each in (tmp_path / "index").iterdir()] == ["index.json"]
