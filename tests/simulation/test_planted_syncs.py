"""Each place of the log where a sync stands is planted, or it is said what covers it; and each planted one is found."""

from __future__ import annotations

import pytest

from simulation.planted import plant
from simulation.planted_syncs import COVERED, PLACES, PLANTED_SYNCS
from simulation.run import run_seed

FOUND_WITHIN = 500
"""Runs after which each planted bug is found; one takes some 0.05 s of a processor."""
FOUND_FROM = {
    "recover_newest does not fdatasync": 156,
    "recover_newest does not fdatasync, 2": 31,
    "DataFolder.delete does not sync_folder": 32,
    "replace_file does not sync_folder of journal.json": 52,
    "_sync_all does not fdatasync": 26,
}
"""Seeds to begin with, which save time: the others follow, for a change of the product moves what a seed comes to."""


def test_every_place_is_planted_or_covered() -> None:
    names = {str(place) for place in PLACES}
    assert len(names) == len(PLACES), "two places have one name"
    assert names >= COVERED.keys(), "a place that is said to be covered is gone"
    assert names - COVERED.keys() <= PLANTED_SYNCS.keys()
    assert not COVERED.keys() & PLANTED_SYNCS.keys()


@pytest.mark.parametrize("name", PLANTED_SYNCS)
def test_a_sync_left_out_is_found(name: str) -> None:
    first = FOUND_FROM.get(name, 0)
    with plant(PLANTED_SYNCS[name]):
        assert any(run_seed(seed).broken for seed in range(first, first + FOUND_WITHIN))
