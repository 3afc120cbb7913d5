"""One connection for one command on users."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from duramen.cli.terminal.options import check_at
from router.admin.users.users_client import UsersConnection

__all__ = ["ask_users"]

T = TypeVar("T")


def ask_users(at: str, timeout: float, question: Callable[[UsersConnection], Awaitable[T]]) -> T:
    """Ask the server at `at`; `timeout` in seconds for each single question. Raises what it says."""
    check_at(at, timeout)

    async def asked() -> T:
        async with UsersConnection(at, timeout=timeout) as connection:
            return await question(connection)

    return asyncio.run(asked())
