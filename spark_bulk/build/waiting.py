"""Async code for callers that block: a Spark program, or a notebook, whose thread may run an event loop already."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

__all__ = ["wait_for"]

T = TypeVar("T")


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, on a loop of its own in a thread of its own; return or raise what it does."""
    with ThreadPoolExecutor(1, "duramen-wait") as side:
        return side.submit(asyncio.run, work).result()
