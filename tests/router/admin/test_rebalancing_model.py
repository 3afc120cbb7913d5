"""Rebalancing by any cluster: even afterwards, with as few moves as there can be, and never two copies on one node."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from kit.cluster.situations import seen, with_nodes, with_table

from router.admin.planners.cluster_view import Situation
from router.admin.planners.plan import check_plan
from router.admin.planners.rebalance import plan_rebalance


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    nodes = [f"n{number}" for number in range(1, draw(st.integers(1, 7)) + 1)]
    cluster = with_nodes(*nodes)
    for number in range(draw(st.integers(0, 3))):
        replicas = draw(st.integers(1, len(nodes)))
        holders = st.permutations(nodes).map(lambda order, count=replicas: " ".join(order[:count]))  # type: ignore[misc]
        # A skew that random draws seldom have: all partitions at the same nodes.
        same = draw(st.booleans())
        count = draw(st.integers(1, 9))
        assignments = [draw(holders)] * count if same else draw(st.lists(holders, min_size=count, max_size=count))
        cluster = with_table(cluster, assignments, name=f"t{number}")
    lost = draw(st.lists(st.sampled_from(nodes), unique=True, max_size=len(nodes) - 1))
    sizes = draw(st.dictionaries(st.integers(0, 8), st.integers(0, 9)))
    return seen(cluster, lost=lost, sizes=sizes)


@given(situations())
def test_rebalancing_is_even_and_minimal(situation: Situation) -> None:
    takers = situation.takers()
    before = Counter(dict.fromkeys(takers, 0))
    for table in situation.cluster.tables.values():
        for assigned in table.assignments:
            before.update(replica.node for replica in assigned if replica.node in before)
    plan = plan_rebalance(situation)

    after = before.copy()
    for step in plan.steps:
        after[step.source] -= 1
        after[step.node] += 1
    assert max(after.values()) - min(after.values()) <= 1, f"{before} became {after}"

    total, count = sum(before.values()), len(takers)
    low, high = total // count, -(-total // count)
    surplus = sum(max(0, load - high) for load in before.values())
    deficit = sum(max(0, low - load) for load in before.values())
    assert len(plan.steps) == max(surplus, deficit), f"{before}: {len(plan.steps)} moves"

    assert not {step.source for step in plan.steps} & {step.node for step in plan.steps}, "a node gives and takes"
    assert {step.node for step in plan.steps} <= set(takers), "a lost node takes"
    mapped = check_plan(situation.cluster, plan.command)  # the fold takes it: no partition twice on one node
    assert (mapped.jobs[max(mapped.jobs)].state == "running") == bool(plan.steps)
