"""Clusters in the simulation: every property holds, the same story from the same seed, each planted bug is found."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from kit.deadlines import patience_s

from simulation.cluster_jobs import STEPS, never_met
from simulation.planted import plant
from simulation.run import run_seed
from simulation.worlds import BUGS

ROOT = Path(__file__).parents[2]
FULL = os.environ.get("DURAMEN_CAMPAIGN") == "1"
GROUPS = 4
SEEDS = 100 if FULL else 2
"""In each group; a run takes about a second of a processor."""
FOUND_WITHIN = 60
"""Seeds after which each planted bug is found."""
SOON_FOUND_FROM = {
    "a repeated batch takes effect twice": 12,
    "an empty version begins behind the place that its clearing names": 41,
    "a snapshot of before a swap and its rollback covers the log": 4,
    "a standby applies what the live version rejected": 2,
    "a trim goes past the verified snapshot": 41,
    "an index of another history than its log is believed": 10,
}
"""Seeds to begin with where none before them finds a bug; else the first."""


def again(seed: int) -> str:
    return f"again: python -m tests.simulation --world cluster --seed {seed} --story"


@pytest.mark.campaign
@pytest.mark.parametrize("group", range(GROUPS))
def test_a_cluster_keeps_every_property(group: int, record_property: Callable[[str, object], None]) -> None:
    met: Counter[str] = Counter()
    for seed in range(group * SEEDS, (group + 1) * SEEDS):
        outcome = run_seed(seed, "cluster")
        met += outcome.met
        assert not outcome.broken, f"{outcome.words}\n{again(seed)}"
        assert outcome.met["answer ok"], f"no call of seed {seed} was answered\n{again(seed)}"
    record_property("simulation cluster seeds", SEEDS)
    record_property("simulation met", dict(met))
    assert any(name.startswith("incident") for name in met), met
    if FULL:
        assert not never_met(met), "no incident of these seeds met a task that does this"


def test_a_step_that_no_incident_met_is_named() -> None:
    met = {f"step of a job, {action} waiting: kill": 1 for action in STEPS}
    assert never_met(met) == []
    some = {"incident kill": 3, "step of move, move waiting: cut": 2, "step of clear, stage waiting: cut": 1}
    assert never_met(some) == ["add", "rebuild", "snapshot", "swap"]


@pytest.mark.campaign
def test_a_seed_is_one_story_of_a_cluster() -> None:
    """In any process, whatever its hashes."""
    stories = {
        subprocess.run(
            [sys.executable, "-m", "tests.simulation", "--world", "cluster", "--seed", "3"],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": str(number)},
            capture_output=True,
            text=True,
            timeout=patience_s(60),
            check=True,
        ).stdout
        for number in range(5 if FULL else 2)
    }
    assert len(stories) == 1, stories


@pytest.mark.parametrize("name", BUGS["cluster"])
def test_a_bug_planted_in_a_cluster_is_found(name: str) -> None:
    with plant(BUGS["cluster"][name]):
        seeds = range(SOON_FOUND_FROM.get(name, 0), FOUND_WITHIN)
        assert any(run_seed(seed, "cluster").broken for seed in seeds)
