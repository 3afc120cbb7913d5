"""Some records of a partition's log, decoded as they lie there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing, suppress
from typing import Any, Final

from log_tier.model.batch import decode_batch
from log_tier.model.batch_header import Place, place_of, read_header, split_batches
from log_tier.model.errors import DuramenError, InvalidRequest, OffsetTrimmed
from log_tier.model.identifiers import Offset, Partition, PartitionId, partition_id
from log_tier.model.log import Bounds, Log
from log_tier.model.record import GROUPED, OPERATION_MASK, Operation
from log_tier.model.table_ref import TableRef
from log_tier.rows.json_rows.json_table import JsonTable
from router.admin.answers.log_times import offset_at_time
from router.admin.answers.record_texts import condition_text, expiry_text
from router.endpoints.grpc.pages.entries import rows_of, text_of_key, value_bytes_of
from router.proto import console_pb2 as pb

__all__ = ["EMPTY", "records_of_log"]

EMPTY: Final = "empty"
"""The operation of a record that stands for offsets which hold nothing."""

_CHUNK_BYTES: Final = 64 << 10
"""Some hundred records; a log gives at least one whole batch."""
_ROWS: Final = 50

_ROW_TEXT_BYTES: Final = 1024
"""A row's text is several times as long as what is stored: a short row is shown whole in a line, too."""

# What is trimmed while it is read is asked for again this often.
_ATTEMPTS: Final = 3


async def records_of_log(
    log: Log, table: TableRef, request: pb.ConsoleRecordsRequest, form: JsonTable | None = None
) -> pb.ConsoleRecords:
    """The records that are asked for. An offset below the log's earliest is taken as that one, and one beyond its end
    as the end. `form`: of keys that are shown as their fields as well, and of rows. Raises `InvalidRequest` for a
    partition that the table does not have, and what reading the log raises.
    """
    limit, bytes_max = rows_of(request.limit, _ROWS), value_bytes_of(request.value_bytes_max)
    if request.partition >= table.partitions:
        raise InvalidRequest(f"{table.name} has partitions 0 to {table.partitions - 1}, not {request.partition}")
    partition = partition_id(table.id, Partition(request.partition))
    for attempt in range(_ATTEMPTS):
        bounds = await log.bounds(partition)
        try:
            begin = await _begin(log, partition, bounds, request, limit)
            records = await _records(log, partition, begin, bounds.latest, limit, bytes_max, form)
        except OffsetTrimmed:
            if attempt + 1 == _ATTEMPTS:
                raise
            continue
        behind = records[-1].offset + max(1, records[-1].span) if records else begin
        return pb.ConsoleRecords(
            earliest=bounds.earliest, latest=bounds.latest, next=behind, records=records, **{"from": begin}
        )
    raise AssertionError("not reached")


async def _begin(
    log: Log, partition: PartitionId, bounds: Bounds, request: pb.ConsoleRecordsRequest, limit: int
) -> Offset:
    kind = request.WhichOneof("from")
    if kind == "time_ms":
        wanted = await offset_at_time(log, partition, request.time_ms - 1) + 1
    else:
        wanted = request.offset if kind == "offset" else bounds.latest - limit + 1
    return Offset(min(max(wanted, bounds.earliest), bounds.latest + 1))


async def _records(
    log: Log,
    partition: PartitionId,
    begin: Offset,
    latest: Offset,
    limit: int,
    bytes_max: int,
    form: JsonTable | None,
) -> list[pb.ConsoleRecord]:
    found: list[pb.ConsoleRecord] = []
    if begin > latest:
        return found
    place = place_of(partition)
    reader: Any = log.read(partition, begin, follow=False, chunk_bytes=_CHUNK_BYTES)
    async with aclosing(reader) as chunks:
        async for chunk in chunks:
            room = limit - len(found)
            found.extend(await asyncio.to_thread(_decoded, chunk.data, place, begin, room, bytes_max, form))
            if len(found) >= limit:
                break
    return found


def _decoded(
    data: bytes, place: Place, begin: Offset, room: int, bytes_max: int, form: JsonTable | None
) -> list[pb.ConsoleRecord]:
    """Runs in a thread."""
    found: list[pb.ConsoleRecord] = []
    for stored in split_batches(data):
        if read_header(stored).last_offset < begin:
            continue
        for record in _of_batch(stored, place, bytes_max, form):
            if record.offset + max(1, record.span) <= begin:
                continue
            found.append(record)
            if len(found) >= room:
                return found
    return found


def _of_batch(stored: bytes, place: Place, bytes_max: int, form: JsonTable | None) -> Iterator[pb.ConsoleRecord]:
    """The records of a batch, and between them what its offsets do not hold."""
    batch = decode_batch(stored, place)
    header, columns = batch.header, batch.columns
    expected = header.base_offset
    for number, offset in enumerate(batch.offsets()):
        if offset > expected:
            yield _empty(expected, offset - expected, header.timestamp_ms, header.base_offset)
        expected = Offset(offset + 1)
        attribute = int(Operation.PUT) if columns.attributes is None else columns.attributes[number]
        value = columns.values[number]
        yield pb.ConsoleRecord(
            offset=offset,
            timestamp_ms=header.timestamp_ms,
            operation=Operation(attribute & OPERATION_MASK).name.lower(),
            key=columns.keys[number],
            value=value[:bytes_max],
            value_bytes=len(value),
            condition=condition_text(attribute, 0 if columns.versions is None else columns.versions[number]),
            expiry=expiry_text(attribute, 0 if columns.expiries is None else columns.expiries[number]),
            grouped=bool(attribute & GROUPED),
            producer_id=header.producer_id,
            sequence=header.sequence + (offset - header.base_offset) if header.producer_id else 0,
            base_offset=header.base_offset,
            key_text=text_of_key(form, columns.keys[number]) if columns.keys[number] else "",
            row=_row_text(form, value, bytes_max) if attribute & OPERATION_MASK == Operation.PUT else "",
        )
    if expected <= header.last_offset:
        yield _empty(expected, header.last_offset + 1 - expected, header.timestamp_ms, header.base_offset)


def _row_text(form: JsonTable | None, value: bytes, bytes_max: int) -> str:
    """A stored row as JSON; empty: it is none, or of a schema that is not known, or too large. Some 40 µs."""
    if form is None or not form.holds_rows or len(value) > bytes_max:
        return ""
    with suppress(DuramenError):
        text = form.value_text(value)
        return text.decode() if len(text) <= max(bytes_max, _ROW_TEXT_BYTES) else ""
    return ""


def _empty(offset: Offset, span: int, timestamp_ms: int, base_offset: Offset) -> pb.ConsoleRecord:
    return pb.ConsoleRecord(
        offset=offset, timestamp_ms=timestamp_ms, operation=EMPTY, span=span, base_offset=base_offset
    )
