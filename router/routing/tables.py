"""Tables, seen from a process that has no replica: changed through the catalog, described by what the nodes say.

Two ways lead to a change, behind one seam (`TableChanges`): a router has the catalog and the log itself; a client that
only follows the map asks a server that has them. Either way a change is over when this process's own map shows it, so
that the caller that made a table can use it at once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Final, Protocol

from log_tier.catalog.cluster_map import TableEntry, address_for_servers
from log_tier.model.errors import DeadlineExceeded, TableNotFound
from log_tier.model.identifiers import NOTHING, Partition, PartitionId, TableId
from log_tier.model.log import Bounds, Log
from log_tier.model.retention import Retention
from log_tier.model.table_ref import TableRef
from log_tier.rows.alter_table import TableChange
from log_tier.rows.definition import TableDefinition
from log_tier.rows.table_spec import TableSpec
from router.data.catalog_tables import CatalogTables
from router.data.in_time import in_time, time_left
from router.data.requests import PartitionDescription, TableDescription
from router.data.seam import TableAdmin
from router.membership.views import ReplicaView, ReportedState
from router.routing.routes import Routes
from serving_tier.jobs.altering import ChooseNode

__all__ = ["CatalogChanges", "RemoteChanges", "RoutedTables", "TableChanges"]

# How long `create` waits until the nodes have opened a new table's replicas. A node that is away opens its
# replicas when it is back; until then the others answer.
_OPENED_S: Final = 5.0

# How long this process's map may take to show a change that another server made.
_SHOWN_S: Final = 2.0


class TableChanges(Protocol):
    """Carries out creations, drops, settings and new schemas of tables."""

    async def create(self, spec: TableSpec, *, timeout: float) -> TableRef:
        """Create a table. Raises as `TableAdmin.create_table` does."""
        ...

    async def drop(self, name: str, *, timeout: float) -> None:
        """Drop a table."""
        ...

    async def set_retention(self, name: str, *, ms: int | None, size: int | None, timeout: float) -> Retention:
        """Change how much of its log a table keeps."""
        ...

    async def alter(self, name: str, change: TableChange, choose: ChooseNode, *, timeout: float) -> TableDefinition:
        """Give the rows of a table another schema. `choose`: which node does it, where that is decided here."""
        ...

    async def definition(self, table_id: TableId, *, schema: int, timeout: float) -> TableDefinition | None:
        """A table's definition, after a look at the catalog's end where it does not have that schema."""
        ...

    async def find(self, name: str, *, timeout: float) -> TableRef:
        """A table that this process's map does not show."""
        ...

    async def all(self, *, timeout: float) -> list[TableRef]:
        """All tables, by name, the newest included."""
        ...

    async def close(self) -> None:
        """Carry through what is under way."""
        ...


class CatalogChanges:
    """By the catalog and the log, in this process."""

    def __init__(self, tables: CatalogTables) -> None:
        self._tables = tables

    async def create(self, spec: TableSpec, *, timeout: float) -> TableRef:
        """Create a table. It goes on when its caller's time is over. Raises `TableExists`, `DeadlineExceeded`."""
        async with in_time(timeout, f"table {spec.name!r} was not made"):
            table = await self._tables.create(spec)
            return table.ref

    async def drop(self, name: str, *, timeout: float) -> None:
        """Delete a table and its log. It goes on like `create`. Raises `TableNotFound`, `DeadlineExceeded`."""
        async with in_time(timeout, f"table {name!r} was not dropped"):
            await self._tables.drop(name)

    async def set_retention(self, name: str, *, ms: int | None, size: int | None, timeout: float) -> Retention:
        """Change how much of its log a table keeps. It goes on like `create`. Raises as `TableAdmin.set_retention`."""
        async with in_time(timeout, f"the retention of table {name!r} was not changed"):
            return (await self._tables.set_retention(name, ms=ms, size=size)).retention

    async def alter(self, name: str, change: TableChange, choose: ChooseNode, *, timeout: float) -> TableDefinition:
        """Give a table another schema, or other indexes. The job goes on. Raises as `TableAdmin.alter_table`."""
        async with in_time(timeout, f"table {name!r} is not altered yet"):
            return await self._tables.alter(name, change, choose)

    async def definition(self, table_id: TableId, *, schema: int, timeout: float) -> TableDefinition | None:
        async with in_time(timeout, "the table was not looked up"):
            return (await self._tables.known(table_id, schema)).definition

    async def find(self, name: str, *, timeout: float) -> TableRef:
        """The table of that name. Raises `TableNotFound` naming the tables that exist, `DeadlineExceeded`."""
        async with in_time(timeout, f"table {name!r} was not looked up"):
            return (await self._tables.find(name)).ref

    async def all(self, *, timeout: float) -> list[TableRef]:
        """All tables, by name. Raises `DeadlineExceeded`."""
        async with in_time(timeout, "the tables were not listed"):
            return await self._tables.all()

    async def close(self) -> None:
        """Wait until the changes under way are through."""
        await self._tables.close()


