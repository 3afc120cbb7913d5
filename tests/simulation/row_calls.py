"""Callers of a simulated cluster who write rows to a table with a definition, and records that do not fit it.

A caller sends some writes at once, which its client may put into one batch. Each answer is held against what was sent:
a misfit is never acknowledged, and nobody else is refused for one. What is acknowledged is read afterwards, and all
that is read must be a row that somebody wrote who may have.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple, Protocol

from kit.flight_rows import flight, flight_key

from duramen import aio
from duramen.client.table import Table
from duramen.testing.machine.story import RunStory
from log_tier.model.errors import DuramenError, RowRejected
from log_tier.model.record import Operation
from log_tier.model.tokens import Token
from simulation.book import Broken
from simulation.cluster_world import ClusterWorld
from simulation.row_ledger import RowLedger, RowWrite
from simulation.trust_turns import TARGETS

__all__ = ["RowCaller", "RowWorld", "follow_rows", "read_row"]

_CARRIERS: Final = ("AA", "UA")
_FLIGHTS: Final = 4
_FITS_CHANCE: Final = 0.6
_FITTING: Final = ("row", "row", "row", "group", "many")
_MISFITS: Final = ("no row", "another schema", "another key", "longer", "append", "sum", "bad group", "bad many")
_MADE: Final = ("no row", "another schema", "another key", "longer")
"""Misfits that are puts."""


class RowWorld(Protocol):
    """What a caller sees of a world."""

    story: RunStory
    rows: RowLedger


class _Record(NamedTuple):
    key: bytes
    value: bytes


class RowCaller:
    """Writes to one table through one client."""

    def __init__(self, world: RowWorld, table: Table, chance: random.Random) -> None:
        self._world, self._table, self._chance = world, table, chance

    async def write_some(self) -> list[tuple[bytes, RowWrite, str]]:
        """Some writes at once, rows and others; the key, the row and the table's name of each that was acknowledged."""
        chance = self._chance
        kinds = [
            chance.choice(_FITTING if chance.random() < _FITS_CHANCE else _MISFITS)
            for _ in range(chance.choice((1, 2, 4, 8)))
        ]
        done = await asyncio.gather(*map(self._write, kinds))
        return [each for rows in done for each in rows]

    async def write_early(self) -> None:
        """A row of a schema that may come only behind it, if there is one: it fits or not."""
        coming = self._world.rows.coming.get(self._table.name)
        if not coming:
            return
        carrier, number = self._chance.choice(_CARRIERS), self._chance.randrange(_FLIGHTS)
        key = flight_key(carrier, number)
        value = coming[self._chance.choice(list(coming))](carrier, number, str(self._world.rows.next_number()))
        self._world.rows.tries_early(self._table.name, key, value)
        try:
            done = await self._table.put(key, value)
        except DuramenError as error:
            self._world.story.met[f"rows: early row failed, {error.code}"] += 1
        else:
            self._world.rows.wrote(self._table.name, key, RowWrite(done.offset, value))
            self._world.story.met["rows: early row written"] += 1

    async def write_each(self) -> None:
        """One write of each kind at once, when nothing is at fault: no other error is expected. Raises `Broken`."""
        kinds = [*dict.fromkeys(_FITTING), *_MISFITS]
        await asyncio.gather(*(self._write(kind, sure=True) for kind in kinds))

    async def _write(self, kind: str, *, sure: bool = False) -> list[tuple[bytes, RowWrite, str]]:
        """`sure`: every answer is known."""
        fits = kind in _FITTING
        try:
            done = await self._send(kind)
        except RowRejected as error:
            if fits:
                raise Broken("fitting", f"a {kind} for {self._table.name} was refused: {error.message}") from error
            self._world.story.met[f"rows: {kind} refused"] += 1
            return []
        except DuramenError as error:
            if sure:
                raise Broken("fitting", f"a {kind} for {self._table.name} failed: {error!r}") from error
            self._world.story.met[f"rows: {'row' if fits else 'misfit'} failed, {error.code}"] += 1
            return []
        if not fits:
            raise Broken("fitting", f"a misfit ({kind}) for {self._table.name} was acknowledged: {done}")
        self._world.story.met[f"rows: {kind} written"] += 1
        for key, row, table in done:
            self._world.rows.wrote(table, key, row)
        return done

    async def _send(self, kind: str) -> list[tuple[bytes, RowWrite, str]]:
        """What was written, as far as the answer says that. Raises what the table does."""
        table, rows = self._table, self._world.rows
        if kind in ("append", "sum"):
            key, number = self._key(), rows.next_number()
            operand = b"%d" % number
            rows.tries(table.name, key, operand, fits=False)
            await (table.update(key, append=operand) if kind == "append" else table.update(key, add=number))
            return []
        if kind in ("group", "bad group"):
            return await self._send_group(has_misfit=kind == "bad group")
        if kind in ("many", "bad many"):
            await table.put_many(self._records(fits=kind == "many"))
            return []  # the answer does not say where each row is
        (record,) = self._drawn([kind])
        rows.tries(table.name, *record, fits=kind == "row")
        done = await table.put(*record)
        return [(record.key, RowWrite(done.offset, record.value), table.name)]

    async def _send_group(self, *, has_misfit: bool) -> list[tuple[bytes, RowWrite, str]]:
        carrier, kinds = self._chance.choice(_CARRIERS), self._kinds(has_misfit)
        records = self._drawn(kinds, carrier)
        batch = self._table.batch()
        for record in records:
            self._world.rows.tries(self._table.name, *record, fits=not has_misfit)
            batch.put(*record)
        done = await batch.commit()
        return [
            (record.key, RowWrite(each.offset, record.value), self._table.name)
            for record, each in zip(records, done, strict=True)
        ]

    def _records(self, *, fits: bool) -> Sequence[_Record]:
        """Of which each takes effect by itself."""
        kinds = self._kinds(not fits)
        records = self._drawn(kinds)
        for kind, record in zip(kinds, records, strict=True):
            self._world.rows.tries(self._table.name, *record, fits=kind == "row")
        return records

    def _kinds(self, has_misfit: bool) -> list[str]:
        kinds = ["row"] * self._chance.choice((1, 2, 5, 9))
        if has_misfit:
            kinds.insert(self._chance.randrange(len(kinds) + 1), self._chance.choice(_MADE))
        return kinds

    def _key(self) -> bytes:
        return flight_key(self._chance.choice(_CARRIERS), self._chance.randrange(_FLIGHTS))

    def _drawn(self, kinds: Sequence[str], carrier: str = "") -> list[_Record]:
        """A record of each kind; all with one carrier are in one partition."""
        found: list[_Record] = []
        later = self._world.rows.later.get(self._table.name)
        for kind in kinds:
            name, number = carrier or self._chance.choice(_CARRIERS), self._chance.randrange(_FLIGHTS)
            tried, (schema, other) = str(self._world.rows.next_number()), self._world.rows.schemas.values()
            if kind == "no row":
                value = b"no row " + tried.encode()
            elif kind == "row" and later and self._chance.random() < 0.5:
                value = later[self._chance.choice(list(later))](name, number, tried)
            elif kind == "another key":
                value = flight(name, number + 100, tried, schema=schema)
            else:
                value = flight(name, number, tried, schema=other if kind == "another schema" else schema)
            found.append(_Record(flight_key(name, number), value + b"\0" * (kind == "longer")))
        return found


