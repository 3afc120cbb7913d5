"""How long a node counts as lost, by a clock that the test moves."""

from __future__ import annotations

import pytest
from kit.cluster.situations import folded, seen, with_nodes, with_table

from log_tier.catalog.cluster_map import ClusterMap
from log_tier.catalog.commands import AbortJob, RegisterNode
from router.admin.healing.absences import LOOK_S, Absences
from router.admin.planners.heal import decide_healing


@pytest.fixture
def three() -> ClusterMap:
    return with_table(with_nodes("n1", "n2", "n3"), ["n1 n2"])


def looked(absences: Absences, cluster: ClusterMap, *, lost: list[str], begin_s: float, seconds: int) -> float:
    """Look as often as a router does, for so many seconds; the time of the last look."""
    looks = round(seconds / LOOK_S)
    for number in range(looks + 1):
        absences.look(seen(cluster, lost=lost), begin_s + number * LOOK_S)
    return begin_s + looks * LOOK_S


def test_it_counts_from_the_first_look_that_misses_the_node(three: ClusterMap) -> None:
    absences = Absences()
    looked(absences, three, lost=[], begin_s=1000, seconds=5)
    assert absences.lost() == {}
    looked(absences, three, lost=["n2"], begin_s=1006, seconds=5)
    assert absences.lost() == {"n2": 5.0}
    assert absences.longer_than(5.0) == ["n2"]
    assert absences.longer_than(5.1) == []


def test_it_begins_anew_when_the_node_was_back(three: ClusterMap) -> None:
    absences = Absences()
    now_s = looked(absences, three, lost=["n2"], begin_s=0, seconds=9)
    absences.look(seen(three), now_s + 1)
    absences.look(seen(three, lost=["n2"]), now_s + 2)
    assert absences.lost() == {"n2": 0.0}


def test_a_pause_of_this_process_does_not_count(three: ClusterMap) -> None:
    absences = Absences()
    now_s = looked(absences, three, lost=["n2"], begin_s=0, seconds=2)
    absences.look(seen(three, lost=["n2"]), now_s + 3600)
    assert absences.lost()["n2"] <= 5.0


def test_a_clock_that_goes_back_takes_nothing_away(three: ClusterMap) -> None:
    absences = Absences()
    now_s = looked(absences, three, lost=["n2"], begin_s=100, seconds=2)
    absences.look(seen(three, lost=["n2"]), now_s - 50)
    assert absences.lost() == {"n2": 2.0}


def test_a_node_that_serves_its_own_process_only_is_not_judged(three: ClusterMap) -> None:
    cluster = folded(three, RegisterNode("program", "", "program"))
    absences = Absences()
    looked(absences, cluster, lost=["program"], begin_s=0, seconds=5)
    assert absences.lost() == {}


def test_it_begins_anew_when_the_healing_is_aborted(three: ClusterMap) -> None:
    absences = Absences()
    now_s = looked(absences, three, lost=["n2"], begin_s=0, seconds=9)
    command = decide_healing(seen(three, lost=["n2"]), ["n2"], copies=1).command
    assert command is not None
    cluster = folded(three, command)
    now_s = looked(absences, cluster, lost=["n2"], begin_s=now_s, seconds=1)
    assert absences.longer_than(10.0) == ["n2"]
    cluster = folded(cluster, AbortJob(cluster.version))
    now_s = looked(absences, cluster, lost=["n2"], begin_s=now_s, seconds=0)
    assert absences.lost() == {"n2": 0.0}
    looked(absences, cluster, lost=["n2"], begin_s=now_s, seconds=3)
    assert absences.lost() == {"n2": 3.0}, "once for each of them"


def test_an_old_healing_is_no_reason_for_a_router_that_has_just_started(three: ClusterMap) -> None:
    command = decide_healing(seen(three, lost=["n2"]), ["n2"], copies=1).command
    assert command is not None
    cluster = folded(three, command)
    cluster = folded(cluster, AbortJob(cluster.version))
    absences = Absences()
    looked(absences, cluster, lost=["n2"], begin_s=0, seconds=4)
    assert absences.lost() == {"n2": 4.0}
