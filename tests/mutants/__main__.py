"""`python -m tests.mutants`: a sample of mutants, and what becomes of each."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

import pytest

from .changes import mutants_of
from .equivalent import reason_for, stale_entries
from .line_map import ROOT, TESTS, product_files, up_to_date
from .worker import Fate, MutantRuns


def main(arguments: list[str] | None = None) -> int:
    """Run a part of a sample; the exit code is 1 where one survives unexplained, 2 where an explanation is stale."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--sample", type=int, default=200, help="how many mutants are drawn")
    parser.add_argument("--seed", type=int, default=1, help="of the draw")
    parser.add_argument("--first", type=int, default=0, help="the first of the sample that runs")
    parser.add_argument("--count", type=int, help="how many of it run; all if not given")
    parser.add_argument("--only", type=int, nargs="*", help="numbers in the sample, in place of a part")
    parser.add_argument("--budget", type=float, default=120.0, help="seconds of tests for each mutant")
    parser.add_argument("--survivors", action="store_true", help="print only what survives")
    parser.add_argument("--list", action="store_true", help="name them, and run none")
    asked = parser.parse_args(arguments)
    possible = [mutant for path in product_files() for mutant in mutants_of(ROOT, path)]
    if stale := stale_entries(ROOT, possible):
        print(f"equivalent.py explains mutants that are not there: {stale}")
        return 2
    drawn = list(enumerate(random.Random(asked.seed).sample(possible, min(asked.sample, len(possible)))))
    some = [drawn[each] for each in asked.only] if asked.only else drawn[asked.first :][: asked.count]
    print(f"{len(some)} of {len(drawn)} drawn of {len(possible)} mutants", flush=True)
    if asked.list:
        print("\n".join(f"{number}: {mutant}" for number, mutant in some))
        return 0
    numbers = {mutant: number for number, mutant in some}
    kinds = {"killed": 0, "explained": 0, "survived": 0, "not tried": 0}

    def say(fate: Fate) -> None:
        kind, text = _described(fate)
        kinds[kind] += 1
        if kind == "survived" or not asked.survivors:
            print(f"{numbers[fate.mutant]}: {text} ({fate.took_s:.1f} s): {fate.mutant}", flush=True)

    tried = [mutant for _, mutant in some if not reason_for(mutant, (ROOT / mutant.path).read_text())]
    kinds["explained"] = len(some) - len(tried)
    lines = up_to_date()
    with tempfile.TemporaryDirectory(prefix="duramen-mutants-") as folder:
        options = ["-q", "-s", "-n", "0", "-p", "no:cacheprovider", "--basetemp", str(Path(folder) / "tests")]
        runs = MutantRuns(tried, lines, asked.budget, say)
        ended = pytest.main([*options, *(str(ROOT / each) for each in TESTS)], plugins=[runs])
    judged = sum(kinds.values()) - kinds["not tried"]
    good = kinds["killed"] + kinds["explained"]
    print(", ".join(f"{count} {kind}" for kind, count in kinds.items()))
    print(f"{good} of {judged} killed or explained: {100 * good / max(judged, 1):.1f} %")
    if ended not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        return int(ended)
    return 1 if kinds["survived"] else 0


def _described(fate: Fate) -> tuple[str, str]:
    if fate.unfit:
        return "not tried", f"not tried, {fate.unfit}"
    if fate.killer:
        return "killed", f"killed by {fate.killer}"
    return "survived", f"SURVIVES {fate.ran} of {fate.reach} tests"


if __name__ == "__main__":
    sys.exit(main())
