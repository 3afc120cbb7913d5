"""One target fuzzed: its inputs one after the other, in this process or in one whose end is noticed."""

from __future__ import annotations

import gc
import itertools
import logging
import multiprocessing
import random
import resource
import time
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Any, Final

from fuzz.endpoint_targets import close_endpoints
from fuzz.target import Target
from fuzz.targets import all_targets
from log_tier.model.errors import DuramenError
from log_tier.rpc.problems import problem_of

__all__ = ["GROWN_FROM", "Finding", "FuzzOutcome", "Range", "fuzz", "fuzz_apart", "input_of", "numbers_of"]

INPUT_SECONDS_MAX: Final = 0.1
"""Of processor time, the collector's included: an input that takes longer is tried again twice."""
_TRIES: Final = 3
MEMORY_BYTES_MAX: Final = 1 << 30
"""Of memory of its own above what the process had: some of the largest batches, decompressed, with room."""
_FINDINGS_MAX: Final = 5
GROWN_FROM: Final = 1_000_000
"""Inputs with this number and later ones are long."""
_SMALL_TIMES: Final = 2
"""Before the long ones, so many times the inputs of `make test`."""
_LOOKED_EVERY: Final = 16
"""Inputs: to ask for the processor time takes as long as a small one of them."""


@dataclass(frozen=True)
class Range:
    """Which inputs: from `first` on until so many bytes, inputs or seconds of processor time.

    The first ones are small, twice as many as `make test` reads; those behind them are long.
    """

    seed: int = 0
    first: int = 0
    bytes_max: int = 1 << 62
    inputs_max: int = 1 << 62
    seconds_max: float = 1e9
    input_seconds_max: float = INPUT_SECONDS_MAX
    """For one input, of processor time."""


@dataclass
class Finding:
    """A promise that an input broke."""

    number: int
    words: str


@dataclass
class FuzzOutcome:
    """What came of one target's inputs."""

    name: str
    inputs: int = 0
    bytes: int = 0
    refused: int = 0
    longest_s: float = 0.0
    seconds: float = 0.0
    grown_bytes: int = 0
    """By how much the memory of its process has grown at most; known where it has one of its own."""
    findings: list[Finding] = field(default_factory=list)


def input_of(target: Target, seed: int, number: int) -> bytes:
    """The bytes of one input."""
    return _made(target, target.samples(), seed, number)


def _made(target: Target, samples: Sequence[bytes], seed: int, number: int) -> bytes:
    chance = random.Random(f"{target.name} {seed} {number}")
    return (target.small_input if number < GROWN_FROM else target.grown_input)(samples, chance)


def numbers_of(target: Target, first: int) -> Iterable[int]:
    """The numbers of inputs from one on: small ones, and behind them long ones without an end."""
    if first >= GROWN_FROM:
        return itertools.count(first)
    small = range(first, min(first + _SMALL_TIMES * target.quick_inputs, GROWN_FROM))
    return itertools.chain(small, itertools.count(GROWN_FROM))


def fuzz(target: Target, asked: Range, at: Synchronized[int] | None = None) -> FuzzOutcome:
    """Read the inputs. `at`: gets the number of each before it is read, for who watches this process.

    Before them come the samples themselves: at least one is accepted.
    """
    outcome = FuzzOutcome(target.name)
    samples = target.samples()
    seal = target.seal or bytes
    accepted = [each for each in samples if _read(target, seal(each), outcome, -1, asked)]
    assert accepted, f"no sample of {target.name} is accepted"
    began_s = time.process_time()
    for number in numbers_of(target, asked.first):
        if (
            outcome.inputs >= asked.inputs_max
            or outcome.bytes >= asked.bytes_max
            or len(outcome.findings) >= _FINDINGS_MAX
            or outcome.seconds >= asked.seconds_max
        ):
            break
        data = _made(target, samples, asked.seed, number)
        if at is not None:
            at.value = number
        outcome.inputs += 1
        outcome.bytes += len(data)
        outcome.refused += not _read(target, data, outcome, number, asked)
        if outcome.inputs % _LOOKED_EVERY == 0:
            outcome.seconds = time.process_time() - began_s
    outcome.seconds = time.process_time() - began_s
    return outcome


def _read(target: Target, data: bytes, outcome: FuzzOutcome, number: int, asked: Range) -> bool:
    """Whether the bytes are accepted. Processor time is the same on a busy machine; to read the clock takes 0.3 us."""
    for _ in range(1 + _TRIES):
        began_s = time.process_time()
        accepted = _accepts(target, data, outcome, number)
        if accepted is None:
            return False
        took_s = time.process_time() - began_s
        if took_s <= asked.input_seconds_max:
            outcome.longest_s = max(outcome.longest_s, took_s)
            return accepted
        gc.collect()
    outcome.findings.append(Finding(number, f"takes {took_s * 1000:.0f} ms of processor time"))
    return bool(accepted)


def _accepts(target: Target, data: bytes, outcome: FuzzOutcome, number: int) -> bool | None:
    """None: it has ended with what is a finding."""
    try:
        target.read(data)
    except target.refusals as error:
        if isinstance(error, DuramenError):
            problem_of(error).SerializeToString()  # it can be sent
        return False
    except Exception:  # noqa: BLE001 - whatever else ends a parser is what is looked for
        outcome.findings.append(Finding(number, traceback.format_exc(limit=-4)))
        return None
    return True


def _apart(name: str, asked: Range, at: Any, given: Any) -> None:
    logging.disable(logging.CRITICAL)
    target = all_targets()[name]
    pages = int(Path("/proc/self/statm").read_text().split()[5])
    bound = pages * resource.getpagesize() + MEMORY_BYTES_MAX
    resource.setrlimit(resource.RLIMIT_DATA, (bound, bound))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    gc.freeze()  # as a server does: to look through all that was imported takes the collector 75 ms, for any input
    outcome = fuzz(target, asked, at)
    outcome.grown_bytes = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    close_endpoints()
    given.put(outcome)


@cache
def _context() -> Any:
    """Processes are forks of one that has imported everything and never had a second thread."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["fuzz.made"])
    return context


def fuzz_apart(name: str, asked: Range) -> FuzzOutcome:
    """The same in a process of its own with a bound on its memory; how it ends is a finding if it says nothing."""
    context = _context()
    at, given = context.Value("q", asked.first), context.SimpleQueue()
    process = context.Process(target=_apart, args=(name, asked, at, given))
    process.start()
    while process.is_alive() and given.empty():
        process.join(0.05)
    outcome: FuzzOutcome
    if given.empty():
        process.join()
        found = Finding(at.value, f"the process ended with exit code {process.exitcode} and said nothing")
        outcome = FuzzOutcome(name, findings=[found])
    else:
        outcome = given.get()
    process.join()
    return outcome
