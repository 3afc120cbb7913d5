"""An operator gives a table of rows of a simulated cluster an index and takes it away again, under all faults.

Meanwhile others write its rows, move, restore and copy it. `row_finds.py` says what an index in service must have; one
that is being built is asked by nobody, and refuses. In the end what has failed is asked for once more.
"""

from __future__ import annotations

import asyncio
import random
from typing import Final

from kit.flight_rows import UNNUMBERED_FLIGHTS

from duramen import aio
from log_tier.catalog.version_fold import DEFINITION_KINDS, versions_job
from log_tier.model.errors import DuramenError
from log_tier.rows.alter_table import IndexChange
from log_tier.rows.finding.conditions import conditions_of
from log_tier.rows.table_index import unpack_where
from simulation.book import Broken
from simulation.cluster_jobs import newest_map
from simulation.cluster_turns import ASK_S, take_turn
from simulation.cluster_world import ClusterWorld
from simulation.plan import Plan
from simulation.row_finds import check_finds
from simulation.row_ledger import has_rows
from simulation.trust_turns import TARGETS

__all__ = ["change_indexes", "finish_indexes", "has_changing_indexes"]

_NAME: Final = "by_pair"
_LATE: Final = conditions_of({"dep_delay": (1.0, None)}, UNNUMBERED_FLIGHTS)
_COMING: Final = (
    IndexChange(_NAME, ("tailnum",)),
    IndexChange(_NAME, ("dep_delay", "tailnum")),
    IndexChange(_NAME, ("tailnum",), _LATE),
)
_GOING: Final = IndexChange(_NAME)
_CHANCE: Final = 0.6
_TAKES_AWAY: Final = 0.4
_FINISH_S: Final = 30.0


def has_changing_indexes(plan: Plan) -> bool:
    """Do indexes of its rows come and go?"""
    return has_rows(plan) and random.Random(f"indexes {plan.seed}").random() < _CHANCE


async def change_indexes(world: ClusterWorld, name: str, stop: asyncio.Event) -> None:
    """Create and drop an index of a table, until `stop` is set."""
    if not has_changing_indexes(world.plan):
        return
    chance = random.Random(f"operator of indexes {world.plan.seed}")
    pause_s = chance.choice((0.3, 1.5))
    while not stop.is_set():
        await asyncio.sleep(chance.random() * 2 * pause_s)
        change = _GOING if chance.random() < _TAKES_AWAY else chance.choice(_COMING)
        target = chance.choice(TARGETS)
        await take_turn(world, "operator of indexes", "index", target, _ask(target, name, change))


async def _ask(target: str, name: str, change: IndexChange) -> str:
    async with await aio.connect(f"{target}:7070", timeout=ASK_S, direct=False) as database:
        definition = await database.connection.alter_table(name, change, timeout=ASK_S)
    return f"definition {definition.number}"


async def finish_indexes(world: ClusterWorld, name: str) -> None:
    """When nothing is at fault: no change is left half done; and the index comes once more, with the rows that are
    there. Raises `Broken`.
    """
    if not has_changing_indexes(world.plan):
        return
    ends_s = world.loop.time() + _FINISH_S
    while (table := newest_map(world).named(name)) is not None:
        job = versions_job(newest_map(world), table.id)
        if job is None or job.kind not in DEFINITION_KINDS:
            break
        if world.loop.time() > ends_s:
            raise Broken("level", f"job {job.id}, which changes an index of {name}, is {job.state}: {list(job.tasks)}")
        fields = tuple(str(job.arguments["fields"]).split(",")) if "fields" in job.arguments else ()
        try:
            where = unpack_where(str(job.arguments.get("where", "")))
            await _ask("router", name, IndexChange(str(job.arguments["index"]), fields, where))
        except DuramenError as error:
            world.story.tell("operator of indexes", f"asks again: {error}")
            await asyncio.sleep(0.2)
    async with await aio.connect("router:7070", timeout=_FINISH_S, direct=False) as database:
        definition = await database.definition(name)
        assert definition is not None, f"{name} has rows"
        if any(each.name == _NAME for each in definition.indexes):
            await database.connection.alter_table(name, _GOING, timeout=_FINISH_S)
        definition = await database.connection.alter_table(name, _COMING[2], timeout=_FINISH_S)
        await check_finds(definition, database.table(name), "router")
    world.story.met["rows: index came last"] += 1
