"""Checks of every message that a server receives, for every service that it has.

For bytes that do not parse, gRPC itself answers `UNKNOWN`, which says that the server is broken, and logs a traceback
each time. These handlers answer `INVALID_ARGUMENT` with a problem that names the fault, and log one counted line for
all malformed messages of 5 s.

A large message is parsed after its fields were counted, in a thread: more than `FIELDS_MAX` of them are refused with
`LimitExceeded`, before they take time and memory (`log_tier/rpc/messages/message_fields.py`).

A guard, where a server has one, lets each call in when its request has been parsed, or refuses it. A single call may
have to wait, or be refused, before its message is read.

A service may give a large reply as bytes, which a thread has serialized.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import nullcontext
from typing import Any, Final, NamedTuple, NoReturn, Protocol, TypeVar

import grpc
from google.protobuf.message import DecodeError

from log_tier.concurrency.clocks import SYSTEM_CLOCK, Clock
from log_tier.model.errors import DuramenError, InvalidRequest, LimitExceeded
from log_tier.rpc.messages.arriving_calls import ArrivingCalls
from log_tier.rpc.messages.bounded_streams import bounded
from log_tier.rpc.messages.early_refusals import EarlyRefusal, Metadata, refusing_handler
from log_tier.rpc.messages.held_calls import HeldCall, MeteredContext, OpenRead, answer_held, size_of_reply
from log_tier.rpc.messages.message_fields import count_fields
from log_tier.rpc.messages.slow_call_sink import CallEnd, SlowCallSink
from log_tier.rpc.messages.stream_bound import StreamBound
from log_tier.rpc.messages.timed_streams import TimedStream
from log_tier.rpc.problems import abort
from log_tier.tracing.serving import traced_answer, traced_stream
from log_tier.tracing.span import Tracing

__all__ = ["FIELDS_MAX", "Admit", "AdmitStream", "CallGuard", "CheckedHandler", "Refusals"]

logger = logging.getLogger(__name__)

# A client that sends malformed messages sends many of them, and a person reads the log.
_LINE_EVERY_S: Final = 5.0

# Ten for each of the most parts, keys or writes that a request may have. The parser takes 7 ms for so many.
FIELDS_MAX: Final = 100_000

# The event loop parses messages up to this size itself: the most fields that one can have take 2 ms.
_AT_ONCE_BYTES_MAX: Final = 64 * 1024

_Context = grpc.aio.ServicerContext[Any, Any]

_current_task: Final = asyncio.current_task

_Held = TypeVar("_Held")

Admit = Callable[[Any, "_Context"], Awaitable[HeldCall | OpenRead | None]]
"""Lets in one single call with its request; raises the `DuramenError` with which it ends otherwise. None: it holds
nothing, and is not ended before it is answered.
"""
AdmitStream = Callable[[Any, "_Context"], Awaitable[HeldCall | None]]
"""The same for a stream."""


class CallGuard(Protocol):
    """Decides which calls are let in."""

    @property
    def is_closed(self) -> bool:
        """Is anybody kept out? If not, single calls are let in, and noted by `unasked`; streams are asked about."""
        ...

    def admitting(self, method: str) -> Admit | None:
        """What lets in the single calls of a method, by its full name; None: everybody may call it."""
        ...

    def may_end(self, method: str) -> bool:
        """Is a call of the method to be noted by `unasked`? Not if it changes something: it is answered."""
        ...

    def unasked(self, method: str, request: Any, context: _Context) -> OpenRead | None:
        """Note a single call that is let in while nobody is kept out: it may be ended when somebody is."""
        ...

    def admitting_streams(self, method: str) -> AdmitStream | None:
        """The same as `admitting` for a method whose calls are streams."""
        ...

    def early(self, method: str, metadata: Metadata) -> EarlyRefusal | None:
        """What refuses a single call before its message is read; None: nothing does."""
        ...


class _Unparsed(NamedTuple):
    """Takes the place of a request that does not parse, or that a thread has yet to parse."""

    raw: bytes
    reason: str = ""
    """Why it does not parse."""


class Refusals:
    """Refuses messages that do not parse, and logs their number: one line for all of them within 5 s."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._count = 0
        self._said_s = -_LINE_EVERY_S

    async def parsed(self, method: str, request: _Unparsed, parse: Callable[[bytes], Any], context: _Context) -> Any:
        """The message; ends the call where there is none (`InvalidRequest`), or too many fields (`LimitExceeded`)."""
        try:
            if request.reason:
                raise DecodeError(request.reason)
            return await asyncio.to_thread(_parsed_large, method, request.raw, parse)
        except DecodeError as error:
            await self._refuse(method, str(error), context)
        except DuramenError as error:
            await abort(context, error)

    async def _refuse(self, method: str, reason: str, context: _Context) -> NoReturn:
        self._note(method, context.peer(), reason)
        await abort(context, InvalidRequest(f"the message to {method} does not parse: {reason}"))

    def _note(self, method: str, peer: str, reason: str) -> None:
        self._count += 1
        now = self._clock.monotonic_s()
        if now - self._said_s < _LINE_EVERY_S:
            return
        logger.warning(
            "refused %d malformed message%s; the last one to %s from %s: %s",
            self._count,
            "" if self._count == 1 else "s",
            method,
            peer,
            reason,
        )
        self._count, self._said_s = 0, now


