"""Plans that are remembered by the names of their conditions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.flight_rows import FLIGHTS

from log_tier.model.errors import InvalidRequest
from log_tier.rows.finding.conditions import CONDITIONS_MAX, conditions_of
from log_tier.rows.finding.find_plan import find_plan
from log_tier.rows.finding.find_planner import FindPlanner
from log_tier.rows.finding.found_range import FindPlan
from log_tier.rows.table_index import TableIndex
from log_tier.rows.tuple_key import pack_key

SERVED = replace(
    FLIGHTS,
    indexes=(
        TableIndex(1, "by_tail", ("tailnum", "dep_delay")),
        TableIndex(2, "by_delay", ("dep_delay",)),
        TableIndex(3, "late", ("flight",), conditions_of({"dep_delay": (60, None)}, FLIGHTS)),
        TableIndex(4, "of_n1", ("flight", "dep_delay"), conditions_of({"tailnum": ("N1", "N2")}, FLIGHTS)),
    ),
)

WANTED: dict[str, st.SearchStrategy[Any]] = {
    "carrier": st.sampled_from(["UA", "DL", ("UA", None), 7]),
    "flight": st.sampled_from([1, (1, 5), (5, 1), ()]),
    "tailnum": st.sampled_from([None, "N1", "N2", ("N1", "N2"), ("N1", "N10"), ("N", None)]),
    "dep_delay": st.sampled_from([0.0, 90.0, float("nan"), (60, None), (61, None), (59, None), (None, 1.5)]),
    "gate": st.just("B7"),
}
ORDERS = st.sampled_from([None, "", (), [], "dep_delay", "-dep_delay", ["flight"], ("tailnum", "-flight"), 7])


@given(st.lists(st.tuples(st.fixed_dictionaries({}, optional=WANTED), ORDERS), min_size=2, max_size=40))
def test_a_remembered_plan_is_that_of_the_first_time(asked: list[tuple[Mapping[str, Any], Any]]) -> None:
    planner = FindPlanner(SERVED)
    for wanted, order in asked:
        expected = outcome(lambda: find_plan(SERVED, conditions_of(wanted, SERVED), order, sorts=True))  # noqa: B023 - called at once
        assert outcome(lambda: planner.plan(wanted, order)) == expected  # noqa: B023 - called at once


def outcome(plan: Callable[[], FindPlan]) -> FindPlan | str:
    """A plan, or why there is none."""
    try:
        return plan()
    except InvalidRequest as error:
        return error.message


def test_a_plan_takes_the_values_of_its_own_call() -> None:
    planner = FindPlanner(replace(SERVED, indexes=SERVED.indexes[:2]))
    plans = [planner.plan({"tailnum": each, "flight": number}) for number, each in enumerate(["N1", "N2", None])]
    assert len({each.start for each in plans}) == 3
    assert [each.rest[0].start for each in plans] == [b"\x14", b"\x15\x01", b"\x15\x02"]


def test_a_plan_knows_how_the_keys_begin_that_are_wanted() -> None:
    planner = FindPlanner(SERVED)
    begin: dict[bytes, list[dict[str, Any]]] = {
        pack_key("UA"): [{"tailnum": "N1", "carrier": "UA"}, {"carrier": "UA", "flight": (1, 5)}],
        pack_key("DL", 7): [{"dep_delay": (60, None), "flight": 7, "carrier": "DL"}, {"carrier": "DL", "flight": 7}],
        b"": [
            {"tailnum": "N1"},
            {"tailnum": "N1", "flight": 7},
            {"tailnum": "N1", "carrier": ("UA", None), "flight": 7},
        ],
    }
    for key_prefix, asked in begin.items():
        for conditions in asked:
            assert planner.plan(conditions).key_prefix == key_prefix


def test_any_number_of_ways_may_be_asked_for() -> None:
    planner = FindPlanner(SERVED)
    for turn in range(600):
        order = ["tailnum"] * (turn % 400)
        wanted = {"tailnum": f"N{turn}"}
        assert planner.plan(wanted, order) == find_plan(SERVED, conditions_of(wanted, SERVED), order, sorts=True)
    with pytest.raises(InvalidRequest, match=f"at most {CONDITIONS_MAX} conditions"):
        planner.plan({f"f{number}": 1 for number in range(CONDITIONS_MAX + 1)})
