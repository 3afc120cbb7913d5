"""Clients of the Redis protocol at simulated clusters: every property holds, and each planted bug is found."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable

import pytest

from simulation.first_seeds import find_planted
from simulation.run import run_seed
from simulation.worlds import BUGS

FULL = os.environ.get("DURAMEN_CAMPAIGN") == "1"
WORLD = "cluster-resp"
GROUPS = 4
SEEDS = 100 if FULL else 3
"""In each group; a run takes about a second of a processor."""
FOUND_WITHIN = 60
"""Runs after which each planted bug is found."""


@pytest.mark.campaign
@pytest.mark.parametrize("group", range(GROUPS))
def test_endpoints_of_a_cluster_keep_every_property(group: int, record_property: Callable[[str, object], None]) -> None:
    met: Counter[str] = Counter()
    for seed in range(group * SEEDS, (group + 1) * SEEDS):
        outcome = run_seed(seed, WORLD)
        met += outcome.met
        assert not outcome.broken, (
            f"{outcome.words}\nagain: python -m tests.simulation --world {WORLD} --seed {seed} --story"
        )
    record_property("simulation world", WORLD)
    record_property("simulation seeds", SEEDS)
    record_property("simulation met", dict(met))
    assert met["answer ok"] > 0
    assert met["replica compared"] > 0
    assert any(name.startswith("incident") for name in met), met


@pytest.mark.parametrize("name", BUGS[WORLD])
def test_a_bug_planted_in_endpoints_of_a_cluster_is_found(name: str) -> None:
    assert find_planted(WORLD, name, FOUND_WITHIN)
