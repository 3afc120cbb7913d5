"""Healings keep to their bytes a second."""

from __future__ import annotations

from kit.cluster.situations import folded, seen, with_nodes, with_table

from log_tier.catalog.cluster_map import ClusterMap
from router.admin.healing.pace import Pace
from router.admin.planners.heal import decide_healing


def healing(size: int) -> ClusterMap:
    cluster = with_table(with_nodes("n1", "n2", "n3"), ["n1 n2"])
    command = decide_healing(seen(cluster, lost=["n2"], sizes={0: size}), ["n2"], copies=1).command
    assert command is not None
    return folded(cluster, command)


def test_the_first_one_may_begin_at_once() -> None:
    assert Pace(100, "heal").left_s(with_nodes("n1"), 7.0) == 0.0


def test_the_next_one_waits_until_the_bytes_would_have_passed() -> None:
    pace, cluster = Pace(100, "heal"), healing(1000)
    assert [pace.left_s(cluster, now_s) for now_s in (50.0, 53.0, 60.0, 70.0)] == [10.0, 7.0, 0.0, 0.0]


def test_without_a_bound_none_waits() -> None:
    assert Pace(0, "heal").left_s(healing(1 << 40), 50.0) == 0.0


def test_only_jobs_of_its_kinds_count() -> None:
    assert Pace(100, "relieve").left_s(healing(1000), 50.0) == 0.0
    assert Pace(100, "relieve", "heal").left_s(healing(1000), 50.0) == 10.0
