"""`python -m tests.mutants`: a sample of mutants, and what becomes of each."""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from mutants.changes import Mutant, mutants_of
from mutants.tests_of import SOURCES, commands_for

_ROOT: Final = Path(__file__).resolve().parents[2]
_COPIED: Final = (
    "log_tier",
    "serving_tier",
    "router",
    "duramen",
    "spark_bulk",
    "tests",
    "pyproject.toml",
    "docs",
    "protos",
)


def main(arguments: list[str] | None = None) -> int:
    """Run a part of a sample; the exit code is 1 where one survives."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--sample", type=int, default=200, help="how many mutants are drawn")
    parser.add_argument("--seed", type=int, default=1, help="of the draw")
    parser.add_argument("--first", type=int, default=0, help="the first of the sample that runs")
    parser.add_argument("--count", type=int, help="how many of it run; all if not given")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for each command")
    parser.add_argument("--list", action="store_true", help="name them, and run none")
    asked = parser.parse_args(arguments)
    files = [path.relative_to(_ROOT) for source in SOURCES for path in sorted((_ROOT / source).rglob("*.py"))]
    possible = [mutant for path in files for mutant in mutants_of(_ROOT, path)]
    drawn = random.Random(asked.seed).sample(possible, min(asked.sample, len(possible)))
    some = drawn[asked.first :][: asked.count]
    print(f"{len(some)} of {len(drawn)} drawn of {len(possible)} mutants", flush=True)
    if asked.list:
        print("\n".join(map(str, some)))
        return 0
    survivors = 0
    with tempfile.TemporaryDirectory(prefix="duramen-mutants-") as folder:
        root = Path(folder)
        for name in _COPIED:
            here, there = _ROOT / name, root / name
            shutil.copytree(here, there) if here.is_dir() else shutil.copy(here, there)
        for number, mutant in enumerate(some, asked.first):
            began_s = time.monotonic()
            killer = _killer(mutant, root, asked.timeout)
            survivors += not killer
            print(f"{number}: {killer or 'SURVIVES'} ({time.monotonic() - began_s:.0f} s): {mutant}", flush=True)
    print(f"{len(some) - survivors} of {len(some)} killed")
    return 1 if survivors else 0


def _killer(mutant: Mutant, root: Path, timeout_s: float) -> str:
    """What has killed a mutant; empty for a survivor."""
    before = (root / mutant.path).read_bytes()
    environment = {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{root / 'tests'}", "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        mutant.apply(root)
        for command in commands_for(mutant.path, root):
            what = " ".join(command[2:])
            try:
                done = subprocess.run(
                    command, cwd=root, env=environment, capture_output=True, timeout=timeout_s, check=False
                )
            except subprocess.TimeoutExpired:
                return f"no end within {timeout_s:.0f} s: {what}"
            if done.returncode:
                return f"killed by {what}"
    finally:
        (root / mutant.path).write_bytes(before)
    return ""


if __name__ == "__main__":
    sys.exit(main())
