"""What a table of rows must hold when nothing is at fault: by a scan, and by a fold of its log from the beginning."""

from __future__ import annotations

from typing import Any, Final

from duramen.client.table import Table
from log_tier.model.batch import decode_batch
from log_tier.model.batch_header import split_batches
from log_tier.model.identifiers import PartitionId
from serving_tier.index.memory_index import MemoryIndex
from simulation.book import Broken
from simulation.row_calls import RowWorld

__all__ = ["check_scan", "compare_rows", "folded_rows"]

_ASK_S: Final = 5.0
_PAGE_KEYS: Final = 10_000


async def check_scan(world: RowWorld, table: Table, server: str) -> None:
    """All that was acknowledged is there, and nothing that nobody wrote who may have. Raises `Broken`."""
    before = world.rows.acknowledged(table.name)
    found = {key: value async for key, value in table.scan(level="strong", timeout=_ASK_S)}
    for key, value in found.items():
        if not world.rows.is_fitting(table.name, key, value):
            raise Broken("fitting", f"a scan of {table.name} at {server} shows {value!r} for {key!r}")
    if lacking := before.keys() - found.keys():
        raise Broken("fitting", f"a scan of {table.name} at {server} lacks {sorted(lacking)[:3]}")
    world.story.met["rows: row that a scan shows"] += len(found)


def folded_rows(world: RowWorld, place: PartitionId, table: Any, stored: bytes) -> MemoryIndex:
    """A fold of a partition's whole log. `table`: as the map of the cluster has it. Raises `Broken` where something
    else is void than what callers wrote that does not fit.
    """
    folded = MemoryIndex(definition=table.definition.first)
    folded.apply(stored)
    void: set[tuple[bytes, bytes]] = set()
    early: set[tuple[bytes, bytes]] = set()
    for batch in split_batches(stored):
        columns = decode_batch(bytes(batch)).columns
        pairs = list(zip(columns.keys, columns.values, strict=True))
        void |= {each for each in pairs if world.rows.is_void(table.name, *each)}
        early |= {each for each in pairs if world.rows.is_early(table.name, *each)}
    if not len(void) <= folded.statistics().void <= len(void) + len(early):
        what = f"{folded.statistics().void} records of {table.name}/{place.partition} are void"
        raise Broken("fitting", f"{what}, and {len(void)} do not fit, {len(early)} may not")
    world.story.met["rows: void record"] += len(void)
    return folded


def compare_rows(world: RowWorld, node: str, place: PartitionId, index: Any, folded: MemoryIndex) -> None:
    """What a replica holds and has counted as void is what was folded. Raises `Broken`."""
    found, wanted = (each.scan(b"", None, limit=_PAGE_KEYS).entries for each in (index, folded))
    if list(found) != list(wanted):
        raise Broken("fitting", f"{node} holds of {place} {list(found)}, a fold of its log {list(wanted)}")
    counts = index.statistics().void, folded.statistics().void
    if counts[0] != counts[1]:
        raise Broken("fitting", f"{node} counts {counts[0]} void records of {place}, its log has {counts[1]}")
    world.story.met["rows: replica compared"] += 1
