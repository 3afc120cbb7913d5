"""Nodes that have too much in a simulated cluster: relieved once, filling nobody, and every planted bug is found."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable

import pytest

from duramen.testing import run
from simulation.book import Broken
from simulation.planted import plant
from simulation.planted_relief import PLANTED_IN_RELIEF
from simulation.relieving import relieve_by_seed

SEEDS = 200 if os.environ.get("DURAMEN_CAMPAIGN") == "1" else 8
FOUND_WITHIN = 40
FOUND_FROM = {
    "two reliefs are under way at once": 10,
    "a node is filled to relieve another": 1,
    "a full node relieves a full one": 1,
    "relief that is switched off goes on": 4,
    "a hot node is not seen": 1,
    "what makes a node hot goes where it makes another one as hot": 2,
}
"""Seeds to begin with, which save time: the others follow, for a change of the product moves what a seed comes to."""
LIMIT_S = 10_000.0


def relieved(seed: int) -> Counter[str]:
    return run(lambda: relieve_by_seed(seed), seed=seed, limit_s=LIMIT_S)


def test_who_has_too_much_is_relieved(record_property: Callable[[str, object], None]) -> None:
    met: Counter[str] = Counter()
    for seed in range(SEEDS):
        try:
            met += relieved(seed)
        except Exception as error:
            error.add_note(f"with seed {seed}")
            raise
    record_property("simulation met", dict(met))
    assert met["relief of a full node done"], met
    assert met["a node is hot"] + met["a node is hot by one partition"], met


@pytest.mark.parametrize("name", PLANTED_IN_RELIEF)
def test_a_bug_planted_in_relief_is_found(name: str) -> None:
    first = FOUND_FROM.get(name, 0)
    with plant(PLANTED_IN_RELIEF[name]):
        assert any(is_broken(seed) for seed in range(first, first + FOUND_WITHIN))


def is_broken(seed: int) -> bool:
    try:
        relieved(seed)
    except Broken:
        return True
    return False
