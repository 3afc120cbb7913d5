"""Who has too much, and what goes away from a node that serves too much."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kit.cluster.situations import seen, with_nodes, with_table

from router.admin.planners.cluster_view import Situation
from router.admin.planners.rebalance import plan_rebalance
from router.admin.planners.strains import HOT_SERVED_S, SLOW_MS, strains_of

NODES = ("n1", "n2", "n3", "n4")


def serving(situation: Situation, served: Mapping[int, int]) -> Situation:
    """Each replica of these partitions serves so much a second."""
    nodes = {
        node: replace(
            view,
            replicas={
                name: each._replace(served_s=served.get(name.partition, 0)) for name, each in view.replicas.items()
            },
        )
        for node, view in situation.nodes.items()
    }
    return replace(situation, nodes=nodes)


def moves(situation: Situation) -> list[str]:
    plan = plan_rebalance(situation, auto=True)
    return [f"{step.partition.partition} {step.source}>{step.node}" for step in plan.steps]


def test_who_serves_twice_as_much_as_the_others_is_hot_and_its_busiest_replicas_go() -> None:
    cluster = with_table(with_nodes(*NODES), ["n1", "n1", "n1", "n2", "n3", "n4"])
    situation = serving(seen(cluster), {0: 3000, 1: 1500, 2: 1000, 3: 1000, 4: 800, 5: 500})
    assert strains_of(situation) == [
        ("n1", "hot", "serves 5,500 keys and records a second, the others 766 on average"),
    ]
    # Partition 0 would make any other node as hot as n1 is without it.
    assert moves(situation) == ["1 n1>n4", "2 n1>n3"]


def test_one_partition_that_is_nearly_all_of_the_load_stays() -> None:
    cluster = with_table(with_nodes(*NODES), ["n1", "n1", "n2", "n3"])
    situation = serving(seen(cluster), {0: 50_000, 2: 200})
    assert moves(situation) == []
    notes = plan_rebalance(situation, auto=True).notes
    assert notes[1] == "node n1 stays hot: wherever its busiest replicas went, it would be as hot there"


def test_less_than_would_matter_makes_nobody_hot() -> None:
    cluster = with_table(with_nodes(*NODES), ["n1", "n1", "n2", "n3"])
    assert strains_of(serving(seen(cluster), {0: HOT_SERVED_S - 1})) == []
    assert [each.kind for each in strains_of(serving(seen(cluster), {0: HOT_SERVED_S}))] == ["hot"]
    even = serving(seen(cluster), {0: 9000, 1: 0, 2: 9000, 3: 9000})
    assert strains_of(even) == []
    alone = with_table(with_nodes("n1"), ["n1"])
    assert strains_of(serving(seen(alone), {0: 90_000})) == [], "there is nobody to compare it with"


def test_a_replica_that_was_taken_off_a_hot_node_does_not_come_back() -> None:
    cluster = with_table(with_nodes("n1", "n2"), ["n1", "n1", "n2"])
    hot = serving(seen(cluster), {0: 4000, 1: 3000, 2: 0})
    assert moves(hot) == ["1 n1>n2"] or moves(hot) == ["0 n1>n2"]
    after = with_table(with_nodes("n1", "n2"), ["n2", "n1", "n2"])
    assert strains_of(serving(seen(after), {0: 4000, 1: 3000, 2: 0})) == []


def test_a_node_with_two_troubles_is_named_once_the_urgent_one_first() -> None:
    cluster = with_table(with_nodes("n1", "n2"), ["n1 n2", "n1 n2"])
    situation = serving(seen(cluster), {})
    view = situation.nodes["n1"]
    late = {name: each._replace(state="behind", lag_ms=SLOW_MS) for name, each in view.replicas.items()}
    full = replace(view, replicas=late, disk_free=10 << 20, disk_used=90 << 20)
    strained = replace(situation, nodes={**situation.nodes, "n1": full})
    assert strains_of(strained) == [("n1", "full", "has 10 MiB of its disk free, 10%")]
    slow = replace(situation, nodes={**situation.nodes, "n1": replace(view, replicas=late)})
    assert strains_of(slow) == [("n1", "slow", "lags with 2 of its replicas, while others are level")]
