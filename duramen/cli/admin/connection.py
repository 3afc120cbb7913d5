"""One connection for one command."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from duramen.cli.terminal.options import check_at

if TYPE_CHECKING:
    from router.admin.client import AdminConnection

__all__ = ["Table", "ask"]

T = TypeVar("T")

Table = Annotated[str, typer.Argument(metavar="[TABLE]", help="The table's name; none: all tables.")]


def ask(at: str, timeout: float, question: Callable[[AdminConnection], Awaitable[T]]) -> T:
    """Ask the server at `at`; `timeout` in seconds for each single question. Raises what it says."""
    check_at(at, timeout)
    import asyncio

    from router.admin.client import AdminConnection

    async def asked() -> T:
        async with AdminConnection(at, timeout=timeout) as connection:
            return await question(connection)

    return asyncio.run(asked())
