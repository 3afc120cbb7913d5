"""Messages that are none: what a server answers to bytes that do not parse, for every service that it has.

gRPC's own answer is `UNKNOWN`, which says that the server is broken, and a traceback in the log for each of them. Here
they are `INVALID_ARGUMENT` with a problem that says so, and one line in the log, counted, for however many came.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, NamedTuple

import grpc
from google.protobuf.message import DecodeError

from log_tier.concurrency.clocks import SYSTEM_CLOCK
from log_tier.model.errors import InvalidRequest
from log_tier.rpc.problems import abort

__all__ = ["CheckedHandler", "Refusals"]

logger = logging.getLogger(__name__)

# A client that sends malformed messages sends many of them, and a person reads the log.
_LINE_EVERY_S: Final = 5.0

_Context = grpc.aio.ServicerContext[Any, Any]


class _Malformed(NamedTuple):
    """Takes the place of a request that does not parse."""

    reason: str


class Refusals:
    """Refuses what does not parse, and counts it for the log: one line for however many came within 5 s."""

    def __init__(self) -> None:
        self._count = 0
        self._said_s = -_LINE_EVERY_S

    async def refuse(self, method: str, request: _Malformed, context: _Context) -> None:
        """End the call with `INVALID_ARGUMENT`."""
        self._note(method, context.peer(), request.reason)
        await abort(context, InvalidRequest(f"the message to {method} does not parse: {request.reason}"))

    def _note(self, method: str, peer: str, reason: str) -> None:
        self._count += 1
        now = SYSTEM_CLOCK.monotonic_s()
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
    """One service, whose requests are refused where they do not parse. Methods that take a stream go through as is."""

    def __init__(self, inner: Any, refusals: Refusals) -> None:
        self._inner = inner
        self._refusals = refusals
        self._methods: dict[str, Any] = {}

    def service_name(self) -> str | None:
        """The full name of the service, where it has one."""
        name: str | None = self._inner.service_name() if hasattr(self._inner, "service_name") else None
        return name

    def service(self, handler_call_details: Any) -> Any:
        method = handler_call_details.method
        found = self._methods.get(method)
        if found is None:
            handler = self._inner.service(handler_call_details)
            if handler is None:
                return None
            found = self._methods[method] = _checked(method, handler, self._refusals)
        return found


def _checked(method: str, handler: Any, refusals: Refusals) -> Any:
    if handler.request_streaming or handler.request_deserializer is None:
        return handler
    parse = _parser(handler.request_deserializer)
    if handler.response_streaming:
        return grpc.unary_stream_rpc_method_handler(
            _streaming(method, handler.unary_stream, refusals), parse, handler.response_serializer
        )
    return grpc.unary_unary_rpc_method_handler(
        _single(method, handler.unary_unary, refusals), parse, handler.response_serializer
    )


def _parser(parse: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    def parsed(raw: bytes) -> Any:
        try:
            return parse(raw)
        except DecodeError as error:
            return _Malformed(str(error))

    return parsed


def _single(method: str, answer: Any, refusals: Refusals) -> Any:
    async def answered(request: Any, context: _Context) -> Any:
        if type(request) is _Malformed:
            await refusals.refuse(method, request, context)
        return await answer(request, context)

    return answered


def _streaming(method: str, answer: Any, refusals: Refusals) -> Any:
    if inspect.isasyncgenfunction(answer):

        async def yielded(request: Any, context: _Context) -> AsyncIterator[Any]:
            if type(request) is _Malformed:
                await refusals.refuse(method, request, context)
            async for reply in answer(request, context):
                yield reply

        return yielded

    async def written(request: Any, context: _Context) -> None:
        if type(request) is _Malformed:
            await refusals.refuse(method, request, context)
        await answer(request, context)

    return written
