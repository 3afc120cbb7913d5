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

_STEP_S: Final = CALL_S / 100
"""The clock moves in such steps; timers that are due run between two of them."""

_inside: Final = ContextVar("inside", default=False)
"""A slow answer is being made: what it asks in turn takes no more time."""

_judged: Final = ContextVar("judged", default=False)
"""The caller whose time is judged asks itself, and not through the data plane."""

_CALLS: Final = (
    *("read", "write", "outcomes", "scan", "producer"),
    *("create_table", "find_table", "definition", "list_tables", "describe_table"),
    *("alter_table", "set_retention", "drop_table"),
)


def _follows() -> bool:
    """Is this a replica that follows its log? No caller waits for what it asks, so it must not move the clock."""
    task = asyncio.current_task()
    return task is not None and task.get_name().startswith("follow ")


class MovedClock:
    """The running event loop's clock, which `take` moves. It stays moved: a clock does not go back.

    It moves only while somebody waits: a call of the data plane is under way, or the judged caller asks the log itself.
    A change goes on when its caller's time is over, and a node opens the replicas of a new table. Neither may take time
    while an answer is on its way to its caller, which takes as long as this machine is busy.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        real = self._loop.time
        self._ahead_s = 0.0
        self._under_way = 0
        self._loop.time = lambda: real() + self._ahead_s  # type: ignore[method-assign]

    def counted(self, call: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[object]]:
        """A call of the data plane for which the clock moves while it is under way."""

        async def under_way(*arguments: Any, **named: Any) -> object:
            token = _judged.set(False)
            self._under_way += 1
            try:
                return await call(*arguments, **named)
            finally:
                self._under_way -= 1
                _judged.reset(token)

        return under_way

    async def take(self, seconds: float) -> None:
        """Let `seconds` pass, for all who take some now together. A caller whose time is over cancels it."""
        until_s = self._loop.time() + seconds
        while self._loop.time() < until_s and (self._under_way or _judged.get()):
            self._ahead_s += _STEP_S
            for _ in range(4):  # the timers that are due, and who waits for them
                await asyncio.sleep(0)


@contextmanager
def slow_log(data_plane: LocalData, replicas: Sequence[Replica] = ()) -> Iterator[None]:
    """Inside, each answer of the log and of the catalog takes about half of `CALL_S`, and `replicas` never get as far
    as a caller waits for.
    """
    clock = MovedClock()

    def slowed(answer: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[object]]:
        async def slow(*arguments: Any, **named: Any) -> object:
            if _inside.get() or _follows():
                return await answer(*arguments, **named)
            await clock.take(_SHARE * CALL_S)
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
            patch.setattr(owner, method, slowed(getattr(owner, method)))
        for call in _CALLS:
            patch.setattr(data_plane, call, clock.counted(getattr(data_plane, call)))
        for replica in replicas:
            patch.setattr(replica, "wait_applied", lags)
            patch.setattr(replica.progress, "wait_written", lags)
        yield


async def check_time_is_shared(call: Callable[[], Awaitable[object]]) -> None:
    """Make the call over a slow log. It fails if it takes more than its timeout, however it ends, and if it asks for no
    slow answer: it would show nothing.
    """
    loop = asyncio.get_running_loop()
    begun = loop.time()
    ended: object
    token = _judged.set(True)
    try:
        ended = await call()
    except DuramenError as error:
        ended = error
    finally:
        _judged.reset(token)
    took_s = loop.time() - begun
    assert took_s >= _SHARE * CALL_S, f"no slow answer in {took_s:.0f} s, for {ended!r}"
    assert took_s < 1.1 * CALL_S, f"{took_s:.0f} s of {CALL_S:.0f} s, for {ended!r}"
