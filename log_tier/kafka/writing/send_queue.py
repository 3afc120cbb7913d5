"""The send queue: sets that wait to be written or are under way, by partition, and who waits for each.

Callers put sets in from any thread; the sender takes a round at a time out and settles it:

    waiting ──gather──▶ under way ──settled──▶ its future is completed, in its own event loop

Invariant: a partition has one round under way at most. The next one's items wait on its line until all of it is
settled, so what one caller put in arrives in that order.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Sequence
from copy import copy
from typing import Final, NamedTuple

from log_tier.kafka.records.encoding import RecordSet
from log_tier.model.errors import DuramenError, LogDamaged, Overloaded, ShuttingDown
from log_tier.model.identifiers import Offset, Partition

__all__ = ["QUEUE_BYTES_MAX", "Item", "Line", "SendQueue", "SetPlace", "tell"]

_logger = logging.getLogger(__name__)

# One round's batches of one partition are joined up to this size: more would only make the first of them wait.
_ROUND_BYTES: Final = 1 << 20

# What may wait or be under way, before callers get `Overloaded`: a few seconds of a fast network.
QUEUE_BYTES_MAX: Final = 256 << 20


class SetPlace(NamedTuple):
    """The offsets and the timestamp that Kafka gave to a record set."""

    first: Offset
    last: Offset
    timestamp_ms: int


class Item:
    """A set on its way, and who waits for it."""

    __slots__ = ("first", "future", "line", "loop", "outcome", "records")

    def __init__(
        self,
        line: Line,
        records: RecordSet,
        loop: asyncio.AbstractEventLoop,
        future: asyncio.Future[SetPlace],
    ) -> None:
        self.line, self.records, self.loop, self.future = line, records, loop, future
        self.first = -1
        self.outcome: SetPlace | DuramenError | None = None


class Line:
    """One partition's items: what waits, and what is under way."""

    __slots__ = ("partition", "round_bytes", "topic", "under_way", "waiting")

    def __init__(self, topic: str, partition: Partition, round_bytes: int) -> None:
        self.topic, self.partition, self.round_bytes = topic, partition, round_bytes
        self.waiting: deque[Item] = deque()
        self.under_way = 0


