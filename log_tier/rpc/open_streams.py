"""The streams that a server has open: what they hold for clients that do not read, and how a shutdown ends them.

A read that follows the log, and a watch, never end by themselves. Without this a server that stops would wait for them
until its patience is over, and their clients would not learn why they ended.

A client that does not read keeps the message that is being sent to it: gRPC does not give that back before the client
reads or its connection ends, not even when the call is ended. So nothing else is held for such a client. What makes the
messages is closed when the client has stalled for `STALLED_S`, and made again, behind that message, when it reads on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import grpc

from log_tier.model.errors import DuramenError, ShuttingDown
from log_tier.rpc.stream_budget import HeldPage, StreamBudget

__all__ = ["STALLED_S", "OpenStreams"]

STALLED_S: Final = 1.0
"""A client that takes no message for so long has stalled."""

logger = logging.getLogger(__name__)


class OpenStreams:
    """The tasks that serve streams. Belongs to one event loop."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[object], None] = {}
        """The streams' tasks, in the order in which they came and in which `end` cancels them."""
        self._ended = False
        self._refused: dict[asyncio.Task[object], DuramenError] = {}
        """Streams that must not go on, each with the error of its end."""
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
        task = asyncio.current_task()
        assert task is not None, "a stream is served by a task"
        self._check(task)
        with suppress(grpc.aio.InternalError):  # the client went away; the first message finds out
            await context.send_initial_metadata(())
        self._check(task)
        self._tasks[task] = None
        try:
            yield
        except asyncio.CancelledError:
            if not self._ended and task not in self._refused:
                raise  # the client went away
            task.uncancel()
            self._check(task)
        except grpc.aio.InternalError as error:
            if self._ended or task in self._refused:
                task.uncancel()
                self._check(task)
            # gRPC's core could not send: the client has just gone away, and nobody is left to answer.
            logger.debug("a stream ended with its client: %s", error)
        finally:
            self._tasks.pop(task, None)

    async def send_on(
        self, context: grpc.aio.ServicerContext[Any, Any], source: Callable[[HeldPage], AsyncGenerator[Any, None]]
    ) -> None:
        """Serve a stream of the messages that `source` yields.

        When the client has stalled, `source` is closed where it yielded last, and called again when the client reads
        on: it goes on behind that message. It says in the `HeldPage` what it holds. Raises as `served`, and what
        `source` raises.
        """
        async with self.served(context):
            with self.budget.stream() as held:
                while await _send_until_stalled(context, source(held), held):
                    held.release()

    def refuse(self, task: asyncio.Task[Any], error: DuramenError) -> bool:
        """End the stream that this task serves, or is about to serve, with `error`. False: it ends already."""
        if task in self._refused:
            return False
        self._refused[task] = error
        if task in self._tasks:
            task.cancel()
        return True

    def forgive(self, task: asyncio.Task[Any]) -> None:
        """Forget what was said of a task that is done."""
        self._refused.pop(task, None)

    def _check(self, task: asyncio.Task[object]) -> None:
        """Raise why a stream must not go on, if it must not."""
        if self._ended:
            raise _refusal()
        if (refused := self._refused.get(task)) is not None:
            raise refused

    def end(self) -> None:
        """End every stream with `ShuttingDown`, and refuse new ones."""
        self._ended = True
        for task in self._tasks:
            task.cancel()


async def _send_until_stalled(
    context: grpc.aio.ServicerContext[Any, Any], messages: AsyncGenerator[Any, None], held: HeldPage
) -> bool:
    """Send messages to the last one, or to one that the client took late; did it stall?"""
    loop = asyncio.get_running_loop()
    closing: asyncio.Task[None] | None = None

    def stall(message: Any) -> None:
        nonlocal closing
        closing = loop.create_task(messages.aclose(), name="stalled stream")
        held.hold(message.ByteSize())

    try:
        async for message in messages:
            timer = loop.call_later(STALLED_S, stall, message)
            try:
                await context.write(message)
            finally:
                timer.cancel()
            if closing is not None:
                return True
        return False
    finally:
        await (messages.aclose() if closing is None else closing)


def _refusal() -> ShuttingDown:
    return ShuttingDown("the server is stopping; go on from the last offset when it is back")
