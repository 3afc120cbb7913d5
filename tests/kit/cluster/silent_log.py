"""A data plane whose log and catalog do not answer, for the tests of timeouts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

import pytest

from kit.cluster.one_machine import DEADLINE_S
from kit.deadlines import within
from log_tier.model.errors import Disconnected, DuramenError
from router.data.local_data import LocalData

__all__ = ["TIMEOUT_S", "check_ends_in_time", "silent_log"]

TIMEOUT_S: Final = 0.3
"""What a call may take. The suites wait for `DEADLINE_S` before they say that it took longer."""


@asynccontextmanager
async def silent_log(data_plane: LocalData) -> AsyncIterator[None]:
    """Inside, neither the log nor the catalog answers; afterwards what waited for them has failed."""
    ended = asyncio.Event()

    async def silent(*_: object, **__: object) -> None:
        await ended.wait()
        raise Disconnected("the log was away")

    with pytest.MonkeyPatch.context() as patch:
        for owner, method in (
            (data_plane.catalog, "refresh"),
            (data_plane.catalog, "submit"),
            (data_plane.log, "append_many"),
            (data_plane.log, "bounds"),
            (data_plane.log, "all_bounds"),
        ):
            patch.setattr(owner, method, silent)
        yield
    ended.set()


async def check_ends_in_time(call: Callable[[], Awaitable[object]]) -> object:
    """What the call returns; its error, if it is one of ours. Fails if it takes much longer than its timeout."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    result: object
    async with within(DEADLINE_S):
        try:
            result = await call()
        except DuramenError as error:
            result = error
    assert loop.time() - begun < DEADLINE_S
    return result
