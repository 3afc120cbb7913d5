"""The progress of one replica: its applied offset, its log's end, and the readers that wait for the difference.

The lag (`lag.py`) and the waiting readers (`waiters.py`) move together here: both follow the applied offset of the live
index, and the log's end as it was last heard of.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Literal

from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import Offset, PartitionId
from log_tier.model.log import Bounds, Log
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.replica.lag import Lag, LagBounds, LastLook, lag_event
from serving_tier.replica.refusals import behind, token_ahead
from serving_tier.replica.waiters import OffsetWaiters

__all__ = ["ReplicaProgress"]


class ReplicaProgress:
    """The applied offset of one replica, its lag and its waiting readers. It belongs to one replica and its event loop.

    Invariant: nobody waits for an offset that the live index had applied at the last `advance`.
    """

    def __init__(
        self,
        name: str,
        partition: PartitionId,
        index: LmdbIndex,
        *,
        log: Log,
        latest: Offset,
        floor: Offset,
        lag_bounds: LagBounds,
        clock: Callable[[], float],
    ) -> None:
        """`name`: the replica's, for messages. `latest`: where the log ends now. `floor`: what the replica must have
        applied before it is level. `clock`: monotonic seconds.
        """
        self.clock = clock
        self.index = index
        """The live index; a swap sets another one."""
        self.changes = 0
        """Rises whenever the applied offset, or the log's end as known, may have changed."""
        self.served = 0
        """Keys that were read here since it was opened, for the load; what other processes read is not counted."""
        self.obstacle = ""
        """Why nothing can be applied now, as for a full disk; empty: nothing is in the way."""
        self.name, self.id, self._log = name, partition, log
        self._floor = floor
        self._bounds = lag_bounds
        self._lag = Lag(latest=latest, applied=index.applied, now=clock())
        self._waiters = OffsetWaiters(late=self._behind)
        self.wait_written = self._waiters.wait
        """`wait_applied` for a caller who knows from the log that it holds the offset: no question to the log."""

    @property
    def latest(self) -> Offset:
        """The log's latest offset when the log was last heard of."""
        return self._lag.latest

    @property
    def lag_s(self) -> float:
        """How long the replica has not been level with the log, in seconds; 0.0: it is."""
        return self._lag.seconds(self.clock())

    @property
    def stale_s(self) -> float:
        """Everything that the log held this many seconds ago is applied: what a read with a bounded lag needs."""
        return self._lag.stale(self.clock())

    def heard(self, latest: Offset) -> None:
        """A chunk of the log says that it reaches to `latest`."""
        self._lag.tell(latest, self.index.applied, self.clock())

    def answered(self, latest: Offset, *, asked_s: float) -> None:
        """The log was asked at `asked_s` of the clock, and ends at `latest`."""
        self._lag.answer(latest, self.index.applied, asked_s=asked_s, now=self.clock())
        self.changes += 1

    def confirmed(self, latest: Offset, *, asked_s: float, look: LastLook | None = None) -> bool:
        """`answered`, for a replica that was level, if the log has not moved since. Some 0.4 µs. `look`: see `Lag`."""
        if not self._lag.confirm(latest, asked_s=asked_s, look=look):
            return False
        self.changes += 1
        return True

    def leave_look(self) -> None:
        """The log has moved since the look that it was `confirmed` with."""
        self._lag.leave_look()

    def watch(self) -> None:
        """Count missing answers of the log from now on: silence is lag."""
        self._lag.watch()

    def advance(self) -> None:
        """The live index has applied more, or another index is live: wake the waiters whose offset is applied."""
        applied = self.index.applied
        self._waiters.advance(applied)
        self._lag.advance(applied)
        self.changes += 1

    def event(self) -> Literal["level", "between", "lagging"]:
        """The event of the lag for the replica's table of transitions."""
        replayed = self.index.applied >= self._floor
        return lag_event(replayed=replayed, lag_s=self.lag_s, bounds=self._bounds)

    def why_behind(self) -> str:
        """What keeps the replica from being level, for people."""
        applied, latest = self.index.applied, self.latest
        if applied < latest:
            why = f": {self.obstacle}" if self.obstacle else ""
            return f"applied {applied} of {latest}{why}"
        return f"the log has not said for {self.stale_s:.0f} s where it ends; it ended at {latest}, which is applied"

    async def log_end(self) -> Offset:
        """The log's latest offset. One question to the log; raises what it raises."""
        return (await self._ask_bounds()).latest

    async def _ask_bounds(self) -> Bounds:
        asked_s = self.clock()
        bounds = await self._log.bounds(self.id)
        self.answered(bounds.latest, asked_s=asked_s)
        return bounds

    async def wait_applied(self, offset: Offset, *, timeout: float | None) -> None:
        """Return when `offset` is applied. `timeout` in seconds, a question to the log included; None: without a limit.

        The log is asked where it is not known to hold `offset`. Raises `ReplicaBehind` with both offsets when the time
        has passed, `TokenAhead` where the log itself does not hold that offset, `Overloaded`, or what `fail` was given.
        """
        if self.index.applied >= offset:
            return
        try:
            async with asyncio.timeout(timeout):
                if offset > self.latest:
                    # What was last heard of the log may be old: ask it.
                    bounds = await self._ask_bounds()
                    # How much a damaged log has lost is not known: the replica is about to meet the damage.
                    if offset > bounds.latest + bounds.unsettled and not bounds.lost:
                        raise token_ahead(self.name, self.id.partition, asked=offset, bounds=bounds)
                if self.index.applied < offset:
                    await self._waiters.wait(offset)
        except DuramenError:
            raise
        except TimeoutError:
            raise self._behind(offset) from None

    def _behind(self, asked: Offset) -> DuramenError:
        return behind(
            self.name,
            self.id.partition,
            applied=self.index.applied,
            asked=asked,
            latest=self.latest,
            obstacle=self.obstacle,
        )

    def fail(self, error: DuramenError) -> None:
        """The replica will not advance any more: wake all waiters with `error`, now and from now on."""
        self._waiters.fail(error)

    def check(self) -> None:
        """Assert the invariants; for tests."""
        self._lag.check()
        self._waiters.check()
