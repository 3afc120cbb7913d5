"""Holds what was measured against the bars."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bench.rounds import Outcome
from bench.statistics import Spread, differences, ratios
from bench.workload import METRICS, Bar

__all__ = ["Verdict", "judge", "judge_all"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """One bar, judged: by the median over the rounds, with their spread."""

    bar: Bar
    state: Literal["held", "missed", "not measured"]
    found: Spread | None
    """The ratios or values of the rounds; None where nothing was measured."""
    why: str = ""
    """Where nothing was measured: what is absent."""

    @property
    def demand(self) -> str:
        """The bar in words: `per second ≥ 5 × etcd`."""
        sign = "≥" if self.bar.bound == "at least" else "≤"
        title = METRICS[self.bar.metric].title
        subject = "" if self.bar.subject == "duramen" else f" ({self.bar.subject})"
        if self.bar.against is None:
            return f"{title} {sign} {self.bar.limit:,g}{subject}"
        if self.bar.compared_by == "difference":
            return f"{title} {sign} {self.bar.against} + {self.bar.limit:,g}{subject}"
        return f"{title} {sign} {self.bar.limit:g} × {self.bar.against}{subject}"

    @property
    def answer(self) -> str:
        """held, or missed and by how much."""
        if self.state == "missed" and self.found is not None:
            return f"**missed** by {self.bar.missed_by(self.found.median):.0%}"
        return self.state if not self.why else f"{self.state}: {self.why}"


def judge_all(outcome: Outcome) -> list[Verdict]:
    """A verdict for every bar of the workload, in its order."""
    return [judge(bar, outcome) for bar in outcome.workload.bars]


def judge(bar: Bar, outcome: Outcome) -> Verdict:
    """The verdict on one bar."""
    for name in filter(None, (bar.subject, bar.against)):
        if name not in outcome.sides:
            return Verdict(bar, "not measured", None, f"{name}: {outcome.absent.get(name, 'left out')}")
    own = outcome.sides[bar.subject].metric(bar.metric)
    if bar.against is None:
        values = [value for value in own if value is not None]
    else:
        compare = ratios if bar.compared_by == "ratio" else differences
        values = compare(own, outcome.sides[bar.against].metric(bar.metric))
    if not values:
        return Verdict(bar, "not measured", None, "every run failed")
    found = Spread.of(values)
    return Verdict(bar, "held" if bar.holds(found.median) else "missed", found)
