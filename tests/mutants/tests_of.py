"""Which tests look at a module, the nearest first."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["SOURCES", "commands_for"]

SOURCES: Final = ("log_tier/embedded", "serving_tier/fold", "serving_tier/replica", "router/data/gather")

_SEEDS: Final = {
    "log_tier/embedded": (["log", "60"], ["database", "3"]),
    "serving_tier/fold": (["database", "6"], ["cluster", "4"]),
    "serving_tier/replica": (["database", "4"], ["cluster", "8"]),
    "router/data/gather": (["database", "6"], ["cluster", "3"]),
}
"""World and number of seeds."""


def commands_for(path: Path, root: Path) -> Iterator[list[str]]:
    """Commands to run in `root`, each of which must succeed."""
    source = next(each for each in SOURCES if path.is_relative_to(each))
    pytest = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider"]
    folder = Path("tests", path.parent)
    own = folder / f"test_{path.stem}.py"
    if (root / own).is_file():
        yield [*pytest, str(own)]
    if folder != Path("tests", source) and (root / folder).is_dir():
        yield [*pytest, str(folder)]
    for world, seeds in _SEEDS[source]:
        yield [sys.executable, "-m", "tests.simulation", "--world", world, "--seeds", seeds, "--jobs", "1"]
    yield [*pytest, *sorted(str(each.relative_to(root)) for each in (root / "tests" / source).glob("test_*.py"))]
