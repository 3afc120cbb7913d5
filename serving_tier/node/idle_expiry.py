"""Expiry in idle partitions: the log time moves on where a key waits to expire and nobody writes.

Expiry is judged by log time (I4), and the log time of a partition that nobody writes to does not advance until a node
appends a no-op. Of several replicas the one of the lowest rank does that, and the others only where it does not.

A tick looks at replicas that have applied something since the last one, and at those in which a key is due at some
time: its cost does not grow with the replicas in which nothing expires.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from log_tier.concurrency.background import Failed, only_logged, run_forever
from log_tier.concurrency.sized_work import Turn
from log_tier.concurrency.tasks import end_tasks
from log_tier.model.batch import Batch, Columns, encode_batch
from log_tier.model.errors import DuramenError, TableNotFound, Unavailable
from log_tier.model.identifiers import PartitionId
from log_tier.model.log import Log
from log_tier.model.record import Operation
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.replica.replica import Replica

__all__ = ["IdleExpiry"]

logger = logging.getLogger(__name__)

# A look is a read transaction and a seek, as items of a turn of the loop: some 100 µs.
_LOOK_ITEMS: Final = 25

# How exactly an idle key expires.
_TICK_S: Final = 0.1

# Where a no-op did not expire anything (the log's clock is behind ours) the next one waits twice as long, up to this.
# This paces ticks that go on for ever, and is no retry of a call: a tick that comes too soon appends nothing.
_BACKOFF_MAX_S: Final = 10.0

# The replica of rank n waits n times this long: long enough that the ranks before it were there, if they are alive.
_RANK_DELAY_MS: Final = 2000

_NOOP_BATCH: Final = encode_batch(Columns([b""], [b""], attributes=[int(Operation.NOOP)]))


class IdleExpiry:
    """Appends a no-op to an idle partition in which a key has expired, so that its log time advances. It belongs to one
    node and its event loop; `start()` begins the ticks, `close()` ends them.

    Invariant: a watched replica whose next expiry may have changed since the last tick is in `_touched`.
    """

    def __init__(self, log: Log, *, rank: Callable[[PartitionId], int], clock_ms: Callable[[], int]) -> None:
        """`rank`: a replica's place among those of its partition. `clock_ms`: wall clock milliseconds."""
        self._log = log
        self._rank = rank
        self._clock_ms = clock_ms
        self._watched: dict[Replica, _Watch] = {}
        self._touched: dict[_Watch, None] = {}
        """In the order in which they were touched, and so they are looked at."""
        self._due_ms: dict[_Watch, int] = {}
        """The first expiry of each watched replica that has one, as it was when it was last looked at."""
        self._pauses: dict[_Watch, tuple[float, float]] = {}
        """By replica with a due key: when its next no-op may be appended, and the pause after that one, in seconds."""
        self._ticker: asyncio.Task[None] | None = None

    def start(self, *, failed: Failed = only_logged) -> None:
        """Begin to tick. `failed`: see `run_forever`."""
        self._ticker = run_forever(self._run(), name="the expiry ticker", failed=failed)

    async def close(self) -> None:
        """Tick no more. Idempotent."""
        await end_tasks(self._ticker)

    def watch(self, replica: Replica) -> None:
        """Look after a replica from the next tick on."""
        watch = self._watched[replica] = _Watch(replica, self._touched)
        self._touched[watch] = None
        replica.observers.append(watch)

    def forget(self, replica: Replica) -> None:
        """Look after a replica no longer. O(its observers)."""
        watch = self._watched.pop(replica)
        replica.observers.remove(watch)
        self._touched.pop(watch, None)
        self._due_ms.pop(watch, None)
        self._pauses.pop(watch, None)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            await self.tick()

    async def tick(self) -> None:
        """Append a no-op to each partition in which a key is due. O(touched + with an expiry)."""
        turn = Turn()
        for watch in list(self._touched):
            if watch in self._touched and watch.replica.state == "ready":
                self._look(watch)
                if turn.is_full(_LOOK_ITEMS):
                    await turn.end()
        now_ms, now_s = self._clock_ms(), asyncio.get_running_loop().time()
        for watch, due_ms in list(self._due_ms.items()):
            replica = watch.replica
            if replica.state != "ready" or due_ms > now_ms - self._rank(watch.name) * _RANK_DELAY_MS:
                self._pauses.pop(watch, None)
                continue
            not_before, pause = self._pauses.get(watch, (0.0, _TICK_S))
            if now_s >= not_before:
                self._pauses[watch] = now_s + pause, min(pause * 2, _BACKOFF_MAX_S)
                await self._append(watch, now_s)

    def _look(self, watch: _Watch) -> None:
        try:
            due_ms = watch.replica.index.next_expiry_ms()
        except DuramenError as error:
            logger.warning("%s: when its keys expire cannot be read: %s", watch.replica.name, error)
            return  # it stays touched
        self._touched.pop(watch, None)
        if due_ms is None:
            self._due_ms.pop(watch, None)
        else:
            self._due_ms[watch] = due_ms

    async def _append(self, watch: _Watch, now_s: float) -> None:
        replica = watch.replica
        try:
            await self._log.append(replica.id, _NOOP_BATCH)
        except (Unavailable, TableNotFound) as error:
            logger.info("%s: its log time could not be moved on: %s", replica.name, error)
        except DuramenError as error:
            logger.warning("%s: its log time cannot be moved on: %s", replica.name, error)
            if watch in self._pauses:
                self._pauses[watch] = now_s + _BACKOFF_MAX_S, _BACKOFF_MAX_S


class _Watch:
    """Observes one replica: notes that its next expiry may be another one now."""

    def __init__(self, replica: Replica, touched: dict[_Watch, None]) -> None:
        self.replica = replica
        self.name = replica.id
        self._touched = touched

    def replica_applied(self, index: LmdbIndex, batches: Sequence[Batch]) -> None:
        self._touched[self] = None

    def replica_left(self) -> None:
        self._touched[self] = None
