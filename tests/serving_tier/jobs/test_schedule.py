"""The snapshot schedule: one holder's turn comes first, the next one's where that one is away."""

from __future__ import annotations

from log_tier.model.identifiers import NOTHING, Offset, Partition, PartitionId, TableId
from serving_tier.jobs.schedule import SnapshotSchedule

NAME = PartitionId(TableId("AAAAAAAAAAAAAAAAAAAAAA"), Partition(0))


def asked(
    schedule: SnapshotSchedule,
    now_s: float,
    *,
    newest: int = -1,
    applied: int = 10,
    rank: int = 0,
    overtaken: bool = False,
) -> bool:
    offsets = Offset(newest), Offset(applied)
    return schedule.is_due(NAME, newest=offsets[0], applied=offsets[1], rank=rank, now_s=now_s, overtaken=overtaken)


def test_after_a_swap_the_first_holder_takes_one_at_once() -> None:
    first, second = SnapshotSchedule(100), SnapshotSchedule(100)
    for schedule, rank in ((first, 0), (second, 1)):
        assert not asked(schedule, 0, newest=5, rank=rank)
    assert asked(first, 10, newest=5, overtaken=True)
    assert not asked(second, 10, newest=5, rank=1, overtaken=True)
    assert asked(second, 35, newest=5, rank=1, overtaken=True), "the first one is away"
    assert not asked(first, 11, newest=9), "the new one holds the barrier"


def test_one_that_fails_after_a_swap_is_not_tried_in_each_second() -> None:
    schedule = SnapshotSchedule(100)
    assert asked(schedule, 0, newest=5, overtaken=True)
    schedule.forget(NAME)
    assert not asked(schedule, 1, newest=5, overtaken=True)
    assert not asked(schedule, 100, newest=5, overtaken=True)
    assert asked(schedule, 101, newest=5, overtaken=True)
    schedule.taken(NAME)
    assert asked(schedule, 102, newest=8, overtaken=True)


def test_the_first_is_due_after_an_interval_and_the_next_ones_later() -> None:
    for rank, due_s in ((0, 100.0), (1, 125.0), (2, 150.0)):
        schedule = SnapshotSchedule(100)
        assert not asked(schedule, 1000.0, rank=rank)
        assert not asked(schedule, 1000.0 + due_s - 0.1, rank=rank)
        assert asked(schedule, 1000.0 + due_s, rank=rank)


def test_a_snapshot_by_hand_begins_a_new_interval() -> None:
    schedule = SnapshotSchedule(100)
    assert not asked(schedule, 0)
    assert asked(schedule, 100)
    assert not asked(schedule, 101, newest=5)
    assert not asked(schedule, 200, newest=5)
    assert asked(schedule, 201, newest=5)


def test_where_nothing_is_new_nothing_is_due() -> None:
    schedule = SnapshotSchedule(100)
    assert not asked(schedule, 0, newest=10)
    assert not asked(schedule, 500, newest=10)
    assert asked(schedule, 501, newest=10, applied=11)
    empty = SnapshotSchedule(100)
    assert not asked(empty, 0, applied=NOTHING)
    assert not asked(empty, 500, applied=NOTHING)


def test_a_replica_that_left_and_came_back_begins_anew() -> None:
    schedule = SnapshotSchedule(100)
    assert not asked(schedule, 0)
    schedule.forget(NAME)
    assert not asked(schedule, 100)
    assert asked(schedule, 200)


def test_partitions_that_left_the_node_are_forgotten() -> None:
    schedule = SnapshotSchedule(100)
    assert not asked(schedule, 0)
    schedule.keep({NAME: None})
    assert asked(schedule, 100)
    schedule.keep({})
    assert not asked(schedule, 101), "it has come back, and its interval begins"
    assert asked(schedule, 201)
