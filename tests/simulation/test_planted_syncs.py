"""Each place of the log where a sync stands is planted, or it is said what covers it; and each planted one is found."""

from __future__ import annotations

import pytest

from simulation.first_seeds import find_planted
from simulation.planted_syncs import COVERED, PLACES, PLANTED_SYNCS

FOUND_WITHIN = 500
"""Runs after which each planted bug is found; one takes some 0.05 s of a processor."""


def test_every_place_is_planted_or_covered() -> None:
    names = {str(place) for place in PLACES}
    assert len(names) == len(PLACES), "two places have one name"
    assert names >= COVERED.keys(), "a place that is said to be covered is gone"
    assert names - COVERED.keys() <= PLANTED_SYNCS.keys()
    assert not COVERED.keys() & PLANTED_SYNCS.keys()


@pytest.mark.parametrize("name", PLANTED_SYNCS)
def test_a_sync_left_out_is_found(name: str) -> None:
    assert find_planted("log", name, FOUND_WITHIN)
