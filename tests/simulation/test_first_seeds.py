"""Where searches for planted bugs begin: known bugs alone; better seeds are kept, and the search stops in time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simulation.first_seeds import FIRST_SEEDS, SHOWN_WHERE, first_seed, may_show, write_first_seeds
from simulation.plan import plan_of
from simulation.run import Outcome, run_seed
from simulation.seed_search import ShownBug, demand, search_first_seeds
from simulation.worlds import BUGS, WORLDS, WorldName

BUG, OTHER = list(BUGS["log"])[:2]


@pytest.mark.parametrize("world", WORLDS)
def test_every_first_seed_is_of_a_bug_that_is_planted(world: WorldName) -> None:
    """A bug that was renamed would begin at 0 again, and cost what its seed had saved."""
    assert not FIRST_SEEDS[world].keys() - BUGS[world].keys()
    assert not SHOWN_WHERE.get(world, {}).keys() - BUGS[world].keys()


def test_a_run_may_show_what_its_plan_has() -> None:
    lying = [may_show("log", "a batch of another partition is believed")(seed) for seed in range(20)]
    assert lying == [bool(plan_of(seed).damages) for seed in range(20)]
    assert any(lying)
    assert not all(lying)


def test_better_seeds_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "seeds.json"
    file.write_text(json.dumps({"log": {BUG: 3, "gone": 4}, "resp": {"of another search": 5}}))
    monkeypatch.setitem(FIRST_SEEDS, "log", {})
    write_first_seeds("log", {OTHER: 7}, file=file)
    assert json.loads(file.read_text()) == {"log": {BUG: 3, OTHER: 7}, "resp": {"of another search": 5}}
    write_first_seeds("log", {BUG: 0}, file=file)
    assert json.loads(file.read_text())["log"] == {OTHER: 7}
    assert (first_seed("log", BUG), first_seed("log", OTHER)) == (0, 7)


class Runs:
    """Runs of which the cost is known; a bug shows in some of them."""

    def __init__(self, costs: dict[int, float], shown: set[int]) -> None:
        self._costs, self._shown = costs, shown
        self.asked: list[int] = []

    def run(self, seed: int, world: WorldName, *, within_s: float = 1000.0) -> Outcome:
        self.asked.append(seed)
        cost_s = self._costs.get(seed, 9.0)
        is_stopped = cost_s > within_s
        return Outcome(
            seed,
            "damage" if seed in self._shown and not is_stopped else "",
            processor_s=min(cost_s, within_s),
            is_stopped=is_stopped,
        )


def searched(runs: Runs, *bugs: str, candidates: int = 4) -> list[ShownBug]:
    return list(search_first_seeds("log", bugs, candidates, 1.0, runs.run))


def test_the_cheapest_that_shows_it_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FIRST_SEEDS, "log", {BUG: 5})
    runs = Runs({5: 8.0, 0: 6.0, 1: 1.0, 2: 3.0, 3: 2.9, 4: 0.1}, {5, 0, 2, 3, 4})
    assert searched(runs, BUG) == [
        ShownBug(BUG, 5, 8.0, 2, 3.0, is_shown=True)
    ]  # 0 and 3 are hardly better, 4 is too far
    assert runs.asked == [5, 0, 1, 2, 3]


def test_what_is_cheap_enough_is_not_searched_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FIRST_SEEDS, "log", {BUG: 5})
    runs = Runs({5: 0.9}, {5, 0})
    assert searched(runs, BUG) == [ShownBug(BUG, 5, 0.9, 5, 0.9, is_shown=True)]
    assert runs.asked == [5]


def test_what_showed_one_bug_is_tried_first_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FIRST_SEEDS, "log", {})
    runs = Runs({3: 0.5, 0: 4.0}, {3})
    assert [each.seed for each in searched(runs, BUG, OTHER)] == [3, 3]
    assert runs.asked == [0, 1, 2, 3, 0, 3]


def test_plans_of_clusters_that_ask_for_little_are_tried_first(monkeypatch: pytest.MonkeyPatch) -> None:
    bug = "a repeated batch takes effect twice"
    monkeypatch.setitem(FIRST_SEEDS, "cluster", {})
    runs = Runs({}, set())
    list(search_first_seeds("cluster", [bug], 8, 1.0, runs.run))
    first, *tried = [demand(seed) for seed in runs.asked]
    assert tried == sorted(tried)
    assert max(tried) < first, "seed 0, which is not searched for, has trims and rows"


def test_what_is_shown_nowhere_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FIRST_SEEDS, "log", {})
    (found,) = searched(Runs({}, set()), BUG)
    assert not found.is_shown


def test_a_run_that_costs_too_much_is_stopped_and_not_judged() -> None:
    outcome = run_seed(0, within_s=0.0)
    assert outcome.is_stopped
    assert not outcome.broken
    assert not run_seed(0, within_s=100.0).is_stopped
