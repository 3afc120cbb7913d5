"""What each change of a watch replaced, of a table that keeps a history: its key is read at the offset before it.

The watch itself is the log, which has no earlier values. So they are asked for separately, some at a time: neither the
server nor the client holds more than one reply of them, however large the values are that small records replaced.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Final

from duramen.client.model.results import Before, Change
from duramen.client.past.states_lookup import StatesLookup
from duramen.client.transport.retry import ask_until
from log_tier.model.errors import (
    DuramenError,
    HistoryGone,
    LimitExceeded,
    PermissionDenied,
    TableNotFound,
    Unavailable,
)
from log_tier.model.identifiers import Offset, PartitionId, TableId
from router.data.requests import PastRead, ReadPart

__all__ = ["with_befores"]

_AT_ONCE: Final = 256
"""Changes in one request: a server looks each one up in a transaction of its own, some 10 µs."""

_NOT_KEPT: Final = Before(None, False)


async def with_befores(
    lookup: StatesLookup,
    runs: AsyncGenerator[list[Change], None],
    timeout: float | None,
    keeps_history: bool | None = None,
) -> AsyncGenerator[list[tuple[Change, Before]], None]:
    """Runs of changes, each change with what it replaced; of a table without a history nothing is asked. One request
    for some 256 changes, made again for `timeout` seconds where a server does not answer. `keeps_history`: None where
    that is not known; one request asks for it when the first changes have come.
    """
    try:
        async for run in runs:
            if run and keeps_history is None:
                keeps_history = await _keeps_history(lookup, run[0].table_id, timeout)
            if not run or not keeps_history:
                yield [(change, _NOT_KEPT) for change in run]
                continue
            for first in range(0, len(run), _AT_ONCE):
                some = run[first : first + _AT_ONCE]
                yield list(zip(some, await _befores(lookup, some, timeout), strict=True))
    finally:
        await runs.aclose()


async def _keeps_history(lookup: StatesLookup, table_id: TableId, timeout: float | None) -> bool:
    connection = lookup.context.connection
    try:
        definition = await ask_until(
            lookup.context.deadline(timeout), lambda remaining: connection.definition(table_id, timeout=remaining)
        )
    except (TableNotFound, PermissionDenied) as error:
        raise lookup.gone(error) from error
    return definition is not None and definition.keeps is not None


async def _befores(lookup: StatesLookup, changes: Sequence[Change], timeout: float | None) -> list[Before]:
    found = [_NOT_KEPT] * len(changes)
    left = [number for number, change in enumerate(changes) if change.key]  # a barrier has none

    async def ask(remaining: float) -> None:
        parts = [_part(changes[number]) for number in left]
        results = await lookup.context.connection.read(parts, timeout=remaining)
        asked, left[:] = list(left), []
        reason: DuramenError | None = None
        for number, result in zip(asked, results, strict=True):
            if isinstance(result, (LimitExceeded, Unavailable)):
                left.append(number)  # the reply was full, or a replica is not there
                reason = result if isinstance(result, Unavailable) or reason is None else reason
            elif isinstance(result, HistoryGone):
                pass
            elif isinstance(result, DuramenError):
                raise result
            else:
                found[number] = Before(result.values[0], True)
        if isinstance(reason, Unavailable) or (reason is not None and len(left) == len(asked)):
            raise reason

    deadline = lookup.context.deadline(timeout)
    while left:
        try:
            await ask_until(deadline, ask)
        except (TableNotFound, PermissionDenied) as error:
            raise lookup.gone(error) from error
    return found


def _part(change: Change) -> ReadPart:
    at = Offset(change.offset - 1)
    return ReadPart(PartitionId(change.table_id, change.partition), (change.key,), at, past=PastRead(at))
