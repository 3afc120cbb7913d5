"""The span of a call that a server answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from log_tier.tracing.span import TRACED, Tracing

__all__ = ["traced_answer", "traced_stream"]

_TRACED_STREAMS: Final = frozenset({"/duramen.v1.KV/Scan", "/duramen.v1.KV/Find"})
"""Streams that are one call of a program and end by themselves. Others, such as watches, last for days."""

AnswersCall = Callable[[Any, Any], Awaitable[Any]]


def traced_answer(method: str, answer: AnswersCall, tracing: Tracing) -> AnswersCall:
    """`answer` of a method, each of whose calls has its own task. One without a trace costs one look at metadata."""

    async def answered(request: Any, context: Any) -> Any:
        span = tracing.serve(method, context.invocation_metadata())
        if span is None:
            return await answer(request, context)
        TRACED.set((span,))
        try:
            return await answer(request, context)
        except BaseException as error:
            span.fail(type(error).__name__)  # what our own errors have said already stays
            raise
        finally:
            span.end()

    return answered


def traced_stream(method: str, answer: AnswersCall, tracing: Tracing) -> AnswersCall:
    """The same of a stream that has an end: its span lasts until the caller has taken the last message."""
    return traced_answer(method, answer, tracing) if method in _TRACED_STREAMS else answer
