"""Streams that are counted before their request is looked at."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from typing import Any, Final

import grpc

from log_tier.model.errors import DuramenError
from log_tier.rpc.messages.early_refusals import Abort
from log_tier.rpc.messages.stream_bound import StreamBound

__all__ = ["OPEN_TO_ALL", "bounded"]

_Context = grpc.aio.ServicerContext[Any, Any]

OPEN_TO_ALL: Final = frozenset(
    {"grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"}
)
"""Services that answer everybody, also where a guard decides about all others."""


def bounded(method: str, handler: Any, bound: StreamBound, abort: Abort) -> Any:
    """A method whose streams are counted before their request is looked at."""
    if not handler.response_streaming:
        return handler
    answer = handler.stream_stream or handler.unary_stream
    open_to_all = method[1:].partition("/")[0] in OPEN_TO_ALL

    if inspect.isasyncgenfunction(answer):

        async def counted(request: Any, context: _Context) -> AsyncIterator[Any]:
            peer = await _entered(bound, context, open_to_all, abort)
            try:
                async for reply in answer(request, context):
                    yield reply
            finally:
                bound.leave(peer, open_to_all=open_to_all)

    else:

        async def counted(request: Any, context: _Context) -> None:  # type: ignore[misc]
            peer = await _entered(bound, context, open_to_all, abort)
            try:
                await answer(request, context)
            finally:
                bound.leave(peer, open_to_all=open_to_all)

    made = grpc.stream_stream_rpc_method_handler if handler.request_streaming else grpc.unary_stream_rpc_method_handler
    return made(counted, handler.request_deserializer, handler.response_serializer)


async def _entered(bound: StreamBound, context: _Context, open_to_all: bool, abort: Abort) -> str:
    peer: str = context.peer()
    try:
        bound.enter(peer, open_to_all=open_to_all)
    except DuramenError as error:
        await abort(context, error)
    return peer
