"""Tables with a definition of a simulated cluster: callers write rows, and what does not fit, under all faults.

Two operators make two tables of the same rows at two servers at once, while a third one makes a table of others: a
schema has one number, whoever needs it first. Later another one comes, while faults are met. Callers at several
servers, some with one client, so that their records leave in one batch, write rows and misfits of every kind; groups
and batches with one misfit, too. Others write rows as JSON to the first of them, by the Redis protocol at any server
and as commands do. `row_ledger.py` knows what may be seen. The rows have ordered indexes, by which some of the reads go
(`row_finds.py`), and one of the tables gets other schemas (`row_schemas.py`). Meanwhile jobs move, restore and copy the
tables. In the end every server knows the same definitions and refuses the same, and each replica holds, and counts as
void, what a fold of its log from the beginning does. Then one of the tables is cleared, and is one of rows as before.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from typing import Final

from duramen import aio
from duramen.client.database import Database
from duramen.client.table import Table
from log_tier.concurrency.tasks import end_tasks
from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import Partition, PartitionId
from log_tier.rows.definition import TableDefinition
from log_tier.rows.schema import NumberedSchema, RowSchema
from log_tier.rows.table_spec import TableSpec
from router.admin.verbs import AdminChange, Clear, Move, RestoreNode, SetReplicas, TakeSnapshots
from serving_tier.index.memory_index import MemoryIndex
from simulation.book import Broken
from simulation.cluster_jobs import maps_differ, newest_map, unfinished
from simulation.cluster_json_rows import check_json_rows, put_by_commands, put_by_kv, write_json_rows
from simulation.cluster_turns import ASK_S, begin, take_turn
from simulation.cluster_world import NODES, ClusterWorld
from simulation.past_checks import KEPT, check_gaps, compare_past
from simulation.past_scans import check_past_scans
from simulation.row_calls import RowCaller, follow_rows, read_row
from simulation.row_checks import check_scan, compare_rows, folded_rows
from simulation.row_finds import INDEXED_FLIGHTS, check_entries, check_finds, find_row
from simulation.row_indexes import change_indexes, finish_indexes
from simulation.row_ledger import has_rows
from simulation.row_schemas import change_schemas, finish_schemas
from simulation.trust_turns import TARGETS

__all__ = ["check_row_replicas", "check_rows", "open_rows", "use_rows"]

_ROWS: Final = ("rows", "rows2")
"""The tables that two operators make at once."""
_LATER: Final = "rows3"
_OTHERS: Final = "rates"
_PARTITIONS: Final = 2
_RATES: Final = TableDefinition(
    key="str",
    value="row",
    schemas=(
        NumberedSchema(
            0,
            RowSchema.parse({"type": "record", "name": "Rate", "fields": [{"name": "rate", "type": "double"}]}),
        ),
    ),
)
_DEFINITIONS: Final = {
    **{name: replace(INDEXED_FLIGHTS, keeps=keeps) for name, keeps in zip((*_ROWS[::-1], _LATER), KEPT, strict=True)},
    _OTHERS: _RATES,
}
_LEVEL_S: Final = 15.0
_WRITTEN_CHANCE: Final = 0.6
"""So often rows are written while their table is cleared."""
_FINDS: Final = 0.4
"""How many of the reads go through an index."""


def _has_rows(world: ClusterWorld) -> bool:
    return has_rows(world.plan) and not world.has_endpoints


async def open_rows(world: ClusterWorld) -> None:
    """Make the tables: at once, at several servers. No fault has begun."""
    if not _has_rows(world):
        return
    chance = random.Random(f"tables of rows {world.plan.seed}")
    names = (*_ROWS, _OTHERS)
    await asyncio.gather(*(_make(name, target) for name, target in zip(names, chance.sample(TARGETS, 3), strict=True)))
    for catalog in world.catalogs.values():
        await catalog.wait_for(lambda cluster: all(cluster.named(name) is not None for name in names))
    _check_numbers(world)
    for name in (_ROWS[0], _OTHERS):
        table = newest_map(world).named(name)
        if table is None or table.definition is None:
            raise Broken("fitting", f"{name} was made with a definition, and the newest map has {table}")
        world.rows.schemas[name] = table.definition.schemas[0].number


async def _make(name: str, target: str) -> str:
    async with await aio.connect(f"{target}:7070", timeout=ASK_S, direct=False) as database:
        spec = TableSpec(name, _PARTITIONS, definition=_DEFINITIONS[name])
        await database.connection.create_table(spec, timeout=ASK_S)
    return "done"


def _check_numbers(world: ClusterWorld) -> None:
    """Every server gives each schema one number, and each number one schema. Raises `Broken`."""
    for server, catalog in world.catalogs.items():
        texts: dict[int, str] = {}
        for table in catalog.map.tables.values():
            for each in () if table.definition is None else table.definition.schemas:
                if texts.setdefault(each.number, each.schema.text) != each.schema.text:
                    raise Broken("fitting", f"{server} gives two schemas the number {each.number}")
        if len(set(texts.values())) < len(texts) or texts != dict(catalog.map.schemas):
            raise Broken("fitting", f"{server} has the schemas {dict(catalog.map.schemas)}, its tables {texts}")


async def use_rows(world: ClusterWorld, stop: asyncio.Event) -> None:
    """Callers write and read, and jobs are begun, until `stop` is set."""
    if not _has_rows(world):
        return
    working = [asyncio.create_task(_write_on(world, number, stop)) for number in range(2)]
    working.append(asyncio.create_task(_work(world, stop)))
    working.append(asyncio.create_task(follow_rows(world, _ROWS[0], stop)))
    working.append(asyncio.create_task(write_json_rows(world, _ROWS[0], stop)))
    working.append(asyncio.create_task(put_by_commands(world, _ROWS[0], stop)))
    working.append(asyncio.create_task(put_by_kv(world, _ROWS[0], stop)))
    working.append(asyncio.create_task(change_indexes(world, _ROWS[0], stop)))
    working.append(asyncio.create_task(change_schemas(world, _ROWS[1], stop)))
    try:
        await asyncio.gather(*working)
    finally:
        for task in working:
            task.cancel()


async def _write_on(world: ClusterWorld, number: int, stop: asyncio.Event) -> None:
    """One client, of which two callers have a share."""
    chance = random.Random(f"writers of rows {number} {world.plan.seed}")
    targets = [f"{name}:7070" for name in chance.sample(TARGETS, chance.choice((1, 1, 3)))]
    direct = chance.random() < 0.5
    while not stop.is_set():
        try:
            database = await aio.connect(targets, timeout=chance.choice((0.5, 2.0)), direct=direct)
        except DuramenError:
            await asyncio.sleep(0.2)
            continue
        async with database:
            await asyncio.gather(*(_share(world, database, chance, stop) for _ in range(2)))


async def _share(world: ClusterWorld, database: Database, chance: random.Random, stop: asyncio.Event) -> None:
    names, pause_s = [*_ROWS, _LATER], chance.choice((0.1, 0.3))
    callers = [RowCaller(world, database.table(name), chance) for name in names]
    while not stop.is_set():
        await asyncio.sleep(chance.random() * 2 * pause_s)
        caller = chance.choice(callers)
        rows = await caller.write_some()
        await caller.write_early()
        if rows:
            key, row, table = chance.choice(rows)
            definition = _definition_of(world, table)
            if definition is not None and chance.random() < _FINDS:
                await find_row(world, chance, definition, table, key, row)
            else:
                await read_row(world, chance, table, key, row)


def _definition_of(world: ClusterWorld, name: str) -> TableDefinition | None:
    table = newest_map(world).named(name)
    return None if table is None else table.definition


async def _work(world: ClusterWorld, stop: asyncio.Event) -> None:
    """One more table, and jobs on all of them."""
    chance = random.Random(f"operator of rows {world.plan.seed}")
    pause_s = chance.choice((0.5, 1.5))
    while not stop.is_set():
        await asyncio.sleep(chance.random() * 2 * pause_s)
        target = chance.choice(TARGETS)
        if newest_map(world).named(_LATER) is None and chance.random() < 0.5:
            await take_turn(world, "operator of rows", "table", target, _make(_LATER, target))
        elif (change := _change(world, chance)) is not None:
            turn = begin(world, f"{target}:7070", change)
            await take_turn(world, "operator of rows", "rows", target, turn)


def _change(world: ClusterWorld, chance: random.Random) -> AdminChange | None:
    table = newest_map(world).named(chance.choice(_ROWS))
    if table is None:
        return None
    kind, partition = chance.randrange(4), Partition(chance.randrange(_PARTITIONS))
    if kind == 0:
        return TakeSnapshots(table.name)
    if kind == 1:
        return SetReplicas(table.name, chance.choice((1, 2, 3)))
    if kind == 2:
        return RestoreNode(chance.choice(NODES))
    held = table.readable(partition)
    free = [name for name in NODES if name not in held]
    return Move(table.name, partition, chance.choice(held), chance.choice(free)) if held and free else None


async def check_rows(world: ClusterWorld) -> None:
    """When all is level and nothing is at fault: see the text above. Raises `Broken`."""
    if not _has_rows(world):
        return
    chance = random.Random(f"rows at the end {world.plan.seed}")
    await finish_indexes(world, _ROWS[0])
    await finish_schemas(world, _ROWS[1])
    _check_numbers(world)
    names = [name for name in _DEFINITIONS if newest_map(world).named(name) is not None]
    for server in TARGETS:
        async with await aio.connect(f"{server}:7070", timeout=ASK_S, direct=False) as database:
            for name in names:
                await _check_definition(world, database, server, name)
            for name in names:
                if name != _OTHERS and _serves(world, server, name):
                    await _write_and_scan(world, database.table(name), chance, server)
    await check_row_replicas(world)
    await _clear(world, chance)


async def _check_definition(world: ClusterWorld, database: Database, server: str, name: str) -> None:
    ref = await database.connection.find_table(name, timeout=ASK_S)
    number = world.rows.schemas[_OTHERS if name == _OTHERS else _ROWS[0]]
    found, wanted = await database.connection.definition(ref.id, timeout=ASK_S), _DEFINITIONS[name].numbered([number])
    if found is None or found.first != wanted:
        raise Broken("fitting", f"{server} says that {name} has the definition {found}, it has {wanted}")


def _serves(world: ClusterWorld, server: str, name: str) -> bool:
    """A router serves all tables, a node those of which it holds every partition."""
    table = newest_map(world).named(name)
    if table is None or server == "router":
        return table is not None
    return all(server in table.readable(each.partition) for each in table.partition_ids())


async def _write_and_scan(world: ClusterWorld, table: Table, chance: random.Random, server: str) -> None:
    await RowCaller(world, table, chance).write_each()
    if not world.rows.later.get(table.name):  # what is JSON has the newest schema, and its callers know the first one
        await check_json_rows(world, server, table.name, chance)
    await check_scan(world, table, server)
    definition = _definition_of(world, table.name)
    assert definition is not None, f"{table.name} has rows"
    await check_finds(definition, table, server)


async def check_row_replicas(world: ClusterWorld) -> None:
    """When all is level: each replica holds, and counts as void, what a fold of its log from the beginning does; and
    what is void there is what callers wrote that does not fit. Raises `Broken`.
    """
    if not _has_rows(world):
        return
    for name in (*_ROWS, _LATER):
        table = newest_map(world).named(name)
        if table is None or table.definition is None or name == world.rows.cleared:
            continue
        folds: dict[Partition, MemoryIndex] = {}
        for place in table.partition_ids():
            assert world.log is not None, "all is level"
            await world.log.keep(place)
            stored = world.kept.stored(place)
            folded = folds[place.partition] = folded_rows(world, place, table, stored)
            for node in list(world.nodes):
                await _compare(world, node, place, folded, table.definition)
        async with await aio.connect("router:7070", timeout=ASK_S, direct=False) as database:
            await check_past_scans(world, database.table(name), folds)


async def _compare(
    world: ClusterWorld, node: str, place: PartitionId, folded: MemoryIndex, definition: TableDefinition
) -> None:
    """A node's replica, if it has one, is what was folded."""
    ends_s = world.loop.time() + _LEVEL_S
    while node in world.nodes and (replica := world.nodes[node][1].node.hosted().get(place)) is not None:
        index = replica.index
        if index.applied >= folded.applied:
            compare_rows(world, node, place, index, folded)
            compare_past(world, node, place, index, folded)
            check_gaps(world, node, place, index)
            check_entries(world, node, place, index, definition)
            return
        if world.loop.time() > ends_s:
            raise Broken("fitting", f"{node} has applied {index.applied} of {place}, its log ends at {folded.applied}")
        await asyncio.sleep(0.05)


