"""Batches are checked and cut into record sets before they are queued: small ones on the event loop, large ones in a
thread.

A check and a cut take up to 13 ns a byte, 200 ms for a batch of 16 MiB of short records.

Invariant: the batches of a partition come to the sender in the order of the calls (`OrderedThread`): a producer's later
batch that overtook an earlier one would have it judged a repetition.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import Final, NamedTuple

from log_tier.concurrency.sized_work import OrderedThread
from log_tier.kafka.cluster.known_topic import KnownTopic
from log_tier.kafka.records.encoding import RecordSet, cut_sets
from log_tier.kafka.writing.send_queue import SetPlace
from log_tier.kafka.writing.sender import Sender
from log_tier.model.batch import Columns, check_batch, decode_batch
from log_tier.model.batch_header import decoded_bytes, stamp_batch
from log_tier.model.errors import BatchRefused, DuramenError, InvalidRequest, ShuttingDown
from log_tier.model.identifiers import Offset, Partition
from log_tier.model.record import GROUPED, OPERATION_MASK, Operation

__all__ = ["AT_ONCE_BYTES_MAX", "AT_ONCE_PARTS_MAX", "BatchCuts", "Outgone", "SendPart"]

AT_ONCE_BYTES_MAX: Final = 128 << 10
"""Bytes of batches that one call has cut on the event loop: 1.7 ms at most."""

AT_ONCE_PARTS_MAX: Final = 100
"""Batches that one call has cut on the event loop, some 20 µs each."""

_UNCONDITIONAL: Final = frozenset({int(Operation.PUT), int(Operation.DELETE), int(Operation.NOOP)})


class SendPart(NamedTuple):
    """A batch, and where it goes."""

    known: KnownTopic
    partition: Partition
    batch: bytes


Outgone = list[asyncio.Future[SetPlace]] | DuramenError
"""A future for each set of a batch, or why it was not queued."""

_Cut = list[list[RecordSet] | DuramenError]


class BatchCuts:
    """What cuts the batches of one log, and the thread for large ones. Safe from any event loop."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self._large: OrderedThread[tuple[str, Partition]] = OrderedThread("duramen-kafka-cut")

    def send(self, parts: Sequence[SendPart]) -> Awaitable[list[Outgone]]:
        """Queue batches; each is queued or fails by itself, in its place.

        Those of a call that is cancelled while they are cut are queued none the less.
        """
        sent: asyncio.Future[list[Outgone]] = asyncio.get_running_loop().create_future()
        keys = [(part.known.kafka_name, part.partition) for part in parts]
        if (
            len(parts) <= AT_ONCE_PARTS_MAX
            and sum(decoded_bytes(part.batch) for part in parts) <= AT_ONCE_BYTES_MAX
            and (not self._large.pending or self._large.is_free(keys))
        ):
            sent.set_result(self._queued(parts, _cut(parts)))
            return sent
        try:
            self._large.run(keys, partial(_cut, parts), partial(self._queue, parts, sent))
        except RuntimeError:  # the thread has ended
            closing = ShuttingDown("the log is closing; open it again, or use another replica")
            sent.set_result([closing.as_value() for _ in parts])
        return sent

    def _queue(
        self, parts: Sequence[SendPart], sent: asyncio.Future[list[Outgone]], cutting: asyncio.Future[_Cut]
    ) -> None:
        try:
            queued = self._queued(parts, cutting.result())
        except BaseException as error:
            if not sent.done():
                sent.set_exception(error)
            raise
        if not sent.done():
            sent.set_result(queued)
            return
        for waiting in queued:
            for each in waiting if isinstance(waiting, list) else ():
                each.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody asks for it

    def _queued(self, parts: Sequence[SendPart], cut: _Cut) -> list[Outgone]:
        queued: list[Outgone] = []
        for (known, partition, _), sets in zip(parts, cut, strict=True):
            if isinstance(sets, DuramenError):
                queued.append(sets)
                continue
            try:
                queued.append(self._sender.append(known.kafka_name, partition, sets, size_max=known.set_bytes_max))
            except DuramenError as error:
                queued.append(error.as_value())
        return queued

    def close(self) -> None:
        """End the thread; what it was given is cut and queued first. Blocks."""
        self._large.close()


def _cut(parts: Sequence[SendPart]) -> _Cut:
    cut: _Cut = []
    for part in parts:
        try:
            cut.append(_sets_of(part))
        except DuramenError as error:
            cut.append(error.as_value())
    return cut


def _sets_of(part: SendPart) -> list[RecordSet]:
    known, _, batch = part
    header = check_batch(batch)
    if header.span != header.records:
        raise BatchRefused(f"a batch for Kafka has a record at each of its {header.span} offsets, not on some")
    columns = decode_batch(stamp_batch(batch, base_offset=Offset(0), timestamp_ms=0, unsynced=0)).columns
    if known.compacted:
        _check_compactable(columns, known)
    return list(
        cut_sets(columns, producer_id=header.producer_id, sequence=header.sequence, size_max=known.set_bytes_max)
    )


def _check_compactable(columns: Columns, known: KnownTopic) -> None:
    for attribute in sorted(set(columns.attributes or ())):
        if attribute & ~OPERATION_MASK or attribute & OPERATION_MASK not in _UNCONDITIONAL or attribute & GROUPED:
            raise InvalidRequest(
                f"Kafka compacts the topic {known.kafka_name}, so it takes plain puts and deletes only: what a "
                "condition, an update or an expiry rests on may be gone when a replica is built anew"
            )
