"""Calls that hold something until they are over, such as a share of a quota, and reads that may be ended before."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn, Protocol

import grpc

from log_tier.model.errors import DuramenError
from log_tier.rpc.messages.slow_call_sink import CallEnd

__all__ = ["HeldCall", "MeteredContext", "OpenRead", "answer_held", "size_of_reply"]

_Context = grpc.aio.ServicerContext[Any, Any]
_Abort = Callable[[_Context, DuramenError], Awaitable[NoReturn]]


class HeldCall(Protocol):
    """What a call that was let in holds until it is over."""

    @property
    def counts_replies(self) -> bool:
        """Are the reply's bytes of interest?"""
        ...

    def sent(self, size: int) -> float:
        """A reply of so many bytes is sent; how many seconds a stream waits before its next one."""
        ...

    def release(self, end: CallEnd) -> None:
        """The call is over."""
        ...


class OpenRead:
    """A single call that only reads, and what it holds: `refuse` ends it where it waits. Made in the call's task."""

    __slots__ = ("_ended", "_held", "_refused", "_task")

    def __init__(self, held: HeldCall | None, ended: Callable[[DuramenError | None], None]) -> None:
        """`ended` is called once, with what the call is refused with in its reply; None: it was answered, failed by
        itself, or its caller has left.
        """
        task = asyncio.current_task()
        assert task is not None, "a call is served by a task"
        self._held, self._ended, self._task = held, ended, task
        self._refused: DuramenError | None = None

    def refuse(self, error: DuramenError) -> None:
        """End the call with `error`, unless it has its answer."""
        if self._refused is None:
            self._refused = error
            self._task.cancel()

    async def answered(self, answer: Any, request: Any, context: _Context, abort: _Abort) -> Any:
        """The reply. Ends the call, by `abort`, with what it is refused with meanwhile."""
        error: DuramenError | None = None
        try:
            reply = await (
                answer(request, context)
                if self._held is None
                else answer_held(answer, request, context, self._held, abort)
            )
            error = self._refused
        except asyncio.CancelledError:
            if self._refused is None:
                raise
            error = self._refused
        finally:
            self._ended(error)
        if error is not None:
            self._task.uncancel()  # the cancellation was this server's own
            await abort(context, error)
        return reply


async def answer_held(answer: Any, request: Any, context: _Context, held: HeldCall | OpenRead, abort: _Abort) -> Any:
    """The reply to a single call that holds something, or may be ended before."""
    if isinstance(held, OpenRead):
        return await held.answered(answer, request, context, abort)
    end: CallEnd = "failed"
    try:
        reply = await answer(request, context)
        if held.counts_replies:
            held.sent(size_of_reply(reply))
        end = "done"
        return reply
    except asyncio.CancelledError:
        end = "unanswered"
        raise
    finally:
        held.release(end)


def size_of_reply(reply: Any) -> int:
    """How many bytes a reply has, a message or one that a thread has serialized."""
    return len(reply) if type(reply) is bytes else int(reply.ByteSize())


class MeteredContext:
    """The context of a stream whose messages are counted, and which waits where they were too many."""

    def __init__(self, context: _Context, held: HeldCall) -> None:
        self._context = context
        self._held = held

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    async def write(self, message: Any) -> None:
        """Send a message, and wait for as long as the quota says."""
        await self._context.write(message)
        if (wait_s := self._held.sent(size_of_reply(message))) > 0:
            await asyncio.sleep(wait_s)