async def _clear(world: ClusterWorld, chance: random.Random) -> None:
    """A table goes over to a version with nothing in it, and judges as before."""
    name = world.rows.cleared = _ROWS[1]
    world.rows.forget(name)
    is_written = chance.random() < _WRITTEN_CHANCE
    writing = asyncio.create_task(_write_meanwhile(world, name, chance)) if is_written else None
    try:
        job = await begin(world, f"{chance.choice(TARGETS)}:7070", Clear(name))
        ends_s = world.loop.time() + _LEVEL_S
        while any(True for _ in unfinished(world)) or maps_differ(world):
            if world.loop.time() > ends_s:
                raise Broken("level", f"{job}, which clears {name}, has not ended in {_LEVEL_S:g} s")
            await asyncio.sleep(0.05)
    finally:
        await end_tasks(writing)
    world.rows.forget(name)  # some of it was acknowledged before the barrier
    for number, server in enumerate(each for each in reversed(TARGETS) if _serves(world, each, name)):
        async with await aio.connect(f"{server}:7070", timeout=ASK_S, direct=False) as database:
            table = database.table(name)
            if number == 0 and not is_written and [each async for each in table.scan(level="strong", timeout=ASK_S)]:
                raise Broken("fitting", f"{name} was cleared, and has rows at {server}")
            await _write_and_scan(world, table, chance, server)
    for node, (_, plane) in world.nodes.items():
        for place, replica in plane.node.hosted().items():
            if place.table == newest_map(world).find(name).id:
                check_gaps(world, node, place, replica.index)
    world.story.met["rows: cleared"] += 1


async def _write_meanwhile(world: ClusterWorld, name: str, chance: random.Random) -> None:
    """Rows for a table that is being cleared, until cancelled."""
    async with await aio.connect("router:7070", timeout=ASK_S, direct=False) as database:
        caller = RowCaller(world, database.table(name), chance)
        while True:
            await caller.write_some()
            await asyncio.sleep(0.01)
