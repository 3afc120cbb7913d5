"""What the subscriptions of this node were given of the log, minute by minute: to be compared with the log.

A subscription is a watch of a client, or of an endpoint here for all its listeners. It counts each run of batches when
it was passed on, by the functions by which replicas count (`log_tier.tally`). So one that skipped a batch, or passed
one on twice, has other numbers than the log, at the offsets of that batch.

A subscription that has ended is not kept: its client knows what it has seen. Belongs to the node's event loop.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import count, islice
from typing import Final

from log_tier.measures.histogram import SECONDS, Histogram
from log_tier.measures.work_counts import DeliveryCounts
from log_tier.model.batch import decode_batch
from log_tier.model.batch_header import BatchHeader, place_of, read_header, split_batches
from log_tier.model.identifiers import Offset, PartitionId
from log_tier.tally.count import count_batches
from log_tier.tally.parts import counted_parts, is_counted_whole
from log_tier.tally.period import CHECKSUM_MASK, PartitionTally, Period, weight_of

__all__ = ["DELIVERED_MINUTES_KEPT", "TRACED_SUBSCRIPTIONS_MAX", "Deliveries", "Delivery", "headers_of"]

DELIVERED_MINUTES_KEPT: Final = 10
"""Minutes before the newest one: some 2 KiB for each partition of a subscription. A node has thousands of these."""

TRACED_SUBSCRIPTIONS_MAX: Final = 16
"""Of one partition, those that have been open the longest. A thousand watches would make a write's trace of a thousand
spans, and nobody could read it."""


class Delivery:
    """The count of one partition of one subscription."""

    def __init__(self, partition: PartitionId, since: Offset, log_time_ms: int = 0) -> None:
        """`since`: the first offset that it is given; `log_time_ms`: the largest timestamp before that, if known."""
        self.partition = partition
        self._since = since
        self._applied = Offset(since - 1)
        self._log_time_ms = log_time_ms
        self._closed: tuple[Period, ...] = ()
        self._open: Period | None = None

    async def passed_on(self, data: bytes, headers: Sequence[BatchHeader]) -> None:
        """Count a run of batches that was passed on, `headers` of which are these. Some 0.4 µs a batch; in a thread
        where each record counts.
        """
        if headers[0].base_offset <= self._applied:
            self._count_again(headers)
        if not all(map(is_counted_whole, headers)):
            headers = await asyncio.to_thread(_parts, data, self.partition, self._applied)
        closed, self._open = count_batches(headers, self._applied, self._log_time_ms, self._open)
        if closed:
            self._keep(closed)
        self._applied = max(self._applied, headers[-1].last_offset)
        self._log_time_ms = max(self._log_time_ms, *(header.timestamp_ms for header in headers))

    def _count_again(self, headers: Sequence[BatchHeader]) -> None:
        """Count what was passed on before and is passed on again, so that the numbers are not the log's any more."""
        for header in headers:
            if self._open is not None and header.last_offset <= self._applied:
                checksum = self._open.checksum + weight_of(header.base_offset, header.stamp_checksum)
                self._open = self._open._replace(
                    offsets=self._open.offsets + header.span, checksum=checksum & CHECKSUM_MASK
                )

    def _keep(self, closed: Sequence[Period]) -> None:
        assert self._open is not None, "a minute ends when the next one begins"
        oldest = self._open.minute - DELIVERED_MINUTES_KEPT
        periods = [*self._closed, *closed]
        dropped = [each for each in periods if each.minute < oldest]
        if dropped:
            self._since = Offset(dropped[-1].last + 1)
        self._closed = tuple(periods[len(dropped) :])

    def tally(self) -> PartitionTally:
        """What was counted so far."""
        last = () if self._open is None else (self._open,)
        return PartitionTally(self._since, self._applied, (*self._closed, *last))


class Deliveries:
    """The counts of the subscriptions that are open."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._subscriptions = self._offsets = 0
        self.taken_s = Histogram(SECONDS)
        """How long chunks waited until their subscriber took them."""
        self._open: defaultdict[PartitionId, dict[str, Delivery]] = defaultdict(dict)

    def begin(self) -> str:
        """A name for a subscription, of which each partition is noted with `note`. `left` ends it."""
        self._subscriptions += 1
        return f"watch {next(self._numbers)}"

    def left(self) -> None:
        """A subscription that had begun is over."""
        self._subscriptions -= 1

    def taken(self, offsets: int, waited_s: float) -> None:
        """A subscriber has taken a chunk of so many offsets, which had waited for it."""
        self._offsets += offsets
        self.taken_s.observe(waited_s)

    def counts(self) -> DeliveryCounts:
        """What was counted so far."""
        return DeliveryCounts(self._subscriptions, self._offsets)

    def note(self, name: str, delivery: Delivery) -> None:
        """A partition of a subscription has begun."""
        self._open[delivery.partition][name] = delivery

    def is_traced(self, partition: PartitionId, name: str) -> bool:
        """Is this one of the subscriptions whose deliveries have spans in the traces of what is delivered?"""
        return name in islice(self._open.get(partition, ()), TRACED_SUBSCRIPTIONS_MAX)

    def end(self, name: str, delivery: Delivery) -> None:
        """It has ended. Idempotent."""
        found = self._open.get(delivery.partition)
        if found is not None and found.pop(name, None) is not None and not found:
            del self._open[delivery.partition]

    def of(self, partition: PartitionId) -> Iterator[tuple[str, PartitionTally]]:
        """The tally of each subscription to a partition, by name, without those that were given nothing yet."""
        for name, delivery in list(self._open.get(partition, {}).items()):
            tally = delivery.tally()
            if tally.periods:
                yield name, tally


def headers_of(data: bytes) -> list[BatchHeader]:
    """The headers of a run of whole batches, unchecked. Some 1 µs each. Raises `BatchRefused`."""
    found: list[BatchHeader] = []
    at = 0
    while at < len(data):
        header = read_header(data, at)
        found.append(header)
        at += header.length
    return found


def _parts(data: bytes, partition: PartitionId, after: Offset) -> list[BatchHeader]:
    place = place_of(partition)
    return [part for batch in split_batches(data) for part in counted_parts(decode_batch(batch, place), (after,))]
