"""Every model holds in all of its states, every action happens in one of them, and every planted mistake is found."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spec.checker import check, missing, models
from spec.definitions import SPECIFICATIONS, actions_of
from spec.planted import PLANTED, Mistake

FULL = os.environ.get("DURAMEN_CAMPAIGN") == "1"
LARGE = "-large"
"""Models for the campaign."""

pytestmark = [
    pytest.mark.spec,
    pytest.mark.campaign,
    pytest.mark.skipif(bool(missing()), reason=missing()),
]


@pytest.mark.parametrize("specification", SPECIFICATIONS)
def test_every_model_holds(specification: str, tmp_path: Path) -> None:
    fired: set[str] = set()
    for model in models(specification):
        if model.endswith(LARGE) and not FULL:
            continue
        folder = tmp_path / model
        folder.mkdir()
        found = check(model, folder)
        assert not found.violated, f"{model}: {found.violated} does not hold\n{found.output}"
        assert found.left == 0, f"{model}: {found.left} states were not visited"
        fired |= found.fired
    never = set(actions_of(specification)) - fired
    assert not never, f"these actions happen in no model: {never}"


@pytest.mark.parametrize("mistake", PLANTED, ids=lambda mistake: f"{mistake.found_by}-{mistake.bug}")
def test_a_planted_mistake_is_found(mistake: Mistake, tmp_path: Path) -> None:
    if mistake.model.endswith(LARGE) and not FULL:
        pytest.skip("in the campaign: it takes a minute and a half")
    found = check(mistake.model, tmp_path, bug=mistake.bug, only=mistake.found_by)
    assert found.violated == mistake.found_by, f"TLC found nothing in {found.states} states"
