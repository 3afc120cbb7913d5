"""Which test files a run for one mark collects: those that have the mark in their text.

Collecting all of `tests` takes each worker some ten seconds of a processor, and `make test-kafka` needs twenty files of
them. `tests/house/test_marked_files.py` holds what this relies on: a mark is written in the file whose tests have it.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import Final

__all__ = ["SELECTED", "has_mark", "wanted_mark"]

SELECTED: Final = frozenset({"image", "kafka", "languages", "spark", "spec"})
"""The marks that `addopts` leaves out, so that a run for one of them selects few files."""

_ONE: Final = re.compile(r"(\w+)( and not \w+)*")


def wanted_mark(expression: str, marks: Collection[str] = SELECTED) -> str | None:
    """The mark that all selected tests have, of an argument of `-m` such as `kafka and not campaign`; None: any."""
    shape = _ONE.fullmatch(expression.strip())
    return shape[1] if shape is not None and shape[1] in marks else None


def has_mark(path: Path, mark: str) -> bool:
    """Whether the file has `mark.NAME` in its text. One read of the file."""
    return re.search(rf"\bmark\.{mark}\b", path.read_text(encoding="utf-8")) is not None
