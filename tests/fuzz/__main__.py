"""`python -m tests.fuzz`: fuzz the parsers, or read one input again."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# The kit, and this package, are imported as the tests import them.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fuzz.endpoint_targets import close_endpoints
from fuzz.parsers import entered, parsers_of
from fuzz.run import FuzzOutcome, Range, fuzz_apart, input_of
from fuzz.targets import all_targets
from fuzz.unfuzzed import AT_TIMES, unfuzzed


def main(arguments: list[str] | None = None) -> int:
    """Run what the arguments ask for; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--target", action="append", default=[], help="one of them; all if not given")
    parser.add_argument("--list", action="store_true", help="the names of the targets")
    parser.add_argument("--parsers", action="store_true", help="which target enters each parser of the product")
    parser.add_argument("--bytes", type=int, default=1_000_000, help="bytes of inputs for each target")
    parser.add_argument("--seconds", type=float, default=1e9, help="processor time for each target")
    parser.add_argument("--inputs", type=int, default=1 << 62, help="inputs for each target")
    parser.add_argument("--first", type=int, default=0, help="the number of the first input")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--show", action="store_true", help="print the bytes of the first input")
    asked = parser.parse_args(arguments)
    names = asked.target or list(all_targets())
    if asked.list:
        print("\n".join(names))
        return 0
    if asked.parsers:
        return _say_parsers()
    if asked.show:
        print(input_of(all_targets()[names[0]], asked.seed, asked.first))
    inputs = Range(asked.seed, asked.first, asked.bytes, asked.inputs, asked.seconds)
    print(f"{'inputs':>9} {'MB':>7} {'refused':>8} {'longest':>9} {'grown':>7} {'s':>6}  target")
    with ThreadPoolExecutor(asked.jobs) as pool:
        outcomes = []
        for outcome in pool.map(lambda name: fuzz_apart(name, inputs), names):
            _say(outcome, asked.seed)
            outcomes.append(outcome)
    broken = sum(bool(each.findings) for each in outcomes)
    print(_totals(outcomes, broken))
    return 1 if broken else 0


def _say_parsers() -> int:
    """Each parser of the product with the first target that enters it, or with why none does; the exit code."""
    logging.disable(logging.CRITICAL)
    found, left_out, missing = entered(all_targets().values()), unfuzzed(), 0
    close_endpoints()
    parsers = parsers_of()
    for each in parsers:
        by, reason = found.get(each, ""), left_out.get(each, "")
        missing += bool(by) == bool(reason) and each != AT_TIMES
        said = reason if not by or each == AT_TIMES else f"{by}, AND LEFT OUT: {reason}" if reason else by
        print(f"{each.file}::{each.name}: {said or 'NO TARGET ENTERS IT'}")
    print(f"{len(parsers)} parsers, {sum(each in found for each in parsers)} entered by targets, {missing} wrong")
    return 1 if missing else 0


def _totals(outcomes: Sequence[FuzzOutcome], broken: int) -> str:
    """One line: how much was read, the slowest input, the most memory."""
    inputs, size = sum(each.inputs for each in outcomes), sum(each.bytes for each in outcomes)
    slowest, largest = max(outcomes, key=_longest), max(outcomes, key=_grown)
    return (
        f"{len(outcomes)} targets, {inputs:,} inputs, {size / 1e6:.1f} MB, {broken} broken; the slowest input took "
        f"{slowest.longest_s * 1000:.1f} ms ({slowest.name}), the most memory was {largest.grown_bytes / 1e6:.0f} MB "
        f"({largest.name})"
    )


def _longest(outcome: FuzzOutcome) -> float:
    return outcome.longest_s


def _grown(outcome: FuzzOutcome) -> int:
    return outcome.grown_bytes


def _say(outcome: FuzzOutcome, seed: int) -> None:
    share = outcome.refused / max(1, outcome.inputs)
    print(
        f"{outcome.inputs:9} {outcome.bytes / 1e6:7.2f} {share:8.0%} {outcome.longest_s * 1000:6.1f} ms "
        f"{outcome.grown_bytes / 1e6:4.0f} MB {outcome.seconds:6.1f}  {outcome.name}",
        flush=True,
    )
    for finding in outcome.findings:
        print(finding.words.rstrip())
        print(
            f"again: python -m tests.fuzz --target {outcome.name!r} --seed {seed} --first {finding.number} --inputs 1 "
            "--show"
        )


if __name__ == "__main__":
    sys.exit(main())
