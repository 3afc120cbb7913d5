"""What a client's writes came to: the records that were acknowledged, to be compared with what the log holds of them.

A log has other writers, so offsets alone do not tell what a client wrote. But each batch has its producer and a
sequence, which no retry changes and which the log keeps. So a **run** of acknowledged batches whose sequences follow
each other has a count and a checksum, `body checksum × (2 × sequence + 1)` summed modulo 2^64, which the log's batches
of that producer must have, too, whether they were written once or twice.

What was not acknowledged is in no run, and the log may have it or not: the next run begins behind it.

Pure. Comparing takes the log's batches from below the first run on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from log_tier.model.batch_header import BatchHeader, read_header
from log_tier.model.identifiers import NOTHING, Offset, PartitionId
from log_tier.tally.period import CHECKSUM_MASK, MINUTE_MS

__all__ = ["AckRun", "Acknowledgement", "RunFound", "find_runs", "joined_runs"]

Acknowledgement = tuple[PartitionId, bytes, Offset, int, bool]
"""A batch that was acknowledged: its partition, its first 64 bytes at least, its first offset, its timestamp (0: not
known), and whether it had been sent before, so that another copy may be the one that counts."""


class AckRun(NamedTuple):
    """Acknowledged batches of one producer in one partition, in one minute."""

    partition: PartitionId
    producer: int
    minute: int
    """Of the log, since 1970; 0: not known."""
    first: Offset
    """No copy that counts lies below it."""
    last: Offset
    sequence: int
    """Of the first record."""
    records: int
    checksum: int


def joined_runs(before: AckRun | None, batch: Acknowledgement) -> tuple[AckRun, bool]:
    """A run with one more batch, and whether that is the run `before`, or a new one."""
    partition, data, base, timestamp_ms, repeated = batch
    header = read_header(data)
    last = Offset(base + header.records - 1)
    minute = timestamp_ms // MINUTE_MS or (0 if before is None else before.minute)
    if before is not None and minute == before.minute and header.sequence == before.sequence + before.records:
        # Not `_replace`, which takes as long as all the rest: this is done for each batch of a client.
        records = before.records + header.records
        checksum = (before.checksum + header.checksum * (2 * header.sequence + 1)) & CHECKSUM_MASK
        newest = max(before.last, last)
        return AckRun(
            partition, before.producer, minute, before.first, newest, before.sequence, records, checksum
        ), True
    # The copy that counts of one that was sent twice may lie anywhere behind what was acknowledged before.
    first = base if not repeated else Offset(0 if before is None else before.last + 1)
    checksum = _weight(header) & CHECKSUM_MASK
    return AckRun(partition, header.producer_id, minute, first, last, header.sequence, header.records, checksum), False


class RunFound(NamedTuple):
    """What the log holds of a run."""

    run: AckRun
    records: int
    checksum: int
    first: Offset
    """The first offset of these records; -1: there are none."""
    last: Offset
    lacks: tuple[Offset, Offset] | None
    """Where something is missing: the offsets between which it should lie, themselves included."""

    def is_equal(self, *, by_checksum: bool = True) -> bool:
        """Are all acknowledged records there, and no others? `by_checksum`: not on Kafka, where a batch may be cut."""
        return self.records == self.run.records and (not by_checksum or self.checksum == self.run.checksum)


def find_runs(headers: Iterable[BatchHeader], runs: Sequence[AckRun]) -> list[RunFound]:
    """What a log's batches, from below the first run on, hold of each of the runs, all of one partition. A second copy
    of a batch does not count. O(batches + runs).
    """
    by_producer: dict[int, list[AckRun]] = {}
    for run in runs:
        by_producer.setdefault(run.producer, []).append(run)
    batches: dict[int, list[BatchHeader]] = {producer: [] for producer in by_producer}
    for header in headers:
        own = batches.get(header.producer_id)
        if own is not None and (not own or header.sequence > own[-1].sequence):
            own.append(header)
    return [_found(run, batches[run.producer]) for run in runs]


def _found(run: AckRun, batches: Sequence[BatchHeader]) -> RunFound:
    records = checksum = 0
    first = last = NOTHING
    lacks: tuple[Offset, Offset] | None = None
    wanted, end = run.sequence, run.sequence + run.records
    for header in _within(batches, run.sequence, end):
        if header.sequence > wanted and lacks is None:
            lacks = Offset(run.first if last == NOTHING else last + 1), Offset(header.base_offset - 1)
        records += header.span
        checksum += _weight(header)
        first = header.base_offset if first == NOTHING else first
        last, wanted = header.last_offset, header.sequence + header.span
    if wanted < end and lacks is None:
        lacks = Offset(run.first if last == NOTHING else last + 1), run.last
    return RunFound(run, records, checksum & CHECKSUM_MASK, first, last, lacks)


def _within(batches: Sequence[BatchHeader], begin: int, end: int) -> Iterator[BatchHeader]:
    return (header for header in batches if begin <= header.sequence < end)


def _weight(header: BatchHeader) -> int:
    return header.checksum * (2 * header.sequence + 1)
