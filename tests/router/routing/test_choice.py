"""Which replica is asked: every fitness, every tie."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_tier.model.identifiers import Offset, Partition, PartitionId, TableId
from router.membership.views import NodeView, ReplicaView
from router.routing.choice import Candidate, Fitness, assign, choose, fitness_of

NAME = PartitionId(TableId("AAAAAAAAAAAAAAAAAAAAAA"), Partition(0))


def view(replica: ReplicaView | None, *, alive: bool = True) -> NodeView:
    return NodeView("n1", "host:1", alive=alive, replicas={} if replica is None else {NAME: replica})


def replica(state: str, applied: int = 10, lag_ms: int = 0) -> ReplicaView:
    return ReplicaView(Offset(applied), Offset(12), lag_ms, state)


@pytest.mark.parametrize(
    ("known", "after", "lag_max_ms", "fitness"),
    [
        (view(replica("ready")), 10, 0, Fitness.FRESH),
        (view(replica("ready")), -1, 0, Fitness.FRESH),
        (view(replica("ready")), 11, 0, Fitness.SOON),
        (view(replica("ready", lag_ms=500)), 10, 500, Fitness.FRESH),
        (view(replica("ready", lag_ms=501)), 10, 500, Fitness.SOON),
        (view(replica("ready", lag_ms=501)), 10, 0, Fitness.FRESH),
        (view(replica("behind", lag_ms=9000)), 10, 0, Fitness.BEHIND_FRESH),
        (view(replica("behind", lag_ms=9000)), 11, 0, Fitness.BEHIND),
        (view(replica("behind", lag_ms=9000)), 10, 1, Fitness.BEHIND),
        (view(replica("replaying")), 10, 0, Fitness.BEHIND_FRESH),
        (view(replica("replaying")), 11, 0, Fitness.BEHIND),
        (view(None), 10, 0, Fitness.UNHEARD),
        (view(replica("stopped")), 10, 0, Fitness.STOPPED_FRESH),
        (view(replica("stopped")), 11, 0, Fitness.STOPPED),
        (view(replica("stopped")), 10, 5, Fitness.STOPPED),
        (view(replica("bootstrapping", applied=-1)), -1, 0, Fitness.ABSENT),
        (view(replica("a state of a newer version")), 10, 0, Fitness.ABSENT),
        (view(replica("ready"), alive=False), 10, 0, Fitness.LOST),
        (view(None, alive=False), 10, 0, Fitness.LOST),
    ],
)
def test_every_kind_of_replica(known: NodeView, after: int, lag_max_ms: int, fitness: Fitness) -> None:
    assert fitness_of(known, NAME, Offset(after), lag_max_ms) == fitness


def draws(*numbers: float) -> object:
    left = list(numbers)
    return lambda: left.pop(0)


A, B, C = Candidate("a", 0, 50), Candidate("b", 0, 30), Candidate("c", 0, 40)


@pytest.mark.parametrize(
    ("candidates", "preferred", "numbers", "chosen"),
    [
        ([], (), (), None),
        ([A], (), (), "a"),
        ([A._replace(fitness=8)], ("b",), (), "a"),
        # A better fitness wins over load and over company.
        ([A, B._replace(fitness=1)], ("b",), (), "a"),
        ([A._replace(fitness=2), B._replace(fitness=1), C._replace(fitness=3)], ("a",), (), "b"),
        # Company wins over load.
        ([A, B, C], ("c",), (), "c"),
        ([A, B._replace(fitness=1), C], ("b", "c"), (), "c"),
        # The less loaded of the two that were drawn, though the third is less loaded still.
        ([A, B, C], (), (0.0, 0.99), "c"),
        ([A, B, C], (), (0.0, 0.0), "b"),
        ([A, B, C], (), (0.4, 0.0), "b"),
        ([A, B, C], (), (0.99, 0.0), "c"),
        ([A, C], (), (0.0, 0.5), "c"),
        # Nearly equal loads: the first that was drawn.
        ([A, A._replace(node="z", load=53)], (), (0.9, 0.0), "z"),
        ([A, A._replace(node="z", load=54)], (), (0.9, 0.0), "a"),
        ([A, A._replace(node="z")], (), (0.9, 0.0), "z"),
    ],
)
def test_choices(
    candidates: list[Candidate], preferred: tuple[str, ...], numbers: tuple[float, ...], chosen: str | None
) -> None:
    assert choose(candidates, preferred, draws(*numbers)) == chosen  # type: ignore[arg-type]


def test_equal_loads_are_shared_evenly() -> None:
    random = Random(1)
    counted = Counter(
        choose([A._replace(load=0), B._replace(load=0), C._replace(load=0)], (), random.random) for _ in range(9000)
    )
    assert set(counted) == {"a", "b", "c"}
    assert max(counted.values()) < 1.1 * min(counted.values())


def test_the_most_loaded_of_three_is_never_chosen() -> None:
    random = Random(2)
    counted = Counter(choose([A, B, C], (), random.random) for _ in range(1000))
    assert counted["a"] == 0
    assert counted["b"] > counted["c"] > 0


def test_parts_travel_together() -> None:
    parts = [(0, [A, B]), (1, [C, A, B]), (2, [C]), (3, []), (4, [B, C])]
    groups, nowhere = assign(parts, draws(0.0, 0.0, 0.0, 0.0))  # type: ignore[arg-type]
    assert groups == {"b": [0, 1, 4], "c": [2]}
    assert nowhere == [3]


@given(
    st.lists(
        st.lists(
            st.builds(Candidate, st.sampled_from("abcde"), st.sampled_from(list(Fitness)), st.integers(0, 9)),
            unique_by=lambda candidate: candidate.node,
            max_size=5,
        ),
        max_size=12,
    ),
    st.integers(0, 1000),
)
def test_every_part_gets_one_of_its_best(parts: list[list[Candidate]], seed: int) -> None:
    groups, nowhere = assign(enumerate(parts), Random(seed).random)
    assert sorted([number for mine in groups.values() for number in mine] + nowhere) == list(range(len(parts)))
    assert all(not parts[number] for number in nowhere)
    for node, mine in groups.items():
        for number in mine:
            best = min(candidate.fitness for candidate in parts[number])
            assert [each.fitness for each in parts[number] if each.node == node] == [best]
