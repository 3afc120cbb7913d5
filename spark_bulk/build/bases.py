"""Where a build joins the live log: for each partition an offset, and the log's time there.

    no token   the end of the log, now: the build's content counts as everything that was written so far
    a token    its offsets: the content was computed from what the log said up to there

The record after a partition's offset is the first that is replayed onto what is built. An offset is 0 or higher,
because it is the version of the rows, and a version says which record wrote last: an empty partition gets one no-op.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final

from log_tier.model.batch import Columns, encode_batch
from log_tier.model.batch_header import read_header, split_batches
from log_tier.model.errors import DeadlineExceeded, DuramenError, InvalidToken, OffsetTrimmed, Unavailable, WriteUnknown
from log_tier.model.identifiers import NOTHING, Offset, Partition
from log_tier.model.log import Bounds, Log
from log_tier.model.record import Operation
from spark_bulk.build.index_writer import Base
from spark_bulk.source.model.table_place import TablePlace, opened_log, token_offsets

__all__ = ["find_bases", "log_time_at"]

# How far below an offset its log time is looked for, where compaction left nothing at the offset itself; then further.
_LOOK_BACK: Final = 64
_LOOK_BACK_GROWTH: Final = 16

_NOOP: Final = encode_batch(Columns([b""], [b""], attributes=[int(Operation.NOOP)]))


async def find_bases(place: TablePlace, token: str | None, *, timeout_s: float) -> tuple[Base, ...]:
    """The base of every partition, by partition. Two questions to the log for each, three where it is empty.

    Raises `InvalidToken` for one of another table, or that says nothing of a partition that has records;
    `TokenAhead`, `OffsetTrimmed` where the log does not go on behind it; `DeadlineExceeded`.
    """
    try:
        async with asyncio.timeout(timeout_s), opened_log(place) as log:
            bounds = await log.all_bounds(place.topic.id)
            seen = token_offsets(token, place, bounds) if token is not None else None
            empty = [each for each in place.partitions if _last(place, bounds[each], each) < 0]
            if empty:
                if seen is not None:
                    _check_named(place, seen, bounds)
                begun = await _begin(log, place, empty)
                bounds = await log.all_bounds(place.topic.id)
                seen = {**seen, **begun} if seen is not None else None
            offsets = _offsets(place, seen, bounds)
            times = await asyncio.gather(
                *(
                    log_time_at(log, place, each, offset, bounds[each].earliest)
                    for each, offset in zip(place.partitions, offsets, strict=True)
                )
            )
    except TimeoutError as error:
        if isinstance(error, DuramenError):
            raise
        raise DeadlineExceeded(f"the log at {place.named_log} did not answer within {timeout_s:g} s") from error
    return tuple(Base(offset, time, start) for offset, time, start in zip(offsets, times, place.starts, strict=True))


def _last(place: TablePlace, bounds: Bounds, partition: Partition) -> Offset:
    """The last offset that there was; what is below the table's start counts as seen."""
    return Offset(max(bounds.latest, place.starts[partition] - 1))


async def _begin(log: Log, place: TablePlace, empty: Sequence[Partition]) -> dict[Partition, Offset]:
    """Append one no-op to each of these partitions; those of which it is the very first record."""
    outcomes = await log.append_many([(place.topic.partition(each), _NOOP) for each in empty])
    begun: dict[Partition, Offset] = {}
    for each, outcome in zip(empty, outcomes, strict=True):
        if isinstance(outcome, WriteUnknown):
            # Where it is not in the log, the partition is empty still, and the caller says so.
            continue
        if isinstance(outcome, DuramenError):
            raise outcome
        if outcome.base_offset == 0:
            begun[each] = outcome.base_offset
    return begun


def _offsets(place: TablePlace, seen: Mapping[Partition, Offset] | None, bounds: Sequence[Bounds]) -> list[Offset]:
    if seen is None:
        offsets = [_last(place, bounds[each], each) for each in place.partitions]
        for each, offset in zip(place.partitions, offsets, strict=True):
            if offset < 0:
                raise Unavailable(
                    f"the log did not say whether it took a first record for {place.named(each)}, and has none: "
                    "try again",
                    partition=each,
                )
        return offsets
    _check_named(place, seen, bounds)
    offsets = [Offset(max(seen.get(each, NOTHING), place.starts[each] - 1)) for each in place.partitions]
    for each, offset in zip(place.partitions, offsets, strict=True):
        if offset + 1 < bounds[each].earliest:
            raise OffsetTrimmed(
                f"the token names offset {offset} of {place.named(each)}, and the log begins at "
                f"{bounds[each].earliest}: what is between cannot be replayed; compute the data from a later token",
                partition=each,
                asked=offset,
                earliest=bounds[each].earliest,
            )
    return offsets


def _check_named(place: TablePlace, seen: Mapping[Partition, Offset], bounds: Sequence[Bounds]) -> None:
    """Raise `InvalidToken` where a token says nothing of a partition that has records."""
    unnamed = [
        each
        for each in place.partitions
        if seen.get(each, NOTHING) < 0 <= bounds[each].latest and place.starts[each] <= bounds[each].latest
    ]
    if unnamed:
        raise InvalidToken(
            f"the token says nothing of {len(unnamed)} partitions of {place.topic.name} that have records, the first "
            f"is {unnamed[0]}: a build goes on behind an offset in every partition; use a token that names all of "
            "them, or none for the end of the log",
            partition=unnamed[0],
        )


async def log_time_at(log: Log, place: TablePlace, partition: Partition, offset: Offset, earliest: Offset) -> int:
    """The timestamp of the last record at or below `offset`, which is the log's time there; 0 where all that was
    there is trimmed. Usually one read of one batch.
    """
    begin, back = offset, _LOOK_BACK
    while offset >= earliest:
        found = await _last_time(log, place, partition, begin, offset)
        if found is not None or begin == earliest:
            return found or 0
        begin = Offset(max(earliest, offset - back))
        back *= _LOOK_BACK_GROWTH
    return 0


async def _last_time(log: Log, place: TablePlace, partition: Partition, begin: Offset, until: Offset) -> int | None:
    time = None
    reader: Any = log.read(place.topic.partition(partition), begin, follow=False, chunk_bytes=1)
    async with aclosing(reader) as chunks:
        async for chunk in chunks:
            for header in map(read_header, split_batches(chunk.data)):
                if header.base_offset > until:
                    return time
                # A log in Kafka has offsets without a record, and so without a time: the marks of transactions.
                time = header.timestamp_ms or time
                if header.last_offset >= until:
                    return time
    return time
