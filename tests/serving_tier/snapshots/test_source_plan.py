"""Where an index can come from: the order of the sources, and why one is none."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.log.stored_log import PARTITION, TABLE

from log_tier.catalog.cluster_map import SnapshotEntry
from log_tier.model.errors import InvalidRequest
from log_tier.model.identifiers import Offset
from log_tier.model.log import Bounds
from serving_tier.snapshots.source_plan import Goal, Offered, SourcePlan, plan_sources


class Node(NamedTuple):
    """A peer, by its name."""

    name: str


def snapshot(offset: int, version: int = 1, swap: int = -1) -> SnapshotEntry:
    place = f"{TABLE}/{PARTITION}/{offset}"
    return SnapshotEntry(f"s{offset}", TABLE, PARTITION, Offset(offset), 0, 0, 0, place, "n1", version, swap)


def offered(
    earliest: int,
    latest: int,
    *snapshots: SnapshotEntry,
    start: int = 0,
    peers: tuple[str, ...] = (),
    compacted: int = 0,
) -> Offered[Node]:
    bounds = Bounds(Offset(earliest), Offset(latest), compacted=Offset(compacted))
    return Offered(bounds, Offset(start), snapshots, [Node(name) for name in peers])


def order(plan: SourcePlan[Node]) -> list[str]:
    return [str(choice) for choice in plan.choices]


def test_a_replica_takes_the_newest_snapshot_first_and_the_log_last() -> None:
    plan = plan_sources(offered(0, 20, snapshot(5), snapshot(9), snapshot(7), peers=("n2", "n3")), Goal())
    assert order(plan) == ["snapshot s9", "snapshot s7", "snapshot s5", "peer n2", "peer n3", "the log"]
    assert plan.passed_over == ()


def test_a_snapshot_is_used_where_the_log_goes_on_after_it() -> None:
    plan = plan_sources(offered(5, 9, snapshot(3), snapshot(4), snapshot(9), snapshot(10)), Goal())
    assert order(plan) == ["snapshot s9", "snapshot s4"]
    assert plan.passed_over == (
        "snapshot s10: it is at 10, and the log ends at 9: it is another log's",
        "snapshot s3: it ends at 3, and the log begins at 5",
        "the log: it begins at 5, what was before is trimmed",
    )


def test_the_log_serves_a_table_that_began_with_it() -> None:
    assert order(plan_sources(offered(5, 9, start=5), Goal())) == ["the log"]
    assert order(plan_sources(offered(0, 9, start=5), Goal())) == ["the log"]
    late = plan_sources(offered(6, 9, start=5), Goal())
    assert late.choices == ()
    assert late.passed_over == ("the log: it begins at 6, the table at 5: what was between is trimmed",)


def test_a_trivial_log_is_replayed_whatever_else_there_is() -> None:
    little = offered(0, 20, snapshot(9), peers=("n2",))
    assert order(plan_sources(little, Goal(trivial_records=21)))[0] == "the log"
    assert order(plan_sources(little, Goal(trivial_records=20)))[0] == "snapshot s9"
    assert order(plan_sources(little, Goal(trivial_records=21, version=2)))[0] == "snapshot s9"


def test_snapshots_of_before_the_last_barrier_come_after_the_peers() -> None:
    """Swapped by job 40, rolled back by job 50: behind s9, the log goes back to version 1."""
    before = [snapshot(5), snapshot(7), snapshot(9, version=2, swap=40)]
    there = offered(2, 90, *before, snapshot(30, swap=50), snapshot(40, swap=50), peers=("n2",))
    back = Goal(swap=50)
    first = ["snapshot s40", "snapshot s30", "peer n2"]
    assert order(plan_sources(there, back)) == [*first, "snapshot s7", "snapshot s5", "snapshot s9"]
    tried = Goal(swap=50, tried=("s5", "s7"))
    assert order(plan_sources(there, tried)) == [*first, "snapshot s9", "snapshot s5", "snapshot s7"]
    assert order(plan_sources(offered(0, 90, *before), tried)) == [
        "snapshot s9",
        "the log",
        "snapshot s5",
        "snapshot s7",
    ]
    little = Goal(swap=50, trivial_records=1000)
    assert order(plan_sources(offered(0, 90, *before, peers=("n2",)), little))[0] == "peer n2"
    never = Goal(swap=-1, trivial_records=1000)
    assert order(plan_sources(offered(0, 90, snapshot(5)), never)) == ["the log", "snapshot s5"]


def test_the_live_versions_snapshots_are_preferred() -> None:
    both = offered(0, 20, snapshot(9), snapshot(7, version=2))
    assert order(plan_sources(both, Goal(version=2))) == ["snapshot s7", "the log"]
    assert order(plan_sources(offered(0, 20, snapshot(9)), Goal(version=2))) == ["snapshot s9", "the log"]


def test_the_past_is_read_from_before_it() -> None:
    plan = plan_sources(offered(0, 20, snapshot(9), snapshot(12), snapshot(15)), Goal(until=Offset(12)))
    assert order(plan) == ["snapshot s12", "snapshot s9", "the log"]
    assert plan.passed_over == ("snapshot s15: it is at 15, beyond the wanted 12",)


def test_no_past_is_replayed_from_what_a_compaction_has_left() -> None:
    """What the replay does not meet was written again only behind the wanted offset."""
    past = Goal(until=Offset(10))
    plan = plan_sources(offered(0, 20, snapshot(5), snapshot(10), compacted=15), past)
    assert order(plan) == ["snapshot s10"], "a snapshot of exactly that offset needs no replay"
    assert plan.passed_over == (
        "snapshot s5: the log is compacted below 15, so what lies between 5 and 10 is not all there",
        "the log: the log is compacted below 15, so what lies between -1 and 10 is not all there",
    )
    assert order(plan_sources(offered(0, 20, snapshot(5), snapshot(10), compacted=11), past)) == [
        "snapshot s10",
        "the log",
    ]


def test_a_snapshot_from_within_the_compacted_part_is_no_source() -> None:
    """Deletes behind it may be gone together with what they deleted."""
    plan = plan_sources(offered(0, 20, snapshot(5), snapshot(14), compacted=15, peers=("n2",)), Goal())
    assert order(plan) == ["snapshot s14", "peer n2", "the log"]
    assert plan.passed_over == (
        "snapshot s5: the log is compacted below 15, so what lies between 5 and 20 is not all there",
    )


def test_a_compacted_log_is_the_last_source_however_short_it_is() -> None:
    """The states on the way are none that it ever had."""
    goal = Goal(trivial_records=100)
    assert order(plan_sources(offered(0, 20, snapshot(14)), goal)) == ["the log", "snapshot s14"]
    assert order(plan_sources(offered(0, 20, snapshot(14), compacted=15), goal)) == ["snapshot s14", "the log"]


def test_a_short_replay_comes_before_a_copy_and_a_long_one_after_it() -> None:
    goal = Goal(until=Offset(900), cheap_records=100)
    far = offered(0, 1000, snapshot(10), snapshot(20), peers=("n2",))
    assert order(plan_sources(far, goal)) == ["peer n2", "snapshot s20", "snapshot s10", "the log"]
    near = offered(0, 1000, snapshot(800), snapshot(20), peers=("n2",))
    assert order(plan_sources(near, goal)) == ["snapshot s800", "peer n2", "snapshot s20", "the log"]
    short = offered(0, 1000, start=850, peers=("n2",))
    assert order(plan_sources(short, goal)) == ["the log", "peer n2"]


@pytest.mark.parametrize("wanted", ["snapshot", "peer", "log"])
def test_one_kind_can_be_wanted(wanted: str) -> None:
    plan = plan_sources(offered(0, 20, snapshot(5), peers=("n2",)), Goal(wanted=wanted))
    assert [choice.kind for choice in plan.choices] == [wanted]


def test_a_source_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="'tape' is no source: use auto, snapshot, peer, log"):
        plan_sources(offered(0, 1), Goal(wanted="tape"))


@given(
    earliest=st.integers(0, 30),
    length=st.integers(0, 30),
    start=st.integers(0, 40),
    snapshots=st.lists(st.integers(-1, 60), unique=True, max_size=6),
    peers=st.sampled_from([(), ("n2",), ("n2", "n3")]),
    until=st.none() | st.integers(0, 60),
    trivial=st.sampled_from([0, 10]),
    cheap=st.sampled_from([None, 0, 10]),
)
def test_every_source_is_either_tried_or_named(
    earliest: int,
    length: int,
    start: int,
    snapshots: list[int],
    peers: tuple[str, ...],
    until: int | None,
    trivial: int,
    cheap: int | None,
) -> None:
    there = offered(earliest, earliest + length, *map(snapshot, snapshots), start=start, peers=peers)
    goal = Goal(until=None if until is None else Offset(until), trivial_records=trivial, cheap_records=cheap)
    plan = plan_sources(there, goal)
    tried = order(plan)
    assert len(set(tried)) == len(tried)
    assert len(tried) + len(plan.passed_over) == len(snapshots) + len(peers) + 1
    end = there.bounds.latest if until is None else until
    at = [choice.snapshot.offset for choice in plan.choices if choice.snapshot is not None]
    assert at == sorted(at, reverse=True)
    assert all(earliest - 1 <= offset <= min(end, there.bounds.latest) for offset in at)
    assert ("the log" in tried) == (earliest <= start)
