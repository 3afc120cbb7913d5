"""Calls that are refused before their message is read.

gRPC reads the message of a single call before it asks anybody. To a handler for a stream of messages it gives the
stream, unread. A single call looks the same on the wire as a stream of one message, so a call that is to be refused is
given to such a handler: it costs neither the reading nor the parsing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NoReturn

import grpc

from log_tier.model.errors import DuramenError
from log_tier.rpc.messages.arriving_calls import ArrivingCalls

__all__ = ["Abort", "EarlyRefusal", "Metadata", "refusing_handler"]

Metadata = Sequence[tuple[str, str | bytes]] | None
"""What a call brings besides its message."""

EarlyRefusal = Callable[[], Awaitable[DuramenError]]
"""Returns the error with which the call ends, when it is time to send it."""

Abort = Callable[[Any, DuramenError], Awaitable[NoReturn]]
"""Ends a call, by its context, with an error."""


def refusing_handler(refusal: EarlyRefusal, arriving: ArrivingCalls, abort: Abort) -> Any:
    """A handler for one call, which ends it. No message is waited for."""

    async def answered(_requests: Any, context: Any) -> NoReturn:
        arriving.methods.pop(asyncio.current_task(), None)
        await abort(context, await refusal())

    return grpc.stream_unary_rpc_method_handler(answered)
