"""Lost nodes in a simulated cluster: healed once, within a bounded time, and every planted bug is found."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable

import pytest

from duramen.testing import run
from simulation.book import Broken
from simulation.healing import heal_by_seed
from simulation.planted import plant
from simulation.planted_healing import PLANTED_IN_HEALING

SEEDS = 200 if os.environ.get("DURAMEN_CAMPAIGN") == "1" else 8
FOUND_WITHIN = 20
LIMIT_S = 10_000.0


def healed(seed: int) -> Counter[str]:
    return run(lambda: heal_by_seed(seed), seed=seed, limit_s=LIMIT_S)


def test_a_lost_node_is_healed(record_property: Callable[[str, object], None]) -> None:
    met: Counter[str] = Counter()
    for seed in range(SEEDS):
        try:
            met += healed(seed)
        except Exception as error:
            error.add_note(f"with seed {seed}")
            raise
    record_property("simulation met", dict(met))
    assert met["healing done"], met


@pytest.mark.parametrize("name", PLANTED_IN_HEALING)
def test_a_bug_planted_in_healing_is_found(name: str) -> None:
    with plant(PLANTED_IN_HEALING[name]):
        assert any(is_broken(seed) for seed in range(FOUND_WITHIN))


def is_broken(seed: int) -> bool:
    try:
        healed(seed)
    except Broken:
        return True
    return False
