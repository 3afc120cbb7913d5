"""Where exports lie: a folder, and a server that speaks S3."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from log_tier.model.errors import Damaged, DeadlineExceeded, SnapshotStoreUnavailable
from log_tier.model.identifiers import NOTHING, Offset, Partition, TableId
from spark_bulk.export.export_place import ExportPlace
from spark_bulk.export.manifest import ExportFile, ExportManifest

ONE = ExportManifest(
    id="9f3c",
    number=0,
    kind="table",
    table=TableId("AAECAwQFBgcICQoLDA0ODw"),
    table_name="flights",
    partitions=1,
    after=(NOTHING,),
    until=(Offset(50),),
    created_ms=1,
    columns="key BINARY",
    files=(),
)


@pytest.fixture(params=["folder", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> ExportPlace:
    if request.param == "folder":
        return ExportPlace.open(tmp_path / "exports")
    address, name = request.getfixturevalue("s3_address"), request.getfixturevalue("bucket")
    return ExportPlace.open(f"s3://{name}/exports?endpoint_url={address}")


def batches(count: int, rows: int = 100) -> Iterator[pa.RecordBatch]:
    for number in range(count):
        yield pa.RecordBatch.from_pydict({"key": [b"%d-%d" % (number, row) for row in range(rows)]})


def test_what_was_committed_is_the_last(place: ExportPlace) -> None:
    assert place.last() is None
    place.begin(ONE.folder)
    file = place.write_rows(f"{ONE.folder}/partition=0/aa.parquet", Partition(0), batches(3))
    assert file is not None
    assert (file.path, file.rows) == ("partition=0/aa.parquet", 300)
    assert place.last() is None, "files alone are no export"
    first = replace(ONE, files=(file,))
    place.commit(first)
    assert place.last() == first
    tenth = replace(ONE, number=10, id="0")
    place.commit(tenth)
    assert place.last() == tenth
    million = replace(ONE, number=1_000_000)
    place.commit(million)
    assert place.last() == million
    place.remove(million.folder)
    place.remove(million.folder)
    assert place.last() == tenth


def test_a_commit_removes_what_it_does_not_name(place: ExportPlace) -> None:
    place.begin(ONE.folder)
    kept = place.write_rows(f"{ONE.folder}/partition=0/aa.parquet", Partition(0), batches(1))
    place.write_rows(f"{ONE.folder}/partition=0/bb.parquet", Partition(0), batches(1))
    assert kept is not None
    place.commit(replace(ONE, files=(kept,)))
    found = sorted(path.rpartition("/")[2] for path in place._fs.find(place._at(ONE.folder)))
    assert found == ["_manifest.json", "aa.parquet"]


@pytest.mark.parametrize("ends", ["committed", "removed"])
@pytest.mark.parametrize("when", ["before", "meanwhile", "meanwhile, and its source fails"])
def test_who_writes_behind_the_end_of_an_export_leaves_nothing(place: ExportPlace, ends: str, when: str) -> None:
    """A task that Spark has cancelled goes on for a while; a second attempt may end behind the commit."""

    def end() -> None:
        if ends == "committed":
            place.commit(ONE)
        else:
            place.remove(ONE.folder)

    def source() -> Iterator[pa.RecordBatch]:
        yield from batches(1)
        if when != "before":
            end()
        if when.endswith("fails"):
            raise DeadlineExceeded("the log is slow")
        yield from batches(1)

    place.begin(ONE.folder)
    if when == "before":
        end()
    with pytest.raises(SnapshotStoreUnavailable, match=rf"the export .*{ONE.folder} is not under way"):
        place.write_rows(f"{ONE.folder}/partition=0/aa.parquet", Partition(0), source(), group_rows=1)
    place._fs.invalidate_cache()
    found = [path.rpartition("/")[2] for path in place._fs.find(place._at(ONE.folder))]
    assert found == (["_manifest.json"] if ends == "committed" else [])


def test_an_export_is_removed_while_writers_put_files_into_it(tmp_path: Path) -> None:
    """Whatever the order of the two, no file stays."""
    place = ExportPlace.open(tmp_path)

    def write(partition: int) -> None:
        for number in range(100):
            try:
                path = f"{ONE.folder}/partition={partition}/{number}.parquet"
                place.write_rows(path, Partition(partition), batches(1))
            except SnapshotStoreUnavailable:
                return
            began.set()

    for _ in range(5):
        began = Event()
        place.begin(ONE.folder)
        with ThreadPoolExecutor(4) as pool:
            writers = [pool.submit(write, partition) for partition in range(4)]
            assert began.wait(30)
            place.remove(ONE.folder)
        for writer in writers:
            writer.result()
        assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_no_rows_are_no_file(place: ExportPlace) -> None:
    place.begin(ONE.folder)
    nothing = (batch.slice(0, 0) for batch in batches(2))
    assert place.write_rows(f"{ONE.folder}/partition=0/aa.parquet", Partition(0), nothing) is None
    place.remove(ONE.folder)
    assert place._fs.find(place._at(ONE.folder)) == []


def test_rows_are_put_together_to_groups(tmp_path: Path) -> None:
    place = ExportPlace.open(tmp_path)
    place.begin("000000-a")
    file = place.write_rows("000000-a/partition=0/aa.parquet", Partition(0), batches(7), group_rows=250)
    written = tmp_path / "000000-a/partition=0/aa.parquet"
    assert file == ExportFile("partition=0/aa.parquet", Partition(0), 700, written.stat().st_size)
    metadata = pq.read_metadata(written)
    assert [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)] == [300, 300, 100]
    place.write_rows("000000-a/partition=0/bb.parquet", Partition(0), batches(7), group_bytes=1)
    assert pq.read_metadata(tmp_path / "000000-a/partition=0/bb.parquet").num_row_groups == 7


def test_a_damaged_export_is_named_and_not_passed_over(place: ExportPlace) -> None:
    """Going on from an older one would export changes twice."""
    place.commit(ONE)
    place.commit(replace(ONE, number=1))
    path = place._at(f"{replace(ONE, number=1).folder}/_manifest.json")
    with place._fs.open(path, "wb") as out:
        out.write(b"{}")
    with pytest.raises(Damaged, match=r"000001-9f3c/_manifest\.json is no duramen-export manifest"):
        place.last()


def test_an_export_in_the_folder_of_another_is_refused(tmp_path: Path) -> None:
    place = ExportPlace.open(tmp_path)
    place.commit(ONE)
    os.rename(tmp_path / ONE.folder, tmp_path / "000003-9f3c")
    with pytest.raises(Damaged, match="is the manifest of 000000-9f3c"):
        place.last()


def test_an_unusable_destination_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    place = ExportPlace.open(tmp_path / "file" / "below")
    with pytest.raises(SnapshotStoreUnavailable, match=r"the place of exports .* cannot be used"):
        place.begin(ONE.folder)
    with pytest.raises(SnapshotStoreUnavailable):
        place.write_rows(f"{ONE.folder}/partition=0/aa.parquet", Partition(0), batches(1))
    with pytest.raises(SnapshotStoreUnavailable):
        place.commit(ONE)


def test_a_trouble_of_the_source_keeps_its_name(tmp_path: Path) -> None:
    """A timeout of ours is a kind of `OSError`, and none of the place's."""

    def source() -> Iterator[pa.RecordBatch]:
        yield from batches(1)
        raise DeadlineExceeded("the log is slow")

    place = ExportPlace.open(tmp_path)
    place.begin("000000-a")
    with pytest.raises(DeadlineExceeded, match="the log is slow"):
        place.write_rows("000000-a/partition=0/aa.parquet", Partition(0), source())
