"""Rows of a simulated cluster by their ordered indexes: what a find shows, and what each replica has of its rows."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from kit.flight_rows import UNNUMBERED_FLIGHTS

from duramen import aio
from duramen.client.table import Table
from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import PartitionId
from log_tier.model.tokens import Token
from log_tier.rows.definition import TableDefinition
from log_tier.rows.finding.conditions import conditions_of
from log_tier.rows.finding.found_range import FindPlan
from log_tier.rows.table_index import INDEX_NUMBER_BYTES, TableIndex
from simulation.book import Broken
from simulation.cluster_world import ClusterWorld
from simulation.row_calls import RowWorld
from simulation.row_ledger import RowWrite
from simulation.trust_turns import TARGETS

__all__ = ["INDEXED_FLIGHTS", "check_entries", "check_finds", "find_row"]

INDEXED_FLIGHTS: Final = replace(
    UNNUMBERED_FLIGHTS,
    indexes=(
        TableIndex(1, "by_tail", ("tailnum", "dep_delay")),
        TableIndex(2, "by_delay", ("dep_delay",)),
        TableIndex(3, "late", ("tailnum",), conditions_of({"dep_delay": (1.0, None)}, UNNUMBERED_FLIGHTS)),
    ),
)

_Pair = tuple[bytes, bytes]

_ENTRIES: Final = 10_000
_ASK_S: Final = 5.0


def _entries_of(definition: TableDefinition, key: bytes, value: bytes) -> Iterator[tuple[TableIndex, bytes]]:
    """Each index that must have something of a row, and what."""
    rows = definition.judge.entries
    assert rows is not None, "a table without indexes"
    for index, entry in zip(definition.indexes, rows.of(key, value), strict=True):
        if entry:
            yield index, entry[INDEX_NUMBER_BYTES:]


def _wanted(definition: TableDefinition, index: TableIndex, rows: Iterable[tuple[bytes, bytes]]) -> list[_Pair]:
    """What an index must show of rows, in the order of its entries."""
    made = [(dict(_entries_of(definition, key, value)).get(index), value) for key, value in rows]
    return sorted((entry, value) for entry, value in made if entry is not None)


def _in_service(definition: TableDefinition, index: TableIndex) -> bool:
    return index.number not in definition.history.building


async def find_row(
    world: ClusterWorld, chance: random.Random, definition: TableDefinition, table: str, key: bytes, row: RowWrite
) -> None:
    """Find what was acknowledged by one of its indexes, at any server: strongly, or by the token of its write. Raises
    `Broken` where it is not found and nobody has changed it, or where what is found has other fields.
    """
    server, strong = chance.choice(TARGETS), chance.random() < 0.5
    least = (world.rows.newest(table, key) if strong else None) or row
    served = [each for each in _entries_of(definition, key, least.value) if _in_service(definition, each[0])]
    index, entry = chance.choice(served)
    start = entry[: len(entry) - len(key)]
    plan = FindPlan(index.name, start, start + b"\xff", chance.random() < 0.5, (), index.number)
    try:
        async with await aio.connect(f"{server}:7070", timeout=1.0, direct=False) as database:
            asked = database.table(table)
            ref = await database.connection.find_table(table, timeout=1.0)
            token = None if strong else str(Token.of(ref.id, ref.partition_of(key), least.offset))
            level: Any = "strong" if strong else "session"
            pages = asked.find_pages(plan, limit=None, after=token, level=level, timeout=1.0)
            found = [pair async for page in pages for pair in page]
            _check_found(definition, index, found, f"{table} at {server}")
            if entry not in dict(found):
                now = await asked.get_entry(key, level="strong")
                if now is not None and now.version == least.offset:
                    what = f"{key!r} of offset {least.offset} is not in {index.name} of {table} at {server}"
                    raise Broken("indexed", f"{what}, and nobody has changed it")
    except DuramenError as error:
        world.story.met[f"rows: find failed, {error.code}"] += 1
        return
    world.story.met["rows: find"] += 1


def _check_found(definition: TableDefinition, index: TableIndex, found: list[tuple[bytes, bytes]], where: str) -> None:
    """Each entry is that of the row that came with it, and comes once."""
    for entry, value in found:
        key = definition.judge.key_of_row(value)
        if dict(_entries_of(definition, key, value)).get(index) != entry:
            raise Broken("indexed", f"the entry {entry!r} in {index.name} of {where} leads to {value!r}")
    if len({entry for entry, _ in found}) < len(found):
        raise Broken("indexed", f"{index.name} of {where} has an entry twice")


async def check_finds(definition: TableDefinition, table: Table, server: str) -> None:
    """When nothing is at fault: each index shows the rows that a scan shows, in the order of its entries."""
    rows = [pair async for pair in table.scan(level="strong", timeout=_ASK_S)]
    for index in definition.indexes:
        assert _in_service(definition, index), f"{index.name} of {table.name} is being built"
        plan = FindPlan(index.name, b"", None, False, (), index.number)
        pages = table.find_pages(plan, limit=None, after=None, level="strong", timeout=_ASK_S)
        found = [pair async for page in pages for pair in page]
        wanted = _wanted(definition, index, rows)
        if found != wanted:
            raise Broken("indexed", f"{index.name} of {table.name} at {server} shows {found}, its rows are {wanted}")


def check_entries(world: RowWorld, node: str, place: PartitionId, index: Any, definition: TableDefinition) -> None:
    """Each ordered index of a replica has what its rows say, and nothing else. Raises `Broken`."""
    rows = index.scan(b"", None, limit=_ENTRIES).entries
    for of in definition.indexes:
        found = [entry for entry, _ in index.find(of, b"", None, limit=_ENTRIES).entries]
        wanted = [entry for entry, _ in _wanted(definition, of, [(key, row.value) for key, row in rows])]
        if found != wanted:
            raise Broken("indexed", f"{node} has in {of.name} of {place} {found}, its rows say {wanted}")
    world.story.met["rows: index compared"] += 1
