"""Which batches leave in which request, and when. Pure: it is given its clock and its loop, as functions.

`BatchRounds` is the state of one gatherer: the batches that wait, by partition, and those that have left. The shell
around it (`write_gatherer.py`) sends and waits; every decision is here, as a function of the state and of one event.

    a call joins          batch_for()   the open batch of its partition, or a new one
    something may leave   schedule()    looks at it at the end of this round of the loop
    may the next leave?   leaves_at()   at once, or when as many calls are there as lately
    the way is free       leave()       the oldest batch of every partition that has none under way, as requests
    a request is back     landed()      the next one may leave
    a fate is known       settle()      the partition's next batch may leave

**How long calls gather.** Callers that were just answered usually write again within a fraction of a sync's time. Were
the next request to leave at once with the others, the callers would fall into two halves that take turns, and each sync
would serve half of them. So with `Rules.gather_share`, the request after one that has ended waits until as many calls
are there as lately, but at most that share of the time that the last request took. A single caller waits for nobody.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from copy import copy
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, Generic, NoReturn, Protocol, TypeVar

from log_tier.model.batch import BATCH_RECORDS_MAX
from log_tier.model.errors import DuramenError, LimitExceeded, Overloaded
from log_tier.model.identifiers import PartitionId
from router.data.gather.batch_progress import BatchProgress

__all__ = ["PENDING_BYTES_MAX", "BatchRounds", "GatheredBatch", "Rules"]

PENDING_BYTES_MAX: Final = 256 * 1024 * 1024
"""Content that waits in one gatherer. Beyond it callers write faster than the log can sync."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The limits of one gatherer."""

    in_flight_max: int = 2
    """Requests under way at once: one is filled while the log syncs the other."""
    split_calls: int = 0
    """From this many waiting calls on they leave as two requests with half of the partitions each, which costs less
    than the time in which one side would wait for the other; 0: never."""
    batch_content_max: int = 8 * 1024 * 1024
    """A batch's keys and values; well below the format's limit, so that headers and columns fit as well."""
    request_content_max: int = 16 * 1024 * 1024
    """What one request carries over all partitions: both ends hold a message whole."""
    pending_bytes_max: int = PENDING_BYTES_MAX
    gather_share: float = 0.0
    """After a request, the next one waits for as many calls as lately at most this share of the time that the last one
    took; 0: it leaves at once."""
    gather_max_s: float = 0.001
    """The longest wait for more calls. On a disk whose sync takes 3 ms, a millisecond more does not matter."""
    verdicts_apart: bool = False
    """Verdicts come with the write only if no call waits for the place alone: for users whose second question is cheap.
    Otherwise they come with the write if any call wants one."""
    verdict_patience_s: float = 0.02
    """How long a write waits for verdicts; then the gatherer asks for them apart. A replica that keeps up knows them in
    a tenth of a millisecond; one that does not must not delay the partition's next batch."""
    close_patience_s: float = 1.0
    """How long closing waits for what is under way: a write is over in milliseconds."""
    pause_first_s: float = 0.02
    pause_max_s: float = 0.5
    """Between two tries of the same bytes."""


class GatheredBatch(Protocol):
    """A batch as `BatchRounds` sees it."""

    content_bytes: int
    records: int
    calls: int
    data: bytes
    """Its encoded bytes; empty as long as it takes more records."""
    progress: BatchProgress

    @property
    def place(self) -> PartitionId:
        """The table and partition."""
        ...


B = TypeVar("B", bound=GatheredBatch)
T = TypeVar("T")


