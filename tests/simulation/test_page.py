"""The page at the end of a campaign: its promises are those of the documentation, and its counts those of the runs."""

from __future__ import annotations

from pathlib import Path

from simulation.page import PROMISED, fault_of, page
from simulation.worlds import WORLDS

RELIABILITY = Path(__file__).parents[2] / "docs" / "RELIABILITY.md"


def test_the_promises_are_those_of_the_documentation() -> None:
    section = RELIABILITY.read_text().partition("## Promises")[2].partition("`duramen check`")[0]
    rows = [row.strip("| ").split(" | ") for row in section.splitlines() if row.startswith("| `")]
    documented = {
        name.strip("`"): tuple(WORLDS) if worlds == "all" else tuple(worlds.split(", ")) for name, _, worlds in rows
    }
    assert {name: set(worlds) for name, worlds in documented.items()} == {
        name: set(worlds) for name, worlds in PROMISED.items()
    }


def test_what_is_a_fault() -> None:
    assert fault_of("power at sync") == "disk: power"
    assert fault_of("flip in log") == "disk: flip"
    assert fault_of("sync fails at sync_folder") == "disk: sync"
    assert fault_of("incident one way") == "one way"
    assert fault_of("answer ok") == fault_of("step of move, move waiting: kill") == ""


def test_the_page_has_every_world_that_ran_and_names_what_was_never_met() -> None:
    met = {
        "log": {"power at sync": 3, "power at write": 2},
        "cluster": {"incident kill": 7, "step of move, move waiting: kill": 4},
    }
    lines = page({"log": 10, "cluster": 2}, met, 1)
    assert lines[0].split()[-2:] == ["log", "cluster"]
    assert [line.split() for line in lines if line.startswith(("I4", "dense", "disk: power", "move"))] == [
        ["dense", "10"],
        ["I4", "2"],
        ["disk:", "power", "5"],
        ["move", "1", "4"],
    ]
    assert lines[-1].startswith("12 seeds, 1 violations; steps that no fault met: add, compact")
