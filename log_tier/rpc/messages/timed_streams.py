"""Measures how long a server takes for the messages of a stream, without the time that its caller takes to read them.

    call ├─ first message is made ─┤ caller reads │─ the next one is made ─┤ caller reads │ …
           slow?                                    slow, where messages are made of what is there

A page of a scan is made of what there is. The later messages of a watch come when somebody writes, so of a watch only
the first one is measured, which fixes the position.
"""

from __future__ import annotations

import asyncio
from math import inf
from typing import Any

from log_tier.rpc.messages.slow_call_sink import CallEnd, SlowCallSink

__all__ = ["TimedStream"]


class TimedStream:
    """The context of a stream whose messages are measured. `with` covers the call."""

    def __init__(self, context: Any, method: str, request: Any, slow: SlowCallSink) -> None:
        self._context = context
        self._method = method
        self._request = request
        self._slow = slow
        self._later = slow.measures_later(method)
        self._since_s = slow.now_s()
        """When the server began with the next message; infinite: it is not measured."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    async def write(self, message: Any) -> None:
        """Send a message. What it took to make it ends here."""
        self._made("done")
        self._since_s = inf
        await self._context.write(message)
        if self._later:
            self._since_s = self._slow.now_s()

    def _made(self, end: CallEnd) -> None:
        slow = self._slow
        if slow.now_s() - self._since_s >= slow.least_s:
            slow.called(self._method, self._request, self._context.peer(), self._since_s, end)

    def __enter__(self) -> TimedStream:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object, /) -> None:
        if error is not None:
            self._made("unanswered" if isinstance(error, asyncio.CancelledError) else "failed")