class SendQueue:
    """The sets that were accepted and not settled yet. Thread-safe; one thread gathers and settles."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._lines: dict[tuple[str, Partition], Line] = {}
        self._ready: dict[tuple[str, Partition], Line] = {}
        """The lines with something that waits and nothing under way."""
        self._bytes = 0
        self._closing = False
        self._ends: dict[tuple[str, Partition], int] = {}
        """The highest offset that was acknowledged here: what comes next must lie behind it."""
        self._damaged: dict[tuple[str, Partition], LogDamaged] = {}
        """Partitions whose offsets went backwards: nothing more is written there."""
        self._refusal: DuramenError | None = None
        """Why nothing is written any more."""

    def put(
        self, topic: str, partition: Partition, sets: Sequence[RecordSet], *, size_max: int
    ) -> list[asyncio.Future[SetPlace]]:
        """Accept sets, to be written one after the other; a future for each, in the running loop. O(1).

        `size_max`: what the topic takes at once, in bytes; no set is larger. Raises `Overloaded`, `ShuttingDown`.
        """
        loop = asyncio.get_running_loop()
        size = sum(each.size for each in sets)
        with self._changed:
            if self._refusal is not None:
                raise copy(self._refusal)
            if self._closing:
                raise ShuttingDown("the log is closing")
            if self._bytes + size > QUEUE_BYTES_MAX and self._bytes:
                raise Overloaded(
                    f"{self._bytes} bytes wait to be written to Kafka; {QUEUE_BYTES_MAX} may: try again",
                    limit=QUEUE_BYTES_MAX,
                )
            name = (topic, partition)
            if name in self._damaged:
                raise copy(self._damaged[name])
            self._bytes += size
            line = self._lines.get(name)
            if line is None:
                line = self._lines[name] = Line(topic, partition, min(_ROUND_BYTES, size_max))
            items = [Item(line, each, loop, loop.create_future()) for each in sets]
            line.waiting.extend(items)
            if not line.under_way:
                self._ready[name] = line
            self._changed.notify()
        return [item.future for item in items]

    def refuse(self, topic: str, error: DuramenError) -> None:
        """Fail what waits for a topic that is gone; what is under way ends by itself."""
        with self._changed:
            refused = [item for line in self._lines.values() if line.topic == topic for item in line.waiting]
            for line in self._lines.values():
                if line.topic == topic:
                    line.waiting.clear()
                    self._ready.pop((line.topic, line.partition), None)
            self._bytes -= sum(item.records.size for item in refused)
            for name in [name for name in self._ends if name[0] == topic]:
                del self._ends[name]
                self._damaged.pop(name, None)
        for item in refused:
            item.outcome = error
        tell(refused)

    def close(self) -> None:
        """Accept nothing more; what waits is still gathered. Idempotent."""
        with self._changed:
            self._closing = True
            self._changed.notify()

    # --- the sender's thread

    def gather(self, *, wait_s: float) -> tuple[list[Item], bool]:
        """The next round's items, and whether the queue is closing. Waits up to `wait_s` seconds for the first item."""
        taken: list[Item] = []
        with self._changed:
            if wait_s and not self._ready and not self._closing:
                self._changed.wait(wait_s)
            for line in self._ready.values():
                size = 0
                while line.waiting:
                    item = line.waiting[0]
                    if item.future.cancelled():
                        self._bytes -= line.waiting.popleft().records.size
                        continue
                    if size and size + item.records.size > line.round_bytes:
                        break
                    size += item.records.size
                    line.under_way += 1
                    taken.append(line.waiting.popleft())
            self._ready.clear()
            return taken, self._closing

    def wait_filled(self, *, pause_s: float) -> None:
        """Wait `pause_s` seconds, and then until there is something for the next round, or the queue is closing."""
        with self._changed:
            self._changed.wait_for(lambda: self._closing, pause_s)
            self._changed.wait_for(lambda: self._closing or bool(self._ready))

    def placed(self, item: Item, place: SetPlace) -> SetPlace | LogDamaged:
        """The outcome of a set that Kafka acknowledged: where it lies, unless something acknowledged lay there."""
        line = item.line
        name = (line.topic, line.partition)
        end = self._ends.get(name, -1)
        if place.first <= end:
            return self._damaged.setdefault(name, _backwards(line, place.first, end))
        self._ends[name] = place.last
        return place

    def settle(self, items: Sequence[Item]) -> None:
        """Drop items that were under way and have an outcome, and complete their futures."""
        with self._changed:
            for item in items:
                line = item.line
                line.under_way -= 1
                self._bytes -= item.records.size
                if not line.under_way:
                    name = (line.topic, line.partition)
                    if line.waiting:
                        self._ready[name] = line
                    else:
                        self._lines.pop(name, None)
        tell(items)

    def end(self, error: DuramenError) -> None:
        """Nobody gathers any more: fail what waits, and whatever comes."""
        with self._changed:
            self._refusal = error
            waiting = [item for line in self._lines.values() for item in line.waiting]
            self._lines.clear()
            self._ready.clear()
        for item in waiting:
            item.outcome = error
        tell(waiting)


def _backwards(line: Line, offset: int, end: int) -> LogDamaged:
    return LogDamaged(
        f"{line.topic}/{line.partition} gave the offset {offset} to a write after offset {end} had been acknowledged: "
        "Kafka has lost records (an unclean leader election?); see OPERATIONS",
        offset=offset,
    )


def tell(items: Sequence[Item]) -> None:
    """Settle futures in the loops they belong to: one call for each loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Item]] = {}
    for item in items:
        by_loop.setdefault(item.loop, []).append(item)
    for loop, mine in by_loop.items():
        try:
            loop.call_soon_threadsafe(_settle_futures, mine)
        except RuntimeError:
            # The loop was closed: nobody waits there any more. What was written stays written.
            _logger.debug("%d waiters of a closed loop were not notified", len(mine))


def _settle_futures(items: Sequence[Item]) -> None:
    for item in items:
        future, outcome = item.future, item.outcome
        assert outcome is not None, "read before it was settled"
        if future.done():
            continue
        if isinstance(outcome, DuramenError):
            future.set_exception(type(outcome)(outcome.message, **dict(outcome.fields)))
        else:
            future.set_result(outcome)
