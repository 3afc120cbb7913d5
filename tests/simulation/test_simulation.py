"""A bounded number of seeds, the same story from the same seed, and every planted bug found."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from simulation.book import Broken
from simulation.elsewhere import digests_elsewhere
from simulation.first_seeds import find_planted
from simulation.log_world import LogWorld
from simulation.plan import plan_of
from simulation.planted import PLANTED, plant
from simulation.planted_syncs import PLANTED_SYNCS
from simulation.run import run_plan, run_seed, shrink
from simulation.worlds import BUGS, WorldName

FULL = os.environ.get("DURAMEN_CAMPAIGN") == "1"
GROUPS = 8
SEEDS = 6000 if FULL else 48
"""In each group."""
DATABASE_SEEDS = 50 if FULL else 3
"""The same for a whole database, whose run takes half a second."""
FOUND_WITHIN = 100
"""Runs after which each planted bug is found."""


@pytest.mark.parametrize("group", range(GROUPS))
@pytest.mark.campaign
def test_every_property_holds(group: int, record_property: Callable[[str, object], None]) -> None:
    met: Counter[str] = Counter()
    for seed in range(group * SEEDS, (group + 1) * SEEDS):
        outcome = run_seed(seed)
        met += outcome.met
        assert not outcome.broken, f"{outcome.words}\nagain: python -m tests.simulation --seed {seed} --story"
    record_property("simulation world", "log")
    record_property("simulation seeds", SEEDS)
    record_property("simulation met", dict(met))
    assert any(name.startswith(("power", "kill")) for name in met)


@pytest.mark.campaign
@pytest.mark.parametrize("group", range(GROUPS))
@pytest.mark.parametrize("world", ["database", "resp"])
def test_a_database_keeps_every_property(
    world: WorldName, group: int, record_property: Callable[[str, object], None]
) -> None:
    met: Counter[str] = Counter()
    for seed in range(group * DATABASE_SEEDS, (group + 1) * DATABASE_SEEDS):
        outcome = run_seed(seed, world)
        met += outcome.met
        again = f"again: python -m tests.simulation --world {world} --seed {seed} --story"
        assert not outcome.broken, f"{outcome.words}\n{again}"
        assert outcome.met["answer ok"], f"no call of seed {seed} was answered\n{again}"
    record_property("simulation world", world)
    record_property("simulation seeds", DATABASE_SEEDS)
    record_property("simulation met", dict(met))


@pytest.mark.campaign
@pytest.mark.parametrize("world", ["log", "database", "resp"])
def test_a_seed_is_one_story(world: WorldName) -> None:
    """In any process, whatever its hashes, and whatever ran in it before."""
    here = [run_seed(7, world).digest]
    for hashes in range(10 if FULL else 1):
        assert digests_elsewhere(range(7, 8), world, hashes=hashes) == here


@pytest.mark.parametrize("name", [name for name in BUGS["log"] if name not in PLANTED_SYNCS])
def test_a_planted_bug_is_found(name: str) -> None:
    assert find_planted("log", name, FOUND_WITHIN)


@pytest.mark.parametrize(("world", "name"), [(world, name) for world in ("database", "resp") for name in BUGS[world]])
def test_a_bug_planted_in_a_database_is_found(world: WorldName, name: str) -> None:
    assert find_planted(world, name, FOUND_WITHIN)


def test_a_shrunk_plan_breaks_the_same_property() -> None:
    with plant(PLANTED["what is under way when a sync fails is refused"]):
        seed, broken = next((seed, found) for seed in range(FOUND_WITHIN) if (found := run_seed(seed).broken))
        plan = plan_of(seed)
        small = shrink(plan, broken)
        assert run_plan(small).broken == broken
    assert len(small.faults) + len(small.calls) <= 5 < len(plan.calls)
    assert not run_plan(small).broken, "without the bug it holds"


def test_a_run_that_leaves_a_task_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked of a run of the log, to which a task is added that nobody ends."""
    kept: list[asyncio.Task[None]] = []
    inner = LogWorld.run

    async def go_on() -> None:
        await asyncio.Event().wait()

    async def run(world: LogWorld) -> None:
        await inner(world)
        kept.append(asyncio.create_task(go_on()))

    monkeypatch.setattr(LogWorld, "run", run)
    outcome = run_seed(0)
    assert outcome.broken == "ends"
    assert "go_on" in outcome.words
    kept.clear()


def test_a_run_that_is_broken_may_leave_steps_of_generators(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step of one has no name, and is no reason to break a run in another way."""
    kept: list[object] = []

    async def numbers() -> AsyncIterator[int]:
        await asyncio.Event().wait()
        yield 1

    async def run(world: LogWorld) -> None:
        step: Any = numbers().__anext__()
        kept.append(asyncio.ensure_future(step))
        await asyncio.sleep(0)
        raise Broken("shown", "the test says so")

    monkeypatch.setattr(LogWorld, "run", run)
    assert run_seed(0).broken == "shown"
    kept.clear()
