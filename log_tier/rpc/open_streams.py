"""The streams that a server has open: how a shutdown ends them with a reason, and not by silence.

A read that follows the log, and a watch, never end by themselves. Without this a server that stops would wait for them
until its patience is over, and their clients would not learn why they ended.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import grpc

from log_tier.model.errors import ShuttingDown
from log_tier.rpc.stream_budget import StreamBudget

__all__ = ["OpenStreams"]

logger = logging.getLogger(__name__)


class OpenStreams:
    """The tasks that serve streams. Belongs to one event loop."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[object], None] = {}
        """The streams' tasks, in the order in which they came and in which `end` cancels them."""
        self._ended = False
        self.budget = StreamBudget()
        """What all of them may hold for clients that do not read."""

    def __len__(self) -> int:
        return len(self._tasks)

    @asynccontextmanager
    async def served(self, context: grpc.aio.ServicerContext[Any, Any]) -> AsyncIterator[None]:
        """Serve a stream inside; raises `ShuttingDown` there once `end` was called, before or meanwhile.

        Send with `context.write`, not with `yield`: a handler that yields is suspended outside of this block while a
        slow client is written to, and the end of its task would then reach gRPC as silence instead of the reason.

        The call's initial metadata leave first, before `end` can reach the task. gRPC would send them with the first
        message otherwise; if that write is cancelled while the client is slow, gRPC sends them a second time with the
        status, refuses that itself (`GRPC_CALL_ERROR_TOO_MANY_OPERATIONS`), and the client waits for ever.
        """
        if self._ended:
            raise _refusal()
        with suppress(grpc.aio.InternalError):  # the client went away; the first message finds out
            await context.send_initial_metadata(())
        if self._ended:
            raise _refusal()
        task = asyncio.current_task()
        assert task is not None, "a stream is served by a task"
        self._tasks[task] = None
        try:
            yield
        except asyncio.CancelledError:
            if not self._ended:
                raise  # the client went away
            task.uncancel()
            raise _refusal() from None
        except grpc.aio.InternalError as error:
            if self._ended:
                task.uncancel()
                raise _refusal() from None
            # gRPC's core could not send: the client has just gone away, and nobody is left to answer.
            logger.debug("a stream ended with its client: %s", error)
        finally:
            self._tasks.pop(task, None)

    def end(self) -> None:
        """End every stream with `ShuttingDown`, and refuse new ones."""
        self._ended = True
        for task in self._tasks:
            task.cancel()


def _refusal() -> ShuttingDown:
    return ShuttingDown("the server is stopping; go on from the last offset when it is back")
