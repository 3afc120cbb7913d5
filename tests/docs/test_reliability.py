"""The page of promises names every property that the simulation checks, in its words."""

from __future__ import annotations

from pathlib import Path

from simulation.book import PROPERTIES
from simulation.worlds import WORLDS

from duramen.verification.checker import INVARIANTS

PAGE = (Path(__file__).parents[2] / "docs" / "RELIABILITY.md").read_text(encoding="utf-8")


def test_every_property_and_every_world_is_on_the_page() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| `")]
    named = {row.split("`")[1] for row in rows}
    assert {*PROPERTIES, *INVARIANTS, *WORLDS} <= named, {*PROPERTIES, *INVARIANTS, *WORLDS} - named
