"""The replicas read back, each by itself: of its node, and of nobody else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from duramen.verification.history import text_of
from duramen.verification.observations import HEAL_S
from duramen.verification.recorder import Recorder
from log_tier.catalog.remote.cluster_view import fetch_view
from log_tier.model.identifiers import Offset, Partition, PartitionId
from log_tier.model.table_ref import TableRef
from router.data.requests import ScanRequest
from router.data.seam import DataPlane
from router.remote.grpc_connection import GrpcConnection

__all__ = ["read_replica", "read_replicas"]

_PAGE: Final = 2000


async def read_replicas(target: str, ref: TableRef, end: Mapping[Partition, Offset], recorder: Recorder) -> None:
    """Record each replica's whole content at `end` or later. `target`: a server that names the nodes."""
    view = await fetch_view(target, timeout=10)
    table = view.map.table(ref.id)
    for partition, offset in end.items():
        for node in table.readable(partition):
            connection = GrpcConnection(view.map.nodes[node].address)
            try:
                await read_replica(connection, node, ref.partition(partition), offset, recorder)
            finally:
                await connection.close()


async def read_replica(
    connection: DataPlane, node: str, partition: PartitionId, offset: Offset, recorder: Recorder
) -> None:
    """Record the whole content of one replica, of the node behind `connection`, at `offset` or later."""
    table_id, number = partition
    call = recorder.begin(-1, "replica", node=node, session=False)
    call.partition = number
    entries: list[list[Any]] = []
    applied: int = offset
    begin = b""
    while True:
        request = ScanRequest(table_id, begin, limit=_PAGE, after={number: offset}, partitions=(number,))
        page = await connection.scan(request, timeout=HEAL_S)
        applied = page.applied[number]
        entries += [
            [text_of(key), text_of(value), version]
            for key, value, version in zip(page.keys, page.values, page.versions, strict=True)
        ]
        if not page.more or not page.keys:
            break
        begin = page.keys[-1] + b"\x00"
    recorder.end(call, "ok", applied=applied, entries=entries)