class BatchRounds(Generic[T, B]):
    """The batches of one gatherer. `T` is what a new batch is made for.

    Invariants: a partition has at most one batch under way (W1). Its batches leave in the order in which they were
    begun. Every batch that has left is settled once.
    """

    __slots__ = (
        *("_clock_s", "_closed", "_expected", "_later", "_leave_by_s", "_new", "_queues", "_rules", "_scheduled"),
        "_send",
        "_start",
        "in_flight",
        "pending_bytes",
        "under_way",
        "waiting",
    )

    def __init__(
        self,
        rules: Rules,
        new: Callable[[PartitionId, T], B],
        *,
        clock_s: Callable[[], float],
        later: Callable[[Callable[[], None]], object],
        send: Callable[[list[B]], Coroutine[Any, Any, None]],
        start: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        """`new`: makes an empty batch for a partition. `later`: calls a function in the loop's next round. `send`, run
        by `start`: sends the batches of one request.
        """
        self._rules = rules
        self._new = new
        self._clock_s = clock_s
        self._later = later
        self._send = send
        self._start = start
        self._scheduled = False
        """Will it look at what may leave?"""
        self._closed: DuramenError | None = None
        """Why no call may join any more."""
        self._queues: dict[PartitionId, deque[B]] = {}
        """The batches that wait, the oldest first. No queue is empty."""
        self.under_way: dict[PartitionId, B] = {}
        """The batches that have left and whose fate is not yet known or given up."""
        self.in_flight = 0
        """Requests under way. One whose batches only wait for their next try does not count."""
        self.waiting = 0
        """Calls whose records gather; 0: no batch waits."""
        self.pending_bytes = 0
        """Content of all batches that wait or are under way."""
        self._expected = 0
        """Calls that were served or waiting when the last request came back."""
        self._leave_by_s = 0.0
        """When the next request leaves, even if expected calls are missing."""

    def check_size(self, records: int, size: int) -> None:
        """Raises `LimitExceeded` where one call's records fit in no batch. O(1)."""
        if records > BATCH_RECORDS_MAX or (size > self._rules.batch_content_max and records > 1):
            raise LimitExceeded(
                f"{records} records of {size} bytes do not fit in one batch of {BATCH_RECORDS_MAX} records and "
                f"{self._rules.batch_content_max} bytes: use several",
                limit=self._rules.batch_content_max,
                size=size,
            )

    def batch_for(self, place: PartitionId, table: T, size: int, records: int) -> B:
        """The batch that one more call of so many records and bytes joins, with both counted. O(1).

        Raises `Overloaded` where too much waits, and the error given to `close`.
        """
        if self._closed is not None or self.pending_bytes + size > self._rules.pending_bytes_max:
            self._refuse()
        queue = self._queues.get(place)
        if (
            queue is None
            or (batch := queue[-1]).data
            or batch.progress.is_over
            or batch.content_bytes + size > self._rules.batch_content_max
            or batch.records + records > BATCH_RECORDS_MAX
        ):
            if not self._scheduled:
                self.schedule()
            batch = self._new(place, table)
            self._queues.setdefault(place, deque()).append(batch)
        batch.content_bytes += size
        batch.records += records
        batch.calls += 1
        self.pending_bytes += size
        self.waiting += 1
        return batch

    def put_first(self, batch: B) -> None:
        """Queue an encoded batch that was sent before, ahead of its partition's other batches. O(1).

        Raises as `batch_for`.
        """
        if self._closed is not None or self.pending_bytes + batch.content_bytes > self._rules.pending_bytes_max:
            self._refuse()
        self._queues.setdefault(batch.place, deque()).appendleft(batch)
        self.pending_bytes += batch.content_bytes
        self.waiting += batch.calls
        self.schedule()

    def _refuse(self) -> NoReturn:
        if self._closed is not None:
            raise copy(self._closed)
        raise Overloaded(
            f"{self.pending_bytes} bytes wait for the log, and at most {self._rules.pending_bytes_max} may: write more "
            "slowly",
            limit=self._rules.pending_bytes_max,
        )

    def close(self, error: DuramenError) -> None:
        """No call joins any more: each gets a copy of `error`. What waits may still leave."""
        self._closed = error

    def schedule(self) -> None:
        """Something may leave: look at it at the end of this round of the loop. Calls of the same round leave together,
        and those that were just answered write again before their partition's next batch leaves.
        """
        if not self._scheduled:
            self._scheduled = True
            self._later(self._look)

    def _look(self) -> None:
        leaves_at = self.leaves_at()
        if leaves_at and self._clock_s() < leaves_at:
            # Timers tick in milliseconds, which is longer than all of this: look again in the loop's next round.
            self._later(self._look)
            return
        self._scheduled = False
        for request in self.leave():
            self._start(self._send(request))

    def leaves_at(self) -> float:
        """The time, on the shell's clock, at which what waits leaves; 0: at once."""
        return self._leave_by_s if self.waiting < self._expected and not self.in_flight else 0.0

    def leave(self) -> list[list[B]]:
        """The requests that leave now, each a list of batches of different partitions; often one, at most two.

        O(partitions that wait).
        """
        rules = self._rules
        if self.in_flight >= rules.in_flight_max:
            return []
        free = [place for place in self._queues if place not in self.under_way]
        groups = [free]
        if rules.split_calls and not self.in_flight:
            calls = sum(self._queues[place][0].calls for place in free)
            if calls >= rules.split_calls:
                groups = [
                    [place for place in free if place.partition % 2 == 0],
                    [place for place in free if place.partition % 2],
                ]
        return [self._request(group) for group in groups if group]

    def _request(self, places: Iterable[PartitionId]) -> list[B]:
        """The oldest batches of these partitions, as many as one request carries: now under way."""
        batches: list[B] = []
        size = 0
        for place in places:
            queue = self._queues[place]
            if batches and size + queue[0].content_bytes > self._rules.request_content_max:
                break
            batch = queue.popleft()
            if not queue:
                del self._queues[place]
            self.under_way[place] = batch
            self.waiting -= batch.calls
            size += batch.content_bytes
            batches.append(batch)
        self.in_flight += 1
        return batches

    def landed(self, calls: int, began_s: float, now_s: float) -> None:
        """A request that served so many calls is back, or given up; what is sent again does not count. O(1)."""
        self.in_flight -= 1
        self._expected = calls + self.waiting
        self._leave_by_s = now_s + min((now_s - began_s) * self._rules.gather_share, self._rules.gather_max_s)

    def settle(self, batch: B) -> None:
        """A batch's fate is known, or it is given up: its partition is free. O(1)."""
        assert self.under_way.get(batch.place) is batch, f"a batch of {batch.place} is settled that is not under way"
        del self.under_way[batch.place]
        self.pending_bytes -= batch.content_bytes

    def at(self, place: PartitionId) -> list[B]:
        """The batches of one partition that are not settled, in their order."""
        flying = self.under_way.get(place)
        return [*(() if flying is None else (flying,)), *self._queues.get(place, ())]

    def give_up(self) -> list[B]:
        """Take out every batch that has not left, for good."""
        left = list(chain.from_iterable(self._queues.values()))
        self._queues.clear()
        self.waiting = 0
        self.pending_bytes -= sum(batch.content_bytes for batch in left)
        return left

    def check(self) -> None:
        """Assert what must hold. O(batches)."""
        queued = list(chain.from_iterable(self._queues.values()))
        held = sum(batch.content_bytes for batch in (*queued, *self.under_way.values()))
        calls = sum(batch.calls for batch in queued)
        assert all(self._queues.values()), "an empty queue was kept"
        assert self.pending_bytes == held, f"{self.pending_bytes} bytes are counted, {held} wait"
        assert self.waiting == calls, f"{self.waiting} calls are counted, {calls} wait"
        assert all(batch.calls for batch in queued), "a batch waits for nobody"
        assert 0 <= self.in_flight <= self._rules.in_flight_max, f"{self.in_flight} requests are under way"
