"""The guard of a gRPC server: every call of every method is let in by the gate, or ends with a typed refusal.

A call is decided when its request has been parsed. A stream is decided again whenever users, roles or grants change,
and when its token expires: one that is not allowed any more ends with the refusal, in the turn in which the map of the
change comes. A method without a rule is for servers alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import grpc

from log_tier.access.authenticator import Authenticator
from log_tier.access.call_audit import USERS_SERVICE, Answered, CallAudit
from log_tier.access.current import CALLER
from log_tier.access.demands import ANY_USER, Demand
from log_tier.access.gate import NOBODY, Gate
from log_tier.access.rules import MethodRules, servers_only
from log_tier.audit.audit_trail import AuditTrail
from log_tier.concurrency.clocks import SYSTEM_CLOCK, Clock
from log_tier.model.errors import DuramenError, Overloaded, PermissionDenied, Unauthenticated
from log_tier.model.identifiers import Offset
from log_tier.rpc.open_streams import OpenStreams
from log_tier.trust.caller import Caller

__all__ = ["AUTHORIZATION", "GrpcGuard", "IdentifyPeer"]

AUTHORIZATION: Final = "authorization"
"""The metadata key of a token or a password."""

_Context = grpc.aio.ServicerContext[Any, Any]

IdentifyPeer = Callable[[_Context], "tuple[str, bool] | None"]
"""Whom the certificate of a call's connection names, and whether that is a server; None: it showed none."""


class _OpenStream(NamedTuple):
    caller: Caller
    demand: Demand
    method: str
    peer: str


class GrpcGuard:
    """Guards the methods of one gRPC server. Belongs to one event loop; `close()` ends it."""

    def __init__(
        self,
        gate: Gate,
        authenticator: Authenticator,
        rules: MethodRules,
        streams: OpenStreams,
        *,
        identify: IdentifyPeer | None = None,
        unguarded: frozenset[str] = frozenset(),
        clock: Clock = SYSTEM_CLOCK,
        audit: AuditTrail | None = None,
    ) -> None:
        """`identify`: for a server that has a port where callers show certificates. `unguarded`: full names of services
        that answer everybody. `audit`: takes what happens; None: nobody wants to know.
        """
        self._gate = gate
        self._authenticator = authenticator
        self._rules = rules
        self._streams = streams
        self._identify = identify
        self._unguarded = unguarded
        self._clock = clock
        self._audit = None if audit is None else CallAudit(audit, gate)
        self._open: dict[asyncio.Task[Any], _OpenStream] = {}
        self._leave = gate.on_change(self._decide_again)

    async def admit(self, method: str, request: Any, context: _Context, *, is_stream: bool) -> Answered | None:
        """Let a call in, and note who calls in `CALLER`. Returns what is to be called when the call has ended, if the
        audit wants to know. Raises `Unauthenticated`, `PermissionDenied`, `Overloaded`, and what a rule raises.

        A stream is let in for its task, also while the gate is open.
        """
        is_closed = self._gate.is_closed
        if not is_closed and not is_stream and not method.startswith(USERS_SERVICE):
            return None
        if method[1:].partition("/")[0] in self._unguarded:
            return None
        caller = await self.caller_of(context) if is_closed else NOBODY
        try:
            demand = self._rules.get(method, servers_only)(request, self._gate.table_name)
        except DuramenError:
            if not is_closed:
                return None  # the service says so itself
            # Who is nobody learns nothing of tables.
            self._decide(method, caller, ANY_USER, context)
            raise
        version = self._decide(method, caller, demand, context)
        if is_closed:
            CALLER.set(caller)
        if is_stream:
            self._note(method, caller, demand, context)
        if self._audit is None or type(demand) in self._audit.quiet or (is_stream and not is_closed):
            return None
        return self._audit.allowed(method, request, caller, demand, context.peer(), version, is_stream=is_stream)

    def _decide(self, method: str, caller: Caller, demand: Demand, context: _Context) -> Offset:
        try:
            return self._gate.decide(caller, demand)
        except (Unauthenticated, PermissionDenied) as error:
            if self._audit is not None:
                self._audit.refused(method, caller, demand, context.peer(), error)
            raise

    async def caller_of(self, context: _Context) -> Caller:
        """Who calls: by the header, else by the certificate. Raises `Unauthenticated` for a header that proves nothing,
        and `Overloaded`.
        """
        for key, value in context.invocation_metadata() or ():
            if key == AUTHORIZATION:
                text = value if isinstance(value, str) else value.decode(errors="replace")
                return await self._caller_by(text, context.peer())
        shown = None if self._identify is None else self._identify(context)
        if shown is None:
            return NOBODY
        caller = self._authenticator.by_certificate(shown[0], is_server=shown[1])
        if self._audit is not None and caller is not NOBODY:
            self._audit.proved(caller, context.peer())
        return caller

    async def _caller_by(self, header: str, peer: str) -> Caller:
        try:
            caller = await self._authenticator.by_header(header, address=_address(peer))
        except (Unauthenticated, Overloaded) as error:
            if self._audit is not None:
                self._audit.not_proved(NOBODY, header, peer, error)
            raise
        if self._audit is not None:
            self._audit.proved(caller, peer)
        return caller

    def _note(self, method: str, caller: Caller, demand: Demand, context: _Context) -> None:
        task = asyncio.current_task()
        assert task is not None, "a stream is served by a task"
        self._open[task] = _OpenStream(caller, demand, method, context.peer())
        task.add_done_callback(self._forget)
        if expires_ms := self._gate.expires_ms(caller):
            left_s = max(0.0, (expires_ms - self._clock.wall_ms()) / 1000)
            timer = asyncio.get_running_loop().call_later(left_s, self._decide_again)
            task.add_done_callback(lambda _: timer.cancel())

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._open.pop(task, None)
        self._streams.forgive(task)

    def _decide_again(self) -> None:
        for task, (caller, demand, method, peer) in list(self._open.items()):
            try:
                self._gate.decide(caller, demand)
            except DuramenError as error:
                self._streams.refuse(task, error)
                if self._audit is not None:
                    self._audit.refused(method, caller, demand, peer, error, ended=True)

    def close(self) -> None:
        """Follow changes no longer. Idempotent."""
        self._leave()


def _address(peer: str) -> str:
    """The host of a peer in gRPC's words (`ipv4:127.0.0.1:5000`)."""
    return peer.rpartition(":")[0]
