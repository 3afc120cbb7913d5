"""Tables: created, found, dropped. A table is a topic of the log that the catalog names.

A table begins as a topic of the log and exists when the catalog has folded its command; it ends in the same order, so
that whatever dies in between leaves something that the same call, made again, brings to its end:

    create   topic, then command     an empty topic without a command is taken over by the next `create` of that name,
                                     whatever table it was to be; a process that owns the log removes it at its start
    drop     topic, then command     a command without a topic is a table whose log says that it is gone; the process
                                     that dropped it goes on sending the command until the catalog takes it

A table **over** a topic of others is the command alone, both times: their topic was there before it and stays after it.
Where that topic begins when the table is made is where the table begins, for good; what it loses later must come from
snapshots and peers, as with any other table.

A change goes on to its end when its caller's time is over.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Coroutine, Sequence
from contextlib import suppress
from copy import copy
from typing import Any, Final, TypeVar

from log_tier.catalog.catalog import Catalog
from log_tier.catalog.cluster_map import ClusterMap, TableEntry
from log_tier.catalog.commands import CreateTable, DropTable, SetRetention
from log_tier.catalog.placement import candidates
from log_tier.concurrency.backoff import Backoff
from log_tier.concurrency.sized_work import Turn, run_sized
from log_tier.concurrency.tasks import end_tasks
from log_tier.model.errors import (
    CommandRejected,
    DuramenError,
    InvalidName,
    InvalidRequest,
    LimitExceeded,
    TableExists,
    TableNotFound,
    Unavailable,
)
from log_tier.model.identifiers import PARTITIONS_MAX, RESERVED_PREFIX, SERVERS_TABLES, Offset, TableId, check_name
from log_tier.model.log import Log, Topic
from log_tier.model.retention import Retention, check_retention
from log_tier.model.table_ref import TableRef
from log_tier.rows.alter_table import TableChange
from log_tier.rows.definition import TableDefinition
from log_tier.rows.table_spec import TableSpec
from router.data.in_time import in_time
from router.data.requests import ReadPart, ReadResult
from serving_tier.jobs.altering import ChooseNode, alter_table

__all__ = ["REF_ITEMS", "REPLICAS_DEFAULT_MAX", "CatalogTables", "change_retention", "listed", "without_absent"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

# Two may fail, or one while another is being replaced; more cost every write's share of every node.
REPLICAS_DEFAULT_MAX: Final = 3

REF_ITEMS: Final = 5
"""The cost of a table's entry in a list, in keys of a read; its message costs the same."""

_RETRY_FIRST_S: Final = 0.2
_RETRY_MAX_S: Final = 10.0

# To copy an error costs as much as so many keys of a read.
_ERROR_ITEMS: Final = 10


