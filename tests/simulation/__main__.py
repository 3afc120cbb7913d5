"""`python -m tests.simulation`: run seeds, tell one run, look for planted bugs, or for seeds that show them cheaply."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

# The kit, and this package, are imported as the tests import them.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from simulation.first_seeds import write_first_seeds
from simulation.pace import paces
from simulation.plan import plan_of
from simulation.planted import plant
from simulation.run import Outcome, run_plan, run_seed, run_seeds, shrink
from simulation.seed_search import search_first_seeds
from simulation.worlds import BUGS, WORLDS, WorldName


def main(arguments: list[str] | None = None) -> int:
    """Run what the arguments ask for; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=500, help="how many seeds")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--seed", type=int, help="one seed")
    parser.add_argument("--story", action="store_true", help="with --seed: print the run event by event")
    parser.add_argument(
        "--shrink", action="store_true", help="with --seed: reduce the plan first, then print its story"
    )
    parser.add_argument("--bug", help="with --seed: plant this bug")
    parser.add_argument("--planted", action="store_true", help="after how many seeds each planted bug is found")
    parser.add_argument("--search", type=int, metavar="N", help="write cheaper first seeds, of so many for each bug")
    parser.add_argument("--enough", type=float, default=1.0, help="with --search: seconds that no better seed is worth")
    parser.add_argument("--world", choices=WORLDS, default="log", help="what runs; the log alone if not given")
    parser.add_argument("--digests", action="store_true", help="with --seeds: say of each run what it came to")
    parser.add_argument("--pace", action="store_true", help="how fast the time of a three-node cluster passes")
    asked = parser.parse_args(arguments)
    world: WorldName = asked.world
    if asked.pace:
        for pace in paces((0, 10, 20, 100), virtual_s=60.0):
            print(pace, flush=True)
        return 0
    if asked.search is not None:
        return _search(world, [asked.bug] if asked.bug else list(BUGS[world]), asked.search, asked.enough)
    if asked.planted:
        return _find_planted(asked.seeds, world)
    if asked.digests:
        for outcome in run_seeds(range(asked.first, asked.first + asked.seeds), asked.jobs, world):
            print(outcome.seed, outcome.digest, outcome.broken, flush=True)
        return 0
    if asked.seed is None:
        return _run_many(range(asked.first, asked.first + asked.seeds), asked.jobs, world)
    if asked.bug is not None:
        with plant(BUGS[world][asked.bug]):
            return _run_one(asked.seed, world, story=asked.story, smaller=asked.shrink)
    return _run_one(asked.seed, world, story=asked.story, smaller=asked.shrink)


def _run_one(seed: int, world: WorldName, *, story: bool, smaller: bool) -> int:
    outcome = run_seed(seed, world)
    if smaller and outcome.broken:
        plan = plan_of(seed)
        small = shrink(plan, outcome.broken, world)
        outcome = run_plan(small, world)
        print(f"{len(small.faults)} of {len(plan.faults)} faults, {len(small.calls)} of {len(plan.calls)} calls")
    if story or smaller:
        print("\n".join(outcome.lines))
    return _say(outcome, world)


def _say(outcome: Outcome, world: WorldName) -> int:
    if not outcome.broken:
        print(f"seed {outcome.seed}: every property holds; story {outcome.digest}")
        return 0
    print(f"seed {outcome.seed}: {outcome.words}")
    which = "" if world == "log" else f" --world {world}"
    print(f"again: python -m tests.simulation{which} --seed {outcome.seed} --story")
    return 1


def _run_many(seeds: range, jobs: int, world: WorldName) -> int:
    met: Counter[str] = Counter()
    virtual_s = processor_s = 0.0
    broken = 0
    for outcome in run_seeds(seeds, jobs, world):
        met += outcome.met
        virtual_s += outcome.virtual_s
        processor_s += outcome.processor_s
        if outcome.broken:
            broken += 1
            _say(outcome, world)
    for name, count in sorted(met.items()):
        print(f"{count:8} {name}")
    print(
        f"{len(seeds)} seeds, {broken} broken; {virtual_s:.0f} virtual seconds in {processor_s:.1f} s of processor: "
        f"{virtual_s / processor_s:.0f} a second"
    )
    return 1 if broken else 0


def _find_planted(seeds: int, world: WorldName) -> int:
    missed = 0
    bugs = BUGS[world]
    for name, bug in bugs.items():
        began_s = time.process_time()
        with plant(bug):
            found = next((each for seed in range(seeds) if (each := run_seed(seed, world)).broken), None)
        took_s = time.process_time() - began_s
        if found is None:
            missed += 1
            print(f"NOT FOUND in {seeds} seeds ({took_s:.0f} s): {name}")
        else:
            print(f"after {found.seed + 1:3} seeds ({took_s:.1f} s): {name}: {found.words[:150]}")
    print(f"{len(bugs) - missed} of {len(bugs)} planted bugs found")
    return 1 if missed else 0


def _search(world: WorldName, bugs: list[str], candidates: int, enough_s: float) -> int:
    before_s = after_s = 0.0
    missed = 0
    for found in search_first_seeds(world, bugs, candidates, enough_s):
        missed += not found.is_shown
        before_s, after_s = before_s + found.before_s, after_s + found.seconds
        change = f"{found.before} ({found.before_s:.1f} s) -> {found.seed} ({found.seconds:.1f} s)"
        print(f"{change if found.is_shown else 'NOT FOUND'}: {found.bug}", flush=True)
        if found.is_shown:
            write_first_seeds(world, {found.bug: found.seed})
    print(f"{len(bugs)} planted bugs, {missed} not found; {before_s:.0f} s -> {after_s:.0f} s of a processor")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
