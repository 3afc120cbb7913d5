"""One key: what it has, as bytes and as a row, and its versions."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import Final

from log_tier.concurrency.clocks import SYSTEM_CLOCK, Clock
from log_tier.model.errors import DuramenError, InvalidRequest, LimitExceeded
from log_tier.model.identifiers import PartitionId, partition_id
from log_tier.model.partitioner import slot_of
from log_tier.model.record import check_key
from log_tier.rows.json_rows.json_table import JsonTable
from router.data.requests import PastRead, ReadPart, ReadResult
from router.data.seam import Connection
from router.endpoints.grpc.kv.forms import TableText, TextForms
from router.endpoints.grpc.pages.entries import VALUE_BYTES_MAX, cut_entry, text_of_key, value_bytes_of
from router.proto import console_pb2 as pb
from router.proto import kv_pb2 as kv

__all__ = ["VERSIONS_MAX", "found_entry"]

VERSIONS_MAX: Final = 100
"""Of one key: what a person scrolls through."""


async def found_entry(
    connection: Connection,
    request: pb.ConsoleGetRequest,
    forms: TextForms,
    *,
    timeout: float,
    clock: Clock = SYSTEM_CLOCK,
) -> pb.ConsoleFound:
    """What a key has. Raises `TableNotFound`, `InvalidKey`, which names the field that is none, `InvalidRequest`, and
    what a read of it raises.
    """
    bytes_max = value_bytes_of(request.value_bytes_max)
    if request.versions > VERSIONS_MAX:
        size = request.versions
        raise LimitExceeded(f"a page shows at most {VERSIONS_MAX} versions, not {size}", limit=VERSIONS_MAX, size=size)
    deadline = asyncio.get_running_loop().time() + timeout
    table = await connection.find_table(request.table, timeout=timeout)
    text = await forms.of(connection, table, kv.KV_FORM_JSON, deadline)
    key = _key_of(request, text)
    partition = table.partition_of(key)
    result = await _read(connection, partition_id(table.id, partition), key, request, 0, timeout)
    form = None if text is None else text.form
    # A table of bytes that keeps a history has a definition as well, which says nothing else.
    definition = await connection.definition(table.id, timeout=timeout) if form is None else form.definition
    keeps = None if definition is None else definition.keeps
    found = pb.ConsoleFound(
        key=key,
        key_text=text_of_key(form, key),
        partition=partition,
        partitioner=table.partitioner,
        slot=slot_of(key) if table.partitioner == "slot" else None,
        applied=result.applied,
        now_ms=clock.wall_ms(),
        keeps="" if keeps is None else str(keeps),
    )
    value = result.values[0]
    if value is not None:
        expires_ms = result.expiries[0] if result.expiries else 0
        found.entry.CopyFrom(cut_entry(key, value, result.versions[0], expires_ms, bytes_max, form))
        row = None if text is None else await _row_text(text, value)
        if row is not None and len(row) <= VALUE_BYTES_MAX:
            found.row = row.decode()
    if request.versions:
        past = await _read(
            connection, partition_id(table.id, partition), key, request, request.versions, deadline - _now_s()
        )
        for at, value in enumerate(past.values):
            found.versions.append(await _version(past, at, value, text, bytes_max))
    return found


def _now_s() -> float:
    return asyncio.get_running_loop().time()


def _key_of(request: pb.ConsoleGetRequest, text: TableText | None) -> bytes:
    if not request.key_fields:
        return check_key(request.key)
    if request.key:
        raise InvalidRequest("give the key, or its fields, not both")
    if text is None or not text.form.fields:
        raise InvalidRequest(f"the keys of table {request.table} have no fields: give the key")
    return text.form.key(request.key_fields.encode())


async def _read(
    connection: Connection,
    partition: PartitionId,
    key: bytes,
    request: pb.ConsoleGetRequest,
    versions: int,
    timeout: float,
) -> ReadResult:
    past = PastRead(versions=versions) if versions else None
    part = ReadPart(partition, [key], strong=not request.eventual, past=past)
    (result,) = await connection.read([part], timeout=timeout)
    if isinstance(result, DuramenError):
        raise result
    return result


async def _row_text(text: TableText, value: bytes) -> bytes | None:
    """A row as JSON; None: the table has none, or this is none of its rows. A large one in a thread."""
    if not text.form.holds_rows:
        return None
    with suppress(DuramenError):
        await text.meet([value])
        return await text.converted(len(value), partial(_text_of, value))
    return None


def _text_of(value: bytes, form: JsonTable) -> bytes:
    return form.value_text(value)


async def _version(
    past: ReadResult, at: int, value: bytes | None, text: TableText | None, bytes_max: int
) -> pb.ConsoleVersion:
    row = None if text is None or value is None else await _row_text(text, value)
    shown = value or b"" if row is None else row
    return pb.ConsoleVersion(
        offset=past.versions[at],
        time_ms=past.times[at] if past.times else 0,
        deleted=value is None,
        value=shown[:bytes_max],
        value_bytes=len(shown),
        expires_at_ms=past.expiries[at] if past.expiries else 0,
    )
