"""Is an index of the history that its log holds? The batch at its applied offset is read, and compared.

A log that was put back from an older copy and then written on has other batches at offsets that an index has folded
already. Such an index holds keys that the log never held, and lacks those that were written in between; nothing in it
shows that. What the index keeps of its last batch (`serving_tier.fold.last_batch`) does.

A log may also have given offsets up in a repair (`log_tier.embedded.repair`), and says so with its bounds. An index
that has applied the first of them, and not the record that ended the repair, may hold what the log gave up. It is of
another history as well, although its last batch may be the log's.

Without a batch to compare, an index is trusted: an index of format version 1 until its first fold, or one whose last
batch was trimmed, removed by compaction, or cannot be read. Two histories that lead to a batch of the same producer,
sequence and time at the applied offset are not distinguished.
"""

from __future__ import annotations

import logging
from contextlib import aclosing
from typing import Final

from log_tier.model.batch import decode_batch
from log_tier.model.batch_cut import cut_run
from log_tier.model.batch_header import place_of, read_header, split_batches
from log_tier.model.errors import BatchRefused, IndexDiverged, LogDamaged, OffsetTrimmed, UnknownFormat
from log_tier.model.identifiers import Offset, PartitionId
from log_tier.model.log import Bounds, Log
from serving_tier.fold.last_batch import LastBatch

__all__ = ["check_history", "is_surely_the_same", "may_differ"]

logger = logging.getLogger(__name__)

# One batch is wanted; a chunk holds whole ones, so this many bytes bring it and little more.
_CHUNK_BYTES: Final = 4096


def is_surely_the_same(last: LastBatch | None, applied: Offset, bounds: Bounds) -> bool:
    """Can `check_history` be left until more of the log is folded? Where the index ends with the log, and the log's
    newest batch has the time of the index's. O(1), nothing is read.
    """
    if bounds.may_hold_given_up(applied):
        return False
    return last is None or (applied == bounds.latest and bounds.newest_ms == last.timestamp_ms > 0)


def may_differ(last: LastBatch | None, applied: Offset, bounds: Bounds) -> bool:
    """Must `check_history` come before the first read? Where the index ends with the log, nothing that is read of the
    log would lead to it, and the log's newest batch has another time than the index's; and where the index may hold
    what the log gave up.
    """
    if bounds.may_hold_given_up(applied):
        return True
    return last is not None and applied == bounds.latest and bounds.newest_ms not in (0, last.timestamp_ms)


async def check_history(
    log: Log, partition: PartitionId, *, applied: Offset, last: LastBatch | None, name: str
) -> None:
    """Raise `IndexDiverged` where the log holds another batch at `applied` than `last`, or has given up in a repair
    what is folded there. One question for the bounds, one read of one batch.

    `name`: what is compared, for people. Raises what keeps the log from being read now.
    """
    bounds = await log.bounds(partition)
    if bounds.may_hold_given_up(applied):
        raise IndexDiverged(
            f"{name} has applied {applied}, and offsets from {bounds.given_up} on were given up in a repair of the "
            f"log, which ended with offset {bounds.mended}: it may hold records that the log does not have any more. "
            "The index is discarded: what the log holds now is served",
            offset=applied,
        )
    if last is None:
        return
    theirs = await _batch_at(log, partition, last.base_offset, applied, name)
    if theirs is not None and last.differs(theirs):
        raise IndexDiverged(
            f"{name} has folded a batch that is not in its log: it has applied {applied}, with {_described(last)}, and "
            f"the log holds {_described(theirs)} there. The log was put back from an older copy and written on, so "
            "acknowledged records are gone from it. The index is discarded: what the log holds now is served",
            offset=applied,
        )


async def _batch_at(log: Log, partition: PartitionId, base: Offset, applied: Offset, name: str) -> LastBatch | None:
    """Of the batch with `applied`, up to there; None where it cannot be had."""
    for start in (base, applied):
        try:
            return await _read(log, partition, start, applied)
        except OffsetTrimmed:
            continue
        except (BatchRefused, LogDamaged, UnknownFormat) as error:
            logger.warning("%s at %s is not compared with its log: %s", name, applied, error)
            return None
    return None


async def _read(log: Log, partition: PartitionId, start: Offset, applied: Offset) -> LastBatch | None:
    place = place_of(partition)
    async with aclosing(log.read(partition, start, follow=False, chunk_bytes=_CHUNK_BYTES)) as chunks:
        async for chunk in chunks:
            for batch in split_batches(chunk.data):
                header = read_header(batch)
                if header.last_offset < applied:
                    continue
                if header.base_offset > applied:
                    return None
                found = LastBatch.of(decode_batch(cut_run(batch, applied, place), place))
                # The time of a run of foreign records is that of the newest one, which may lie behind the cut.
                return found if header.last_offset == applied else found._replace(timestamp_ms=0)
    return None


def _described(batch: LastBatch) -> str:
    return (
        f"a batch from {batch.base_offset} on, of {batch.timestamp_ms} ms, of producer {batch.producer_id:x} at "
        f"sequence {batch.sequence}"
    )
