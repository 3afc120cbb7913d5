"""Relief in any cluster whose disks and loads stay what they are: it comes to an end, and no move is undone."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st
from kit.cluster.situations import folded, seen, with_nodes, with_table

from log_tier.catalog.cluster_map import ClusterMap
from log_tier.catalog.commands import StartJob, TaskDone, TaskReady
from log_tier.model.identifiers import PartitionId
from router.admin.planners.cluster_view import Situation
from router.admin.planners.strains import served_by_node, strains_of
from router.admin.relief.decision import decide_relief

DISK = 1000
ROUNDS_MAX = 200


@dataclass
class _Load:
    """What each partition takes of a disk and serves, and what others have on each disk."""

    sizes: list[int]
    served: list[int]
    others: dict[str, int]

    def situation(self, cluster: ClusterMap) -> Situation:
        plain = seen(cluster, sizes=dict(enumerate(self.sizes)))
        nodes = {}
        for node, view in plain.nodes.items():
            replicas = {
                name: each._replace(served_s=self.served[name.partition]) for name, each in view.replicas.items()
            }
            used = min(DISK, self.others[node] + sum(self.sizes[name.partition] for name in replicas))
            nodes[node] = replace(view, replicas=replicas, disk_free=DISK - used, disk_used=used)
        return replace(plain, nodes=nodes)


@st.composite
def loaded(draw: st.DrawFn) -> tuple[ClusterMap, _Load]:
    nodes = [f"n{number}" for number in range(1, draw(st.integers(2, 5)) + 1)]
    replicas = draw(st.integers(1, min(3, len(nodes))))
    count = draw(st.integers(1, 10))
    held = [" ".join(draw(st.permutations(nodes))[:replicas]) for _ in range(count)]
    sizes = draw(st.lists(st.integers(1, 120), min_size=count, max_size=count))
    served = draw(st.lists(st.sampled_from([0, 10, 900, 3000, 20_000]), min_size=count, max_size=count))
    others = {node: draw(st.integers(0, 900)) for node in nodes}
    return with_table(with_nodes(*nodes), held), _Load(sizes, served, others)


@given(loaded())
def test_it_comes_to_an_end_and_no_move_is_undone(made: tuple[ClusterMap, _Load]) -> None:
    cluster, load = made
    situation = load.situation(relieved(cluster, load))
    strains = strains_of(situation)
    assert decide_relief(situation, strains, [each.node for each in strains]).command is None


def test_two_hot_holders_of_a_partition_may_both_give_it_away() -> None:
    """The first to one node, and then the second to the first, which is cool now: its copy is another one."""
    cluster = with_table(with_nodes("n1", "n2", "n3", "n4", "n5"), ["n3 n4", "n3 n4", "n1 n2", "n1 n2", "n3 n4"])
    others = {"n1": 748, "n2": 0, "n3": 0, "n4": 0, "n5": 0}
    load = _Load([1] * 5, [900, 900, 0, 0, 900], others)
    hottest = max(served_by_node(load.situation(cluster)).values())
    after = relieved(cluster, load)
    assert max(served_by_node(load.situation(after)).values()) < hottest


def relieved(cluster: ClusterMap, load: _Load) -> ClusterMap:
    """The cluster when nothing is left to be done. Each step is looked at."""
    moved: set[tuple[PartitionId, str, str]] = set()
    places = [placed(cluster)]
    for _ in range(ROUNDS_MAX):
        situation = load.situation(cluster)
        strains = strains_of(situation)
        decision = decide_relief(situation, strains, [each.node for each in strains])
        if decision.command is None:
            return cluster
        assert decision.plan is not None
        assert isinstance(decision.command, StartJob)
        hottest = max(served_by_node(situation).values())
        for step in decision.plan.steps:
            assert (step.partition, step.node, step.source) not in moved, f"{step} undoes a move"
            moved.add((step.partition, step.source, step.node))
        cluster = folded(cluster, decision.command)
        job = max(cluster.jobs)
        for number, step in enumerate(decision.plan.steps):
            cluster = folded(cluster, TaskReady(job, number, step.node), TaskDone(job, number, step.node))
        assert placed(cluster) not in places, "it goes round in a circle"
        places.append(placed(cluster))
        after = load.situation(cluster)
        if decision.command.arguments["strain"] == "hot":
            assert max(served_by_node(after).values()) <= hottest, "another node is hotter now"
        assert not {step.node for step in decision.plan.steps} & {
            each.node for each in strains_of(after) if each.kind == "full"
        }, "who took is full"
    raise AssertionError("it does not come to an end")


def placed(cluster: ClusterMap) -> list[frozenset[str]]:
    """Which nodes hold each partition."""
    return [frozenset(each.node for each in holders) for holders in cluster.find("flights").assignments]
