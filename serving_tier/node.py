"""A serving node: the replicas that this process hosts, by table and partition.

On one machine it hosts all partitions of all tables. It owns the applier's thread, and it moves the log time of idle
partitions on where a key waits to expire: expiry is judged by log time (I4), and the log time of a partition that
nobody writes to stands still until somebody appends a no-op.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import copy
from pathlib import Path
from typing import Final

from log_tier.batch import Columns, encode_batch
from log_tier.errors import DuramenError, TableNotFound, Unavailable
from log_tier.identifiers import Partition, TableId
from log_tier.log import Log, Topic
from log_tier.record import Operation
from serving_tier.applier import Applier
from serving_tier.replica import Replica

__all__ = ["Node"]

logger = logging.getLogger(__name__)

# How exactly an idle key expires. A tick is one short read per replica.
_EXPIRY_TICK_S: Final = 0.1

# Where a no-op did not expire anything (the log's clock is behind ours) the next one waits twice as long, up to this.
_EXPIRY_BACKOFF_MAX_S: Final = 10.0

_NOOP_BATCH: Final = encode_batch(Columns([b""], [b""], attributes=[int(Operation.NOOP)]))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class Node:
    """Hosts replicas. `open()` makes one; `close()` closes every index cleanly."""

    def __init__(self, log: Log, folder: Path, *, clock_ms: Callable[[], int] = _now_ms) -> None:
        self._log = log
        self._folder = folder
        self._clock_ms = clock_ms
        self._applier = Applier()
        # Replaced and never changed in place: other threads look into it without a lock.
        self._tables: dict[TableId, tuple[Topic, dict[Partition, Replica]]] = {}
        self._refused: dict[tuple[TableId, Partition], DuramenError] = {}
        self._ticker: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, log: Log, folder: Path, *, clock_ms: Callable[[], int] = _now_ms) -> Node:
        """Open a node that keeps its indexes below `folder`; it hosts nothing yet."""
        await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
        node = cls(log, folder, clock_ms=clock_ms)
        node._applier.start()
        node._ticker = asyncio.create_task(node._tick(), name="expiry ticker")
        return node

    async def host(self, topic: Topic) -> None:
        """Host every partition of a table.

        A partition that cannot be opened (its log is damaged, say) is refused by itself: `replica()` raises why, and
        the table's other partitions are served.
        """
        replicas: dict[Partition, Replica] = {}
        for number in range(topic.partitions):
            partition = Partition(number)
            folder = self._folder / topic.id / str(number)
            try:
                replicas[partition] = await Replica.open(
                    topic, partition, log=self._log, applier=self._applier, folder=folder
                )
            except DuramenError as error:
                logger.error("%s/%s is not served: %s", topic.name, partition, error)
                self._refused[topic.id, partition] = error
            except BaseException:
                for replica in replicas.values():
                    await replica.close()
                raise
        self._tables = {**self._tables, topic.id: (topic, replicas)}

    async def drop(self, table_id: TableId) -> None:
        """Stop hosting a table and delete its indexes."""
        topic, replicas = self._tables.get(table_id, (None, {}))
        self._tables = {key: hosted for key, hosted in self._tables.items() if key != table_id}
        if topic is not None:
            gone = TableNotFound(f"table {topic.name} ({table_id}) was dropped", table=table_id)
            await _close_all(list(replicas.values()), gone)
        self._refused = {key: error for key, error in self._refused.items() if key[0] != table_id}
        await asyncio.to_thread(shutil.rmtree, self._folder / table_id, ignore_errors=True)

    def topics(self) -> list[Topic]:
        """The tables that are hosted."""
        return [topic for topic, _ in self._tables.values()]

    def replica(self, table_id: TableId, partition: Partition) -> Replica:
        """The replica of one partition. Raises `TableNotFound`, or why that partition is not served."""
        found = self._tables.get(table_id)
        if found is None:
            raise TableNotFound(f"no table has the id {table_id} here: it was dropped, or never was", table=table_id)
        topic, replicas = found
        replica = replicas.get(partition)
        if replica is not None:
            return replica
        refusal = self._refused.get((table_id, partition))
        if refusal is not None:
            raise copy(refusal)
        raise TableNotFound(
            f"table {topic.name} has partitions 0 to {topic.partitions - 1}, not {partition}", table=table_id
        )

    def __iter__(self) -> Iterator[Replica]:
        for _, replicas in self._tables.values():
            yield from replicas.values()

    async def wait_ready(self) -> None:
        """Return when every hosted replica has caught up or stopped."""
        for replica in list(self):
            with suppress(DuramenError):  # a stopped replica answers for itself, when it is read
                await replica.wait_ready()

    async def _tick(self) -> None:
        backoff: dict[Replica, tuple[float, float]] = {}
        while True:
            await asyncio.sleep(_EXPIRY_TICK_S)
            now_ms, now_s = self._clock_ms(), time.monotonic()
            waiting: dict[Replica, tuple[float, float]] = {}
            for replica in list(self):
                not_before, pause = backoff.get(replica, (0.0, _EXPIRY_TICK_S))
                try:
                    if not _has_expired(replica, now_ms):
                        continue
                    if now_s >= not_before:
                        not_before, pause = now_s + pause, min(pause * 2, _EXPIRY_BACKOFF_MAX_S)
                        await self._log.append(replica.topic.id, replica.partition, _NOOP_BATCH)
                except (Unavailable, TableNotFound) as error:
                    logger.info("%s: its log time could not be moved on: %s", replica.name, error)
                except DuramenError as error:
                    logger.warning("%s: its log time cannot be moved on: %s", replica.name, error)
                    not_before, pause = now_s + _EXPIRY_BACKOFF_MAX_S, _EXPIRY_BACKOFF_MAX_S
                waiting[replica] = not_before, pause
            backoff = waiting

    async def close(self) -> None:
        """Close every replica cleanly, then end the applier. What fails is raised after the rest was closed."""
        try:
            if self._ticker is not None:
                self._ticker.cancel()
                with suppress(asyncio.CancelledError):
                    await self._ticker
        finally:
            try:
                await _close_all(list(self), None)
            finally:
                self._tables = {}
                await self._applier.stop()


def _has_expired(replica: Replica, now_ms: int) -> bool:
    """Does a key wait for the log time to pass its expiry?"""
    if replica.state != "ready":
        return False
    due = replica.index.next_expiry_ms()
    return due is not None and due <= now_ms


async def _close_all(replicas: list[Replica], reason: DuramenError | None) -> None:
    results = await asyncio.gather(*(replica.close(reason) for replica in replicas), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
