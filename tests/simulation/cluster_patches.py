"""Updates of fields in a simulated cluster: callers patch the same rows at once, under all faults.

Some patch whatever is there, some on the condition of a version that they read, some twice in one atomic batch, some a
row that is not there. `patch_ledger.py` knows what a row may be made of. They read at any server meanwhile, and in the
end at each of them.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any, Final

from kit.flight_rows import FLIGHT_SCHEMA, UNNUMBERED_FLIGHTS

from duramen import aio
from duramen.client.row_table import RowTable
from log_tier.model.errors import ConditionFailed, DuramenError, RowAbsent
from log_tier.rows.table_spec import TableSpec
from simulation.book import Broken
from simulation.cluster_jobs import newest_map
from simulation.cluster_turns import ASK_S
from simulation.cluster_world import ClusterWorld
from simulation.patch_ledger import PatchedRow
from simulation.row_ledger import has_rows
from simulation.trust_turns import TARGETS

__all__ = ["check_patches", "open_patches", "patch_rows"]

_TABLE: Final = "patched"
_KEYS: Final = (("AA", 1), ("UA", 1), ("UA", 2))
_ABSENT: Final = ("UA", 99)


def _has_patches(world: ClusterWorld) -> bool:
    return has_rows(world.plan) and not world.has_endpoints


async def open_patches(world: ClusterWorld) -> None:
    """Make the table and its rows. No fault has begun."""
    if not _has_patches(world):
        return
    async with await aio.connect("router:7070", timeout=ASK_S, direct=False) as database:
        await database.connection.create_table(TableSpec(_TABLE, 2, definition=UNNUMBERED_FLIGHTS), timeout=ASK_S)
        for carrier, number in _KEYS:
            await _rows(database).put({"carrier": carrier, "flight": number, "tailnum": None, "dep_delay": 0.0})
    for catalog in world.catalogs.values():
        await catalog.wait_for(lambda cluster: cluster.named(_TABLE) is not None)


def _rows(database: Any) -> RowTable[Any]:
    return database.table(_TABLE, row=FLIGHT_SCHEMA)  # type: ignore[no-any-return]


async def patch_rows(world: ClusterWorld, stop: asyncio.Event) -> None:
    """Callers patch and read until `stop` is set."""
    if not _has_patches(world):
        return
    working = [asyncio.create_task(_patch_on(world, number, stop)) for number in range(2)]
    try:
        await asyncio.gather(*working)
    finally:
        for task in working:
            task.cancel()


async def _patch_on(world: ClusterWorld, number: int, stop: asyncio.Event) -> None:
    """One client."""
    chance = random.Random(f"patches {number} {world.plan.seed}")
    while not stop.is_set():
        try:
            target = f"{chance.choice(TARGETS)}:7070"
            database = await aio.connect(target, timeout=chance.choice((0.5, 2.0)), direct=chance.random() < 0.5)
        except DuramenError:
            await asyncio.sleep(0.2)
            continue
        async with database:
            table = _rows(database)
            for _ in range(20):
                await asyncio.sleep(chance.random() * 0.4)
                if stop.is_set():
                    break
                calls = [_patch(world, table, chance) for _ in range(chance.choice((1, 2, 4)))]
                await asyncio.gather(*calls)
                await _read(world, table, chance.choice(_KEYS), sure=False)


async def _patch(world: ClusterWorld, table: RowTable[Any], chance: random.Random) -> None:
    kind, key = chance.choice(("plain", "plain", "condition", "twice", "absent")), chance.choice(_KEYS)
    try:
        if kind == "absent":
            await _patch_absent(table)
        elif kind == "twice":
            await _patch_twice(world, table, key)
        else:
            await _patch_once(world, table, key, is_conditional=kind == "condition")
    except DuramenError as error:
        world.story.met[f"patches: {kind} failed, {error.code}"] += 1
    else:
        world.story.met[f"patches: {kind} done"] += 1


async def _patch_absent(table: RowTable[Any]) -> None:
    try:
        done = await table.update(*_ABSENT, add={"dep_delay": 1.0})
    except RowAbsent:
        return
    raise Broken("patched", f"a patch of {_ABSENT}, which is no row, was acknowledged at {done.offset}")


async def _patch_once(world: ClusterWorld, table: RowTable[Any], key: tuple[str, int], *, is_conditional: bool) -> None:
    name, ledger = str(key), world.patches
    entry = await table.get_entry(*key) if is_conditional else None
    mark = ledger.next_mark(name, None if entry is None else PatchedRow.of(entry.value))
    version = None if entry is None else entry.version
    try:
        done = await table.update(*key, add={"dep_delay": 1.0}, append={"tailnum": f" {mark}"}, if_version=version)
    except ConditionFailed:
        ledger.refused(mark)
        return
    ledger.done(name, mark, done.offset)


async def _patch_twice(world: ClusterWorld, table: RowTable[Any], key: tuple[str, int]) -> None:
    name, batch = str(key), table.batch()
    marks = [world.patches.next_mark(name) for _ in range(2)]
    for mark in marks:
        batch.update(*key, add={"dep_delay": 1.0}, append={"tailnum": f" {mark}"})
    for mark, done in zip(marks, await batch.commit(), strict=True):
        world.patches.done(name, mark, done.offset)


async def _read(world: ClusterWorld, table: RowTable[Any], key: tuple[str, int], *, sure: bool) -> None:
    """Raise `Broken` for what no row may be. `sure`: an error is none that is expected."""
    name, least = str(key), world.patches.acknowledged(str(key))
    try:
        row = await table.get(*key, level="strong")
    except DuramenError as error:
        if sure:
            raise Broken("patched", f"a read of {name} in {_TABLE} failed: {error!r}") from error
        return
    if row is None:
        raise Broken("patched", f"{name} of {_TABLE} is not there")
    if what := world.patches.difference(name, PatchedRow.of(row), least):
        raise Broken("patched", f"in {_TABLE}, {what}")
    world.story.met["patches: read"] += 1


async def check_patches(world: ClusterWorld) -> None:
    """When all is level and nothing is at fault: every server shows rows of the patches that were acknowledged."""
    if not _has_patches(world):
        return
    table = newest_map(world).named(_TABLE)
    assert table is not None, "it was made before any fault"
    for server in TARGETS:
        if server != "router" and any(server not in table.readable(each.partition) for each in table.partition_ids()):
            continue
        async with await aio.connect(f"{server}:7070", timeout=ASK_S, direct=False) as database:
            for key in _KEYS:
                await _patch_once(world, _rows(database), key, is_conditional=False)
                await _read(world, _rows(database), key, sure=True)