class RemoteChanges:
    """By a server that can."""

    def __init__(self, server: TableAdmin) -> None:
        self._server = server

    async def create(self, spec: TableSpec, *, timeout: float) -> TableRef:
        return await self._server.create_table(spec, timeout=timeout)

    async def drop(self, name: str, *, timeout: float) -> None:
        await self._server.drop_table(name, timeout=timeout)

    async def set_retention(self, name: str, *, ms: int | None, size: int | None, timeout: float) -> Retention:
        return await self._server.set_retention(name, ms=ms, size=size, timeout=timeout)

    async def alter(self, name: str, change: TableChange, choose: ChooseNode, *, timeout: float) -> TableDefinition:
        """The server chooses the node."""
        return await self._server.alter_table(name, change, timeout=timeout)

    async def definition(self, table_id: TableId, *, schema: int, timeout: float) -> TableDefinition | None:
        return await self._server.definition(table_id, schema=schema, timeout=timeout)

    async def find(self, name: str, *, timeout: float) -> TableRef:
        return await self._server.find_table(name, timeout=timeout)

    async def all(self, *, timeout: float) -> list[TableRef]:
        return await self._server.list_tables(timeout=timeout)

    async def close(self) -> None:
        """The server connection is closed by its owner."""


class RoutedTables:
    """Creates, finds and describes tables."""

    def __init__(self, routes: Routes, changes: TableChanges, log: Log | None, fallback: TableAdmin | None) -> None:
        self._routes = routes
        self._changes = changes
        self._log = log
        self._fallback = fallback

    def reach(self, log: Log) -> None:
        """The log is reached from here from now on."""
        self._log = log

    async def create(self, spec: TableSpec, *, timeout: float) -> TableRef:
        """Create a table; return when a replica of each partition can be read, within the timeout."""
        left_s = time_left(timeout)
        ref = await self._changes.create(spec, timeout=timeout)
        self._routes.expect(ref.id)
        with suppress(DeadlineExceeded):  # it exists all the same; the first read waits a little longer
            await self._shown(ref, there=True, left_s=left_s())
            await self._routes.membership.wait_for(lambda: self._can_be_read(ref), timeout=min(_OPENED_S, left_s()))
        return ref

    async def drop(self, name: str, *, timeout: float) -> None:
        """Drop a table."""
        left_s = time_left(timeout)
        ref = await self.find(name, timeout=timeout)
        await self._changes.drop(name, timeout=left_s())
        with suppress(DeadlineExceeded):
            await self._shown(ref, there=False, left_s=left_s())

    async def set_retention(self, name: str, *, ms: int | None, size: int | None, timeout: float) -> Retention:
        """Change how much of its log a table keeps; return when this process's own map shows it."""
        left_s = time_left(timeout)
        ref = await self.find(name, timeout=timeout)
        retention = await self._changes.set_retention(name, ms=ms, size=size, timeout=left_s())
        with suppress(DeadlineExceeded):
            await self._routes.maps.wait_for(
                lambda cluster: (table := cluster.tables.get(ref.id)) is None or table.retention == retention,
                timeout=min(_SHOWN_S, left_s()),
            )
        return retention

    async def alter(self, name: str, change: TableChange, *, timeout: float) -> TableDefinition:
        """Give a table another schema, or other indexes; return when this process's own map shows it."""
        left_s = time_left(timeout)
        ref = await self.find(name, timeout=timeout)
        if not self._has_heard():
            with suppress(DeadlineExceeded):
                await self._routes.membership.wait_for(self._has_heard, timeout=min(_OPENED_S, left_s()))
        definition = await self._changes.alter(name, change, self._worker, timeout=left_s())
        with suppress(DeadlineExceeded):
            await self._routes.maps.wait_for(
                lambda cluster: (
                    (table := cluster.tables.get(ref.id)) is None
                    or table.definition is None
                    or table.definition.number >= definition.number
                ),
                timeout=min(_SHOWN_S, left_s()),
            )
        return definition

    def _has_heard(self) -> bool:
        """Does this process know of a node that is there, or that none is?"""
        members = self._routes.membership.members.values()
        return any(member.view.alive for member in members) or all(member.known for member in members)

    def _living(self, among: Collection[str] | None = None) -> str | None:
        """A node whose status arrives; the first of them by id."""
        members = self._routes.membership.members
        living = [node for node in among or members if node in members and members[node].view.alive]
        return min(living, default=None)

    def _worker(self, table: TableEntry, preferred: str) -> str:
        """The node that is to put barriers into a table's logs: the preferred one, one of its own, or any. Of those
        without an address nobody hears; where there are no others, one of them is taken. Empty: none is there.
        """
        held = table.readable(Partition(0))
        silent = min(
            (node for node, entry in self._routes.maps.map.nodes.items() if not address_for_servers(entry)), default=""
        )
        return (preferred and self._living((preferred,))) or self._living(held) or self._living() or silent

    async def definition(self, table_id: TableId, *, schema: int, timeout: float) -> TableDefinition | None:
        """A table's definition; where this process's map does not have that schema in it, from who knows more."""
        left_s = time_left(timeout)
        async with in_time(timeout, "the table was not looked up"):
            found = (await self._routes.known(table_id)).definition
        if not schema or (found is not None and found.has_schema(schema)):
            return found
        return await self._changes.definition(table_id, schema=schema, timeout=left_s())

    async def _shown(self, ref: TableRef, *, there: bool, left_s: float) -> None:
        await self._routes.maps.wait_for(
            lambda cluster: (ref.id in cluster.tables) == there, timeout=min(_SHOWN_S, left_s)
        )

    def _can_be_read(self, ref: TableRef) -> bool:
        """Has each partition a replica that can be read, as far as this process will ever hear of one?"""
        cluster = self._routes.maps.map
        table = cluster.tables.get(ref.id)
        if table is None:
            return True  # dropped meanwhile
        reached = {node for node, entry in cluster.nodes.items() if entry.address or entry.peer_address}
        return all(
            any(replica.state == ReportedState.READY for _, replica in self._replicas(table, partition))
            or not any(node in reached for node, _ in table.assignments[partition.partition])
            for partition in table.partition_ids()
        )

    def _replicas(self, table: TableEntry, partition: PartitionId) -> Sequence[tuple[str, ReplicaView]]:
        """What living nodes say about their replicas of a partition."""
        found: list[tuple[str, ReplicaView]] = []
        for node, _ in table.assignments[partition.partition]:
            member = self._routes.membership.members.get(node)
            if member is not None and member.view.alive:
                replica = member.view.replicas.get(partition)
                if replica is not None:
                    found.append((node, replica))
        return found

    async def find(self, name: str, *, timeout: float) -> TableRef:
        """The table of that name: from this process's map, else from a server with a newer one."""
        table = self._routes.maps.map.named(name)
        if table is not None:
            return table.ref
        ref = await self._changes.find(name, timeout=timeout)
        self._routes.expect(ref.id)
        return ref

    async def all(self, *, timeout: float) -> list[TableRef]:
        """All tables, by name."""
        return await self._changes.all(timeout=timeout)

    async def describe(self, name: str, *, timeout: float) -> TableDescription:
        """Log bounds from the log, the rest from the nodes' status: of each partition the replica that is furthest."""
        if self._log is None:
            assert self._fallback is not None, "without a log there is a fallback"
            return await self._fallback.describe_table(name, timeout=timeout)
        left_s = time_left(timeout)
        ref = await self.find(name, timeout=timeout)
        async with in_time(left_s(), f"table {name!r} was not looked up"):
            table = await self._routes.known(ref.id)
        async with in_time(left_s(), f"the log of table {name!r} did not answer"):
            bounds = await self._log.all_bounds(table.id)
        if len(bounds) != table.partitions:
            raise TableNotFound(f"table {name} has {table.partitions} partitions, its log {len(bounds)}", table=name)
        return TableDescription(
            ref,
            [self._described(table, *each) for each in zip(table.partition_ids(), bounds, strict=True)],
            table.retention,
            None if table.definition is None else table.definition.keeps,
            table.made_ms,
        )

    def _described(self, table: TableEntry, partition: PartitionId, bounds: Bounds) -> PartitionDescription:
        replicas, number = self._replicas(table, partition), partition.partition
        nodes = tuple(replica.node for replica in table.assignments[number])
        if not replicas:
            reason = f"none of its nodes ({', '.join(nodes)}) is there"
            return PartitionDescription(
                number, bounds.earliest, bounds.latest, NOTHING, 0, 0, "unavailable", reason, nodes
            )
        _, best = max(replicas, key=lambda found: (found[1].state == ReportedState.READY, found[1].applied))
        return PartitionDescription(
            number,
            bounds.earliest,
            bounds.latest,
            best.applied,
            best.keys,
            best.bytes,
            best.state,
            best.reason,
            nodes,
        )
