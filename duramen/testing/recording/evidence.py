"""What a recorded reply is held against: the log as it is, the log as servers give it, and every replica."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final, Protocol

from duramen.verification.recorder import Recorder
from duramen.verification.replicas import read_replica, read_replicas
from log_tier.catalog.cluster_map import TableEntry
from log_tier.catalog.remote.cluster_view import fetch_view
from log_tier.model.identifiers import Offset, Partition, TableId
from log_tier.model.log import Log
from log_tier.model.table_ref import TableRef
from log_tier.open import open_log
from router.data.local_data import LocalData
from router.data.seam import DataPlane
from router.remote.grpc_connection import GrpcConnection

__all__ = ["Evidence", "local_evidence", "served_evidence"]

_VIEW_S: Final = 10.0


class Evidence(Protocol):
    """Of one deployment, which is level."""

    tables: Mapping[TableId, TableEntry]
    log: Log
    plane: DataPlane
    """Gives the log as clients get it."""

    async def read_replicas(self, ref: TableRef, end: Mapping[Partition, Offset], recorder: Recorder) -> None:
        """Record the whole content of each replica, at `end` or later."""
        ...


class _Served:
    def __init__(self, server: str, tables: Mapping[TableId, TableEntry], log: Log, plane: DataPlane) -> None:
        self._server = server
        self.tables, self.log, self.plane = tables, log, plane

    async def read_replicas(self, ref: TableRef, end: Mapping[Partition, Offset], recorder: Recorder) -> None:
        await read_replicas(self._server, ref, end, recorder)


class _Local:
    def __init__(self, plane: LocalData) -> None:
        self.tables: Mapping[TableId, TableEntry] = plane.catalog.map.tables
        self.log: Log = plane.log
        self.plane: DataPlane = plane

    async def read_replicas(self, ref: TableRef, end: Mapping[Partition, Offset], recorder: Recorder) -> None:
        for partition, offset in end.items():
            await read_replica(self.plane, "this process", ref.partition(partition), offset, recorder)


@asynccontextmanager
async def served_evidence(server: str, log_url: str) -> AsyncIterator[Evidence]:
    """Of a cluster. `server`: host:port of one that names the nodes."""
    tables = (await fetch_view(server, timeout=_VIEW_S)).map.tables
    log = await open_log(log_url)
    connection = GrpcConnection(server)
    try:
        yield _Served(server, tables, log, connection)
    finally:
        await connection.close()
        await log.close()


def local_evidence(plane: LocalData) -> Evidence:
    """Of a database in this process."""
    return _Local(plane)
