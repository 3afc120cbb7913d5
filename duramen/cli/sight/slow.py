"""`duramen slow`: the last calls that took long, and where their time went."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from duramen.cli.sight.slow_page import slow_page
from duramen.cli.terminal.options import AT_DEFAULT, At, Json, Timeout, check_at
from duramen.cli.terminal.output import say, say_json
from duramen.cli.terminal.status_client import StatusClient

__all__ = ["slow"]


def slow(
    at: At = AT_DEFAULT,
    count: Annotated[int, typer.Option("--count", metavar="N", min=0, help="At most so many calls; 0: all.")] = 20,
    timeout: Timeout = 3.0,
    json: Json = False,
) -> None:
    """Show the last calls of a server that took long, newest first, and where their time went.

    A server keeps the last 128 calls that took `slow_call_ms` (100) or longer. queued: until the commit began;
    synced: write and sync in the log; waited: until a replica had applied an offset; read: the index; rest: all else.
    Each server knows its own calls: ask the one that was called. A user sees those on tables that are shown to it.
    --json prints the whole document as one line.

    \b
      duramen slow
      duramen slow --count 0 --json | jq '.calls[] | select(.table == "flights")'
    """
    document = _asked(at, timeout, count)
    if json:
        say_json(document)
    else:
        for line in slow_page(document):
            say(line)


def _asked(at: str, timeout: float, count: int) -> dict[str, Any]:
    """The document of the server. Raises what the server says, and `Disconnected`."""
    check_at(at, timeout)
    import asyncio

    async def asked() -> dict[str, Any]:
        async with StatusClient.connected(at, timeout=timeout) as client:
            return await client.slow_calls(count)

    return asyncio.run(asked())
