"""The log read back: through the servers, and by itself."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Iterable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final

from duramen.verification.history import LogRecord, text_of
from log_tier.concurrency.backoff import Backoff
from log_tier.model.batch import decode_batch
from log_tier.model.batch_header import place_of, split_batches
from log_tier.model.errors import DuramenError, OffsetTrimmed
from log_tier.model.identifiers import Offset, Partition, PartitionId
from log_tier.model.log import Log
from log_tier.model.record import (
    CONDITION_SHIFT,
    EXPIRY_SHIFT,
    GROUPED,
    OPERATION_MASK,
    Condition,
    Expiry,
    Operation,
)
from log_tier.model.table_ref import TableRef
from log_tier.model.tokens import Token
from log_tier.open import open_log
from router.data.seam import DataPlane

__all__ = [
    "HEAL_S",
    "SILENCE_S",
    "differences",
    "join_dropped",
    "read_log",
    "read_open_log",
    "read_served_log",
    "records_of",
    "tell_void",
    "void_records",
]

HEAL_S: Final = 60.0
"""After the faults everything is alive again, and a restart is over in seconds."""

SILENCE_S: Final = 20.0
"""A watch shows what is in the log within milliseconds. After so long without a word, what was acknowledged and is not
shown is in no log, and the checker says so."""

_PAUSE_FIRST_S: Final = 0.1
_PAUSE_MAX_S: Final = 1.0

# People read the first few, and one is enough.
_DIFFERENCES_MAX: Final = 20


async def read_served_log(connection: DataPlane, ref: TableRef, end: Token) -> list[LogRecord]:
    """Every record of the table up to `end`, by partition and offset, as a watch gives them; void ones are marked.

    Where the log ends before `end`, or begins later than with its first record, so does this, and the checker says what
    is missing. Raises what does not pass within `HEAL_S`.
    """
    wanted = dict(end.offsets(ref.id))
    found: list[LogRecord] = []
    positions = {partition: Offset(0) for partition in wanted}
    backoff = Backoff(_PAUSE_FIRST_S, _PAUSE_MAX_S, deadline_s=asyncio.get_running_loop().time() + HEAL_S)
    while any(positions[partition] <= offset for partition, offset in wanted.items()):
        try:
            events: Any = connection.watch(ref.id, positions)
            async with aclosing(events) as following, asyncio.timeout(SILENCE_S) as silence:
                async for event in following:
                    silence.reschedule(asyncio.get_running_loop().time() + SILENCE_S)
                    partition = event.partition
                    records = records_of(ref.partition(partition), event.batches, frozenset(event.void_offsets))
                    records = [record for record in records if record.offset >= positions[partition]]
                    found += [record for record in records if record.offset <= wanted[partition]]
                    if records:
                        positions[partition] = Offset(records[-1].offset + 1)
                    if all(positions[partition] > offset for partition, offset in wanted.items()):
                        break
        except OffsetTrimmed as error:
            partition, earliest = Partition(int(error.fields["partition"])), Offset(int(error.fields["earliest"]))
            if earliest <= positions[partition]:
                raise
            positions[partition] = earliest
            found = [record for record in found if record.partition != partition or record.offset >= earliest]
        except DuramenError as error:
            if not error.retryable or not await backoff.pause():
                raise
        except TimeoutError:
            break
    found.sort(key=lambda record: (record.partition, record.offset))
    return found


async def read_log(url: str, ref: TableRef, end: Token) -> list[LogRecord]:
    """Every record of the table up to `end`, from the log itself, which does not know what is void. Raises what opening
    and reading it does.
    """
    log = await open_log(url)
    try:
        return await read_open_log(log, ref, end)
    finally:
        await log.close()


async def read_open_log(log: Log, ref: TableRef, end: Token) -> list[LogRecord]:
    """`read_log`, of a log that is open. Raises what reading it does."""
    found: list[LogRecord] = []
    for partition, last in sorted(end.offsets(ref.id).items()):
        found += await _read_partition(log, ref.partition(partition), last)
    return found


async def _read_partition(log: Any, partition: PartitionId, last: Offset) -> list[LogRecord]:
    found: list[LogRecord] = []
    position: Offset | None = None
    backoff = Backoff(_PAUSE_FIRST_S, _PAUSE_MAX_S, deadline_s=asyncio.get_running_loop().time() + HEAL_S)
    while True:
        try:
            if position is None:
                position = (await log.bounds(partition)).earliest
            async with aclosing(log.read(partition, position, follow=False)) as chunks:
                async for chunk in chunks:
                    records = [record for record in records_of(partition, chunk.data) if record.offset >= position]
                    found += [record for record in records if record.offset <= last]
                    if records:
                        position = Offset(records[-1].offset + 1)
            return found  # where it ends too early, the checker says what is missing
        except DuramenError as error:
            if not error.retryable or not await backoff.pause():
                raise


def join_dropped(dropped: Iterable[LogRecord], log: Iterable[LogRecord]) -> list[LogRecord]:
    """The log with what a trim has taken from its beginning; of dropped ones nobody says whether they are void."""
    whole = {(record.partition, record.offset): replace(record, void=None) for record in dropped}
    whole |= {(record.partition, record.offset): record for record in log}
    return [whole[place] for place in sorted(whole)]


def void_records(kept: Iterable[LogRecord], log: Sequence[LogRecord]) -> set[tuple[int, int]]:
    """The places of those kept records that a compaction may have dropped: the log lacks them, and they are no-ops, or
    second copies, or the log has a later write of their key that asks for nothing and is no second copy. `kept`: from
    the first record of each partition on, without gaps.
    """
    kept = list(kept)
    held = {(record.partition, record.offset) for record in log}
    copies = _second_copies([*kept, *log])
    last: dict[tuple[int, str], int] = {}
    for record in log:
        if (record.partition, record.offset) in copies:
            continue
        if record.operation in ("put", "delete") and not record.condition:
            place = (record.partition, record.key)
            last[place] = max(last.get(place, -1), record.offset)
    return {
        (record.partition, record.offset)
        for record in kept
        if (record.partition, record.offset) not in held
        and (
            record.operation == "noop"
            or (record.partition, record.offset) in copies
            or record.offset < last.get((record.partition, record.key), -1)
        )
    }


def _second_copies(records: Iterable[LogRecord]) -> set[tuple[int, int]]:
    """The places of those whose producer has used their sequence before."""
    found: set[tuple[int, int]] = set()
    newest: dict[tuple[int, int], tuple[int, int]] = {}
    for record in sorted(records, key=lambda each: (each.partition, each.offset)):
        used, at = newest.get((record.partition, record.producer), (-1, -1))
        if record.sequence > used:
            newest[record.partition, record.producer] = record.sequence, record.offset
        elif record.producer and record.offset != at:
            found.add((record.partition, record.offset))
    return found


def tell_void(log: list[LogRecord], served: list[LogRecord]) -> None:
    """The log does not know which of its records changed nothing; the servers say so, as far back as they know it."""
    void = {(record.partition, record.offset): record.void for record in served}
    for record in log:
        record.void = record.void or void.get((record.partition, record.offset))


def differences(served: Sequence[LogRecord], log: Sequence[LogRecord], *, trimmed: bool = False) -> list[str]:
    """What the servers gave otherwise than the log holds it, as sentences; the first few.

    `trimmed`: the log loses its beginning meanwhile, so what only one of them holds below the other's first record is
    no difference.
    """
    given = {(record.partition, record.offset): replace(record, void=False) for record in served}
    held = {(record.partition, record.offset): replace(record, void=False) for record in log}
    if trimmed:
        first = {
            partition: max(
                # One that holds nothing has lost everything.
                min((offset for number, offset in each if number == partition), default=math.inf)
                for each in (given, held)
            )
            for partition in {number for number, _ in (*given, *held)}
        }
        given, held = (
            {place: record for place, record in each.items() if place[1] >= first[place[0]]} for each in (given, held)
        )
    return [
        f"{partition}@{offset}: a server gave {given.get((partition, offset))}, the log holds "
        f"{held.get((partition, offset))}"
        for partition, offset in sorted(given.keys() | held.keys())
        if given.get((partition, offset)) != held.get((partition, offset))
    ][:_DIFFERENCES_MAX]


def records_of(partition: PartitionId, batches: bytes, void: Collection[int] = ()) -> list[LogRecord]:
    """The records of stored batches; `void`: the offsets that changed nothing."""
    place_in_log = place_of(partition)
    found: list[LogRecord] = []
    for data in split_batches(batches):
        batch = decode_batch(data, place_in_log)
        header, columns = batch.header, batch.columns
        for place, offset in enumerate(batch.offsets()):
            attribute = 1 if columns.attributes is None else columns.attributes[place]
            condition = Condition(attribute >> CONDITION_SHIFT & 3)
            operation = Operation(attribute & OPERATION_MASK)
            expiry = Expiry(attribute >> EXPIRY_SHIFT & 3)
            found.append(
                LogRecord(
                    partition=partition.partition,
                    offset=offset,
                    operation=operation.name.lower(),
                    key=text_of(columns.keys[place]),
                    value=text_of(columns.values[place]),
                    condition="" if condition is Condition.NONE else condition.name.lower(),
                    version=columns.versions[place] if columns.versions and condition is Condition.VERSION else 0,
                    grouped=bool(attribute & GROUPED),
                    producer=header.producer_id,
                    sequence=header.sequence + offset - header.base_offset,
                    batch=header.base_offset,
                    void=offset in void or operation in (Operation.NOOP, Operation.BARRIER),
                    time_ms=header.timestamp_ms,
                    expiry="" if expiry is Expiry.NONE else expiry.name.lower(),
                    expires_ms=columns.expiries[place] if columns.expiries and expiry is not Expiry.NONE else 0,
                )
            )
    return found
