"""The last writes of one key, from the log itself: a search from its end towards its beginning, up to a limit.

A log reads forwards only. So the search reads windows of offsets, each twice as wide as the one before it, and takes
the last matches of each window first. A thread decodes what was read, some 60 ns a record.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any, Final, NamedTuple

from log_tier.model.batch import decode_batch
from log_tier.model.batch_header import COMPRESSION_MASK, Place, place_of, read_header, split_batches
from log_tier.model.errors import OffsetTrimmed
from log_tier.model.identifiers import Offset, PartitionId
from log_tier.model.log import Bounds, Log
from log_tier.model.record import GROUPED, OPERATION_MASK, Operation
from router.admin.answers.record_texts import condition_text, expiry_text

__all__ = ["SEARCHED_MAX", "FoundWrite", "KeyTail", "last_writes"]

# A million records of 100 bytes are some 2 s of reading and decoding.
SEARCHED_MAX: Final = 1_000_000

_WINDOW_FIRST: Final = 2048


class FoundWrite(NamedTuple):
    """One record of the key."""

    offset: Offset
    timestamp_ms: int
    operation: str
    value: bytes
    condition: str
    """"none", "absent", "present" or "version N"."""
    expiry: str
    """"none", "keep", "ttl … ms" or "at … ms"."""
    grouped: bool
    """It belongs to the atomic group of the record before it."""
    producer_id: int
    base_offset: Offset
    """The first offset of the record's batch; `last_offset` is the last one. A question for the verdict names both."""
    last_offset: Offset


class KeyTail(NamedTuple):
    """The writes that a search found, the newest first, and how far back it looked."""

    writes: list[FoundWrite]
    searched_from: Offset
    """The lowest offset that was looked at; one above the end where the log is empty."""


async def last_writes(
    log: Log,
    partition: PartitionId,
    key: bytes,
    bounds: Bounds,
    *,
    limit: int,
    searched_max: int = SEARCHED_MAX,
) -> KeyTail:
    """The last `limit` records of `key`, as far as they are among the last `searched_max` offsets of the log.

    Raises as `Log.read` does; a log that is trimmed meanwhile ends the search.
    """
    lowest = max(bounds.earliest, bounds.latest - searched_max + 1)
    found: list[FoundWrite] = []
    end, width = bounds.latest + 1, _WINDOW_FIRST
    while end > lowest and len(found) < limit:
        start = max(lowest, end - width)
        try:
            window = await _window(log, partition, key, Offset(start), Offset(end))
        except OffsetTrimmed:
            break
        found.extend(reversed(window))
        end, width = start, width * 2
    return KeyTail(found[:limit], Offset(end))


async def _window(log: Log, partition: PartitionId, key: bytes, start: Offset, end: Offset) -> list[FoundWrite]:
    found: list[FoundWrite] = []
    place = place_of(partition)
    reader: Any = log.read(partition, start, follow=False)
    async with aclosing(reader) as chunks:
        async for chunk in chunks:
            reached, writes = await asyncio.to_thread(_search, chunk.data, place, key, start, end)
            found.extend(writes)
            if reached:
                break
    return found


def _search(data: bytes, place: Place, key: bytes, start: Offset, end: Offset) -> tuple[bool, list[FoundWrite]]:
    """The key's records from `start` to before `end`, and whether the chunk reaches `end`."""
    found: list[FoundWrite] = []
    for stored in split_batches(data):
        header = read_header(stored)
        if header.base_offset >= end:
            return True, found
        if key not in stored and not header.flags & COMPRESSION_MASK:
            continue
        batch = decode_batch(stored, place)
        columns = batch.columns
        if key not in columns.keys:
            continue
        offsets = batch.offsets()
        for number, each in enumerate(columns.keys):
            if each != key or not start <= offsets[number] < end:
                continue
            attribute = Operation.PUT if columns.attributes is None else columns.attributes[number]
            operation = attribute & OPERATION_MASK
            if operation == Operation.NOOP:
                continue
            found.append(
                FoundWrite(
                    Offset(offsets[number]),
                    header.timestamp_ms,
                    Operation(operation).name.lower(),
                    bytes(columns.values[number]),
                    condition_text(attribute, 0 if columns.versions is None else columns.versions[number]),
                    expiry_text(attribute, 0 if columns.expiries is None else columns.expiries[number]),
                    bool(attribute & GROUPED),
                    header.producer_id,
                    header.base_offset,
                    header.last_offset,
                )
            )
    return False, found
