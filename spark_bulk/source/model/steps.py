"""Async code from Spark's blocking workers: a stream that is pulled a step at a time.

Spark calls a reader's generator when it wants the next batch. Between two calls nothing of ours runs, and nothing has
to: the connection's own buffers go on filling.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from typing import TypeVar

__all__ = ["stepped"]

T = TypeVar("T")


def stepped(source: AsyncGenerator[T, None]) -> Iterator[T]:
    """Iterate over an async generator from blocking code. It is closed when this one is, or when it ends."""

    async def step() -> list[T]:
        async for each in source:
            return [each]
        return []

    with asyncio.Runner() as runner:
        try:
            while found := runner.run(step()):
                yield found[0]
        finally:
            runner.run(source.aclose())
