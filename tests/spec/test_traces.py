"""Runs of the simulation are behaviours of the specification, and a trace in which one word is wrong is none."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from simulation.planted import plant

from serving_tier.fold.producers import ProducerOverlay
from spec.checker import Checked, missing, run_tlc
from spec.definitions import FOLDER
from spec.trace import Recording, Step, lines_of, module_of, recorded, steps_of

pytestmark = [
    pytest.mark.spec,
    pytest.mark.campaign,
    pytest.mark.skipif(bool(missing()), reason=missing()),
]

SEEDS = range(30) if os.environ.get("DURAMEN_CAMPAIGN") == "1" else (2, 3, 8)
WITH_REPEATS = 2
"""A seed whose clients send batches again, one of which the log gets twice, and whose index is lost."""

ACCEPTED = "Unfinished"


def checked(steps: list[Step], folder: Path) -> Checked:
    for path in FOLDER.glob("*.tla"):
        shutil.copy(path, folder)
    module_of(lines_of(steps), folder)
    return run_tlc("ExactlyOnceTrace", folder)


def busiest(recording: Recording) -> list[Step]:
    """The partition whose batches were sent again most often."""
    return max(map(steps_of, recording.events.values()), key=lambda steps: sum(s["name"] == "_try" for s in steps))


@pytest.fixture(scope="module")
def repeats() -> list[Step]:
    return busiest(recorded(WITH_REPEATS))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_is_a_behaviour_of_the_specification(seed: int, tmp_path: Path) -> None:
    steps = busiest(recorded(seed))
    found = checked(steps, tmp_path)
    assert found.violated == ACCEPTED, f"refused, or a property broken, after step {found.states - 1} of {steps}"
    assert found.states == len(steps) + 1


def test_a_trace_shows_what_is_to_be_shown(repeats: list[Step]) -> None:
    names = {step["name"] for step in repeats}
    assert {"_encoded", "_try", "append", "answered", "outcomes_between", "fold_in", "discard"} <= names
    assert any(step.get("void") for step in repeats), "no second copy was folded"


@pytest.mark.parametrize(
    ("name", "word", "value"),
    [
        ("fold_in", "void", True),
        ("outcomes_between", "original", 1),
        ("answered", "offset", 1),
        ("append", "write", 1),
        ("_try", "write", 1),
    ],
)
def test_a_trace_with_one_wrong_word_is_refused(
    name: str, word: str, value: int, repeats: list[Step], tmp_path: Path
) -> None:
    at = [number for number, step in enumerate(repeats) if step["name"] == name and step[word] != value][-1]
    found = checked([*repeats[:at], {**repeats[at], word: value}, *repeats[at + 1 :]], tmp_path)
    assert found.violated != ACCEPTED
    assert found.states == at + 1, "it is refused at that step"


def test_a_trace_without_a_fold_is_refused(repeats: list[Step], tmp_path: Path) -> None:
    at = next(number for number, step in enumerate(repeats) if step["name"] == "fold_in")
    assert checked([*repeats[:at], *repeats[at + 1 :]], tmp_path).violated != ACCEPTED


def test_a_second_copy_that_is_taken_for_the_first_is_refused(repeats: list[Step], tmp_path: Path) -> None:
    """A fold that does not know a duplicate."""
    at = next(number for number, step in enumerate(repeats) if step.get("void"))
    found = checked([*repeats[:at], {**repeats[at], "void": False}, *repeats[at + 1 :]], tmp_path)
    assert found.violated != ACCEPTED


def test_a_run_with_a_planted_bug_is_refused(tmp_path: Path) -> None:
    """The fold forgets every producer."""
    with plant(lambda: [(ProducerOverlay, "get", lambda overlay, producer_id: None)]):
        steps = busiest(recorded(WITH_REPEATS, may_break=True))
    assert checked(steps, tmp_path).violated != ACCEPTED
