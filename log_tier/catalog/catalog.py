"""Following the catalog's log, and submitting commands to it.

The seam is `Maps`: code that only reads the cluster map takes that, whether the map comes from the log itself
(`Catalog`) or from a server that follows it (`log_tier.catalog.remote`).
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Mapping
from contextlib import aclosing, suppress
from copy import copy
from functools import partial
from typing import Any, Final, Protocol

from log_tier.catalog.catalog_fold import fold_command
from log_tier.catalog.cluster_map import ClusterMap
from log_tier.catalog.commands import Command, StartJob, command_batch, parse_command
from log_tier.concurrency.backoff import Backoff
from log_tier.concurrency.broadcast import Broadcast
from log_tier.concurrency.persistent_map import PersistentMap
from log_tier.concurrency.sized_work import AT_ONCE_ITEMS_MAX
from log_tier.concurrency.tasks import end_tasks
from log_tier.model.batch import decode_batch
from log_tier.model.batch_header import place_of, split_batches
from log_tier.model.errors import (
    CommandRejected,
    DeadlineExceeded,
    DuramenError,
    ShuttingDown,
    TableExists,
    Unavailable,
    WriteUnknown,
)
from log_tier.model.identifiers import HISTORY_TABLE, Offset, Partition, PartitionId, TableId
from log_tier.model.log import Log, Topic
from log_tier.rows.definition import TableDefinition

__all__ = ["CATALOG_TOPIC", "Catalog", "MapFeed", "Maps", "newer_map"]

logger = logging.getLogger(__name__)

CATALOG_TOPIC: Final = "_duramen_catalog"

_PARTITION: Final = Partition(0)

# A command is a few hundred bytes and one sync; a log that takes longer is down, or very busy.
_TIMEOUT_S: Final = 15.0
_PAUSE_FIRST_S: Final = 0.02
_PAUSE_MAX_S: Final = 1.0

# What is encoded, and what is folded, on the event loop; a thread does more. Encoding a task of a job costs as much as
# five keys of a read, and reading and folding 30 bytes of the catalog's log as much as one.
_AT_ONCE_TASKS: Final = AT_ONCE_ITEMS_MAX // 5
_AT_ONCE_BYTES: Final = AT_ONCE_ITEMS_MAX * 30


class Maps(Protocol):
    """The cluster's map, kept up to date."""

    @property
    def map(self) -> ClusterMap:
        """The newest map that is known here."""
        ...

    async def wait_for(self, predicate: Callable[[ClusterMap], bool], *, timeout: float | None = None) -> ClusterMap:
        """The first map of which `predicate` holds; at once where it holds already. Raises `DeadlineExceeded`."""
        ...

    async def close(self) -> None:
        """Stop following."""
        ...


async def newer_map(maps: Maps, seen: ClusterMap) -> ClusterMap:
    """Return the newest map when it is newer than `seen`; maps between the two are skipped.

    Raises the error that ended following the map.
    """
    return await maps.wait_for(lambda cluster: cluster.version > seen.version)


class MapFeed:
    """The newest map, and the callers that wait for a newer one. Belongs to one event loop."""

    def __init__(self) -> None:
        self.map = ClusterMap()
        self.closed: set[TableId] = set()
        """The history's table, while it is there: servers alone write it. One object as long as the feed lives, so that
        each write looks without a call."""
        self.defined: dict[TableId, TableDefinition] = {}
        """What is in the tables that do not hold bytes: one object as `closed` is, and for the same reason."""
        self._names: PersistentMap[str, TableId] = PersistentMap()
        """Of which `closed` was made."""
        self._defined: Mapping[TableId, TableDefinition] = {}
        self._failure: DuramenError | None = None
        self._changed = Broadcast()

    def advance(self, cluster: ClusterMap) -> None:
        """Take over a newer map and wake all waiters."""
        self.map = cluster
        facts = cluster.facts
        if facts is None or facts.tables is not cluster.tables:
            facts = cluster.table_facts()
        if facts.names is not self._names:
            self._names = facts.names
            history = self._names.get(HISTORY_TABLE)
            self.closed.clear()
            self.closed.update(() if history is None else (history,))
        if facts.defined is not self._defined:
            self._defined = facts.defined
            self.defined.clear()
            self.defined.update(facts.defined)
        self._changed.notify_all()

    def fail(self, failure: DuramenError) -> None:
        """No newer map will come."""
        self._failure = failure
        self._changed.notify_all()

    async def wait_for(self, predicate: Callable[[ClusterMap], bool], *, timeout: float | None = None) -> ClusterMap:
        try:
            async with asyncio.timeout(timeout):
                while not predicate(self.map):
                    if self._failure is not None:
                        raise copy(self._failure)
                    await self._changed.wait()
        except TimeoutError as error:
            if isinstance(error, DuramenError):
                raise
            raise DeadlineExceeded(
                f"what was waited for did not happen within {timeout:g} s; the catalog stands at {self.map.version}"
            ) from None
        return self.map


