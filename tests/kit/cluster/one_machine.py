"""A whole database in this process, with its parts in reach."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from kit.index.thread_only import thread_only
from log_tier.catalog.catalog import Catalog
from log_tier.catalog.cluster_map import TableEntry
from log_tier.catalog.commands import RegisterNode
from log_tier.catalog.map_follower import MapFollower
from log_tier.embedded import EmbeddedLog
from log_tier.embedded.storage.settings import EngineSettings
from log_tier.model.batch import Columns, encode_batch
from log_tier.model.errors import TableNotFound
from log_tier.model.identifiers import Offset, Partition, PartitionId, TableId
from log_tier.model.log import Log
from log_tier.model.record import Operation, attribute_of
from log_tier.model.table_ref import TableRef
from router.data.local_data import LocalData
from router.data.requests import ReadPart, WritePart, WriteResult
from serving_tier.node.hosting import Hosting
from serving_tier.node.node import Node
from serving_tier.replica.replica import Replica

DEADLINE_S = 20.0
ZERO, ONE = Partition(0), Partition(1)
NO_TABLE = TableId("AAAAAAAAAAAAAAAAAAAAAA")


@asynccontextmanager
async def one_machine(
    folder: Path, *, settings: EngineSettings | None = None, log: Log | None = None
) -> AsyncIterator[LocalData]:
    """A data plane over a log (an embedded one, unless it is given), its catalog and a node, all below `folder`."""
    log = log or await EmbeddedLog.open(folder / "log", settings=settings or EngineSettings())
    catalog = await Catalog.open(log)
    await catalog.submit(RegisterNode("n1", "", "one"))
    node = await Node.open(log, folder / "index")
    data_plane = LocalData(log, catalog, await Hosting.open(MapFollower(catalog), node, node_id="n1", identity="one"))
    await data_plane.hosting.settled()
    try:
        yield data_plane
    finally:
        await data_plane.close()


def puts(*pairs: tuple[bytes, bytes], producer_id: int = 0, sequence: int = 0) -> bytes:
    return encode_batch(
        Columns([key for key, _ in pairs], [value for _, value in pairs]), producer_id=producer_id, sequence=sequence
    )


def operations(
    *records: tuple[Operation, bytes, bytes], producer_id: int = 0, sequence: int = 0, **how: object
) -> bytes:
    attributes = [attribute_of(operation, **how) for operation, _, _ in records]  # type: ignore[arg-type]
    columns = Columns([key for _, key, _ in records], [value for _, _, value in records], attributes)
    return encode_batch(columns, producer_id=producer_id, sequence=sequence)


async def write(
    data_plane: LocalData, table: TableRef, partition: int, batch: bytes, *, outcomes: bool = False
) -> WriteResult:
    """Write one part, which must succeed."""
    (result,) = await data_plane.write(
        [WritePart(PartitionId(table.id, Partition(partition)), batch, outcomes)], timeout=DEADLINE_S
    )
    assert isinstance(result, WriteResult), result
    return result


async def put_all(data_plane: LocalData, table: TableRef, pairs: dict[bytes, bytes]) -> dict[Partition, Offset]:
    """Put each pair where it belongs; the last offsets."""
    groups: dict[Partition, list[tuple[bytes, bytes]]] = {}
    for key, value in pairs.items():
        groups.setdefault(table.partition_of(key), []).append((key, value))
    last: dict[Partition, Offset] = {}
    for partition, group in groups.items():
        result = await write(data_plane, table, partition, puts(*group))
        last[partition] = Offset(result.base_offset + len(group) - 1)
    return last


async def read(
    data_plane: LocalData, *parts: ReadPart, timeout: float = DEADLINE_S, patience: float = 0.0
) -> list[Any]:
    """The result or the error of each part."""
    return list(await data_plane.read(parts, timeout=timeout, patience=patience))


@contextmanager
def held(*replicas: Replica) -> Iterator[None]:
    """Inside, these replicas apply nothing: they lag behind their log."""
    may_go = threading.Event()
    inner = [replica.index.fold_in for replica in replicas]

    def applying(apply: Callable[[Any], object]) -> Callable[[Any], object]:
        def wait_and_apply(chunk: Any) -> object:
            may_go.wait()
            return apply(chunk)

        return wait_and_apply

    for replica, apply in zip(replicas, inner, strict=True):
        replica.index.fold_in = applying(apply)  # type: ignore[assignment, method-assign]
    try:
        with thread_only():
            yield
    finally:
        may_go.set()
        for replica in replicas:
            del replica.index.fold_in


def all_replicas(data_plane: LocalData, table: TableRef) -> Sequence[Replica]:
    return [data_plane.node.replica(PartitionId(table.id, Partition(number))) for number in range(table.partitions)]


def hears_of_no_table(data_plane: LocalData, monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on its node has not heard of a table yet, and the catalog does not say what the table is."""

    def unheard_of(*_: object) -> Replica:
        raise TableNotFound("not heard of yet")

    async def silent(*_: object) -> TableEntry:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(data_plane.node, "replica", unheard_of)
    monkeypatch.setattr(data_plane.tables, "known", silent)
