"""The version of a table with nothing in it: what a table is cleared with.

It is built nowhere. Its place is written `empty:12,-1,7/530`: the offset of each partition behind which live writes go
on, and the version of the catalog's map at which it was asked for, which makes the place unique.
Every node makes its part by itself, and from there on it is a version like any other: kept level with the live one, put
into service by a barrier, rolled back from. So clearing a table costs the same for ten keys and for ten billion, every
replica clears it at the same offset of its log, and what is written meanwhile is kept.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from log_tier.catalog.cluster_map import EMPTY, TableEntry
from log_tier.model.errors import InvalidRequest
from log_tier.model.identifiers import NOTHING, Offset, PartitionId
from log_tier.privacy.masked_url import mask_url
from serving_tier.folders import discard, rename
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.names import incoming_folder
from serving_tier.snapshots.local_disk import local_troubles

__all__ = ["EMPTY", "empty_offsets", "is_empty", "make_empty"]


def is_empty(url: str) -> bool:
    """Is this the place of an empty version?"""
    return url.startswith(EMPTY)


def empty_offsets(url: str, partitions: int) -> list[Offset]:
    """The offset for each partition. Raises `InvalidRequest` for what is no such place, or one of another table."""
    try:
        offsets = [Offset(int(each)) for each in url.removeprefix(EMPTY).partition("/")[0].split(",")]
    except ValueError:
        offsets = []
    if not is_empty(url) or len(offsets) != partitions or min(offsets) < NOTHING:
        raise InvalidRequest(
            f"{mask_url(url)!r} names no offset for each of {partitions} partitions: say {EMPTY} alone"
        )
    return offsets


async def make_empty(url: str, table: TableEntry, partition: PartitionId, number: int, folder: Path) -> None:
    """Make one partition of it, the version `number` of its table, in `folder`, which is there when it is
    complete. A few ms, two syncs.

    Raises `InvalidRequest`, `DiskFull`.
    """
    offset = empty_offsets(url, table.partitions)[partition.partition]
    await asyncio.to_thread(_make, table, partition, number, offset, folder)


def _make(table: TableEntry, partition: PartitionId, number: int, offset: Offset, folder: Path) -> None:
    incoming = incoming_folder(folder)
    with local_troubles(folder):
        discard(incoming)
        start = table.start(partition.partition)
        index = LmdbIndex.open(incoming, partition=partition, start=start, definition=table.definition)
        try:
            index.become(number)  # before it lies in its place: nobody may take it for the live version
            if offset > index.applied:
                index.begin_behind(offset)
        finally:
            index.close()
        rename(incoming, folder)
