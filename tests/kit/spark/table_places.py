"""Places of a table that exists nowhere, for what only computes with them."""

from __future__ import annotations

from log_tier.catalog.cluster_map import SnapshotEntry
from log_tier.model.identifiers import Offset, Partition, TableId, table_id_from_bytes
from log_tier.model.log import Topic
from spark_bulk.source.model.table_place import PeerAddress, TablePlace

__all__ = ["TABLE", "place_of", "snapshot_at"]

TABLE = table_id_from_bytes(bytes(range(16)))


def place_of(
    *,
    partitions: int = 4,
    table: TableId = TABLE,
    start: int = 0,
    peers: tuple[str, ...] = (),
    snapshots: tuple[SnapshotEntry, ...] = (),
    log_url: str = "grpc://127.0.0.1:1",
) -> TablePlace:
    return TablePlace(
        Topic(table, "flights", partitions),
        "slot",
        log_url,
        (Offset(start),) * partitions,
        tuple(tuple(PeerAddress(name, "127.0.0.1:1") for name in peers) for _ in range(partitions)),
        (snapshots,) * partitions,
    )


def snapshot_at(offset: int, name: str) -> SnapshotEntry:
    return SnapshotEntry(name, TABLE, Partition(0), Offset(offset), 1, 1, 1, f"path/{name}", "n1")
