"""One run, many runs, and the smallest plan that still breaks a promise."""

from __future__ import annotations

import asyncio
import gc
import logging
import math
import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice

from duramen.testing.machine.simulated_loop import SimulatedLoop, Stuck
from simulation.book import Broken
from simulation.plan import Plan, plan_of
from simulation.worlds import WORLDS, WorldName

__all__ = ["Outcome", "run_plan", "run_seed", "run_seeds", "shrink"]

# So many runs share a task of a pool's process.
_RUNS = 8
# What is cancelled at the end of a run has so long to end, in virtual seconds.
_CANCELLED_S = 60.0
# A shrinker stops after so many runs: each takes a fifth of a second.
_TRIES = 400


@dataclass
class Outcome:
    """What came of one run."""

    seed: int
    broken: str = ""
    """The name of the property that does not hold."""
    words: str = ""
    virtual_s: float = 0.0
    processor_s: float = 0.0
    digest: str = ""
    """Equal for equal runs: of the story, and of the loop on which it was played."""
    met: Counter[str] = field(default_factory=Counter)
    lines: list[str] = field(default_factory=list)
    is_stopped: bool = False
    """It cost more than it might, and was not judged."""


class _TooCostly(Exception):
    """The run has cost what it may."""


class _BoundedLoop(SimulatedLoop):
    """It stops when this process has worked for so long."""

    def __init__(self, chance: random.Random, within_s: float) -> None:
        super().__init__(chance)
        self._until_s = time.process_time() + within_s

    def _run_once(self) -> None:
        if time.process_time() > self._until_s:
            self._until_s = math.inf
            raise _TooCostly
        super()._run_once()


def run_plan(plan: Plan, world: WorldName = "log", *, within_s: float = math.inf) -> Outcome:
    """Run a plan on a loop of its own. `within_s`: of a processor; what costs more is stopped, and not broken."""
    logging.disable(logging.CRITICAL)
    # What nobody retrieves is told when it is collected: at the end, and not where the collector happens to run.
    collects = gc.isenabled()
    gc.disable()
    gc.freeze()
    began_s = time.process_time()
    chance = random.Random(f"loop {plan.seed}")
    loop = SimulatedLoop(chance) if within_s == math.inf else _BoundedLoop(chance, within_s)
    loop.set_exception_handler(loop.keep_untold)
    outcome = Outcome(plan.seed)
    try:
        asyncio.set_event_loop(loop)
        running = WORLDS[world](plan, loop)
        try:
            loop.run_until_complete(running.run())
        except Broken as error:
            outcome.broken, outcome.words = error.name, str(error)
        except Stuck as error:
            outcome.broken, outcome.words = "ends", str(error)
        except _TooCostly:
            outcome.is_stopped = True
        except Exception as error:  # noqa: BLE001 - whatever ends a run is what the run has found
            outcome.broken, outcome.words = "typed", f"the run ended with {error!r}"
        outcome.virtual_s, outcome.digest = loop.time(), f"{running.story.digest()}-{loop.digest()}"
        outcome.met, outcome.lines = running.story.met, running.story.lines
        if (left := _left_over(loop)) and not outcome.broken and not outcome.is_stopped:
            lost = Broken("ends", f"tasks go on when everything is closed: {', '.join(left)}")
            outcome.broken, outcome.words = lost.name, str(lost)
        del running
        _end_tasks(loop)
        loop.close()
        gc.collect()
        if loop.untold and not outcome.broken and not outcome.is_stopped:
            lost = Broken("retrieved", "; ".join(sorted(set(loop.untold))))
            outcome.broken, outcome.words = lost.name, str(lost)
    finally:
        asyncio.set_event_loop(None)
        loop.close()
        del loop
        # What is frozen is not collected: a run that leaves garbage would leave it for good.
        gc.collect()
        logging.disable(logging.NOTSET)
        gc.unfreeze()
        if collects:
            gc.enable()
    outcome.processor_s = time.process_time() - began_s
    return outcome


def _end_tasks(loop: SimulatedLoop) -> None:
    """What is open when a run ends is closed by those who opened it: also where nobody of the run could go on."""
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    with suppress(Exception):
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=_CANCELLED_S))
        loop.run_until_complete(loop.shutdown_asyncgens())


def _left_over(loop: SimulatedLoop) -> list[str]:
    """What the tasks do that have not ended."""
    return sorted({getattr(task.get_coro(), "__qualname__", repr(task.get_coro())) for task in asyncio.all_tasks(loop)})


def run_seed(seed: int, world: WorldName = "log", *, within_s: float = math.inf) -> Outcome:
    """Run the plan of a seed, as `run_plan` does it."""
    return run_plan(plan_of(seed), world, within_s=within_s)


def _run_some(seeds: list[int], world: WorldName) -> list[Outcome]:
    outcomes = [run_seed(seed, world) for seed in seeds]
    return [outcome if outcome.broken else replace(outcome, lines=[]) for outcome in outcomes]


def run_seeds(seeds: Iterable[int], jobs: int, world: WorldName = "log") -> Iterator[Outcome]:
    """Run seeds in `jobs` processes; their outcomes in the order of the seeds."""
    source = iter(seeds)
    groups = list(iter(lambda: list(islice(source, _RUNS)), []))
    if jobs == 1:
        for group in groups:
            yield from _run_some(group, world)
        return
    with ProcessPoolExecutor(jobs) as processes:
        for outcomes in processes.map(_run_some, groups, [world] * len(groups)):
            yield from outcomes


def shrink(plan: Plan, broken: str, world: WorldName = "log") -> Plan:
    """A plan with as few faults and calls as the shrinker finds that breaks the same property."""
    tries = _TRIES

    def still(candidate: Plan) -> bool:
        nonlocal tries
        tries -= 1
        return run_plan(candidate, world).broken == broken

    for part in ("clock_steps", "node_faults", "incidents", "damages", "openings", "faults", "calls"):
        size = max(1, len(getattr(plan, part)) // 2)
        while tries > 0:
            at, gone = 0, False
            while at < len(getattr(plan, part)) and tries > 0:
                items = getattr(plan, part)
                candidate = replace(plan, **{part: items[:at] + items[at + size :]})
                if still(candidate):
                    plan, gone = candidate, True
                else:
                    at += size
            if size == 1 and not gone:
                break
            size = max(1, size // 2)
    return plan
