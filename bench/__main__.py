"""The command line: `python -m bench [WORKLOAD…] [--runs N] [--seconds S] [--quick] …`; `--help` says the rest."""

from __future__ import annotations

import argparse
import sys
import tempfile
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path

from bench.machine import describe
from bench.report import Report
from bench.rounds import run_rounds
from bench.workload import Workload
from bench.workloads import WORKLOADS

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Run what was asked for; write the report after every workload, so that an interrupted session keeps its own."""
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="Drive Duramen, its peers and the machine's floors; report ratios."
    )
    parser.add_argument(
        "workloads", nargs="*", metavar="WORKLOAD", help="names or patterns such as 'get_*'; all if none"
    )
    parser.add_argument("--runs", type=int, default=5, help="rounds: every side once per round, in turn (5)")
    parser.add_argument(
        "--seconds", type=float, default=4.0, help="timed seconds per run, after a second of warm-up (4)"
    )
    parser.add_argument("--sides", default="", help="only these sides, comma-separated: duramen,etcd")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results", help="folder of the reports")
    parser.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()), help="on the disk to measure (the temporary folder)"
    )
    parser.add_argument("--quick", action="store_true", help="one round of one second, shrunken fixed-size workloads")
    parser.add_argument(
        "--list", action="store_true", help="name the workloads, their sides and what is absent; run nothing"
    )
    chosen = parser.parse_args(arguments)
    try:
        workloads = _pick(chosen.workloads)
    except LookupError as error:
        parser.error(str(error))
    if chosen.runs < 1 or chosen.seconds <= 0:
        parser.error(f"--runs is at least 1 and --seconds above 0; these are {chosen.runs} and {chosen.seconds:g}")
    if chosen.list:
        _list(workloads)
        return 0
    report = Report(
        begun=datetime.now(UTC),
        machine=describe(chosen.folder),
        rounds=1 if chosen.quick else chosen.runs,
        seconds=1.0 if chosen.quick else chosen.seconds,
        quick=chosen.quick,
        outcomes=[],
    )
    for workload in workloads:
        outcome = run_rounds(
            workload,
            rounds=report.rounds,
            seconds=report.seconds,
            folder=chosen.folder,
            quick=chosen.quick,
            only=[name for name in chosen.sides.split(",") if name],
            say=lambda line: print(line, file=sys.stderr, flush=True),
        )
        report.outcomes.append(outcome)
        written = report.write(chosen.out)
    print(report.as_markdown())
    print(f"written to {written} and {written.with_suffix('.json').name}", file=sys.stderr)
    failed = any(run.failure for outcome in report.outcomes for side in outcome.sides.values() for run in side.runs)
    return 1 if failed else 0


def _pick(patterns: list[str]) -> list[Workload]:
    """The workloads that match, in the table's order; `LookupError` for a pattern that matches none."""
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in WORKLOADS):
            raise LookupError(f"no workload matches {pattern!r}; there are {', '.join(WORKLOADS)}")
    return [
        workload
        for name, workload in WORKLOADS.items()
        if not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)
    ]


def _list(workloads: list[Workload]) -> None:
    for workload in workloads:
        print(f"{workload.name}: {workload.title}")
        for side in workload.sides:
            print(f"    {side.name} ({side.role})" + (f": {reason}" if (reason := side.absent()) else ""))


if __name__ == "__main__":
    sys.exit(main())
