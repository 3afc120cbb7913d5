"""One run of one side, in a process of its own: `python -m bench.run WORKLOAD SIDE`.

Prints one line of JSON. The runner starts one of these per run; by hand it is the way to look at one side alone.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import tempfile
from pathlib import Path

from bench.workload import Measurement, RunSettings
from bench.workloads import WORKLOADS

__all__ = ["measure_once"]


def measure_once(workload: str, side: str, *, seconds: float, parent: Path, quick: bool) -> Measurement:
    """Run a side in a new folder below `parent`, which is removed afterwards.

    What earlier runs left dirty is flushed first: it would otherwise be written during this one, on this one's account.
    """
    run = WORKLOADS[workload].side(side).run
    assert run is not None, f"{workload} / {side} is absent and cannot be run"
    with tempfile.TemporaryDirectory(prefix="duramen-bench-", dir=parent) as folder:
        os.sync()
        return run(RunSettings(folder=Path(folder), seconds=seconds, quick=quick))


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.run", description="One run of one side, as a line of JSON.")
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("side")
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--quick", action="store_true")
    chosen = parser.parse_args()
    measurement = measure_once(
        chosen.workload, chosen.side, seconds=chosen.seconds, parent=chosen.folder, quick=chosen.quick
    )
    json.dump(dataclasses.asdict(measurement), sys.stdout)
    sys.stdout.write("\n")


if __name__ == "__main__":
    _main()
