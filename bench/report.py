"""The report: Markdown for people, JSON for programs, from the same outcomes."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from bench.machine import label
from bench.rounds import Outcome, SideRuns
from bench.statistics import Spread, ratios
from bench.verdicts import Verdict, judge_all
from bench.workload import METRICS

__all__ = ["Report"]


@dataclass(slots=True)
class Report:
    """A session of the benchmark: when, where, how, and what was found so far."""

    begun: datetime
    machine: dict[str, str]
    rounds: int
    seconds: float
    quick: bool
    outcomes: list[Outcome]

    def write(self, folder: Path) -> Path:
        """Write both files, named by date and kind of machine, over what an earlier call wrote; the Markdown's path."""
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{self.begun:%Y-%m-%d-%H%M}-{label()}" + ("-quick" if self.quick else "")
        (folder / f"{name}.json").write_text(json.dumps(self._as_json(), indent=1) + "\n")
        markdown = folder / f"{name}.md"
        markdown.write_text(self.as_markdown())
        return markdown

    def as_markdown(self) -> str:
        """The whole report."""
        lines = [f"# Benchmark, {self.begun:%Y-%m-%d}", ""]
        if self.quick:
            lines += ["A **quick** look: short runs and shrunken workloads. Not a result.", ""]
        lines += [f"{name.capitalize()}: {value}  " for name, value in self.machine.items()]
        lines += [
            "",
            f"{self.rounds} round(s) of all sides in turn, {self.seconds:g} s each after warm-up. A cell is the median "
            "of the rounds (lowest .. highest). Ratios are made inside a round; only they compare.",
            "",
            "## Bars",
            "",
        ]
        judged = [(outcome.workload.name, verdict) for outcome in self.outcomes for verdict in judge_all(outcome)]
        rows = [
            [name, verdict.demand, _spread(verdict.found, 2) if verdict.found else "", verdict.answer]
            for name, verdict in judged
        ]
        lines += _table(["workload", "bar", "found", "verdict"], rows)
        for outcome in self.outcomes:
            lines += [
                "",
                f"## {outcome.workload.name}",
                "",
                f"{outcome.workload.title[0].upper()}{outcome.workload.title[1:]}.",
                "",
            ]
            lines += _sides(outcome)
        return "\n".join(lines) + "\n"

    def _as_json(self) -> dict[str, object]:
        return {
            "begun": self.begun.isoformat(timespec="seconds"),
            "machine": self.machine,
            "rounds": self.rounds,
            "seconds": self.seconds,
            "quick": self.quick,
            "workloads": [
                {
                    "name": outcome.workload.name,
                    "title": outcome.workload.title,
                    "sides": {
                        name: {"role": side.role, "runs": [dataclasses.asdict(run) for run in side.runs]}
                        for name, side in outcome.sides.items()
                    },
                    "absent": outcome.absent,
                    "bars": [_verdict_as_json(verdict) for verdict in judge_all(outcome)],
                }
                for outcome in self.outcomes
            ],
        }


def _verdict_as_json(verdict: Verdict) -> dict[str, object]:
    return {
        **dataclasses.asdict(verdict.bar),
        "state": verdict.state,
        "found": None if verdict.found is None else dataclasses.asdict(verdict.found),
        "why": verdict.why,
    }


def _sides(outcome: Outcome) -> list[str]:
    """The table of a workload's sides, the notes beneath it, and who is absent."""
    measured = {name for side in outcome.sides.values() for run in side.measurements() for name in run.metrics}
    metrics = [name for name in METRICS if name in measured]
    lines: list[str] = []
    if metrics:
        first = metrics[0]
        subject = outcome.sides.get("duramen")
        ratio = ["duramen ÷ it"] if subject is not None and subject.measurements() else []
        rows = []
        for side in outcome.sides.values():
            row = [side.name, side.role, *(_cell(side, metric) for metric in metrics)]
            if ratio and subject is not None:
                row.append("" if side is subject else _ratio(subject, side, first))
            rows.append(row)
        lines += _table(["side", "role", *(METRICS[name].title for name in metrics), *ratio], rows)
        lines.append("")
    for side in outcome.sides.values():
        for measurement in side.measurements()[-1:]:
            lines.append(f"- {side.name}: {measurement.version}; {measurement.note}")
        for failure in sorted({run.failure for run in side.runs if run.failure is not None}):
            lines.append(f"- {side.name}: **a run {failure}**")
    lines += [f"- {name} was skipped: {reason}" for name, reason in outcome.absent.items()]
    return lines


def _cell(side: SideRuns, metric: str) -> str:
    values = [value for value in side.metric(metric) if value is not None]
    return _spread(Spread.of(values), METRICS[metric].digits) if values else ""


def _ratio(subject: SideRuns, side: SideRuns, metric: str) -> str:
    values = ratios(subject.metric(metric), side.metric(metric))
    return _spread(Spread.of(values), 2) if values else ""


def _spread(spread: Spread, digits: int) -> str:
    if spread.low == spread.high:
        return f"{spread.median:,.{digits}f}"
    return f"{spread.median:,.{digits}f} ({spread.low:,.{digits}f} .. {spread.high:,.{digits}f})"


def _table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [
        "| " + " | ".join(heading) + " |",
        "|" + "---|" * len(heading),
        *("| " + " | ".join(row) + " |" for row in rows),
    ]
