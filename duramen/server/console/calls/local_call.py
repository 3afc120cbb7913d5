"""One call of a gRPC method inside of its server's process, through everything that stands before the method."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, NoReturn, Protocol

from google.protobuf.message import Message

from duramen.server.console.calls.call_messages import CallAsked, reply_of
from log_tier.concurrency.clocks import SYSTEM_CLOCK, Clock
from log_tier.model.errors import DeadlineExceeded, DuramenError, LimitExceeded, UnknownFormat
from log_tier.proto.problem_pb2 import Problem
from log_tier.rpc.credentials import AUTHORIZATION
from log_tier.rpc.messages.early_refusals import Metadata
from log_tier.rpc.problems import PROBLEM_KEY, error_of

__all__ = ["REPLY_BYTES_MAX", "CallReplies", "FindMethod", "call_locally"]

REPLY_BYTES_MAX: Final = 4 << 20
"""Of the replies of one call, in protobuf's bytes: 1,000 partitions with 20 replicas each are 1 MiB."""


class FindMethod(Protocol):
    """Finds what answers calls of a gRPC server."""

    def __call__(self, method: str, metadata: Metadata) -> Any:
        """The handler of a call, with the guard of its server before it; None: there is no such method."""
        ...


class CallReplies(NamedTuple):
    """What came."""

    replies: list[Message]
    more: bool
    """Did the stream go on?"""


class _CallEnded(Exception):
    """A call was ended with an error."""

    def __init__(self, error: DuramenError) -> None:
        super().__init__(str(error))
        self.error = error


class _HasEnough(Exception):
    """No further reply of a stream is wanted."""


class LocalCall:
    """What a method knows of its call: of `grpc.aio.ServicerContext`, all that handlers of ours use."""

    def __init__(self, asked: CallAsked, metadata: Metadata, peer: str, clock: Clock) -> None:
        self._asked = asked
        self._metadata = metadata
        self._peer = peer
        self._clock = clock
        self._ends_s = clock.monotonic_s() + asked.timeout_s
        self._bytes = 0
        self.replies: list[Message] = []

    def peer(self) -> str:
        """The client of the HTTP port."""
        return self._peer

    def invocation_metadata(self) -> Metadata:
        """The header that says who calls."""
        return self._metadata

    def auth_context(self) -> Mapping[str, Any]:
        """Empty: a browser shows no certificate here."""
        return {}

    def time_remaining(self) -> float:
        """Seconds until the deadline."""
        return max(0.0, self._ends_s - self._clock.monotonic_s())

    async def send_initial_metadata(self, _metadata: object) -> None:
        """Nothing is sent before the replies."""

    async def abort(self, _code: object, details: str = "", trailing: Sequence[tuple[str, Any]] = ()) -> NoReturn:
        """End the call with the error that is in its metadata."""
        problem = next((value for key, value in trailing if key == PROBLEM_KEY), None)
        assert problem is not None, f"a call ended without an error of ours: {details}"
        raise _CallEnded(error_of(Problem.FromString(problem)))

    async def write(self, reply: Message | bytes) -> None:
        """One reply of a stream; ends the stream when it is one more than is wanted, or than there is room for."""
        message = reply_of(self._asked.method, reply)
        if len(self.replies) >= self._asked.messages or not self.take(message):
            raise _HasEnough
        await asyncio.sleep(0)  # of a stream that is at hand each message is a turn of the loop

    def take(self, message: Message) -> bool:
        """Keep a reply, if there is room for it."""
        self._bytes += message.ByteSize()
        if self._bytes > REPLY_BYTES_MAX:
            return False
        self.replies.append(message)
        return True


async def call_locally(
    find: FindMethod, asked: CallAsked, header: str, peer: str, *, clock: Clock = SYSTEM_CLOCK
) -> CallReplies:
    """The replies of one call. `header`: that says who calls; empty: none. `peer`: host:port of the client.

    Raises the error with which the call ends; `DeadlineExceeded` after its time, `LimitExceeded` for a reply that is
    larger than `REPLY_BYTES_MAX`.
    """
    metadata = ((AUTHORIZATION, header),) if header else ()
    call = LocalCall(asked, metadata, peer, clock)
    # A task of its own, as a call of gRPC has: it carries who calls, and a guard ends it.
    task = asyncio.get_running_loop().create_task(_called(find, call, asked, metadata), name=f"call of {asked.method}")
    try:
        async with asyncio.timeout(asked.timeout_s):
            more = await task
    except TimeoutError as error:
        raise DeadlineExceeded(f"{asked.method} did not answer within {asked.timeout_s:g} s") from error
    except _CallEnded as ended:
        raise ended.error from None
    return CallReplies(call.replies, more)


async def _called(find: FindMethod, call: LocalCall, asked: CallAsked, metadata: Metadata) -> bool:
    """Runs in the call's task. Are there more replies?"""
    handler = find(asked.method, metadata)
    if handler is None:
        raise _CallEnded(UnknownFormat(f"this server does not answer {asked.method}: ask another one of the cluster"))
    if handler.stream_unary is not None:  # a quota refuses it before its message
        await handler.stream_unary(None, call)
    request = handler.request_deserializer(asked.request.SerializeToString())
    if handler.unary_unary is not None:
        if not call.take(reply_of(asked.method, await handler.unary_unary(request, call))):
            raise _CallEnded(LimitExceeded(f"the reply is larger than the {REPLY_BYTES_MAX} bytes that a page may get"))
        return False
    try:
        if inspect.isasyncgenfunction(handler.unary_stream):
            async for reply in handler.unary_stream(request, call):
                await call.write(reply)
        else:
            await handler.unary_stream(request, call)
    except _HasEnough:
        return True
    return False