class CatalogTables:
    """The tables of one log, as its catalog knows them."""

    def __init__(self, log: Log, catalog: Catalog) -> None:
        self._log = log
        self._catalog = catalog
        self._changing = asyncio.Lock()
        self._changes: set[asyncio.Task[Any]] = set()
        self._finishing: dict[TableId, asyncio.Task[None]] = {}
        """Tables whose log is gone, and whose drop the catalog has not taken yet."""

    async def _carried_through(self, change: Coroutine[Any, Any, T]) -> T:
        task = asyncio.ensure_future(change)
        self._changes.add(task)
        task.add_done_callback(self._changed)
        return await asyncio.shield(task)

    def _changed(self, task: asyncio.Task[Any]) -> None:
        self._changes.discard(task)
        if not task.cancelled():
            task.exception()  # its caller may have gone; then nobody else looks at it

    def by_id(self, table_id: TableId) -> TableEntry:
        """A table that the catalog knows here. Raises `TableNotFound`."""
        return self._catalog.map.table(table_id)

    async def known(self, table_id: TableId, schema: int = 0) -> TableEntry:
        """`by_id`, after a look at the catalog's end if the table, or its schema of that number, is not known here."""
        table = self._catalog.map.tables.get(table_id)
        if table is None or (schema and not (table.definition is not None and table.definition.has_schema(schema))):
            await self._catalog.refresh()
        return self.by_id(table_id)

    async def absent(self, asked: Collection[TableId]) -> dict[TableId, TableNotFound]:
        """An error for each of these tables that does not exist, after one look at the catalog's end."""
        if any(table_id not in self._catalog.map.tables for table_id in asked):
            await self._catalog.refresh()
        found: dict[TableId, TableNotFound] = {}
        for table_id in asked:
            try:
                self.by_id(table_id)
            except TableNotFound as error:
                found[table_id] = error.as_value()
        return found

    async def find(self, name: str) -> TableEntry:
        """The table of that name. Raises `TableNotFound` naming the tables that exist."""
        check_name(name)
        if self._catalog.map.named(name) is None:
            await self._catalog.refresh()
        return self._catalog.map.find(name)

    async def all(self) -> list[TableRef]:
        """All tables, by name."""
        cluster = await self._catalog.refresh()
        return await run_sized(REF_ITEMS * len(cluster.tables), lambda: listed(cluster))

    async def create(self, spec: TableSpec) -> TableEntry:
        """Create a table; see `router.data.seam.TableAdmin.create_table`."""
        return await self._carried_through(self._create(spec))

    async def _create(self, spec: TableSpec) -> TableEntry:
        name = spec.name
        async with self._changing:
            cluster = await self._catalog.refresh()
            known = cluster.named(name)
            if known is not None:
                if known.adopted or known.id in {topic.id for topic in await self._log.topics()}:
                    raise _exists(name)
                await self._forget(known)
            nodes = candidates(cluster)
            replicas = spec.replicas or min(REPLICAS_DEFAULT_MAX, max(1, len(nodes)))
            if len(nodes) < replicas:  # the fold says it too, but then the topic would have been made
                raise CommandRejected(
                    f"table {name} wants {replicas} replicas of each partition, and the nodes that can take one are "
                    f"{', '.join(nodes) or 'none'}: start more nodes, or ask for fewer replicas",
                    version=cluster.version,
                )
            if spec.over:
                command = await self._over(spec, replicas)
            else:
                topic = await self._topic(spec)
                command = CreateTable(
                    topic.id,
                    name,
                    topic.partitions,
                    replicas,
                    spec.placed_by,
                    retention_ms=spec.retention.ms,
                    retention_bytes=spec.retention.bytes,
                    definition={} if spec.definition is None else spec.definition.to_document(),
                )
            try:
                _, cluster = await self._catalog.submit(command)
            except CommandRejected as error:
                if command.table in self._catalog.map.tables:
                    raise _exists(name) from error  # another caller was faster with the same topic
                raise
            return cluster.table(command.table)

    async def _over(self, spec: TableSpec, replicas: int) -> CreateTable:
        """The command that makes a table over a topic of others, as that topic is now."""
        topic = await self._log.adopt_topic(spec.over)
        if spec.partitions not in (0, topic.partitions):
            raise InvalidRequest(
                f"topic {spec.over} has {topic.partitions} partitions, and {spec.partitions} are asked for table "
                f"{spec.name}: a table over a topic has as many as that; leave the number out"
            )
        if topic.partitions > PARTITIONS_MAX:
            raise LimitExceeded(
                f"topic {spec.over} has {topic.partitions} partitions, a table has 1 to {PARTITIONS_MAX}",
                limit=PARTITIONS_MAX,
                size=topic.partitions,
            )
        known = self._catalog.map.tables.get(topic.id)
        if known is not None:
            raise TableExists(
                f"table {known.name!r} lies over topic {spec.over} already: use it, or drop it first (the topic stays)",
                table=known.name,
            )
        starts = tuple(bounds.earliest for bounds in await self._log.all_bounds(topic.id))
        return CreateTable(
            topic.id,
            spec.name,
            topic.partitions,
            replicas,
            spec.placed_by,
            adopted=True,
            over=spec.over,
            starts=starts if any(starts) else (),
        )

    async def _topic(self, spec: TableSpec) -> Topic:
        """The topic for a new table. Raises `InvalidRequest` for bounds that the log cannot keep, `TableExists`."""
        topic = await self._empty_topic(spec.name, spec.partitions)
        try:
            await check_log_keeps(self._log, topic, spec.retention)
        except InvalidRequest:
            await self._log.delete_topic(topic.id)
            raise
        return topic

    async def _empty_topic(self, name: str, partitions: int) -> Topic:
        """A topic without a table: a new one, or one that an interrupted `create` left. Raises `TableExists`."""
        with suppress(TableExists):
            return await self._log.create_topic(name, partitions=partitions)
        topic = next((topic for topic in await self._log.topics() if topic.name == name), None)
        if topic is None or topic.id in (await self._catalog.refresh()).tables:
            raise _exists(name)
        if topic.partitions != partitions:
            # Another server may be about to send the command for it: it must not be deleted.
            raise TableExists(
                f"the making of a table {name!r} with {topic.partitions} partitions has not come to its end, and its "
                f"topic is there: ask for {topic.partitions} partitions, which finishes it; for {partitions}, drop it "
                "after that and create it anew",
                table=name,
            )
        return topic

    async def alter(self, name: str, change: TableChange, choose: ChooseNode) -> TableDefinition:
        """Give a table another definition; see `serving_tier.jobs.altering`. The job goes on by itself."""
        table = await alter_table(self._catalog, (await self.find(name)).id, change, choose)
        assert table.definition is not None, f"table {name} was altered, and has no definition"
        return table.definition

    async def set_retention(self, name: str, *, ms: int | None, size: int | None) -> TableEntry:
        """Change how much of its log a table keeps; see `change_retention`."""
        check_not_servers(name)
        table = await self.find(name)
        return await self._carried_through(change_retention(self._catalog, self._log, table, ms=ms, size=size))

    async def drop(self, name: str) -> TableEntry:
        """Delete a table and its log (not a topic of others); the nodes delete its indexes when they see it."""
        check_not_servers(name)
        table = await self.find(name)
        await self._carried_through(self._drop(table))
        return table

    async def _drop(self, table: TableEntry) -> None:
        async with self._changing:
            if not table.adopted:
                with suppress(TableNotFound):
                    await self._log.delete_topic(table.id)
            try:
                await self._forget(table)
            except DuramenError as error:
                if not error.retryable:
                    raise
                self._finish(table)
                raise Unavailable(
                    f"the log of table {table.name} is deleted, and the catalog has not heard of it yet ("
                    f"{error.message}): this server goes on trying. Until then, the table is listed, and reads "
                    "and writes of it fail; to drop it again, or to create it anew, finishes it too",
                    table=table.name,
                ) from error

    def _finish(self, table: TableEntry) -> None:
        """Go on dropping a table whose log is gone."""
        if table.id not in self._finishing:
            task = self._finishing[table.id] = asyncio.create_task(self._forgotten(table), name=f"drop {table.name}")
            task.add_done_callback(lambda _: self._finishing.pop(table.id, None))

    async def _forgotten(self, table: TableEntry) -> None:
        """Return when the catalog has dropped the table, or refuses for good."""
        backoff = Backoff(_RETRY_FIRST_S, _RETRY_MAX_S)
        while table.id in self._catalog.map.tables:
            await backoff.pause()
            try:
                await self._forget(table)
            except DuramenError as error:
                logger.log(logging.INFO if error.retryable else logging.ERROR, "table %s: %s", table.name, error)
                if not error.retryable:
                    return

    async def _forget(self, table: TableEntry) -> None:
        try:
            await self._catalog.submit(DropTable(table.id))
        except CommandRejected:
            if table.id in self._catalog.map.tables:
                raise

    async def reconcile(self) -> None:
        """Bring the catalog in step with the log, in a process that owns both and has no callers yet: for a folder from
        before there was a catalog, and for what a crash left between a topic and its command.

        A topic that has records becomes a table of bytes. One that never had any is removed: what its table was to
        be, rows or a partitioner, nobody knows any more, and who asked for it has had no answer.
        """
        every = {topic.id: topic for topic in await self._log.topics()}
        topics = {each: topic for each, topic in every.items() if not topic.name.startswith(RESERVED_PREFIX)}
        for table in list(self._catalog.map.tables.values()):
            if table.id not in every and not table.adopted:
                logger.warning("table %s has lost its log: the table is dropped", table.name)
                await self._forget(table)
        for topic in topics.values():
            if topic.id in self._catalog.map.tables:
                continue
            if all(bounds.is_untouched for bounds in await self._log.all_bounds(topic.id)):
                logger.info("the making of table %s was interrupted: its empty topic is removed", topic.name)
                await self._log.delete_topic(topic.id)
            else:
                logger.info("topic %s becomes a table", topic.name)
                await self._catalog.submit(CreateTable(topic.id, topic.name, topic.partitions, 1))

    async def close(self) -> None:
        """Wait until the changes under way are through. What the catalog does not take is not tried any more."""
        try:
            if self._changes:
                await asyncio.wait(self._changes)
        finally:
            await end_tasks(*self._finishing.values())


