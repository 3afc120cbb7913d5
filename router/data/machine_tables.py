"""Tables as one process with a node has them: changed by the catalog, described by its own replicas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from log_tier.catalog.catalog import Catalog
from log_tier.catalog.cluster_map import TableEntry
from log_tier.concurrency.sized_work import Turn
from log_tier.model.errors import DuramenError, NotHosted
from log_tier.model.identifiers import NOTHING, PartitionId, TableId
from log_tier.model.log import Bounds, Log
from log_tier.model.retention import Retention
from log_tier.model.table_ref import TableRef
from log_tier.rows.alter_table import TableChange
from log_tier.rows.definition import TableDefinition
from log_tier.rows.table_spec import TableSpec
from router.data.catalog_tables import CatalogTables
from router.data.in_time import in_time
from router.data.requests import PartitionDescription, TableDescription
from serving_tier.node.hosting import Hosting
from serving_tier.node.node import Node

__all__ = ["MachineTables", "describe_table"]

# A partition costs as much as so many keys: two reads of its index.
_PARTITION_ITEMS: Final = 10


class MachineTables:
    """A `router.data.seam.TableAdmin`. A change is over when this process' node has seen it."""

    def __init__(self, log: Log, catalog: Catalog, hosting: Hosting, tables: CatalogTables) -> None:
        self._log = log
        self._catalog = catalog
        self._hosting = hosting
        self._tables = tables

    async def create_table(self, spec: TableSpec, *, timeout: float) -> TableRef:
        async with in_time(timeout, f"table {spec.name!r} was not made"):
            table = await self._tables.create(spec)
            await self._hosting.wait_version(self._catalog.map.version)
            await self._hosting.wait_hosted(table.id)
            return table.ref

    async def find_table(self, name: str, *, timeout: float) -> TableRef:
        async with in_time(timeout, f"table {name!r} was not looked up"):
            return (await self._tables.find(name)).ref

    async def definition(self, table_id: TableId, *, schema: int = 0, timeout: float) -> TableDefinition | None:
        async with in_time(timeout, "the table was not looked up"):
            return (await self._tables.known(table_id, schema)).definition

    async def list_tables(self, *, timeout: float) -> list[TableRef]:
        async with in_time(timeout, "the tables were not listed"):
            return await self._tables.all()

    async def describe_table(self, name: str, *, timeout: float) -> TableDescription:
        async with in_time(timeout, f"table {name!r} was not described"):
            table = await self._tables.find(name)
            bounds = await self._log.all_bounds(table.id)
        return await describe_table(self._hosting.node, table, bounds)

    async def alter_table(self, name: str, change: TableChange, *, timeout: float) -> TableDefinition:
        """Its own node puts the barriers into the logs."""
        async with in_time(timeout, f"table {name!r} is not altered yet"):
            return await self._tables.alter(name, change, lambda _table, _preferred: self._hosting.node_id)

    async def set_retention(self, name: str, *, ms: int | None, size: int | None, timeout: float) -> Retention:
        async with in_time(timeout, f"the retention of table {name!r} was not changed"):
            return (await self._tables.set_retention(name, ms=ms, size=size)).retention

    async def drop_table(self, name: str, *, timeout: float) -> None:
        async with in_time(timeout, f"table {name!r} was not dropped"):
            await self._tables.drop(name)
            await self._hosting.wait_version(self._catalog.map.version)


async def describe_table(node: Node, table: TableEntry, bounds: Sequence[Bounds]) -> TableDescription:
    """A description; `bounds`: of each partition's log. Some 30 µs a partition, over as many turns as that takes."""
    found: list[PartitionDescription] = []
    turn = Turn()
    for partition in table.partition_ids():
        found.append(_described(node, table, partition, bounds[partition.partition]))
        if turn.is_full(_PARTITION_ITEMS):
            await turn.end()
    keeps = None if table.definition is None else table.definition.keeps
    return TableDescription(table.ref, found, table.retention, keeps, table.made_ms)


def _described(node: Node, table: TableEntry, partition: PartitionId, bounds: Bounds) -> PartitionDescription:
    number = partition.partition
    holders = tuple(replica.node for replica in table.assignments[number])
    try:
        replica = node.replica(partition)
        statistics = replica.index.statistics()
        return PartitionDescription(
            number,
            bounds.earliest,
            bounds.latest,
            replica.index.applied,
            replica.index.count(),
            statistics.bytes_used,
            replica.state,
            replica.failure.message if replica.failure else "",
            holders,
        )
    except NotHosted as error:
        return PartitionDescription(
            number, bounds.earliest, bounds.latest, NOTHING, 0, 0, "elsewhere", error.message, holders
        )
    except DuramenError as error:
        return PartitionDescription(
            number, bounds.earliest, bounds.latest, NOTHING, 0, 0, "stopped", error.message, holders
        )
