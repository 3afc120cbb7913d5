"""A table of rows in a simulated database: typed callers, commands, and clients of its Redis endpoints.

They write while the database dies and lives again. In the end it answers every kind of call as it should, a scan shows
what was acknowledged, and each replica holds, and has counted as void, what a fold of its log does.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import Any, Final

from kit.flight_rows import UNNUMBERED_FLIGHTS

from duramen.cli.data.table_text import record_text
from duramen.client.database import Database
from duramen.testing.machine.resp_words import RawError
from duramen.testing.machine.simulated_wire import WireCut
from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import Offset, Partition
from log_tier.rows.table_spec import TableSpec
from serving_tier.index.memory_index import MemoryIndex
from simulation.book import Broken
from simulation.database_world import DatabaseWorld
from simulation.json_row_calls import CommandRowCaller, WireRowCaller
from simulation.past_checks import KEPT, check_gaps, compare_past
from simulation.past_scans import check_past_scans, write_again
from simulation.reconnecting import Reconnecting
from simulation.row_calls import RowCaller
from simulation.row_checks import check_scan, compare_rows, folded_rows
from simulation.row_ledger import has_rows

__all__ = ["with_rows"]

_TABLE: Final = "rows"
_PARTITIONS: Final = 2
_TIMEOUT_S: Final = 2.0
_PAUSE_S: Final = 0.3
_UP_S: Final = 60.0
"""So long after the last fault the database answers."""


async def with_rows(world: DatabaseWorld, stop: asyncio.Event) -> None:
    """The faults of a world, and callers who write rows meanwhile, where its plan has some. Raises `Broken`."""
    if not has_rows(world.plan):
        await world.faults(stop)
        return
    await _open(world)
    callers = [_write_typed(world, stop), _put_by_commands(world, stop)]
    if world.endpoints:
        callers.append(_write_json(world, stop))
    working = [asyncio.create_task(each) for each in callers]
    try:
        await world.faults(stop)
        await asyncio.gather(*working)
        await _check(world)
    finally:
        for task in working:
            task.cancel()
        await asyncio.gather(*working, return_exceptions=True)


def _database(world: DatabaseWorld) -> Database:
    return Database(Reconnecting(world), timeout=_TIMEOUT_S)


async def _open(world: DatabaseWorld) -> None:
    await world.up.wait()
    keeps = random.Random(f"history of rows {world.plan.seed}").choice(KEPT)
    spec = TableSpec(_TABLE, _PARTITIONS, definition=replace(UNNUMBERED_FLIGHTS, keeps=keeps))
    async with _database(world) as database:
        await database.connection.create_table(spec, timeout=_TIMEOUT_S)
        definition = await database.definition(_TABLE)
    assert definition is not None, "it was made with one"
    world.rows.schemas[_TABLE] = definition.schemas[0].number
    world.rows.schemas["another"] = definition.schemas[0].number + 1  # which no table has


async def _write_typed(world: DatabaseWorld, stop: asyncio.Event) -> None:
    chance = random.Random(f"typed rows {world.plan.seed}")
    async with _database(world) as database:
        table = database.table(_TABLE)
        caller = RowCaller(world, table, chance)
        while not stop.is_set():
            for key, row, _ in await caller.write_some():
                with suppress(DuramenError):
                    least = world.rows.newest(_TABLE, key) or row
                    found = await table.get_entry(key, level="strong")
                    if what := world.rows.difference(_TABLE, key, found, least):
                        raise Broken("fitting", f"of {_TABLE}, read strong: {what}")
                    world.story.met["rows: read"] += 1
            await asyncio.sleep(chance.random() * _PAUSE_S)


async def _put_by_commands(world: DatabaseWorld, stop: asyncio.Event) -> None:
    chance = random.Random(f"commands with rows {world.plan.seed}")
    while not stop.is_set():
        with suppress(DuramenError):
            async with _database(world) as database:
                words = record_text(await database.definition(_TABLE), lambda _: None)
                await CommandRowCaller(world, database.table(_TABLE), words, chance).write()
        await asyncio.sleep(chance.random() * 2 * _PAUSE_S)


async def _write_json(world: DatabaseWorld, stop: asyncio.Event) -> None:
    chance = random.Random(f"rows as JSON {world.plan.seed}")
    while not stop.is_set():
        with suppress(WireCut):
            client = await world.connected(chance)
            (reply,) = await client.call([(b"SELECT", _TABLE.encode())])
            while not (stop.is_set() or isinstance(reply, RawError) or chance.random() < 0.1):
                await WireRowCaller(world, client, _TABLE, chance).write_some()
                await asyncio.sleep(chance.random() * _PAUSE_S)
            client.close()
        await asyncio.sleep(chance.random() * _PAUSE_S)


async def _check(world: DatabaseWorld) -> None:
    chance = random.Random(f"rows at the end {world.plan.seed}")
    ends_s = world.loop.time() + _UP_S
    async with _database(world) as database:
        table = database.table(_TABLE)
        while True:
            try:
                await table.get(b"is it up?", level="strong")
                break
            except DuramenError as error:
                if world.loop.time() > ends_s:
                    raise Broken("ends", f"{_TABLE} is not read {_UP_S:g} s after the last fault: {error!r}") from error
            await asyncio.sleep(_PAUSE_S)
        await RowCaller(world, table, chance).write_each()
        words = record_text(await database.definition(_TABLE), lambda _: None)
        await CommandRowCaller(world, table, words, chance).write(sure=True)
        if world.endpoints:
            await _check_endpoint(world, chance)
        await check_scan(world, table, "the database")
        await write_again(table, RowCaller(world, table, chance))
        await check_past_scans(world, table, await _check_replicas(world))


async def _check_endpoint(world: DatabaseWorld, chance: random.Random) -> None:
    try:
        client = await world.connected(chance)
        (reply,) = await client.call([(b"SELECT", _TABLE.encode())])
        if isinstance(reply, RawError):
            raise Broken("fitting", f"an endpoint does not select {_TABLE}: {reply.text}")
        await WireRowCaller(world, client, _TABLE, chance).write_each()
        client.close()
    except WireCut as error:
        raise Broken("fitting", "an endpoint cut a connection, and nothing is at fault") from error


async def _check_replicas(world: DatabaseWorld) -> dict[Partition, MemoryIndex]:
    """The folds of the logs, which the replicas are held against."""
    folds: dict[Partition, MemoryIndex] = {}
    plane = world.plane
    assert plane is not None, "nothing is at fault"
    table = plane.catalog.map.named(_TABLE)
    assert table is not None, "nobody drops it"
    for place in table.partition_ids():
        stored: list[bytes] = []
        reader: Any = plane.log.read(place, Offset(0), follow=False)
        async with aclosing(reader) as chunks:
            stored += [bytes(chunk.data) async for chunk in chunks]
        folded = folds[place.partition] = folded_rows(world, place, table, b"".join(stored))
        index = plane.node.hosted()[place].index
        ends_s = world.loop.time() + _UP_S
        while index.applied < folded.applied:
            if world.loop.time() > ends_s:
                raise Broken("fitting", f"{place} has applied {index.applied}, its log ends at {folded.applied}")
            await asyncio.sleep(_PAUSE_S)
        compare_rows(world, "the node", place, index, folded)
        compare_past(world, "the node", place, index, folded)
        check_gaps(world, "the node", place, index)
    return folds
