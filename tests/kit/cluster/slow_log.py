"""A data plane whose log and catalog take most of a call's time for each answer, on a clock that the answers move."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

import pytest

from log_tier.model.errors import DuramenError, ReplicaBehind
from log_tier.model.identifiers import Offset
from router.data.local_data import LocalData
from serving_tier.replica.replica import Replica

__all__ = ["CALL_S", "MovedClock", "check_time_is_shared", "slow_log"]

CALL_S: Final = 100.0
"""What a call may take, on the moved clock: long beside what it really takes, so that only the slow answers count."""

_SHARE: Final = 0.6
"""Of `CALL_S`, for each answer of the log or the catalog: there is time for one and a half."""

_SUBMIT_SHARE: Final = 0.45
"""The same for a command of the catalog. A change goes on when its caller's time is over, and moves the clock while the
caller's error is on its way: together with a question before it not much beyond `CALL_S`."""

_STEP_S: Final = CALL_S / 100
"""The clock moves in such steps; timers that are due run between two of them."""

_inside: Final = ContextVar("inside", default=False)
"""A slow answer is being made: what it asks in turn takes no more time."""


def _follows() -> bool:
    """Is this a replica that follows its log? No caller waits for what it asks, so it must not move the clock."""
    task = asyncio.current_task()
    return task is not None and task.get_name().startswith("follow ")


class MovedClock:
    """The running event loop's clock, which `take` moves. It stays moved: a clock does not go back."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        real = self._loop.time
        self._ahead_s = 0.0
        self._loop.time = lambda: real() + self._ahead_s  # type: ignore[method-assign]

    async def take(self, seconds: float) -> None:
        """Let `seconds` pass, for all who take some now together. A caller whose time is over cancels it."""
        until_s = self._loop.time() + seconds
        while self._loop.time() < until_s:
            self._ahead_s += _STEP_S
            for _ in range(4):  # the timers that are due, and who waits for them
                await asyncio.sleep(0)


@contextmanager
def slow_log(data_plane: LocalData, replicas: Sequence[Replica] = ()) -> Iterator[None]:
    """Inside, each answer of the log and of the catalog takes about half of `CALL_S`, and `replicas` never get as far
    as a caller waits for.
    """
    clock = MovedClock()

    def slowed(answer: Callable[..., Awaitable[object]], share: float) -> Callable[..., Awaitable[object]]:
        async def slow(*arguments: Any, **named: Any) -> object:
            if _inside.get() or _follows():
                return await answer(*arguments, **named)
            await clock.take(share * CALL_S)
            token = _inside.set(True)
            try:
                return await answer(*arguments, **named)
            finally:
                _inside.reset(token)

        return slow

    async def lags(offset: Offset, *, timeout: float) -> None:
        await clock.take(timeout)
        raise ReplicaBehind(f"offset {offset} was not applied within {timeout:g} s")

    with pytest.MonkeyPatch.context() as patch:
        for owner, method in (
            (data_plane.catalog, "refresh"),
            (data_plane.catalog, "submit"),
            (data_plane.log, "append_many"),
            (data_plane.log, "bounds"),
            (data_plane.log, "all_bounds"),
        ):
            share = _SUBMIT_SHARE if method == "submit" else _SHARE
            patch.setattr(owner, method, slowed(getattr(owner, method), share))
        for replica in replicas:
            patch.setattr(replica, "wait_applied", lags)
            patch.setattr(replica.progress, "wait_written", lags)
        yield


async def check_time_is_shared(call: Callable[[], Awaitable[object]]) -> None:
    """Make the call over a slow log. It fails if it takes more than its timeout, however it ends."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    ended: object
    try:
        ended = await call()
    except DuramenError as error:
        ended = error
    took_s = loop.time() - begun
    assert took_s < 1.1 * CALL_S, f"{took_s:.0f} s of {CALL_S:.0f} s, for {ended!r}"
