"""Reads of one key: what it has, what it had at an offset or a time, and its versions.

Reads of the present of many callers share requests; a read of the past is a request of its own, since it asks for a
state and not for a value.
"""

from __future__ import annotations

from duramen.client.lookup import TableLookup
from duramen.client.model.call_records import check_key
from duramen.client.model.consistency import SESSION, AsOf, Level, time_at_ms
from duramen.client.model.results import KeyVersion
from duramen.client.transport.retry import ask_until
from log_tier.model.errors import DuramenError, InvalidRequest, InvalidToken, PermissionDenied, TableNotFound
from log_tier.model.identifiers import Offset, Partition, partition_id
from log_tier.model.table_ref import TableRef
from log_tier.model.tokens import Token
from router.data.requests import ReadResult

__all__ = ["read_key", "read_past", "read_present", "read_versions"]


async def read_present(
    lookup: TableLookup, key: bytes, after: str | Token | None, level: Level, timeout: float | None
) -> ReadResult:
    """Raises what `Table.get` does. Concurrent calls share one request."""
    check_key(key)
    context = lookup.context
    deadline = context.deadline(timeout)
    ref = lookup.ref or await lookup.resolve(deadline)
    asked = SESSION
    if after is not None or level != "session":
        ref, asked = await lookup.asked(ref, after, level, deadline)
    partition = ref.partition_of(key) if ref.partitions > 1 else Partition(0)
    try:
        return await context.reads.submit(
            ref,
            partition_id(ref.id, partition),
            (key,),
            after=asked.after(partition),
            strong=asked.strong,
            seen=asked.seen,
            lag_max_ms=asked.lag_max_ms,
            deadline=deadline,
        )
    except (TableNotFound, PermissionDenied) as error:
        raise lookup.gone(error) from error


async def read_past(
    lookup: TableLookup, key: bytes, at: AsOf, after: str | Token | None, level: Level, timeout: float | None
) -> ReadResult:
    """What a key had at a state. One request. Raises what `Table.get` does, `HistoryGone`, and `InvalidRequest` where
    `after` or `level` is given too.
    """
    if after is not None or level != "session":
        raise InvalidRequest("a read of the past names its state by at= alone: leave out after= and level=")
    _, _, result = await _read(lookup, key, at, 0, timeout)
    return result


async def read_key(
    lookup: TableLookup, key: bytes, at: AsOf | None, after: str | Token | None, level: Level, timeout: float | None
) -> ReadResult:
    """What a key has, or had at a state. Raises what `Table.get` does."""
    if at is None:
        return await read_present(lookup, key, after, level, timeout)
    return await read_past(lookup, key, at, after, level, timeout)


async def read_versions(
    lookup: TableLookup, key: bytes, at: AsOf | None, limit: int, timeout: float | None
) -> list[KeyVersion[bytes]]:
    """The newest versions of a key up to a state. One request. Raises as `read_past`."""
    from router.data.past.past_requests import check_versions

    check_versions(limit)
    ref, partition, result = await _read(lookup, key, at, limit, timeout)
    expiries = result.expiries or [0] * len(result.values)
    rows = zip(result.versions, result.values, expiries, result.times or (), strict=True)
    return [
        KeyVersion(ref.id, partition, Offset(offset), value, expiry, time_at_ms(time_ms) if time_ms else None)
        for offset, value, expiry, time_ms in rows
    ]


async def _read(
    lookup: TableLookup, key: bytes, at: AsOf | None, versions: int, timeout: float | None
) -> tuple[TableRef, Partition, ReadResult]:
    # Here, and not at the top: most programs, and most commands, read the present alone.
    from router.data.past.past_requests import past_part, present_versions

    check_key(key)
    context = lookup.context
    deadline = context.deadline(timeout)
    if at is None:
        ref = lookup.ref or await lookup.resolve(deadline)
        partition = _partition_of(ref, key)
        seen = context.session.offsets(ref)[partition]
        part = present_versions(ref.partition(partition), key, seen, versions)
    else:
        asked = await lookup.asked_past(at, deadline)
        ref = asked.table
        try:
            part = past_part(asked, _partition_of(ref, key), (key,), versions)
        except InvalidToken as refused:
            raise await lookup.refused_past(asked, refused, deadline) from refused

    async def ask(remaining: float) -> ReadResult:
        (result,) = await context.connection.read([part], timeout=remaining)
        if isinstance(result, DuramenError):
            raise result
        return result

    return ref, part.partition.partition, await lookup.noticing_drops(ask_until(deadline, ask))


def _partition_of(ref: TableRef, key: bytes) -> Partition:
    return ref.partition_of(key) if ref.partitions > 1 else Partition(0)
