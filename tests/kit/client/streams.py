"""Streams of the client, read to their end."""

from __future__ import annotations

from typing import Any

__all__ = ["drained"]


async def drained(found: Any) -> None:
    async for _ in found:
        pass