class CheckedHandler(grpc.GenericRpcHandler):  # type: ignore[type-arg]
    """Services, whose requests are refused where they do not parse, or have too many fields. One handler for all of a
    server's: gRPC asks one after the other for each call.
    """

    def __init__(
        self,
        inner: Sequence[Any],
        refusals: Refusals,
        guard: CallGuard | None = None,
        arriving: ArrivingCalls | None = None,
        bound: StreamBound | None = None,
        slow: SlowCallSink | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        """`inner`: the services' own; more may be added to it later. `arriving`: for a server of gRPC's own, which has
        calls whose message never comes. `bound`: of its streams; None: as many as come. `slow`: learns of single calls
        that took long. `tracing`: of calls that end by themselves; None: they are not traced, and cost no more.
        """
        self._slow = slow
        self._tracing = tracing
        self._bound = bound
        self._arriving = arriving
        self._inner = inner
        self._refusals = refusals
        self._guard = guard
        self._methods: dict[str, Any] = {}

    def service(self, handler_call_details: Any) -> Any:
        method = handler_call_details.method
        if (arriving := self._arriving) is not None:
            arriving.methods[_current_task()] = method
            if not arriving.is_watched:
                arriving.watch()
        found = self._methods.get(method)
        if found is None:
            handlers = (each.service(handler_call_details) for each in self._inner)
            handler = next((each for each in handlers if each is not None), None)
            if handler is None:
                return None
            checked = _checked(method, handler, self._refusals, self._guard, self._arriving, self._slow, self._tracing)
            found = self._methods[method] = (
                checked if self._bound is None else bounded(method, checked, self._bound, abort)
            )
        if arriving is not None and (guard := self._guard) is not None and guard.is_closed and found.unary_unary:
            refusal = guard.early(method, handler_call_details.invocation_metadata)
            if refusal is not None:
                return refusing_handler(refusal, arriving, abort)
        return found


def _checked(
    method: str,
    handler: Any,
    refusals: Refusals,
    guard: CallGuard | None,
    arriving: ArrivingCalls | None,
    slow: SlowCallSink | None,
    tracing: Tracing | None,
) -> Any:
    methods: dict[Any, str] = {} if arriving is None else arriving.methods
    parse = handler.request_deserializer
    if parse is None:
        assert guard is None, f"the messages of {method} are not parsed, and nobody could decide about its calls"
        return handler
    serialize = _not_yet(handler.response_serializer)
    measured = slow if slow is not None and slow.measures(method) else None
    if handler.request_streaming:
        answer = _each_parsed(method, handler.stream_stream, parse, refusals, guard)
        return grpc.stream_stream_rpc_method_handler(answer, _at_once(parse, methods.pop), serialize)
    if handler.response_streaming:
        stream = handler.unary_stream if tracing is None else traced_stream(method, handler.unary_stream, tracing)
        answer = _streaming(method, stream, parse, refusals, guard, measured)
        return grpc.unary_stream_rpc_method_handler(answer, _at_once(parse, methods.pop), serialize)
    single = handler.unary_unary if tracing is None else traced_answer(method, handler.unary_unary, tracing)
    answer = _single(method, single, parse, refusals, guard, measured)
    return grpc.unary_unary_rpc_method_handler(answer, _at_once(parse, methods.pop), serialize)


async def _everybody(_request: Any, _context: _Context) -> None:
    """Lets in every call."""


def _aborting(admit: Callable[[Any, _Context], Awaitable[_Held]]) -> Callable[[Any, _Context], Awaitable[_Held]]:
    """The guard's refusal as the end of a call."""

    async def admitted(request: Any, context: _Context) -> _Held:
        try:
            return await admit(request, context)
        except DuramenError as error:
            await abort(context, error)

    return admitted


def _admitting_streams(guard: CallGuard | None, method: str) -> AdmitStream:
    admit = None if guard is None else guard.admitting_streams(method)
    return _everybody if admit is None else _aborting(admit)


def _at_once(parse: Callable[[bytes], Any], arrived: Callable[..., object]) -> Callable[[bytes], Any]:
    """Parse a small message on the event loop. `arrived`: forgets its call."""

    def parsed(raw: bytes) -> Any:
        arrived(_current_task(), None)
        if len(raw) > _AT_ONCE_BYTES_MAX:
            return _Unparsed(raw)
        try:
            return parse(raw)
        except DecodeError as error:
            return _Unparsed(raw, str(error) or "it is damaged")

    return parsed


def _not_yet(serialize: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    """Serialize a reply, unless the service has done so in a thread and gives bytes."""

    def serialized(reply: Any) -> bytes:
        return reply if type(reply) is bytes else serialize(reply)

    return serialized


def _parsed_large(method: str, raw: bytes, parse: Any) -> Any:
    """Runs in a thread. Raises `LimitExceeded`, `DecodeError`."""
    fields = count_fields(raw, parse.__self__.DESCRIPTOR, FIELDS_MAX)
    if fields > FIELDS_MAX:
        raise LimitExceeded(
            f"the message to {method} has more than {FIELDS_MAX} fields in its {len(raw)} bytes: send less at once",
            limit=FIELDS_MAX,
            size=fields,
        )
    return parse(raw)


def _single(
    method: str, answer: Any, parse: Any, refusals: Refusals, guard: CallGuard | None, slow: SlowCallSink | None
) -> Any:
    deciding = None if guard is None else guard.admitting(method)
    admit = None if deciding is None else _aborting(deciding)
    may_end = guard is not None and guard.may_end(method)
    now_s, least_s = (_no_clock, math.inf) if slow is None else (slow.now_s, slow.least_s)

    async def answered(request: Any, context: _Context) -> Any:
        if type(request) is _Unparsed:
            request = await refusals.parsed(method, request, parse, context)
        held = None
        if admit is not None and guard is not None:
            if guard.is_closed:
                held = await admit(request, context)
            elif may_end:
                held = guard.unasked(method, request, context)
        began_s = now_s()  # what a quota holds back is not the server's time
        end: CallEnd = "failed"
        try:
            reply = await (
                answer(request, context) if held is None else answer_held(answer, request, context, held, abort)
            )
            end = "done"
            return reply
        except asyncio.CancelledError:
            end = "unanswered"
            raise
        finally:
            if slow is not None and now_s() - began_s >= least_s:
                slow.called(method, request, context.peer(), began_s, end)

    return answered


def _no_clock() -> float:
    return 0.0


def _streaming(
    method: str, answer: Any, parse: Any, refusals: Refusals, guard: CallGuard | None, slow: SlowCallSink | None
) -> Any:
    admit = _admitting_streams(guard, method)
    if inspect.isasyncgenfunction(answer):

        async def yielded(request: Any, context: _Context) -> AsyncIterator[Any]:
            if type(request) is _Unparsed:
                request = await refusals.parsed(method, request, parse, context)
            held = await admit(request, context)
            try:
                async for reply in answer(request, context):
                    yield reply
                    if held is not None and held.counts_replies:
                        await asyncio.sleep(held.sent(size_of_reply(reply)))
            finally:
                if held is not None:
                    held.release("done")

        return yielded

    async def written(request: Any, context: _Context) -> None:
        if type(request) is _Unparsed:
            request = await refusals.parsed(method, request, parse, context)
        held = await admit(request, context)
        try:
            seen: Any = MeteredContext(context, held) if held is not None and held.counts_replies else context
            with nullcontext(seen) if slow is None else TimedStream(seen, method, request, slow) as timed:
                await answer(request, timed)
        finally:
            if held is not None:
                held.release("done")

    return written


def _each_parsed(method: str, answer: Any, parse: Any, refusals: Refusals, guard: CallGuard | None) -> Any:
    """For a stream of requests. A guard is asked for each of them."""
    admit = _admitting_streams(guard, method)

    async def yielded(requests: Any, context: _Context) -> AsyncIterator[Any]:
        async def each() -> AsyncIterator[Any]:
            async for request in requests:
                parsed = type(request) is not _Unparsed
                whole = request if parsed else await refusals.parsed(method, request, parse, context)
                held = await admit(whole, context)
                if held is not None:
                    held.release("done")
                yield whole

        async for reply in answer(each(), context):
            yield reply

    return yielded
