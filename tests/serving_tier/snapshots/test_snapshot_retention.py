from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_tier.catalog.cluster_map import SnapshotEntry
from log_tier.model.identifiers import Offset, Partition, TableId
from serving_tier.snapshots import snapshots_to_remove


def entry(offset: int, name: str = "", partition: int = 0) -> SnapshotEntry:
    return SnapshotEntry(
        id=name or f"s{offset}",
        table=TableId("AAECAwQFBgcICQoLDA0ODw"),
        partition=Partition(partition),
        offset=Offset(offset),
        log_time_ms=0,
        keys=0,
        bytes=0,
        path="",
        node="n1",
    )


def test_the_newest_stay() -> None:
    snapshots = [entry(30), entry(10), entry(20), entry(40)]
    assert [one.offset for one in snapshots_to_remove(snapshots, keep=2)] == [10, 20]
    assert snapshots_to_remove(snapshots, keep=4) == []
    assert snapshots_to_remove([], keep=2) == []


def test_one_that_is_restored_from_stays_and_does_not_count() -> None:
    snapshots = [entry(10), entry(20), entry(30)]
    assert [one.id for one in snapshots_to_remove(snapshots, keep=1, in_use={"s10"})] == ["s20"]


def test_of_two_at_one_offset_the_later_one_stays() -> None:
    assert [one.id for one in snapshots_to_remove([entry(5, "a"), entry(5, "b")], keep=1)] == ["a"]


@given(st.lists(st.integers(-1, 1000), unique=True), st.integers(-3, 5), st.sets(st.integers(0, 1000)))
def test_what_is_removed_is_never_the_newest_nor_in_use_nor_too_much(
    offsets: list[int], keep: int, used: set[int]
) -> None:
    snapshots = [entry(offset) for offset in offsets]
    in_use = {f"s{offset}" for offset in used}
    removed = snapshots_to_remove(snapshots, keep=keep, in_use=in_use)
    left = [one for one in snapshots if one not in removed]
    assert not {one.id for one in removed} & in_use
    assert len(left) >= min(len(snapshots), max(keep, 1))
    if snapshots:
        assert max(offsets) in {one.offset for one in left}


def test_snapshots_of_several_partitions_are_not_mixed() -> None:
    with pytest.raises(AssertionError, match="several partitions"):
        snapshots_to_remove([entry(9, partition=0), entry(9, partition=1)], keep=1)
