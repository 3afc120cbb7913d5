"""What a bar says of what was measured."""

from __future__ import annotations

from bench.rounds import Outcome, Run, SideRuns
from bench.statistics import Spread
from bench.verdicts import judge
from bench.workload import Bar, Measurement, Needs, Side, Workload


def _outcome(bar: Bar, sides: dict[str, list[float]], absent: dict[str, str] | None = None) -> Outcome:
    workload = Workload("some", "some workload", tuple(Side(name, "peer", None) for name in sides), (bar,))
    runs = {
        name: SideRuns(name, "peer", [Run(Measurement({bar.metric: value}, "1"), None, 0.0) for value in values])
        for name, values in sides.items()
    }
    return Outcome(workload, runs, absent or {})


def test_a_ratio_is_made_inside_each_round() -> None:
    bar = Bar("per_second", "at least", 0.7, "floor")
    verdict = judge(bar, _outcome(bar, {"duramen": [80, 30, 90], "floor": [100, 50, 100]}))
    assert verdict.found == Spread(median=0.8, low=0.6, high=0.9)
    assert verdict.state == "held"
    assert verdict.demand == "per second ≥ 0.7 × floor"


def test_a_difference_is_held_to_a_limit_in_the_metrics_own_unit() -> None:
    bar = Bar("visible_p99_us", "at most", 5000, "floor", compared_by="difference")
    verdict = judge(bar, _outcome(bar, {"duramen": [4000, 9000, 3000], "floor": [1000, 1000, 1000]}))
    assert verdict.found == Spread(median=3000, low=2000, high=8000)
    assert verdict.state == "held"
    assert verdict.demand == "visible p99 µs ≤ floor + 5,000"
    slower = judge(bar, _outcome(bar, {"duramen": [9000], "floor": [1500]}))
    assert slower.answer == "**missed** by 50%"


def test_what_is_absent_is_named() -> None:
    bar = Bar("per_second", "at least", 2, "peer")
    verdict = judge(bar, _outcome(bar, {"duramen": [1]}, {"peer": "needs a broker"}))
    assert (verdict.state, verdict.answer) == ("not measured", "not measured: peer: needs a broker")


def test_a_side_is_absent_for_whatever_its_needs_find() -> None:
    assert Needs(here=lambda: "no jars").missing() == "no jars"
    assert Needs(here=lambda: None).missing() is None
    # What is not installed comes first: asking further would need it.
    assert Needs(("no_such_module",), install="nowhere", here=lambda: "no jars").missing() == (
        "no_such_module not found (nowhere)"
    )
