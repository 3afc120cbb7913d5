"""Reads of keys, of the present and of the past, one share of them for each partition."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from log_tier.concurrency.sized_work import Turn
from log_tier.model.errors import DuramenError, InvalidToken, LimitExceeded
from log_tier.model.identifiers import Partition, partition_id
from log_tier.model.record import check_key
from log_tier.model.table_ref import TableRef
from router.data.freshness import Freshness
from router.data.past.asked_past import AskedPast, refused_state
from router.data.past.past_requests import past_part
from router.data.requests import READ_REPLY_BYTES_MAX, ReadPart, ReadResult
from router.endpoints.grpc.kv.plane import Plane

__all__ = [
    "GET_MANY_KEYS_MAX",
    "READ_ITEMS",
    "check_count",
    "check_size",
    "past_parts",
    "placed_keys",
    "read_parts",
    "read_shares",
]

GET_MANY_KEYS_MAX: Final = 10_000
"""A reply is held whole by both ends, and a key costs some microseconds of the event loop."""

READ_ITEMS: Final = 10
"""To begin the read of a partition costs as much as to read so many keys."""


async def read_shares(
    plane: Plane,
    table: TableRef,
    shares: Sequence[Sequence[bytes]],
    asked: Freshness | AskedPast,
    deadline: float,
) -> list[ReadResult]:
    """Read keys, each share those of one partition. `deadline` is on the event loop's clock. Reads of the present share
    their requests with those of other callers. Raises what a read raises, the first error of any share.
    """
    if isinstance(asked, AskedPast):
        return await read_parts(plane, await past_parts(plane, asked, shares, deadline), deadline)
    if len(shares) == 1:
        return [await _read(plane, table, shares[0], asked, deadline)]
    return await _together(plane, table, shares, asked, deadline)


async def past_parts(
    plane: Plane, asked: AskedPast, shares: Sequence[Sequence[bytes]], deadline: float, versions: int = 0
) -> list[ReadPart]:
    """Reads of keys at a state, or of the versions of one. Raises `InvalidToken`, and `InvalidRequest` where the table
    keeps no history.
    """
    try:
        return [past_part(asked, asked.table.partition_of(keys[0]), keys, versions) for keys in shares]
    except InvalidToken as refused:
        left_s = max(0.0, deadline - asyncio.get_running_loop().time())
        raise await refused_state(plane.connection, asked.table, refused, left_s) from refused


async def read_parts(plane: Plane, parts: Sequence[ReadPart], deadline: float) -> list[ReadResult]:
    """One request for all parts. Raises the error of the first part that has one."""
    found: list[ReadResult] = []
    for result in await plane.connection.read(parts, timeout=max(0.0, deadline - asyncio.get_running_loop().time())):
        if isinstance(result, DuramenError):
            raise result
        found.append(result)
    return found


def placed_keys(table: TableRef, keys: Sequence[bytes]) -> tuple[Sequence[bytes], dict[Partition, list[int]]]:
    """The keys, and where in them those of each partition are."""
    check_count(keys)
    places: dict[Partition, list[int]] = {}
    for place, key in enumerate(keys):
        places.setdefault(table.partition_of(check_key(key)), []).append(place)
    return keys, places


def check_count(keys: Sequence[bytes]) -> None:
    """Raises `LimitExceeded` for more keys than a GetMany takes."""
    if len(keys) > GET_MANY_KEYS_MAX:
        raise LimitExceeded(
            f"a GetMany asks for at most {GET_MANY_KEYS_MAX} keys, this one for {len(keys)}: split it",
            limit=GET_MANY_KEYS_MAX,
            size=len(keys),
        )


def check_size(sizes: Iterable[int]) -> None:
    """Raises `LimitExceeded` as soon as they are too many for a reply."""
    size = 0
    for each in sizes:
        size += each
        if size > READ_REPLY_BYTES_MAX:
            raise LimitExceeded(
                f"the reply would have {size} bytes, a reply has at most {READ_REPLY_BYTES_MAX}: ask for fewer at once",
                limit=READ_REPLY_BYTES_MAX,
                size=size,
            )


async def _read(
    plane: Plane, table: TableRef, keys: Sequence[bytes], freshness: Freshness, deadline: float
) -> ReadResult:
    partition = partition_id(table.id, table.partition_of(keys[0]))
    return await plane.reads.submit(
        table,
        partition,
        keys,
        after=freshness.after(partition.partition),
        strong=freshness.strong,
        seen=False,
        deadline=deadline,
        lag_max_ms=freshness.lag_max_ms,
    )


async def _together(
    plane: Plane, table: TableRef, shares: Sequence[Sequence[bytes]], freshness: Freshness, deadline: float
) -> list[ReadResult]:
    """The reads of all shares, or the first error, with nobody left waiting. Some of them begin in each turn."""
    turn = Turn()
    tasks: list[asyncio.Task[ReadResult]] = []
    try:
        async with asyncio.TaskGroup() as group:
            for keys in shares:
                tasks.append(group.create_task(_read(plane, table, keys, freshness, deadline)))
                if turn.is_full(READ_ITEMS):
                    await turn.end()
    except* DuramenError as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]
