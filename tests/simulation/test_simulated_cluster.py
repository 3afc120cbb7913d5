"""Clusters in the simulation: every property holds, the same story from the same seed, each planted bug is found."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable

import pytest

from simulation.elsewhere import digests_elsewhere
from simulation.first_seeds import find_planted
from simulation.job_steps import ACTIONS, KINDS, never_met, steps_met
from simulation.run import run_seed
from simulation.worlds import BUGS

FULL = os.environ.get("DURAMEN_CAMPAIGN") == "1"
GROUPS = 8
SEEDS = 100 if FULL else 3
"""In each group; a run takes two seconds of a quiet processor, more or less."""
FOUND_WITHIN = 60
"""Runs after which each planted bug is found."""


def again(seed: int) -> str:
    return f"again: python -m tests.simulation --world cluster --seed {seed} --story"


@pytest.mark.campaign
@pytest.mark.parametrize("group", range(GROUPS))
def test_a_cluster_keeps_every_property(group: int, record_property: Callable[[str, object], None]) -> None:
    met: Counter[str] = Counter()
    digests: list[str] = []
    seeds = range(group * SEEDS, (group + 1) * SEEDS)
    for seed in seeds:
        outcome = run_seed(seed, "cluster")
        met += outcome.met
        digests.append(outcome.digest)
        assert not outcome.broken, f"{outcome.words}\n{again(seed)}"
        assert outcome.met["answer ok"], f"no call of seed {seed} was answered\n{again(seed)}"
    record_property("simulation world", "cluster")
    record_property("simulation seeds", SEEDS)
    record_property("simulation met", dict(met))
    assert any(name.startswith("incident") for name in met), met
    if group == GROUPS - 1:
        assert digests_elsewhere(seeds, "cluster", hashes=1) == digests, "a seed is one story, in any process"


def test_a_step_that_no_incident_met_is_named() -> None:
    met = {f"step of a job, {action} waiting: kill": 1 for action in ACTIONS}
    met |= {f"step of {kind}, {'swap running' if kind == 'rollback' else 'under way'}: cut": 2 for kind in KINDS}
    assert never_met(met) == []
    some = {"incident kill": 3, "step of move, move waiting: cut": 2, "step of clear, stage waiting: one way": 1}
    assert never_met(some) == [each for each in (*ACTIONS, *KINDS) if each not in ("move", "clear", "stage")]
    assert steps_met(some)["clear"] == {"one way": 1}


@pytest.mark.parametrize("name", BUGS["cluster"])
def test_a_bug_planted_in_a_cluster_is_found(name: str) -> None:
    assert find_planted("cluster", name, FOUND_WITHIN)
