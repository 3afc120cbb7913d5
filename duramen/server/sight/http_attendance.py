"""Work for a client of HTTP lasts as long as the client is there.

A browser closes the connection of a call that its page has given up: another tab, a newer question, a closed window.
What is done for it then is done for nobody, so it is cancelled, as gRPC cancels a call whose client has gone. A client
that closes its sending side alone has gone too: HTTP has no use for that, and nothing tells it from one that is away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

import h11

from log_tier.concurrency.tasks import end_tasks

__all__ = ["while_there"]

T = TypeVar("T")


async def while_there(
    work: Awaitable[T], connection: h11.Connection, reader: asyncio.StreamReader, bytes_max: int
) -> T | None:
    """What `work` returns or raises; None where the client has gone: then `work` was cancelled, and has ended.

    At most `bytes_max` bytes that the client sends ahead are taken in; one that has sent some is there until the end.
    """
    working = asyncio.ensure_future(work)
    leaving = asyncio.create_task(_has_left(connection, reader, bytes_max), name="whether a client of HTTP is there")
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not working.done() and leaving.result():
            return None
        return await working
    finally:
        await end_tasks(working, leaving)


async def _has_left(connection: h11.Connection, reader: asyncio.StreamReader, bytes_max: int) -> bool:
    try:
        ahead = await reader.read(bytes_max)
    except ConnectionError:
        return True
    connection.receive_data(ahead)
    return not ahead
