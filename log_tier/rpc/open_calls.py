"""The calls of one channel until gRPC is done with them.

gRPC's core reports the end of a call to the loop that made it, a moment after the call was cancelled. A loop that
`asyncio.run` has closed by then misses the report, and gRPC prints that in the program's next loop. So a call is
cancelled below gRPC's own task for it, which then sees the end, and a connection that closes waits for those tasks.

gRPC has public names neither for that way of cancelling nor for those tasks: this module alone knows the private ones.
"""

from __future__ import annotations

import asyncio
import gc
from typing import Any, Final

__all__ = ["OpenCalls"]

# gRPC is done with a call that was cancelled within a millisecond, whatever the server does.
_END_S: Final = 1.0

# The coroutine in which gRPC waits for the end of a stream, also of one that was cancelled.
_END_OF_STREAM: Final = "_AioCall._handle_status_once_received"


class OpenCalls:
    """The calls and streams of `channel`. Those of a simulated network are not gRPC's, and end with the channel."""

    def __init__(self, channel: Any) -> None:
        self.channel = channel
        self._core = getattr(channel, "_channel", None)
        self.are_grpcs = self._core is not None
        self.under_way: set[Any] = set()
        """The calls with one reply whose callers wait for it."""
        # Held here, and not by their generators alone: a forked process keeps them with the channel, and ends none.
        self._streams: set[Any] = set()
        self._left: set[asyncio.Task[Any]] = set()

    @property
    def is_empty(self) -> bool:
        """Are all calls and streams over?"""
        return not (self.under_way or self._streams or self._left)

    def leave(self, call: Any) -> None:
        """End a call whose caller was cancelled."""
        if self._core is not None:
            _cancel(call)
            end = asyncio.ensure_future(_end_of(call))
            self._left.add(end)
            end.add_done_callback(self._left.discard)

    def opened(self, stream: Any) -> None:
        """Register a stream that is read from now on."""
        self._streams.add(stream)

    def left(self, stream: Any) -> None:
        """End a stream that is not read any more."""
        self._streams.discard(stream)
        stream.cancel()

    async def end(self) -> None:
        """End all calls and streams; return when gRPC is done with them, cancelled ones included, or after 1 s."""
        if self._core is None:
            return
        for call in (*self._streams, *self.under_way):
            _cancel(call)
        ends = [*map(asyncio.ensure_future, map(_end_of, self.under_way)), *self._left, *self._ends_of_streams()]
        if ends:
            await asyncio.wait(ends, timeout=_END_S)

    def _ends_of_streams(self) -> list[asyncio.Task[Any]]:
        """gRPC's tasks of this loop that wait for the end of a stream of this channel.

        A task's coroutine refers to its call and the call to its channel in compiled code: only the collector sees it.
        """
        waiting = [task for task in asyncio.all_tasks() if _name_of(task) == _END_OF_STREAM]
        return [task for task in waiting if _refers(task.get_coro(), self._core, steps=3)]


def _cancel(call: Any) -> None:
    """End a call below gRPC's task for it. `call.cancel` ends that task in the middle."""
    call._cancel("the connection was closed")


async def _end_of(call: Any) -> None:
    await asyncio.gather(call, return_exceptions=True)


def _name_of(task: asyncio.Task[Any]) -> str:
    return getattr(task.get_coro(), "__qualname__", "")


def _refers(holder: Any, target: Any, steps: int) -> bool:
    found = gc.get_referents(holder)
    if any(each is target for each in found):
        return True
    return steps > 1 and any(_refers(each, target, steps - 1) for each in found)
