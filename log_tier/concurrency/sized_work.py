"""Work that grows with what a client sends: on the event loop while it is small, in a thread where it is large.

A turn of an event loop has at most 10 ms, whatever a client sends. A trip to a thread and back costs some 60 µs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Final, TypeVar, cast

__all__ = ["AT_ONCE_ITEMS_MAX", "each_sized", "run_sized"]

T = TypeVar("T")

AT_ONCE_ITEMS_MAX: Final = 1000
"""Keys, records, entries or parts that one turn of the loop works on: 2 to 10 µs each."""


async def run_sized(items: int, work: Callable[[], T]) -> T:
    """What `work` returns or raises; a thread does it where it has more than `AT_ONCE_ITEMS_MAX` items."""
    return work() if items <= AT_ONCE_ITEMS_MAX else await asyncio.to_thread(work)


async def each_sized(items: int, made: Iterator[T]) -> AsyncIterator[T]:
    """What an iterator makes; a thread makes each where all together have more than `AT_ONCE_ITEMS_MAX` items."""
    if items <= AT_ONCE_ITEMS_MAX:
        for each in made:
            yield each
        return
    end = object()
    while (found := await asyncio.to_thread(next, made, end)) is not end:
        yield cast("T", found)
