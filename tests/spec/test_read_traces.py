"""What nodes of the simulation answer is a behaviour of ReadYourWrites; a trace in which one word is wrong is none."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from simulation.planted import plant

from log_tier.model.identifiers import NOTHING
from serving_tier.replica.replica import Replica
from spec.checker import Checked, missing, run_tlc
from spec.definitions import FOLDER
from spec.read_trace import ReadRecording, recorded_reads, steps_of_reads, tla_of_reads
from spec.trace import Step

pytestmark = [
    pytest.mark.spec,
    pytest.mark.campaign,
    pytest.mark.skipif(bool(missing()), reason=missing()),
]

SEEDS = range(30) if os.environ.get("DURAMEN_CAMPAIGN") == "1" else (1, 3, 6)
WITH_FAULTS = 6
"""A seed whose nodes end and begin anew, lose their indexes, and have readers who have seen nothing yet."""

ACCEPTED = "Unfinished"
NAMES = {"append", "merge", "apply", "may_answer", "open", "discard", "_begin_move", "bootstrap", "take_snapshot"}


def checked(steps: list[Step], folder: Path) -> Checked:
    for path in FOLDER.glob("*.tla"):
        shutil.copy(path, folder)
    tla_of_reads(steps, folder)
    return run_tlc("ReadYourWritesTrace", folder)


def most_varied(recording: ReadRecording) -> list[Step]:
    """Of the partition whose steps have most names, and of these the one with most answers."""
    shown = (events for partition, events in recording.events.items() if partition not in recording.left_out)
    return max(map(steps_of_reads, shown), key=lambda steps: (len({s["name"] for s in steps}), answers(steps)))


def answers(steps: list[Step]) -> int:
    return sum(step["name"] == "may_answer" for step in steps)


@pytest.fixture(scope="module")
def faults() -> list[Step]:
    return most_varied(recorded_reads(WITH_FAULTS))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_is_a_behaviour_of_the_specification(seed: int, tmp_path: Path) -> None:
    steps = most_varied(recorded_reads(seed))
    found = checked(steps, tmp_path)
    assert found.violated == ACCEPTED, f"refused, or a property broken: {steps[found.states - 1]}"
    assert found.states == len(steps) + 1


def test_a_trace_shows_what_is_to_be_shown(faults: list[Step]) -> None:
    assert {step["name"] for step in faults} == NAMES
    assert answers(faults) >= 5


@pytest.mark.parametrize(
    ("name", "word", "change"),
    [("may_answer", "offset", -1), ("apply", "offset", 1), ("open", "floor", -1), ("bootstrap", "floor", -1)],
)
def test_a_trace_with_one_wrong_word_is_refused(
    name: str, word: str, change: int, faults: list[Step], tmp_path: Path
) -> None:
    at = [n for n, step in enumerate(faults) if step["name"] == name and int(step[word]) + change >= 0][-1]
    wrong = {**faults[at], word: int(faults[at][word]) + change}
    found = checked([*faults[:at], wrong, *faults[at + 1 :]], tmp_path)
    assert found.violated != ACCEPTED
    assert found.states == at + 1, "it is refused at that step"


def test_a_reader_who_has_seen_more_than_it_was_shown_is_refused(faults: list[Step], tmp_path: Path) -> None:
    """The token of a later record than the one that the node had applied."""
    at = max(n for n, step in enumerate(faults) if step["name"] == "may_answer")
    newest = max(int(step["offset"]) for step in faults[:at] if step["name"] == "append")
    late: Step = {"name": "append", "session": f"w{newest + 1}", "offset": newest + 1}
    later: Step = {"name": "merge", "session": faults[at]["session"], "other": f"w{newest + 1}"}
    found = checked([*faults[:at], late, later, faults[at]], tmp_path)
    assert found.violated != ACCEPTED
    assert found.states == at + 3, "it is refused at the answer"


def test_a_run_with_a_planted_bug_is_refused(tmp_path: Path) -> None:
    """A replica that begins has no floor."""
    begin = Replica.__init__

    def without_floor(replica: Replica, *parts: Any, **options: Any) -> None:
        begin(replica, *parts, **options)
        replica.floor = NOTHING

    with plant(lambda: [(Replica, "__init__", without_floor)]):
        steps = most_varied(recorded_reads(WITH_FAULTS, may_break=True))
    assert checked(steps, tmp_path).violated != ACCEPTED
