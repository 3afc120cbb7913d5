"""One channel to one server: how its calls are made, and what their failures mean. Both kinds of clients use it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc

from log_tier.model.errors import DatabaseClosed
from log_tier.rpc.channel import CHANNEL_OPTIONS
from log_tier.rpc.problems import error_of_call

__all__ = ["Wire"]


class Wire:
    """A channel. It connects with the first call, and again by itself after a loss.

    Whatever goes wrong on the way becomes one of our errors; gRPC's own exceptions end here.
    """

    def __init__(self, target: str) -> None:
        self.target = target
        self.channel = grpc.aio.insecure_channel(target, options=CHANNEL_OPTIONS)
        self._closed = False

    async def ask(self, method: Any, request: Any, *, timeout: float | None) -> Any:
        """One call of a stub's method. `timeout` in seconds. Raises the server's error, or what happened on the way.

        `Disconnected` has the field `sent=0` where no connection could be made, so that nothing reached the server.
        """
        self._check_open()
        try:
            return await method(request, timeout=timeout)
        except grpc.aio.AioRpcError as failure:
            raise error_of_call(failure, self.target) from failure
        except asyncio.CancelledError:
            self._check_cancelled()
            raise

    async def stream(self, method: Any, request: Any) -> AsyncIterator[Any]:
        """The replies of a streaming call; closing the iterator ends the call. Raises as `ask` does."""
        self._check_open()
        call = method(request)
        try:
            async for reply in call:
                yield reply
        except grpc.aio.AioRpcError as failure:
            raise error_of_call(failure, self.target) from failure
        except asyncio.CancelledError:
            self._check_cancelled()
            raise
        finally:
            call.cancel()

    def _check_open(self) -> None:
        if self._closed:
            raise DatabaseClosed(f"the connection to {self.target} was closed; connect again")

    def _check_cancelled(self) -> None:
        """A call that ends because its channel was closed looks as if its task had been cancelled, and is not."""
        task = asyncio.current_task()
        if self._closed and (task is None or not task.cancelling()):
            raise DatabaseClosed(f"the connection to {self.target} was closed while the call was under way") from None

    async def close(self) -> None:
        """Close the channel; calls that are under way end with `DatabaseClosed`. Idempotent."""
        self._closed = True
        await self.channel.close(None)
