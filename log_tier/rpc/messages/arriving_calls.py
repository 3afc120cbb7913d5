"""Calls of a gRPC server whose message has not come whole: bounded in time, and in the memory that they take.

gRPC holds what has come of a message, up to 48 MiB, for as long as its client likes, and says nothing of it before the
message is whole. So calls are noted when they begin, before anybody knows who calls, and forgotten when their message
is parsed. Those that are still there after a while are slow, or hostile:

    A1  A message has `MESSAGE_S` to come whole.
    A2  While messages take `ARRIVING_BYTES_MAX`, those that have been coming for `_SLOW_LOOKS` looks end. What they
        take is measured: by how much the memory of this process has grown since none of them was slow. Memory that
        malloc had kept of others, and lays them in, is no growth: the process is then no larger than it was.

A call that ends so has the status CANCELLED: gRPC has no way to say more before the message is there. A line in the log
says why.

Of a stream of requests, which only the reflection service takes, the first message is watched.

gRPC itself holds the newest call of a server until the next one comes, so one of those that are ended may be there
longer.

gRPC has no public way to end such a call either: its task is cancelled, and the one of gRPC's that keeps the call's
state until then. This module knows the private names for that.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import Context
from typing import Any, Final

from log_tier.rpc.messages.process_memory import ProcessMemory

__all__ = ["ARRIVING_BYTES_MAX", "MESSAGE_S", "ArrivingCalls"]

logger = logging.getLogger(__name__)

MESSAGE_S: Final = 30.0
"""The largest message at 13 Mbit/s."""

ARRIVING_BYTES_MAX: Final = 1 << 30
"""Twenty of the largest messages at once."""

_LOOK_S: Final = 0.25
_SLOW_LOOKS: Final = 3
"""Small messages come with their call, and a large one in less on a network of 1 Gbit/s."""

_WAITER: Final = "_schedule_rpc_coro"
"""The coroutine in which gRPC waits for the end of a call that it serves."""


class ArrivingCalls:
    """The calls of one server whose message has not come. Belongs to one event loop; `close()` ends the looking.

    To note a call costs a dict's entry; to forget it as much.
    """

    def __init__(
        self,
        *,
        message_s: float = MESSAGE_S,
        bytes_max: int = ARRIVING_BYTES_MAX,
        measured: Callable[[], int] | None = None,
    ) -> None:
        """`measured`: the memory of this process."""
        self.methods: dict[asyncio.Task[Any] | None, str] = {}
        """By the tasks that serve them, in the order in which they came."""
        self.ended = 0
        """Calls that were ended."""
        self.is_watched = False
        """Is there a look to come?"""
        self.message_s = message_s
        """Within so long a message has to come whole."""
        self.bytes_max = bytes_max
        """What those that are slow may take together."""
        # Open from the beginning: a look that fails would be the last one.
        self._measured = ProcessMemory().private_bytes if measured is None else measured
        self._looks: dict[asyncio.Task[Any], int] = {}
        """How often each was found here."""
        self._sizes: deque[int] = deque(maxlen=_SLOW_LOOKS + 1)
        """The memory at the last looks. What is slow began after the first of them."""
        self._before: int | None = None
        """The memory before the first call began that is slow; None: none is."""
        self._timer: asyncio.TimerHandle | None = None

    def watch(self) -> None:
        """Look from now on, for as long as calls arrive. To be called where `is_watched` is False."""
        self.is_watched = True
        self._sizes.append(self._measured())
        self._look_later()

    def _look_later(self) -> None:
        # Not in the context of the call that is under way, which would hold that one.
        self._timer = asyncio.get_running_loop().call_later(_LOOK_S, self._look, context=Context())

    def close(self) -> None:
        """Look no more. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        if not self.methods:
            self.is_watched = False
            self._looks.clear()
            self._sizes.clear()
            return
        looks: dict[asyncio.Task[Any], int] = {}
        for task in list(self.methods):
            if task is None or task.done():  # its client is gone
                del self.methods[task]
            else:
                looks[task] = self._looks.get(task, 0) + 1
        self._looks = looks
        slow = [task for task, count in looks.items() if count >= _SLOW_LOOKS]
        before = self._before = (self._sizes[0] if self._before is None else self._before) if slow else None
        self._sizes.append(self._measured())
        if before is not None and (taken := self._sizes[-1] - before) > self.bytes_max:
            self._end(slow, f"messages that have not come whole take {taken} bytes, more than {self.bytes_max}")
        else:
            late = [task for task in slow if looks[task] * _LOOK_S > self.message_s]
            self._end(late, f"their messages did not come whole within {self.message_s:g} s")
        self._look_later()

    def _end(self, tasks: Sequence[asyncio.Task[Any]], why: str) -> None:
        if not tasks:
            return
        methods = {self.methods.pop(task) for task in tasks}
        self.ended += len(tasks)
        logger.warning("%d calls are ended: %s; calls of %s", len(tasks), why, ", ".join(sorted(methods)[:3]))
        ended = set(tasks)
        for waiter in asyncio.all_tasks():
            if _name_of(waiter) == _WAITER and not ended.isdisjoint(_tasks_of(waiter)):
                waiter.cancel()
        for task in tasks:
            task.cancel()
            self._looks.pop(task, None)


def _name_of(task: asyncio.Task[Any]) -> str:
    return getattr(task.get_coro(), "__qualname__", "")


def _tasks_of(waiter: asyncio.Task[Any]) -> list[asyncio.Task[Any]]:
    """The tasks that a coroutine of gRPC's compiled code has in its variables: only the collector sees them."""
    return [each for each in gc.get_referents(*gc.get_referents(waiter.get_coro())) if isinstance(each, asyncio.Task)]
