"""What the log holds, counted as replicas count it: its batches are read again, and their checksums checked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any, Final

from log_tier.model.batch import decode_batch
from log_tier.model.batch_header import BatchHeader, check_stored, place_of, split_batches
from log_tier.model.identifiers import Offset, PartitionId
from log_tier.model.log import Log
from log_tier.tally.count import count_pieces
from log_tier.tally.missing import find_missing
from log_tier.tally.parts import counted_parts, is_counted_whole
from log_tier.tally.period import Period

__all__ = ["BATCHES_SEARCHED_MAX", "count_log", "headers_between", "locate_missing"]

BATCHES_SEARCHED_MAX: Final = 200_000
"""Batches among which a difference is looked for: some 60 MB of headers. Beyond it, the whole minute is named."""


async def count_log(
    log: Log,
    partition: PartitionId,
    start: Offset,
    ends: Sequence[Offset],
    *,
    log_time_ms: int = 0,
    until: Offset | None = None,
) -> list[Period]:
    """Pieces from `start` up to `until`, or the log's present end, cut at minutes and behind each of `ends`. Some 2 µs
    a batch, and the reading of its bytes; in a thread. `log_time_ms`: the largest timestamp before `start`, if known.

    Raises as `Log.read` does, and `BatchRefused` for a batch whose checksum is wrong.
    """
    pieces: list[Period] = []
    final = frozenset(ends)
    position = start
    async with aclosing(_headers(log, partition, start, ends)) as chunks:
        async for headers in chunks:
            for piece in count_pieces(headers, start=position, ends=ends, log_time_ms=log_time_ms):
                if pieces and pieces[-1].minute == piece.minute and pieces[-1].last not in final:
                    pieces[-1] = pieces[-1].joined(piece)
                else:
                    pieces.append(piece)
            position = Offset(headers[-1].last_offset + 1)
            log_time_ms = max(log_time_ms, *(header.timestamp_ms for header in headers))
            if until is not None and position > until:
                break
    return pieces


async def headers_between(log: Log, partition: PartitionId, start: Offset, last: Offset) -> list[BatchHeader]:
    """The headers of the batches from the one with `start` to the one with `last`, their checksums checked."""
    found: list[BatchHeader] = []
    async with aclosing(_headers(log, partition, start, ())) as chunks:
        async for headers in chunks:
            found += headers
            if headers[-1].last_offset >= last:
                break
    return found


async def locate_missing(
    log: Log, partition: PartitionId, written: Period, counted: Period | None
) -> tuple[Offset, Offset] | None:
    """The run of offsets that explains why `counted` is not `written`; see `find_missing`. It is read again."""
    found: list[BatchHeader] = []
    async with aclosing(_headers(log, partition, written.first, None)) as chunks:
        async for headers in chunks:
            found += headers
            if headers[-1].last_offset >= written.last:
                break
            if len(found) > BATCHES_SEARCHED_MAX:
                return None
    return await asyncio.to_thread(find_missing, found, written=written, counted=counted)


async def _headers(log: Log, partition: PartitionId, start: Offset, ends: Sequence[Offset] | None) -> Any:
    """The headers of the batches of each chunk, none empty, from the batch with `start` on. A batch whose cut the fetch
    decided is cut behind each of `ends`; None: at each offset.
    """
    place = place_of(partition)

    def checked(data: bytes) -> list[BatchHeader]:
        found: list[BatchHeader] = []
        for batch in split_batches(data):
            header = check_stored(batch, place)
            if is_counted_whole(header):
                found.append(header)
            else:
                within = range(header.base_offset, header.last_offset) if ends is None else ends
                found += counted_parts(decode_batch(batch, place), map(Offset, within))
        return found

    reader: Any = log.read(partition, start, follow=False)
    async with aclosing(reader) as chunks:
        async for chunk in chunks:
            yield await asyncio.to_thread(checked, chunk.data)
