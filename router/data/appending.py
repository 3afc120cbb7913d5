"""Appends of a request, within its time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from log_tier.model.errors import DuramenError, WriteUnknown
from log_tier.model.log import Appended, Log
from router.data.requests import WritePart

__all__ = ["append_in_time"]


async def append_in_time(log: Log, parts: Sequence[WritePart], *, timeout: float) -> Sequence[Appended | DuramenError]:
    """Append every part; one result for each, in their order. Raises nothing.

    Past `timeout` seconds each part is a `WriteUnknown`: the log may have it, or may still take it.
    """
    try:
        async with asyncio.timeout(timeout):
            return await log.append_many(
                [(part.table_id, part.partition, part.batch) for part in parts],
                gathered=all(part.gathered for part in parts),
            )
    except DuramenError as error:
        return [error] * len(parts)
    except TimeoutError:
        return [
            WriteUnknown(
                f"no reply came from the log within {timeout:.3g} s: the batch is in the log or it is not; append "
                "the same bytes again, a second copy is void",
                partition=part.partition,
            )
            for part in parts
        ]
