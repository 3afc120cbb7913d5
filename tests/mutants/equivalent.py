"""Mutants that no test can tell from the product, and why."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from .changes import Mutant

__all__ = ["EQUIVALENT", "EquivalentMutant", "reason_for", "stale_entries"]


class EquivalentMutant(NamedTuple):
    """One entry. It goes stale when its line, or what the mutant does to it, is no longer there."""

    path: str
    line: str
    """The text of the line, without the blanks around it."""
    change: str
    """As `Mutant` prints it, without its place."""
    reason: str


EQUIVALENT: Final[tuple[EquivalentMutant, ...]] = ()


def reason_for(mutant: Mutant, source: str) -> str:
    """Why a mutant makes no difference; empty if it is not listed."""
    line = source.splitlines()[mutant.line - 1].strip()
    for each in EQUIVALENT:
        if (each.path, each.line, each.change) == (str(mutant.path), line, mutant.change):
            return each.reason
    return ""


def stale_entries(root: Path, mutants: Iterable[Mutant]) -> list[EquivalentMutant]:
    """The entries that no mutant of the product answers to."""
    listed = {each.path for each in EQUIVALENT}
    there = {
        (str(each.path), (root / each.path).read_text().splitlines()[each.line - 1].strip(), each.change)
        for each in mutants
        if str(each.path) in listed
    }
    return [each for each in EQUIVALENT if (each.path, each.line, each.change) not in there]
