"""One connection for one command."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from duramen.cli.terminal.options import check_at
from router.admin.client import AdminConnection

__all__ = ["ask"]

T = TypeVar("T")


def ask(at: str, timeout: float, question: Callable[[AdminConnection], Awaitable[T]]) -> T:
    """Ask the server at `at`; `timeout` in seconds for each single question. Raises what it says."""
    check_at(at, timeout)

    async def asked() -> T:
        async with AdminConnection(at, timeout=timeout) as connection:
            return await question(connection)

    return asyncio.run(asked())
