"""Operators give a table of rows of a simulated cluster its next schemas, under all faults, while others write rows.

Two operators ask at servers of their own for a schema each, again and again, and now and then for one that may not
follow. Who has a schema acknowledged may write rows of it at any server. Who only sees its number may try: whether such
a row fits is decided by its place in the log, and equally by every replica. Rows of the first schema fit all the while.
"""

from __future__ import annotations

import asyncio
import io
import random
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import fastavro
from kit.flight_rows import FLIGHT_SCHEMA

from duramen import aio
from log_tier.catalog.version_fold import DEFINITION_KINDS, versions_job
from log_tier.concurrency.tasks import end_tasks
from log_tier.model.errors import DuramenError, InvalidSchema
from log_tier.rows.alter_table import SchemaChange
from log_tier.rows.definition import TableDefinition
from log_tier.rows.schema import RowSchema
from simulation.book import Broken
from simulation.cluster_jobs import newest_map
from simulation.cluster_turns import ASK_S, take_turn
from simulation.cluster_world import ClusterWorld
from simulation.plan import Plan
from simulation.row_ledger import has_rows
from simulation.trust_turns import TARGETS

__all__ = ["change_schemas", "finish_schemas", "has_changing_schemas"]

_CHANCE: Final = 0.6
_REFUSED: Final = 0.2
_LOOK_S: Final = 0.05
_FINISH_S: Final = 30.0


class _LaterFlights:
    """Rows with one field more."""

    def __init__(self, field: Mapping[str, Any]) -> None:
        written: dict[str, Any] = {**FLIGHT_SCHEMA, "fields": [*FLIGHT_SCHEMA["fields"], field]}
        self.schema: Final = RowSchema.parse(written)
        self._name = str(field["name"])
        self._writer = fastavro.parse_schema(written)

    def row(self, schema: int, carrier: str, number: int, tried: str) -> bytes:
        """A stored row of the schema that has this number."""
        body, row = io.BytesIO(), {"carrier": carrier, "flight": number, "tailnum": tried, "dep_delay": 0.0}
        fastavro.schemaless_writer(body, self._writer, {**row, self._name: "B7"})
        return b"\0" + schema.to_bytes(4) + body.getvalue()


_LATER: Final = (
    _LaterFlights({"name": "gate", "type": "string", "default": "-"}),
    _LaterFlights({"name": "remark", "type": "string", "default": ""}),
)
_UNREADABLE: Final = _LaterFlights({"name": "seat", "type": "string"}).schema
"""It has a field without a default, which no row that is there has."""


class KnownSchema(NamedTuple):
    """A later schema, by its number."""

    number: int
    flights: _LaterFlights

    def row(self, carrier: str, flight: int, tried: str) -> bytes:
        """A stored row."""
        return self.flights.row(self.number, carrier, flight, tried)


def has_changing_schemas(plan: Plan) -> bool:
    """Do its rows get other schemas?"""
    return has_rows(plan) and random.Random(f"schemas {plan.seed}").random() < _CHANCE


async def change_schemas(world: ClusterWorld, name: str, stop: asyncio.Event) -> None:
    """Alter a table, until `stop` is set."""
    if not has_changing_schemas(world.plan):
        return
    asking = [asyncio.create_task(_ask_on(world, name, later, stop)) for later in _LATER]
    looking = asyncio.create_task(_look_on(world, name))
    try:
        await asyncio.gather(*asking)
    finally:
        await end_tasks(looking, *asking)


async def _ask_on(world: ClusterWorld, name: str, later: _LaterFlights, stop: asyncio.Event) -> None:
    who = f"operator of schemas {_LATER.index(later)}"
    chance = random.Random(f"{who} {world.plan.seed}")
    pause_s = chance.choice((0.5, 3.0))
    while not stop.is_set():
        await asyncio.sleep(chance.random() * 2 * pause_s)
        target = chance.choice(TARGETS)
        work = _refused(name, target) if chance.random() < _REFUSED else _ask(world, name, target, later)
        await take_turn(world, who, "schema", target, work)


async def _ask(world: ClusterWorld, name: str, target: str, later: _LaterFlights) -> str:
    async with await aio.connect(f"{target}:7070", timeout=ASK_S, direct=False) as database:
        try:
            definition = await database.connection.alter_table(name, SchemaChange(later.schema), timeout=ASK_S)
        except InvalidSchema as error:  # it has it, and a newer one
            known = await database.definition(name)
            if known is None or _number_in(known, later) is None:
                raise Broken("fitting", f"{target} refused a schema of {name} that may follow: {error}") from error
            definition = known
    number = _number_in(definition, later)
    if number is None:
        raise Broken("fitting", f"{target} acknowledged a schema of {name}, which has {definition.schemas}")
    world.rows.later.setdefault(name, {})[number] = KnownSchema(number, later).row
    return f"definition {definition.number}, schema {number}"


async def _refused(name: str, target: str) -> str:
    async with await aio.connect(f"{target}:7070", timeout=ASK_S, direct=False) as database:
        try:
            definition = await database.connection.alter_table(name, SchemaChange(_UNREADABLE), timeout=ASK_S)
        except InvalidSchema as error:
            return f"refused: {error.message}"
    raise Broken("fitting", f"{target} acknowledged a schema of {name} that may not follow: {definition.schemas}")


async def _look_on(world: ClusterWorld, name: str) -> None:
    """Somebody sees the number of a schema while it is on its way."""
    while True:
        for number, text in newest_map(world).schemas.items():
            for later in _LATER:
                if text == later.schema.text:
                    world.rows.coming.setdefault(name, {})[number] = KnownSchema(number, later).row
        await asyncio.sleep(_LOOK_S)


def _number_in(definition: TableDefinition, later: _LaterFlights) -> int | None:
    found = [each.number for each in definition.schemas if each.schema == later.schema]
    return found[0] if len(found) == 1 else None


async def finish_schemas(world: ClusterWorld, name: str) -> None:
    """When nothing is at fault: no change is left half done, each schema that was acknowledged is there once, at every
    server; and both are there after they were asked for once more. Raises `Broken`.
    """
    if not has_changing_schemas(world.plan):
        return
    for later in _LATER:
        await _ask_until_done(world, name, later)
    for server in TARGETS:
        await _refused(name, server)
        async with await aio.connect(f"{server}:7070", timeout=_FINISH_S, direct=False) as database:
            definition = await database.definition(name)
        assert definition is not None, f"{name} has rows"
        found = {each.number for each in definition.schemas}
        if len(definition.schemas) != 3 or not found.issuperset(world.rows.later[name]):
            what = f"{name} has the schemas {sorted(found)}, acknowledged are {sorted(world.rows.later[name])}"
            raise Broken("fitting", f"{server} says that {what}")
    world.story.met["rows: schemas came"] += 1


async def _ask_until_done(world: ClusterWorld, name: str, later: _LaterFlights) -> None:
    ends_s = world.loop.time() + _FINISH_S
    while True:
        try:
            await _ask(world, name, "router", later)
        except DuramenError as error:
            job = versions_job(newest_map(world), newest_map(world).find(name).id)
            if world.loop.time() > ends_s:
                what = f"job {job.id} is {job.state}" if job is not None and job.kind in DEFINITION_KINDS else "no job"
                raise Broken("level", f"a schema of {name} does not come, {what}: {error.message}") from error
            world.story.tell("operator of schemas", f"asks again: {error}")
            await asyncio.sleep(0.2)
        else:
            return
