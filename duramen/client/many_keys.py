"""Many keys in one call: sorted by partition, cut into pieces that a batch or a request can carry."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar, cast

from duramen.client.context import ClientContext
from duramen.client.model.call_records import check_key, check_value, record_of
from duramen.client.model.consistency import Asked
from log_tier.model.batch import Columns
from log_tier.model.errors import InvalidRequest
from log_tier.model.identifiers import NOTHING, Offset, Partition
from log_tier.model.record import Operation
from log_tier.model.table_ref import TableRef
from router.data.gather.pending_calls import CallOutcome
from router.data.requests import ReadResult

__all__ = ["WINDOW_RECORDS", "get_many", "put_window"]

T = TypeVar("T")

# `put_many` hands over this many records at a time, so that an endless iterable needs no endless memory.
WINDOW_RECORDS: Final = 8192

_PIECE_BYTES: Final = 4 * 1024 * 1024
_KEYS_PER_PART: Final = 2048


async def get_many(
    context: ClientContext, ref: TableRef, wanted: Sequence[bytes], asked: Asked, deadline: float
) -> list[bytes | None]:
    """The values of checked keys, in their order."""
    count, partition_of = ref.partitions, ref.partition_of
    places: list[list[int]] = [[] for _ in range(count)]
    for place, key in enumerate(wanted):
        places[partition_of(key)].append(place)
    calls: list[tuple[list[int], asyncio.Future[ReadResult]]] = []
    with _Together(calls):
        for partition, mine in zip(map(ref.partition, range(count)), places, strict=True):
            for at in range(0, len(mine), _KEYS_PER_PART):
                piece = mine[at : at + _KEYS_PER_PART]
                call = context.reads.submit(
                    ref,
                    partition,
                    [wanted[place] for place in piece],
                    after=asked.after(partition.partition),
                    strong=asked.strong,
                    seen=asked.seen,
                    lag_max_ms=asked.lag_max_ms,
                    deadline=deadline,
                )
                calls.append((piece, call))
        await _all(call for _, call in calls)
    values: list[bytes | None] = [None] * len(wanted)
    for piece, call in calls:
        for place, value in zip(piece, call.result().values, strict=True):
            values[place] = value
    return values


async def put_window(
    context: ClientContext,
    ref: TableRef,
    window: Sequence[tuple[bytes, bytes]],
    ttl: float | None,
    deadline: float,
    offsets: dict[Partition, Offset],
    *,
    begin: int,
) -> None:
    """Write one window of pairs; `offsets` learns the last offset of each partition that was written.

    `begin`: how many pairs came before this window, for the message about one that is none.
    """
    count, partition_of = ref.partitions, ref.partition_of
    keys: list[list[bytes]] = [[] for _ in range(count)]
    values: list[list[bytes]] = [[] for _ in range(count)]
    try:
        for key, value in window:
            partition = partition_of(check_key(key))
            keys[partition].append(key)
            values[partition].append(check_value(value))
    except (TypeError, ValueError, InvalidRequest):
        _check_pairs(window, begin)
        raise
    model = record_of(Operation.PUT, b"k", b"", ttl=ttl)
    calls: list[tuple[Partition, asyncio.Future[CallOutcome]]] = []
    with _Together(calls):
        for partition in map(Partition, range(count)):
            for first, last in _pieces(values[partition]):
                columns = Columns(
                    keys[partition][first:last],
                    values[partition][first:last],
                    model.attributes and [model.attributes[0]] * (last - first),
                    None,
                    model.expiries and [model.expiries[0]] * (last - first),
                )
                call = context.writes.submit(ref, ref.partition(partition), columns, outcomes=False, deadline=deadline)
                calls.append((partition, call))
        await _all(call for _, call in calls)
    for partition, call in calls:
        offsets[partition] = max(offsets.get(partition, NOTHING), call.result().last)


def _check_pairs(window: Sequence[object], begin: int) -> None:
    """Raise `InvalidRequest` for the first item that is no pair; two bytes would unpack as two numbers."""
    for at, item in enumerate(window, begin):
        is_sequence = isinstance(item, Sequence) and not isinstance(item, (bytes, bytearray, str))
        if not is_sequence:
            raise InvalidRequest(f"put_many takes pairs (key, value); item {at} is {type(item).__name__}")
        if len(cast("Sequence[object]", item)) != 2:
            kind, size = type(item).__name__, len(cast("Sequence[object]", item))
            raise InvalidRequest(f"put_many takes pairs (key, value); item {at} is a {kind} of {size}")


class _Together:
    """Calls of one caller: where the block is left early, nobody waits for those that were begun."""

    def __init__(self, calls: Sequence[tuple[Any, asyncio.Future[Any]]]) -> None:
        self._calls = calls

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        for _, call in self._calls:
            if not call.cancel() and not call.cancelled():
                call.exception()  # it was looked at


async def _all(calls: Iterable[asyncio.Future[T]]) -> None:
    """Wait for every call, then raise the first error if there was one."""
    pending = list(calls)
    if pending:
        await asyncio.wait(pending)
    for call in pending:
        call.result()


def _pieces(values: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """Cut a window into ranges whose values have bounded size together."""
    first = size = 0
    for place, value in enumerate(values):
        if size and size + len(value) > _PIECE_BYTES:
            yield first, place
            first = place
            size = 0
        size += len(value)
    if first < len(values):
        yield first, len(values)
