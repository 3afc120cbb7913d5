"""A search for cheaper seeds: for each planted bug, the run that shows it for the least time of a processor.

A candidate may cost a part of what the best one so far costs, and is stopped there: so a search of thirty candidates
costs little more than a few runs. Bugs of one kind share their world, so what shows one is tried first for the others.
Then come, in a cluster, the runs whose plans ask for little: trims and users cost a run most of its time, and a bug
that needs neither shows without them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Final

from simulation.cluster_versions import has_versions
from simulation.first_seeds import first_seed, may_show
from simulation.history_ledger import has_history
from simulation.plan import plan_of
from simulation.planted import plant
from simulation.row_ledger import has_rows
from simulation.run import Outcome, run_seed
from simulation.worlds import BUGS, WorldName

__all__ = ["ShownBug", "demand", "search_first_seeds"]

_BETTER: Final = 0.7
"""Of the cost of the best seed: what costs more than so much of it is not worth a change, or measured by chance."""
_UNFOUND_S: Final = 30.0
"""What a run may cost of a bug that its present seed does not show."""


@dataclass(frozen=True)
class ShownBug:
    """What a search has found for a bug."""

    bug: str
    before: int
    before_s: float
    """Of a processor, for the run of the present seed; it may not show the bug."""
    seed: int
    seconds: float
    is_shown: bool


def search_first_seeds(
    world: WorldName, bugs: Iterable[str], candidates: int, enough_s: float, run: Callable[..., Outcome] = run_seed
) -> Iterator[ShownBug]:
    """Search among so many candidates for each bug, until one shows it within `enough_s` of a processor."""
    shown_at: dict[int, None] = {}
    for bug in bugs:
        with plant(BUGS[world][bug]):
            found = _search(world, bug, [*reversed(shown_at)], candidates, enough_s, run)
        if found.is_shown:
            shown_at.pop(found.seed, None)
            shown_at[found.seed] = None
        yield found


@cache
def demand(seed: int) -> float:
    """What the plan of a cluster asks for: about the seconds of a processor that a run costs, next to other runs."""
    plan = plan_of(seed)
    trims, users = plan.trims is not None, plan.has_users() or plan.has_users("users of endpoints")
    return 3 * trims + 2 * users + has_rows(plan) + has_history(plan) + has_versions(plan) / 2 + plan.partitions / 5


def _search(
    world: WorldName, bug: str, known: list[int], candidates: int, enough_s: float, run: Callable[..., Outcome]
) -> ShownBug:
    before = first_seed(world, bug)
    outcome = run(before, world)
    before_s, is_shown = outcome.processor_s, bool(outcome.broken)
    best, best_s = before, before_s if is_shown else _UNFOUND_S
    seeds: Iterable[int] = range(100 * candidates)
    if world.startswith("cluster"):
        seeds = sorted(seeds, key=demand)
    possible = filter(may_show(world, bug), dict.fromkeys([*known, *seeds]))
    for seed in islice(possible, candidates):
        if is_shown and best_s <= enough_s:
            break
        if seed == before:
            continue
        outcome = run(seed, world, within_s=_BETTER * best_s)
        if outcome.broken:
            best, best_s, is_shown = seed, outcome.processor_s, True
    return ShownBug(bug, before, before_s, best, best_s, is_shown)
