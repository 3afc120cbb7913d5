"""Versions that hold something else than the table: built of another data set, by the writer of a bulk build."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Final

from duramen.verification.history import BuiltPart
from log_tier.catalog.cluster_map import TableEntry
from log_tier.model.identifiers import Partition
from serving_tier.versions.manifest import VersionManifest, VersionPart, part_of
from serving_tier.versions.version_store import VersionStore
from simulation.cluster_turns import ASK_S
from simulation.cluster_world import ClusterWorld

__all__ = ["build_data_set"]

_DROPPED: Final = 0.3
"""Of the table's keys, so many are not in a data set."""
_CHANGED: Final = 0.3
_ADDED: Final = 0.2
"""Of the keys that clients use and the table does not hold."""
_PAGE_KEYS: Final = 10_000


async def build_data_set(
    world: ClusterWorld, table: TableEntry, target: str, folder: Path, number: int, chance: random.Random
) -> str:
    """Build the version `number` of a run in `folder`, of what `target` says of the table and its log; its URL. The
    checker is told what was built. Raises what the servers raise.
    """
    # The package imports Arrow, which takes longer than a run; few runs build anything.
    from spark_bulk.build.bases import find_bases
    from spark_bulk.build.index_writer import IndexWriter, store_index
    from spark_bulk.source.model.cluster_login import ClusterLogin
    from spark_bulk.source.model.table_place import find_table

    place = await find_table(ClusterLogin.of(target), table.name, timeout_s=ASK_S)
    bases = await find_bases(place, None, timeout_s=ASK_S)
    store, parts, built = VersionStore.open(folder.as_uri()), list[VersionPart](), list[BuiltPart]()
    for partition, base in zip(table.partition_ids(), bases, strict=True):
        rows = _rows(world, table, partition.partition, number, chance)
        work = folder.with_name(f"{folder.name}-work")
        try:
            with IndexWriter.open(work, partition=partition, base=base) as writer:
                writer.write(list(rows), list(rows.values()))
                writer.finish()
            manifest = await store_index(
                work, store.snapshots, table_name=table.name, partition=partition, start=base.start
            )
        finally:
            shutil.rmtree(work, ignore_errors=True)
        parts.append(part_of(manifest))
        built.append(BuiltPart(base.offset, {key.decode(): [int(base.offset), rows[key].decode()] for key in rows}))
    await store.put(
        VersionManifest(
            f"{number:016x}", table.id, table.name, table.partitions, table.partitioner, 0, "a data set", tuple(parts)
        )
    )
    world.builds[folder.as_uri()] = built
    world.story.met["data set built"] += 1
    return folder.as_uri()


def _rows(
    world: ClusterWorld, table: TableEntry, partition: Partition, number: int, chance: random.Random
) -> dict[bytes, bytes]:
    """By key, in order: some of what a replica holds, some of it changed, and some keys that it does not hold."""
    held = _held(world, table, partition)
    rows: dict[bytes, bytes] = {}
    for key in sorted({*held, *(key for key in _KEYS if table.ref.partition_of(key) == partition)}):
        drawn = chance.random()
        if key not in held:
            if drawn < _ADDED:
                rows[key] = _value(key, number, chance)
        elif drawn >= _DROPPED:
            rows[key] = _value(key, number, chance) if drawn < _DROPPED + _CHANGED else held[key]
    return rows


def _value(key: bytes, number: int, chance: random.Random) -> bytes:
    if key.startswith(b"count"):
        return b"%d" % chance.randrange(1000)
    return b"built%d.%d" % (number, chance.randrange(1_000_000))


def _held(world: ClusterWorld, table: TableEntry, partition: Partition) -> dict[bytes, bytes]:
    for _, plane in world.nodes.values():
        replica = plane.node.hosted().get(table.partition(partition))
        if replica is not None and replica.state == "ready":
            page = replica.index.scan(b"", None, limit=_PAGE_KEYS)
            return {key: entry.value for key, entry in page.entries}
    return {}


def _keys() -> list[bytes]:
    """What the clients of `duramen check` may use."""
    hot = [b"hot{%d}.%d" % (number % 4, number) for number in range(6)]
    cold = [b"cold%d" % number for number in range(40)]
    tags = [b"%s{%d}" % (name, tag) for tag in range(4) for name in (b"count", b"text")]
    both = [b"both{%d}.%d" % (tag, place) for tag in range(4) for place in range(4)]
    return hot + cold + tags + both


_KEYS: Final = _keys()
