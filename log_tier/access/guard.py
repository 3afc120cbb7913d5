"""The guard of a gRPC server: every call of every method is let in by the gate, or ends with a typed refusal.

A call is decided when its request has been parsed. A stream is decided again whenever users, roles or grants change,
and when its token expires: one that is not allowed any more ends with the refusal, in the turn in which the map of the
change comes. A method without a rule is for servers alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

import grpc

from log_tier.access.authenticator import Authenticator
from log_tier.access.current import CALLER
from log_tier.access.demands import ANY_USER, Demand
from log_tier.access.gate import NOBODY, Gate
from log_tier.access.rules import Rules, servers_only
from log_tier.concurrency.clocks import SYSTEM_CLOCK, Clock
from log_tier.model.errors import DuramenError
from log_tier.rpc.credentials import AUTHORIZATION
from log_tier.rpc.open_streams import OpenStreams
from log_tier.trust.caller import Caller

__all__ = ["GrpcGuard", "IdentifyPeer"]

_Context = grpc.aio.ServicerContext[Any, Any]

IdentifyPeer = Callable[[_Context], "tuple[str, bool] | None"]
"""Whom the certificate of a call's connection names, and whether that is a server; None: it showed none."""


class _OpenStream(NamedTuple):
    caller: Caller
    demand: Demand


class GrpcGuard:
    """Guards the methods of one gRPC server. Belongs to one event loop; `close()` ends it."""

    def __init__(
        self,
        gate: Gate,
        authenticator: Authenticator,
        rules: Rules,
        streams: OpenStreams,
        *,
        identify: IdentifyPeer | None = None,
        unguarded: frozenset[str] = frozenset(),
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """`identify`: for a server that has a port where callers show certificates. `unguarded`: full names of services
        that answer everybody.
        """
        self._gate = gate
        self._authenticator = authenticator
        self._rules = rules
        self._streams = streams
        self._identify = identify
        self._unguarded = unguarded
        self._clock = clock
        self._open: dict[asyncio.Task[Any], _OpenStream] = {}
        self._leave = gate.on_change(self._decide_again)

    async def admit(self, method: str, request: Any, context: _Context, *, is_stream: bool) -> None:
        """Let a call in, and note who calls in `CALLER`. Raises `Unauthenticated`, `PermissionDenied`, `Overloaded`,
        and what a rule raises.

        A stream is let in for its task, also while the gate is open.
        """
        is_closed = self._gate.is_closed
        if not is_closed and not is_stream:
            return
        if method[1:].partition("/")[0] in self._unguarded:
            return
        try:
            demand = self._rules.get(method, servers_only)(request, self._gate.table_name)
        except DuramenError:
            if not is_closed:
                return  # the service says so itself
            # Who is nobody learns nothing of tables.
            self._gate.decide(await self.caller_of(context), ANY_USER)
            raise
        caller = await self.caller_of(context) if is_closed else NOBODY
        self._gate.decide(caller, demand)
        if is_closed:
            CALLER.set(caller)
        if is_stream:
            self._note(caller, demand)

    async def caller_of(self, context: _Context) -> Caller:
        """Who calls: by the header, else by the certificate. Raises `Unauthenticated` for a header that proves nothing,
        and `Overloaded`.
        """
        for key, value in context.invocation_metadata() or ():
            if key == AUTHORIZATION:
                text = value if isinstance(value, str) else value.decode(errors="replace")
                return await self._authenticator.by_header(text, address=_address(context.peer()))
        shown = None if self._identify is None else self._identify(context)
        return NOBODY if shown is None else self._authenticator.by_certificate(shown[0], is_server=shown[1])

    def _note(self, caller: Caller, demand: Demand) -> None:
        task = asyncio.current_task()
        assert task is not None, "a stream is served by a task"
        self._open[task] = _OpenStream(caller, demand)
        task.add_done_callback(self._forget)
        if expires_ms := self._gate.expires_ms(caller):
            left_s = max(0.0, (expires_ms - self._clock.wall_ms()) / 1000)
            timer = asyncio.get_running_loop().call_later(left_s, self._decide_again)
            task.add_done_callback(lambda _: timer.cancel())

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._open.pop(task, None)
        self._streams.forgive(task)

    def _decide_again(self) -> None:
        for task, (caller, demand) in list(self._open.items()):
            try:
                self._gate.decide(caller, demand)
            except DuramenError as error:
                self._streams.refuse(task, error)

    def close(self) -> None:
        """Follow changes no longer. Idempotent."""
        self._leave()


def _address(peer: str) -> str:
    """The host of a peer in gRPC's words (`ipv4:127.0.0.1:5000`)."""
    return peer.rpartition(":")[0]
