"""Values that one row has alone in a simulated cluster: callers want the same ones at once, under all faults.

Each key has one writer, which puts its row with one of a few values, changes it, or deletes it, at any server, one row
or two in one atomic batch. What was acknowledged is there; of each value there is one row at most, at every server; and
a row without a value is refused for no other one.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from typing import Any, Final

from kit.flight_rows import FLIGHT_SCHEMA, UNNUMBERED_FLIGHTS

from duramen import aio
from duramen.client.row_table import RowTable
from log_tier.model.errors import DuramenError, Rejected, UniqueViolation
from log_tier.rows.table_index import TableIndex
from log_tier.rows.table_spec import TableSpec
from simulation.book import Broken
from simulation.cluster_jobs import newest_map
from simulation.cluster_turns import ASK_S
from simulation.cluster_world import ClusterWorld
from simulation.row_ledger import has_rows
from simulation.trust_turns import TARGETS

__all__ = ["check_unique_rows", "open_unique_rows", "want_values"]

_TABLE: Final = "alone"
_ALONE: Final = replace(UNNUMBERED_FLIGHTS, indexes=(TableIndex(1, "by_tail", ("carrier", "tailnum"), unique=True),))
_CALLERS: Final = 3
_KEYS_OF_EACH: Final = 3
_VALUES: Final = (None, "N1", "N2", "N3")
_CARRIER: Final = "UA"

_State = str | bool | None
"""What a key has: the value of its row, None where the row has none, False where there is no row."""


class _Owned:
    """What one caller knows of the rows that it alone writes."""

    def __init__(self) -> None:
        self._known: dict[int, _State] = {}
        """By number: what the last write that was acknowledged has left."""
        self._unknown: dict[int, set[_State]] = {}
        """By number: what writes would leave of whose fate nobody knows; they may still come."""

    @property
    def numbers(self) -> list[int]:
        """The rows that were written."""
        return sorted(self._known.keys() | self._unknown.keys())

    def done(self, number: int, state: _State) -> None:
        """A write was acknowledged."""
        self._known[number] = state

    def lost(self, number: int, state: _State) -> None:
        """Nobody knows what became of a write."""
        self._unknown.setdefault(number, set()).add(state)

    def may_be(self, number: int) -> set[_State]:
        """What the row can be now."""
        return {self._known.get(number, False)} | self._unknown.get(number, set())


def _has_unique(world: ClusterWorld) -> bool:
    return has_rows(world.plan) and not world.has_endpoints


async def open_unique_rows(world: ClusterWorld) -> None:
    """Make the table. No fault has begun."""
    if not _has_unique(world):
        return
    async with await aio.connect("router:7070", timeout=ASK_S, direct=False) as database:
        await database.connection.create_table(TableSpec(_TABLE, 2, definition=_ALONE), timeout=ASK_S)
    for catalog in world.catalogs.values():
        await catalog.wait_for(lambda cluster: cluster.named(_TABLE) is not None)


def _rows(database: Any) -> RowTable[Any]:
    return database.table(_TABLE, row=FLIGHT_SCHEMA)  # type: ignore[no-any-return]


async def want_values(world: ClusterWorld, stop: asyncio.Event) -> None:
    """Callers put, delete and read until `stop` is set."""
    if not _has_unique(world):
        return
    working = [asyncio.create_task(_want_on(world, number, stop)) for number in range(_CALLERS)]
    try:
        await asyncio.gather(*working)
    finally:
        for task in working:
            task.cancel()


async def _want_on(world: ClusterWorld, caller: int, stop: asyncio.Event) -> None:
    chance, owned = random.Random(f"unique {caller} {world.plan.seed}"), _Owned()
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
                await _write(world, table, chance, caller, owned)
                if chance.random() < 0.3:
                    await _look(world, table, owned)


def _row(number: int, value: str | None) -> dict[str, Any]:
    return {"carrier": _CARRIER, "flight": number, "tailnum": value, "dep_delay": 0.0}


async def _write(world: ClusterWorld, table: RowTable[Any], chance: random.Random, caller: int, owned: _Owned) -> None:
    """One write of one row, or two puts in a batch. One after the other, as each key has one writer."""
    mine = range(caller * _KEYS_OF_EACH, (caller + 1) * _KEYS_OF_EACH)
    kind = chance.choice(("put", "put", "put", "delete", "patch", "batch"))
    numbers = chance.sample(mine, 2) if kind == "batch" else [chance.choice(mine)]
    values = [chance.choice(_VALUES) for _ in numbers]
    left: list[_State] = [False] if kind == "delete" else [*values]
    try:
        if kind == "delete":
            await table.delete(_CARRIER, numbers[0])
        elif kind == "patch":
            await table.update(_CARRIER, numbers[0], set={"tailnum": values[0]})
        elif kind == "batch":
            await table.batch().put(_row(numbers[0], values[0])).put(_row(numbers[1], values[1])).commit()
        else:
            await table.put(_row(numbers[0], values[0]))
    except Rejected as refused:
        if isinstance(refused, UniqueViolation) and set(left) <= {None, False}:
            raise Broken("unique", f"a {kind} without a value was refused for one: {refused.message}") from None
        world.story.met[f"unique: {kind} refused, {refused.code}"] += 1
    except DuramenError as error:
        for number, state in zip(numbers, left, strict=True):
            owned.lost(number, state)
        world.story.met[f"unique: {kind} failed, {error.code}"] += 1
    else:
        for number, state in zip(numbers, left, strict=True):
            owned.done(number, state)
        world.story.met[f"unique: {kind} done"] += 1


async def _look(world: ClusterWorld, table: RowTable[Any], owned: _Owned) -> None:
    """Raise `Broken` for what the rows of a caller cannot be."""
    for number in owned.numbers:
        try:
            row = await table.get(_CARRIER, number, level="strong")
        except DuramenError:
            return
        found: _State = False if row is None else row["tailnum"]
        if found not in owned.may_be(number):
            left = sorted(map(str, owned.may_be(number)))
            raise Broken("unique", f"row {number} of {_TABLE} has {found!r} after writes that leave one of {left}")
    world.story.met["unique: read"] += 1


async def check_unique_rows(world: ClusterWorld) -> None:
    """When all is level and nothing is at fault: of each value one row at most, and who comes second is refused."""
    if not _has_unique(world):
        return
    table = newest_map(world).named(_TABLE)
    assert table is not None, "it was made before any fault"
    for server in TARGETS:
        if server != "router" and any(server not in table.readable(each.partition) for each in table.partition_ids()):
            continue
        async with await aio.connect(f"{server}:7070", timeout=ASK_S, direct=False) as database:
            rows = _rows(database)
            await rows.put(_row(100, "last"))
            try:
                await rows.put(_row(101, "last"))
            except UniqueViolation:
                pass
            else:
                raise Broken("unique", f"{server} has acknowledged a second row with a value of {_TABLE}")
            found = [row["tailnum"] async for row in rows.scan(level="strong") if row["tailnum"] is not None]
            if len(found) > len(set(found)):
                raise Broken("unique", f"{server} shows rows with equal values: {sorted(found)}")
    world.story.met["unique: looked last"] += 1
