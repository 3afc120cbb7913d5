"""Results for the parts of an append that did not reach the log, or that the log did not answer part by part."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from log_tier.model.errors import DuramenError, LogDamaged, WriteUnknown
from log_tier.model.identifiers import PartitionId
from router.data.requests import WritePart

__all__ = ["behind_their_index", "end_waiting", "unanswered"]


def behind_their_index(
    parts: Sequence[WritePart], refusals: Mapping[PartitionId, DuramenError]
) -> dict[PartitionId, LogDamaged]:
    """The partitions whose log ends before what an index here has applied, as after a log was put back from an older
    copy: an append would get an offset that was acknowledged for something else, and the index would never apply it.

    `refusals`: why replicas could not be opened.
    """
    found = {part.partition: refusals.get(part.partition) for part in parts}
    return {partition: refusal for partition, refusal in found.items() if isinstance(refusal, LogDamaged)}


def end_waiting(appending: asyncio.Future[Any]) -> None:
    """End an append whose time is over: its waiter gets `TimeoutError`. A timer calls this, which costs a third of
    `asyncio.timeout`.
    """
    if not appending.done():
        appending.set_exception(TimeoutError())


def unanswered(parts: Sequence[WritePart], error: DuramenError | TimeoutError, timeout: float) -> list[DuramenError]:
    """A result for each part of an append that ended with `error`.

    After a `TimeoutError`, `timeout` seconds long, each is a `WriteUnknown`: the log may have it, or may still take it.
    """
    if isinstance(error, DuramenError):
        return [error] * len(parts)
    return [
        WriteUnknown(
            f"no reply came from the log within {timeout:.3g} s: the batch is in the log or it is not; append "
            "the same bytes again, a second copy is void",
            partition=part.partition.partition,
        )
        for part in parts
    ]
