"""One channel to one server: how its calls are made, and what their failures mean. Both kinds of clients use it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any, Final

from log_tier.model.errors import DatabaseClosed, Disconnected, DuramenError
from log_tier.rpc.core import grpc_core
from log_tier.rpc.credentials import AUTHORIZATION, CREDENTIALS, check_kept
from log_tier.rpc.problems import error_of_call
from log_tier.rpc.renewed_channel import RenewedChannel
from log_tier.rpc.security import SECURITY
from log_tier.tracing.passing import Asking, begin_asking
from log_tier.tracing.span import TRACED, Span

__all__ = ["Wire"]

_NOTHING: Final[dict[str, Any]] = {}


class Wire:
    """A channel. It connects with the first call, and again by itself after a loss; it takes new certificates.

    Whatever goes wrong on the way becomes one of our errors; gRPC's own exceptions end here. A `CancelledError` passes
    only if the task that waits for the call was cancelled: gRPC raises one too when a call is cancelled below its task.
    """

    def __init__(self, target: str) -> None:
        self.target = target
        self._failure: type[Any] = grpc_core().aio.AioRpcError
        self._renewed = RenewedChannel(target)
        self.channel: Any = self._renewed.for_stubs
        """What stubs are made with."""
        self._credentials = CREDENTIALS.get()
        self._is_plain = SECURITY.get() is None
        self._closed = False
        self._process = os.getpid()

    async def ask(self, method: Any, request: Any, *, timeout: float | None) -> Any:
        """One call of a stub's method. `timeout` in seconds. Raises the server's error, or the connection's, and
        `InvalidRequest` where the credentials of the context in which this was made cannot be sent.

        `Disconnected` has the field `sent=0` where no connection could be made, so that nothing reached the server.
        """
        if self._closed:
            self._check_open()
        if self._renewed.is_secured:
            self._renewed.look()
        proof, asking = (_NOTHING if self._credentials is None else self._proof()), None
        if callers := TRACED.get():
            proof, asking = self._traced(callers, request, proof)
        open_calls, call = self._renewed.calls, method(request, timeout=timeout, **proof)
        open_calls.under_way.add(call)
        try:
            if open_calls.are_grpcs:
                # A caller that is cancelled would cancel gRPC's task through `await call`.
                over = asyncio.get_running_loop().create_future()
                call.add_done_callback(lambda _: None if over.done() else over.set_result(None))
                await over
            return await call
        except self._failure as failure:
            error = self._error_of(failure)
            if asking is not None:
                asking.failed(error.code)
            raise error from failure
        except asyncio.CancelledError:
            open_calls.leave(call)
            self._check_cancelled()
            raise
        finally:
            if asking is not None:
                asking.end()
            open_calls.under_way.discard(call)
            if self._renewed.is_secured:
                self._renewed.ended(open_calls)

    async def stream(self, method: Any, request: Any) -> AsyncIterator[Any]:
        """The replies of a streaming call; closing the iterator ends the call. Raises as `ask` does."""
        self._check_open()
        if self._renewed.is_secured:
            self._renewed.look()
        open_calls, call = self._renewed.calls, method(request, **self._proof())
        open_calls.opened(call)
        try:
            async for reply in call:
                yield reply
        except self._failure as failure:
            raise self._error_of(failure) from failure
        except asyncio.CancelledError:
            self._check_cancelled()
            raise
        finally:
            if self._process == os.getpid():
                open_calls.left(call)
                if self._renewed.is_secured:
                    self._renewed.ended(open_calls)

    def _error_of(self, failure: Any) -> DuramenError:
        error = error_of_call(failure, self.target)
        if error.fields.get("sent") == 0:
            self._renewed.unconnected()
        return error

    def _proof(self) -> dict[str, Any]:
        """The arguments with which a call carries who makes it; none where nobody proves anything."""
        credentials = self._credentials
        if credentials is None:
            return _NOTHING
        if self._is_plain:
            check_kept(self.target, credentials)
        return {"metadata": ((AUTHORIZATION, credentials.header()),)}

    def _traced(
        self, callers: tuple[Span, ...], request: Any, proof: dict[str, Any]
    ) -> tuple[dict[str, Any], Asking | None]:
        """The arguments of a call that is traced, and its trace; None if its callers have gone."""
        asking = begin_asking(callers, f"ask {type(request).__name__.removesuffix('Request')}", self.target)
        if asking is None:
            return proof, None
        return {"metadata": (*proof.get("metadata", ()), *asking.span.headers)}, asking

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
        await self._renewed.close()
