"""What the tests of builds share: a table, rows, and a look into a finished index."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa

from log_tier.model.identifiers import FIRST, Offset, Partition, PartitionId, table_id_from_bytes
from log_tier.model.log import Topic
from log_tier.model.partitioner import partition_of
from serving_tier.fold.entry import LiveEntry
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.versions import VersionManifest, VersionStore
from spark_bulk.build.index_writer import Base, IndexWriter
from spark_bulk.runtime.waiting import wait_for

TABLE = table_id_from_bytes(bytes(range(16)))
PARTITION = Partition(2)
PARTITIONS = 4
BASE = Base(Offset(41), 1_000_000)

Row = tuple[bytes | None, bytes | None]


def topic(partitions: int = PARTITIONS) -> Topic:
    return Topic(TABLE, "flights", partitions)


def rows_batch(
    rows: Sequence[Row],
    *,
    partition: int = PARTITION,
    places: Sequence[int] | None = None,
    versions: Sequence[int] | None = None,
    expires_at_ms: Sequence[int | None] | None = None,
) -> pa.RecordBatch:
    """Rows as Spark hands them to a task."""
    columns = {
        "partition": pa.array([partition] * len(rows) if places is None else places, pa.int32()),
        "key": pa.array([key for key, _ in rows], pa.binary()),
        "value": pa.array([value for _, value in rows], pa.binary()),
    }
    if versions is not None:
        columns["version"] = pa.array(versions, pa.int64())
    if expires_at_ms is not None:
        columns["expires_at_ms"] = pa.array(expires_at_ms, pa.int64())
    return pa.RecordBatch.from_pydict(columns)


def mark(partition: int = PARTITION, partitions: int = PARTITIONS) -> pa.RecordBatch:
    """The one row of a partition that is none."""
    return rows_batch([(None, None)], places=[partition + partitions])


def write_index(folder: Path, rows: Iterable[tuple[bytes, bytes]], *, base: Base = BASE) -> None:
    """A finished index of these rows."""
    pairs = list(rows)
    with IndexWriter.open(folder, partition=PartitionId(TABLE, PARTITION), base=base) as writer:
        writer.write([key for key, _ in pairs], [value for _, value in pairs])
        writer.finish()


def entries_of(folder: Path, *, partition: Partition = PARTITION, start: Offset = FIRST) -> dict[bytes, LiveEntry]:
    """Everything that a replica would serve from an index folder."""
    index = LmdbIndex.open(folder, partition=PartitionId(TABLE, partition), start=start)
    try:
        found: dict[bytes, LiveEntry] = {}
        begin = b""
        while True:
            page = index.scan(begin, None, limit=1000, bytes_max=1 << 24)
            found.update(page.entries)
            if not page.more:
                return found
            begin = page.entries[-1][0] + b"\0"
    finally:
        index.close()


def content_of(version: VersionManifest, url: object, folder: Path) -> dict[bytes, LiveEntry]:
    """Everything in a version, each entry from the partition where the router would look for it; all of it verified."""
    store = VersionStore.open(str(url))
    assert wait_for(store.get()) == version
    wait_for(store.verify(version))
    found: dict[bytes, LiveEntry] = {}
    for number, part in enumerate(version.parts):
        partition = Partition(number)
        below = folder / f"{version.id}-{number}"
        wait_for(store.fetch(version, partition, below))
        index = LmdbIndex.open(below, partition=PartitionId(version.table, partition))
        assert (index.applied, index.log_time_ms) == (part.offset, part.log_time_ms)
        assert index.count() == part.keys
        begin, more = b"", True
        while more:
            page = index.scan(begin, None, bytes_max=1 << 24)
            found.update(page.entries)
            more = page.more
            begin = page.entries[-1][0] + b"\0" if more else b""
            assert {partition_of(key, version.partitions, version.partitioner) for key, _ in page.entries} <= {number}
        index.close()
    # Nothing else lies there: no other attempt, no leftover.
    assert [one.path for one in wait_for(store.snapshots.snapshots())] == sorted(part.path for part in version.parts)
    assert wait_for(store.snapshots.unfinished(version.table)) == []
    return found


def values_of(content: dict[bytes, LiveEntry]) -> dict[bytes, bytes]:
    return {key: entry.value for key, entry in content.items()}
