"""A version of a table, built by hand: other content at given offsets, in the form that a bulk build leaves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import google_crc32c

from kit.index.built_index import forget_last_batch
from log_tier.model.batch import Columns, encode_batch
from log_tier.model.batch_header import stamp_batch
from log_tier.model.identifiers import Offset
from log_tier.model.record import Operation
from log_tier.model.table_ref import TableRef
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.snapshots.manifest import format_manifest
from serving_tier.snapshots.take import take_snapshot
from serving_tier.versions.manifest import VersionManifest, VersionPart
from serving_tier.versions.version_store import VersionStore

__all__ = ["build_version"]


async def build_version(
    url: str, table: TableRef, content: Mapping[bytes, bytes], *, bases: Sequence[int], work: Path, name: str = "1"
) -> VersionManifest:
    """Put `content` at `url`, each key in its partition, from which live writes go on behind `bases`."""
    store = VersionStore.open(url)
    parts: list[VersionPart] = []
    for number in range(table.partitions):
        mine = {key: value for key, value in content.items() if table.partition_of(key) == number}
        folder = work / f"{name}-{number}"
        index = LmdbIndex.open(folder, partition=table.partition(number))
        index.apply(_batch(mine, Offset(bases[number])))
        index.close()
        forget_last_batch(folder)
        index = LmdbIndex.open(folder, partition=table.partition(number))

        @contextmanager
        def reading(index: LmdbIndex = index) -> Iterator[LmdbIndex]:
            yield index

        manifest = await take_snapshot(reading, store.snapshots, table_name=table.name, work_folder=work)
        index.close()
        check = google_crc32c.value(format_manifest(manifest))
        parts.append(
            VersionPart(manifest.path, manifest.offset, manifest.log_time_ms, manifest.keys, manifest.bytes, check)
        )
    version = VersionManifest(
        id=name * 16,
        table=table.id,
        table_name=table.name,
        partitions=table.partitions,
        partitioner=table.partitioner,
        created_ms=0,
        source="by hand",
        parts=tuple(parts),
    )
    await store.put(version)
    return version


def _batch(content: Mapping[bytes, bytes], base: Offset) -> bytes:
    """One batch that ends at `base`: no-ops, then the content."""
    keys = [*content] or [b""]
    attributes = [int(Operation.PUT) if key else int(Operation.NOOP) for key in keys]
    columns = Columns(keys, [*content.values()] or [b""], attributes)
    assert len(keys) <= base + 1, "a version cannot hold more keys than offsets here"
    batch = encode_batch(columns)
    return stamp_batch(batch, base_offset=Offset(base + 1 - len(keys)), timestamp_ms=1, unsynced=0)
