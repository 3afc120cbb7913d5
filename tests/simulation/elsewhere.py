"""What the same seeds come to in a process of its own, whose hashes and addresses are others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from kit.deadlines import patience_s

from simulation.worlds import WorldName

__all__ = ["digests_elsewhere"]

_ROOT: Final = Path(__file__).parents[2]
_RUN_S: Final = 10.0
"""What a run of a cluster takes on a quiet machine, at most."""


def digests_elsewhere(seeds: range, world: WorldName, *, hashes: int) -> list[str]:
    """The digest of each seed's run, by an interpreter whose strings have the hashes of this number."""
    asked = ["--world", world, "--first", str(seeds.start), "--seeds", str(len(seeds)), "--jobs", "1", "--digests"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation", *asked],
        cwd=_ROOT,
        env={**os.environ, "PYTHONHASHSEED": str(hashes)},
        capture_output=True,
        text=True,
        timeout=patience_s(10 + _RUN_S * len(seeds)),
        check=True,
    )
    return [line.split()[1] for line in done.stdout.splitlines()]
