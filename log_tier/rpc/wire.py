"""One channel to one server: how its calls are made, and what their failures mean. Both kinds of clients use it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Final

from log_tier.model.errors import DatabaseClosed, Disconnected
from log_tier.rpc.core import grpc_core
from log_tier.rpc.problems import error_of_call
from log_tier.rpc.transport import TRANSPORT

__all__ = ["Wire"]

# gRPC is done with a call that was cancelled within a millisecond, whatever the server does.
_CALLS_END_S: Final = 1.0

# What `cancel` of gRPC's calls does first; it has no public name.
_CANCEL: Final = "_cancel"


class Wire:
    """A channel. It connects with the first call, and again by itself after a loss.

    Whatever goes wrong on the way becomes one of our errors; gRPC's own exceptions end here. A `CancelledError` passes
    only if the task that waits for the call was cancelled: gRPC raises one too when a call is cancelled below its task.
    """

    def __init__(self, target: str) -> None:
        self.target = target
        self._failure: type[Any] = grpc_core().aio.AioRpcError
        self.channel = TRANSPORT.get().channel(target)
        self._closed = False
        self._process = os.getpid()
        # Held here, and not by their generators alone: a forked process keeps them with the channel, and ends none.
        self._streams: set[Any] = set()
        self._calls: set[Any] = set()

    async def ask(self, method: Any, request: Any, *, timeout: float | None) -> Any:
        """One call of a stub's method. `timeout` in seconds. Raises the server's error, or what happened on the way.

        `Disconnected` has the field `sent=0` where no connection could be made, so that nothing reached the server.
        """
        self._check_open()
        call = method(request, timeout=timeout)
        self._calls.add(call)
        try:
            return await call
        except self._failure as failure:
            raise error_of_call(failure, self.target) from failure
        except asyncio.CancelledError:
            self._check_cancelled()
            raise
        finally:
            self._calls.discard(call)

    async def stream(self, method: Any, request: Any) -> AsyncIterator[Any]:
        """The replies of a streaming call; closing the iterator ends the call. Raises as `ask` does."""
        self._check_open()
        call = method(request)
        self._streams.add(call)
        try:
            async for reply in call:
                yield reply
        except self._failure as failure:
            raise error_of_call(failure, self.target) from failure
        except asyncio.CancelledError:
            self._check_cancelled()
            raise
        finally:
            if self._process == os.getpid():
                self._streams.discard(call)
                call.cancel()

    def _check_open(self) -> None:
        if self._closed:
            raise DatabaseClosed(f"the connection to {self.target} was closed; connect again")

    def _check_cancelled(self) -> None:
        """Raise `Disconnected` unless it was the waiting task that was cancelled."""
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            return
        what = "the connection to {} was closed" if self._closed else "the call to {} was cancelled"
        raise Disconnected(f"{what.format(self.target)} while the call was under way; call again") from None

    async def close(self) -> None:
        """Close the channel. Calls under way end with `Disconnected`, later ones with `DatabaseClosed`. Idempotent.

        Returns when gRPC is done with those calls. It would else report their ends to a loop that may be closed by
        then, and print that in the program's next loop.
        """
        self._closed = True
        if self._process == os.getpid():
            await self._end_calls()
        await self.channel.close(None)

    async def _end_calls(self) -> None:
        for stream in self._streams:
            _cancel(stream)
        # A simulated call is none of gRPC's, and ends with its channel.
        calls = [call for call in self._calls if hasattr(call, _CANCEL)]
        for call in calls:
            _cancel(call)
        if calls:
            with suppress(TimeoutError):
                async with asyncio.timeout(_CALLS_END_S):
                    await asyncio.gather(*calls, return_exceptions=True)


def _cancel(call: Any) -> None:
    """End a call below gRPC's own task for it, which then sees the end. `cancel` ends that task in the middle, and what
    the core says of the call comes later."""
    getattr(call, _CANCEL, lambda _: call.cancel())("the connection was closed")
