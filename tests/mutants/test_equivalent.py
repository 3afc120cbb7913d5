"""The list of mutants that make no difference is about mutants that exist."""

from __future__ import annotations

from pathlib import Path

from .changes import mutants_of
from .equivalent import EQUIVALENT, stale_entries

_ROOT = Path(__file__).resolve().parents[2]


def test_every_listed_mutant_exists() -> None:
    files = sorted({Path(each.path) for each in EQUIVALENT})
    stale = stale_entries(_ROOT, (mutant for path in files for mutant in mutants_of(_ROOT, path)))
    assert not stale, f"the product has changed: judge these again, and change or remove them: {stale}"


def test_an_entry_names_no_line_that_is_not_meant() -> None:
    """It would explain a change that makes a difference."""
    wrong = [each for each in EQUIVALENT if len(each.lines_in((_ROOT / each.path).read_text())) != each.places]
    assert not wrong, f"say which line is meant (`above`), or how many are (`places`): {wrong}"