async def read_row(world: ClusterWorld, chance: random.Random, table: str, key: bytes, row: RowWrite) -> None:
    """Read what was acknowledged at any server: strongly, or by the token of its write. Raises `Broken`."""
    server, strong, direct = chance.choice(TARGETS), chance.random() < 0.5, chance.random() < 0.3
    least = (world.rows.newest(table, key) if strong else None) or row
    try:
        async with await aio.connect(f"{server}:7070", timeout=1.0, direct=direct) as database:
            asked = database.table(table)
            if strong:
                found = await asked.get_entry(key, level="strong")
            else:
                ref = await database.connection.find_table(table, timeout=1.0)
                token = str(Token.of(ref.id, ref.partition_of(key), row.offset))
                found = await asked.get_entry(key, after=token)
    except DuramenError as error:
        world.story.met[f"rows: read failed, {error.code}"] += 1
        return
    world.story.met["rows: read"] += 1
    if what := world.rows.difference(table, key, found, least):
        raise Broken("fitting", f"of {table} at {server}, {'strong' if strong else 'by token'}: {what}")


async def follow_rows(world: ClusterWorld, table: str, stop: asyncio.Event) -> None:
    """Watch at a server until `stop` is set: it shows rows that fit, and nothing else. Raises `Broken`."""
    chance = random.Random(f"watch of rows {world.plan.seed}")
    watching = asyncio.create_task(_follow(world, table, chance))
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((watching, stopping), return_when="FIRST_COMPLETED")
        if watching.done():
            watching.result()
    finally:
        for each in (watching, stopping):
            each.cancel()
        await asyncio.gather(watching, stopping, return_exceptions=True)


async def _follow(world: ClusterWorld, table: str, chance: random.Random) -> None:
    while True:
        with suppress(DuramenError):
            async with await aio.connect(f"{chance.choice(TARGETS)}:7070", timeout=1.0, direct=False) as database:
                async for change in database.table(table).watch(start="earliest"):
                    world.story.met["rows: change shown"] += 1
                    if change.operation is Operation.BARRIER:
                        continue  # an index comes or goes
                    is_row = change.operation is Operation.PUT
                    if not is_row or not world.rows.is_fitting(table, change.key, change.value):
                        what = f"{change.operation.name} of {change.key!r}: {change.value!r}"
                        raise Broken("fitting", f"a watch of {table} shows a {what}")
        await asyncio.sleep(0.2)
