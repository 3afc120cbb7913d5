"""Looking into a segment: what records ask for, where batches go on behind damage, what is cut and what damaged."""

from __future__ import annotations

from pathlib import Path

import pytest
from kit.log.stored_log import Said, StoredLog, put

from log_tier.embedded.segments.inspection import Damage, StoredBatch, Tail, inspect_segment, next_batch
from log_tier.embedded.storage import names
from log_tier.embedded.storage.disk import LocalDisk
from log_tier.model.batch_header import BATCH_BYTES_MAX, MAGIC
from log_tier.model.identifiers import Offset
from log_tier.model.record import Condition, Expiry, Operation


def segment_of(folder: Path, *batches: bytes) -> Path:
    path = folder / names.segment_name(Offset(0))
    path.write_bytes(b"".join(batches))
    return path


@pytest.mark.parametrize(
    ("record", "notes"),
    [
        (put(b"k"), ()),
        (put(b"k", condition=Condition.VERSION, version=7), ("if version 7",)),
        (put(b"k", condition=Condition.ABSENT), ("if absent",)),
        (put(b"k", expiry=Expiry.TTL, expiry_ms=90), ("expires after 90 ms",)),
        (put(b"k", expiry=Expiry.AT, expiry_ms=90), ("expires at 90 ms",)),
        (put(b"k", expiry=Expiry.KEEP), ("keeps its expiry",)),
    ],
)
def test_a_record_is_shown_with_all_that_it_asks_for(record: Said, notes: tuple[str, ...], tmp_path: Path) -> None:
    grouped = Said(Operation.DELETE, b"d", grouped=True)
    path = segment_of(tmp_path, StoredLog().append(record, grouped))
    (batch,) = [each for each in inspect_segment(path) if isinstance(each, StoredBatch)]
    shown = [(each.offset, each.operation, each.value, each.notes) for each in batch.records()]
    assert shown == [(0, "PUT", b"", notes), (1, "DELETE", None, ("with the one before",))]


def test_the_next_batch_is_found_behind_anything(tmp_path: Path) -> None:
    """Whatever lies between: bytes that begin like a batch, too."""
    log = StoredLog()
    first, second, third = (log.append(put(b"k", bytes(70))) for _ in range(3))
    garbage = b"noise" + second[:40]
    path = segment_of(tmp_path, first, garbage, second, third)
    size = path.stat().st_size
    at = len(first) + len(garbage)
    file = LocalDisk().open(path)
    try:
        for position in (0, 10, len(first), at - 1):
            assert next_batch(file, path, position, size) == at
        assert next_batch(file, path, at, size) == at + len(second), "behind the position, not at it"
        assert next_batch(file, path, 0, size, first=Offset(1)) == at
        assert next_batch(file, path, 0, size, first=Offset(2)) == at + len(second)
        assert next_batch(file, path, 0, size, first=Offset(3)) is None
        assert next_batch(file, path, 0, size - 1, first=Offset(2)) is None, "a batch that is cut is none"
    finally:
        file.close()


@pytest.mark.parametrize("is_newest", [True, False])
def test_a_cut_batch_is_a_tail_of_the_newest_file_and_damage_of_another(tmp_path: Path, is_newest: bool) -> None:
    log = StoredLog()
    first, second = log.append(put(b"a", b"1")), log.append(put(b"b", b"2"))
    path = segment_of(tmp_path, first, second[:-1])
    if not is_newest:
        (tmp_path / names.segment_name(Offset(2))).write_bytes(b"")
    *_, last = inspect_segment(path)
    assert isinstance(last, Tail if is_newest else Damage)
    assert last.position == len(first)


def test_damage_before_a_whole_batch_is_damage_in_the_newest_file_too(tmp_path: Path) -> None:
    log = StoredLog()
    first, second, third = (log.append(put(b"k", b"%d" % number)) for number in range(3))
    path = segment_of(tmp_path, first, second[:-1], b"?", third)
    kinds = [type(each).__name__ for each in inspect_segment(path)]
    assert kinds == ["SegmentStart", "StoredBatch", "Damage", "StoredBatch", "Tail"]


@pytest.mark.parametrize("place", range(-len(MAGIC), 2))
def test_the_next_batch_is_found_where_two_reads_of_the_file_meet(place: int, tmp_path: Path) -> None:
    batch = StoredLog().append(put(b"k", b"v"))
    path = segment_of(tmp_path)
    at = 1 + BATCH_BYTES_MAX + place
    with path.open("r+b") as out:
        out.truncate(at)
        out.seek(at)
        out.write(batch)
    file = LocalDisk().open(path)
    try:
        assert next_batch(file, path, 0, at + len(batch)) == at
        assert next_batch(file, path, at, at + len(batch)) is None
    finally:
        file.close()