class Catalog:
    """The catalog of one log. `open()` makes one, `close()` ends it; the caller closes the log."""

    def __init__(self, log: Log, topic: Topic) -> None:
        self._log = log
        self.topic = topic
        self._partition = topic.partition(_PARTITION)
        self._feed = MapFeed()
        self.closed, self.defined = self._feed.closed, self._feed.defined
        self._follower: asyncio.Task[None] | None = None
        self._opening = True
        """The caller of `open` gets the error that ends the follower, and says it."""

    @classmethod
    async def open(cls, log: Log) -> Catalog:
        """Follow the log's catalog (made where it is missing), from its beginning to its present end.

        Returns when the map holds everything that had been written. Some 20 µs a command. Raises `LogDamaged` where a
        part of it cannot be read, also where that is the end.
        """
        topic = await _topic_of(log)
        catalog = cls(log, topic)
        bounds = await log.bounds(catalog._partition)
        catalog._follower = asyncio.create_task(catalog._follow(bounds.earliest), name="follow catalog")
        try:
            # Where the log has lost its end, the follower's error says so.
            await catalog.wait_for(lambda cluster: cluster.version >= bounds.latest + bounds.lost)
        except BaseException:
            await catalog.close()
            raise
        catalog._opening = False
        return catalog

    @property
    def map(self) -> ClusterMap:
        """The newest map that is known here. Immutable: it may be kept."""
        return self._feed.map

    async def wait_for(self, predicate: Callable[[ClusterMap], bool], *, timeout: float | None = None) -> ClusterMap:
        """Also raises the error that ended following the catalog."""
        return await self._feed.wait_for(predicate, timeout=timeout)

    async def refresh(self) -> ClusterMap:
        """The map that holds everything that was in the catalog when this was called. Costs one `bounds` of the log."""
        bounds = await self._log.bounds(self._partition)
        return await self.wait_for(lambda cluster: cluster.version >= bounds.latest, timeout=_TIMEOUT_S)

    async def submit(self, command: Command, *, timeout: float = _TIMEOUT_S) -> tuple[Offset, ClusterMap]:
        """Append a command and return its offset and a map that holds it. One sync, and one delivery to this follower.

        Raises `CommandRejected` with the fold's reason, or the error with which the log refuses the append. If the
        log's reply is lost, the command is sent again and takes effect once; if no later try is answered either, or one
        is refused, raises `WriteUnknown`.
        """
        command_id = secrets.token_hex(8)
        tasks = len(command.tasks) if isinstance(command, StartJob) else 0
        encode = partial(command_batch, command, command_id)
        batch = await asyncio.to_thread(encode) if tasks > _AT_ONCE_TASKS else encode()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        backoff: Backoff | None = None
        unknown: WriteUnknown | None = None
        while True:
            try:
                appended = await self._log.append(self._partition, batch)
                break
            except DuramenError as error:
                unknown = error if isinstance(error, WriteUnknown) else unknown
                backoff = backoff or Backoff(_PAUSE_FIRST_S, _PAUSE_MAX_S, deadline_s=deadline)
                if isinstance(error, (Unavailable, WriteUnknown)) and await backoff.pause():
                    continue
                if unknown is None or unknown is error:
                    raise
                raise WriteUnknown(f"{unknown.message}; a later try ended with: {error.message}") from error
        cluster = await self.wait_for(
            lambda cluster: cluster.version >= appended.base_offset, timeout=max(1.0, deadline - loop.time())
        )
        decision = cluster.decisions.get(command_id)
        assert decision is not None, f"command {command_id} at {appended.base_offset} is not decided in its map"
        if decision.rejection:
            raise CommandRejected(decision.rejection, version=decision.offset)
        return decision.offset, cluster

    async def _follow(self, start: Offset) -> None:
        try:
            reader: Any = self._log.read(self._partition, start, follow=True)
            async with aclosing(reader) as chunks:
                async for chunk in chunks:
                    # This task alone advances the map: it stays what it is while a thread folds.
                    fold = partial(_folded, self.map, chunk.data, self.topic.id)
                    large = len(chunk.data) > _AT_ONCE_BYTES
                    self._feed.advance(await asyncio.to_thread(fold) if large else fold())
            raise AssertionError("the log ended a read that follows it")
        except DuramenError as error:
            logger.log(
                logging.INFO if self._opening or isinstance(error, ShuttingDown) else logging.ERROR,
                "the catalog cannot be followed any more: %s",
                error,
            )
            self._feed.fail(error)
        except Exception as error:
            # A bug of ours: nobody may wait for a map that will not come.
            self._feed.fail(DuramenError(f"the catalog's follower ended at {self.map.version} by a bug: {error!r}"))
            raise

    async def close(self) -> None:
        """Stop following; waiters get `ShuttingDown`. Idempotent."""
        try:
            await end_tasks(self._follower)
        finally:
            self._feed.fail(ShuttingDown("the catalog is closed; ask another node"))


def _folded(cluster: ClusterMap, chunk: bytes, topic: TableId) -> ClusterMap:
    place = place_of(PartitionId(topic, _PARTITION))
    for data in split_batches(chunk):
        batch = decode_batch(data, place)
        for number, offset in enumerate(batch.offsets()):
            if offset <= cluster.version:
                continue  # a chunk begins with the batch that holds the offset asked for
            key, value = batch.columns.keys[number], batch.columns.values[number]
            command_id, command = parse_command(key, value)
            cluster, decision = fold_command(cluster, Offset(offset), batch.header.timestamp_ms, command_id, command)
            if decision.rejection and decision.offset == offset:
                logger.info("catalog %s: %s rejected: %s", offset, key.decode(errors="replace"), decision.rejection)
    return cluster


async def _topic_of(log: Log) -> Topic:
    """The catalog's topic: found, or made. Two processes that make it at once end with the same one."""
    for _ in range(2):
        found = next((topic for topic in await log.topics() if topic.name == CATALOG_TOPIC), None)
        if found is not None:
            return found
        with suppress(TableExists):
            return await log.create_topic(CATALOG_TOPIC, partitions=1)
    found = next((topic for topic in await log.topics() if topic.name == CATALOG_TOPIC), None)
    if found is None:
        raise Unavailable(f"the topic {CATALOG_TOPIC} exists and is not listed: try again")
    return found
