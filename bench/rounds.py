"""Runs the sides of a workload in turn, one process per run, and keeps what each found."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.workload import Measurement, Workload

__all__ = ["Outcome", "Run", "SideRuns", "run_rounds"]

RUN_SECONDS_MAX: Final = 1800.0
"""A run that takes longer hangs: the longest loads ten million records."""

END_SECONDS_MAX: Final = 40.0
"""Patience with a run that was interrupted: longer than it has with its server (`server_process.STOP_SECONDS_MAX`)."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run: a measurement or the reason why there is none."""

    measurement: Measurement | None
    failure: str | None
    load_before: float
    """The machine's one-minute load average when the run began: what else was going on."""


@dataclass(slots=True)
class SideRuns:
    """All runs of one side, one per round, in order."""

    name: str
    role: str
    runs: list[Run] = field(default_factory=list)

    def metric(self, name: str) -> list[float | None]:
        """That metric of every round; None where the run failed or did not measure it."""
        return [None if run.measurement is None else run.measurement.metrics.get(name) for run in self.runs]

    def measurements(self) -> list[Measurement]:
        """Those of the runs that did not fail."""
        return [run.measurement for run in self.runs if run.measurement is not None]


@dataclass(slots=True)
class Outcome:
    """A workload's rounds. Invariant: every side in `sides` has the same number of runs."""

    workload: Workload
    sides: dict[str, SideRuns]
    absent: dict[str, str]
    """Sides that could not take part, and why."""


def run_rounds(
    workload: Workload,
    *,
    rounds: int,
    seconds: float,
    folder: Path,
    quick: bool,
    only: Sequence[str] = (),
    say: Callable[[str], None],
) -> Outcome:
    """A B C A B C …: `rounds` times every side that is here (and named in `only`, where that is not empty)."""
    wanted = [side for side in workload.sides if not only or side.name.partition(",")[0] in only]
    absent = {side.name: reason for side in wanted if (reason := side.absent()) is not None}
    present = [side for side in wanted if side.name not in absent]
    outcome = Outcome(workload, {side.name: SideRuns(side.name, side.role) for side in present}, absent)
    for number in range(min(rounds, workload.runs_max or rounds)):
        for side in present:
            run = _run(workload.name, side.name, seconds=seconds, folder=folder, quick=quick)
            outcome.sides[side.name].runs.append(run)
            found = run.failure or ", ".join(f"{name} {value:,.1f}" for name, value in _metrics(run).items())
            say(f"{workload.name} round {number + 1} {side.name}: {found}")
    return outcome


def _metrics(run: Run) -> dict[str, float]:
    return {} if run.measurement is None else run.measurement.metrics


def _run(workload: str, side: str, *, seconds: float, folder: Path, quick: bool) -> Run:
    load = os.getloadavg()[0]
    command = [sys.executable, "-m", "bench.run", workload, side, "--seconds", str(seconds), "--folder", str(folder)]
    if quick:
        command.append("--quick")
    # A group of its own, so that ending a run ends the server it started too.
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            output, errors = process.communicate(timeout=RUN_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            _end(process)
            return Run(None, f"was not done after {RUN_SECONDS_MAX:.0f} s", load)
        except BaseException:
            _end(process)
            raise
    if process.returncode != 0:
        lines = errors.strip().splitlines() or ["no output"]
        return Run(None, f"failed with {process.returncode}: {lines[-1].strip()}", load)
    return Run(Measurement(**json.loads(output.splitlines()[-1])), None, load)


def _end(process: subprocess.Popen[str]) -> None:
    """Interrupt a run, which then stops its server and removes its folder; kill all of it where that is not enough."""
    os.killpg(process.pid, signal.SIGINT)
    try:
        process.communicate(timeout=END_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
