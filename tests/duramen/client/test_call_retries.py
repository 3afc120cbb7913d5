"""Questions that are asked again, and a connection that the first call makes: what their callers hear at the end."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable

import pytest

from duramen.client.transport.deferred import DeferredConnection
from duramen.client.transport.retry import ask_until
from log_tier.model.errors import DeadlineExceeded, Disconnected, DuramenError
from router.data.seam import Connection


async def test_the_reason_is_not_lost_when_the_time_is_over() -> None:
    """The last try gets what is left of the time, which may be too little to hear the same reason again."""
    asked = 0

    async def ask(remaining: float) -> None:
        nonlocal asked
        asked += 1
        if asked < 3:
            raise Disconnected("no Duramen server answers at localhost:7070")
        raise DeadlineExceeded(f"no connection was made within {remaining:g} s")

    with pytest.raises(Disconnected, match="no Duramen server answers at localhost:7070"):
        await ask_until(asyncio.get_running_loop().time() + 20.0, ask)
    assert asked == 3


async def test_a_deadline_that_passes_at_the_first_try_is_raised_as_it_is() -> None:
    async def ask(remaining: float) -> None:
        raise DeadlineExceeded("too slow")

    with pytest.raises(DeadlineExceeded, match="too slow"):
        await ask_until(asyncio.get_running_loop().time() + 20.0, ask)


async def test_an_attempt_that_fails_after_its_callers_left_is_no_lost_exception() -> None:
    """asyncio reports a failed task that nobody awaits, with a traceback, when it is collected."""
    reported: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    refused = asyncio.Event()

    async def make(_: object) -> Connection:
        await refused.wait()
        raise Disconnected("no Duramen server answers at localhost:7070")

    connection = DeferredConnection(make)
    with pytest.raises(DeadlineExceeded, match=r"no connection was made within 0\.01 s"):
        await connection.find_table("flights", timeout=0.01)
    refused.set()
    attempt = connection._attempt
    assert attempt is not None
    await asyncio.wait([attempt])
    del connection, attempt
    gc.collect()
    assert reported == []


async def test_callers_that_leave_an_attempt_say_why_it_has_failed_so_far() -> None:
    attempts = 0

    async def make(failed: Callable[[DuramenError], None]) -> Connection:
        nonlocal attempts
        attempts += 1
        failed(Disconnected("no Duramen server answers at localhost:7070"))
        await asyncio.Event().wait()
        raise AssertionError("not reached")

    connection = DeferredConnection(make)
    for _ in range(2):
        with pytest.raises(Disconnected, match="no Duramen server answers"):
            await connection.find_table("flights", timeout=0.01)
    assert attempts == 1
    await connection.close()
