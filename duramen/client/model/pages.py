"""From the pages of a stream to what is on them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TypeVar

__all__ = ["items_of"]

T = TypeVar("T")


async def items_of(pages: AsyncGenerator[list[T], None]) -> AsyncGenerator[T, None]:
    """What is on each page, one by one. Who ends it early ends `pages`, and the call that reads them, at once."""
    try:
        async for page in pages:
            for item in page:
                yield item
    finally:
        await pages.aclose()