async def without_absent(
    tables: CatalogTables,
    parts: Sequence[tuple[int, ReadPart]],
    results: list[ReadResult | DuramenError],
    timeout: float,
) -> Sequence[tuple[int, ReadPart]]:
    """The parts whose tables are there. Each comes with its place in `results`, where the others get their error."""
    try:
        async with in_time(timeout, "the tables were not looked up"):
            absent = await tables.absent({part.partition.table for _, part in parts})
    except DuramenError:
        return parts  # each part asks again, and reports what it meets
    if not absent:
        return parts
    turn = Turn()
    left: list[tuple[int, ReadPart]] = []
    for place, part in parts:
        error = absent.get(part.partition.table)
        if error is None:
            left.append((place, part))
        else:
            results[place] = copy(error)
        if turn.is_full(_ERROR_ITEMS):
            await turn.end()
    return left


def listed(cluster: ClusterMap) -> list[TableRef]:
    """All tables, by name. About 5 µs each."""
    return sorted((table.ref for table in cluster.tables.values()), key=lambda ref: ref.name)


def _exists(name: str) -> TableExists:
    return TableExists(f"there is a table {name!r} already: choose another name, or drop it first", table=name)


async def check_log_keeps(log: Log, topic: Topic, retention: Retention) -> None:
    """Raises `InvalidRequest` where this log cannot keep to one of the bounds. Removes nothing."""
    if retention.is_bounded:
        await log.retain(topic.partition(0), retention, below=Offset(0))


def check_not_servers(name: str) -> None:
    """Raises `InvalidName` for a table that servers alone write."""
    if name in SERVERS_TABLES:
        raise InvalidName(f"{name} is written by the servers alone: nobody can drop it, or change how long it stays")


async def change_retention(
    catalog: Catalog, log: Log, table: TableEntry, *, ms: int | None, size: int | None
) -> TableEntry:
    """Change a table's bounds; None: as it is. They hold from the next round of the nodes on, within a minute.

    Raises `InvalidRequest` for no bound at all, or one that this log cannot keep to, `InvalidName` for a table of the
    servers, and `CommandRejected` for a table over a topic of others.
    """
    check_not_servers(table.name)
    if ms is None and size is None:
        raise InvalidRequest("name what is to change: retention_ms, retention_bytes, or both (0: no bound)")
    retention = check_retention(
        Retention(table.retention_ms if ms is None else ms, table.retention_bytes if size is None else size)
    )
    if not table.adopted:
        await check_log_keeps(log, table.topic, retention)
    _, cluster = await catalog.submit(SetRetention(table.id, retention.ms, retention.bytes))
    return cluster.table(table.id)
