"""Calls that wait before their message is read, or are refused there.

gRPC reads the message of a single call before it asks anybody. To a handler for a stream of messages it gives the
stream, unread. A single call looks the same on the wire as a stream of one message, so a call that has to wait is
served by such a handler: until its turn comes it costs neither the reading nor the parsing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NoReturn

import grpc

from log_tier.model.errors import DuramenError, InvalidRequest
from log_tier.rpc.messages.arriving_calls import ArrivingCalls

__all__ = ["Abort", "EarlyWait", "Metadata", "waiting_handler"]

Metadata = Sequence[tuple[str, str | bytes]] | None
"""What a call brings besides its message."""

EarlyWait = Callable[[], Awaitable[None]]
"""Returns when the message may be read; raises the `DuramenError` with which the call ends otherwise."""

Abort = Callable[[Any, DuramenError], Awaitable[NoReturn]]
"""Ends a call, by its context, with an error."""


def waiting_handler(method: str, handler: Any, wait: EarlyWait, arriving: ArrivingCalls, abort: Abort) -> Any:
    """`handler`, of single calls, for one call: after `wait`. The time for its message to come begins then."""

    async def answered(requests: Any, context: Any) -> Any:
        task = asyncio.current_task()
        arriving.methods.pop(task, None)
        try:
            await wait()
        except DuramenError as error:
            await abort(context, error)
        arriving.methods[task] = method
        if not arriving.is_watched:
            arriving.watch()
        request = await anext(aiter(requests), None)
        if request is None:
            await abort(context, InvalidRequest(f"the call of {method} has no message"))
        return await handler.unary_unary(request, context)

    return grpc.stream_unary_rpc_method_handler(answered, handler.request_deserializer, handler.response_serializer)
