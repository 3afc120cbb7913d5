"""The guard of a gRPC server: every call of every method is let in by the gate, or ends with a typed refusal.

A call is decided when its request has been parsed. A stream is decided again whenever users, roles or grants change,
and when its token expires: one that is not allowed any more ends with the refusal, in the turn in which the map of the
change comes. Calls are counted against the quotas of their user and tables. A method without a rule is for servers
alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

import grpc

from log_tier.access.authenticator import Authenticator
from log_tier.access.current import CALLER
from log_tier.access.demands import ANY_USER, Demand, tables_of
from log_tier.access.gate import NOBODY, Gate
from log_tier.access.quota_keeper import QuotaKeeper
from log_tier.access.rules import MethodRules, Rule, servers_only
from log_tier.concurrency.clocks import SYSTEM_CLOCK, Clock
from log_tier.model.errors import DuramenError
from log_tier.rpc.checked import Admit, HeldCall
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
        rules: MethodRules,
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
        self._quotas = QuotaKeeper(gate, clock)
        self._open: dict[asyncio.Task[Any], _OpenStream] = {}
        self._leave = gate.on_change(self._decide_again)

    @property
    def is_closed(self) -> bool:
        """Does the catalog hold a user?"""
        return self._gate.is_closed

    def admitting(self, method: str, *, is_stream: bool) -> Admit | None:
        """What lets in the calls of a method, and notes who calls in `CALLER`; None: everybody may call it.

        It raises `Unauthenticated`, `PermissionDenied`, `Overloaded`, and what the rule raises. A stream is let in for
        its task, also while the gate is open.
        """
        if method[1:].partition("/")[0] in self._unguarded:
            return None
        rule, gate = self._rules.get(method, servers_only), self._gate

        async def admit_call(request: Any, context: _Context) -> HeldCall | None:
            caller = await self.caller_of(context)
            demand = self._demand(rule, request, caller)
            gate.decide(caller, demand)
            CALLER.set(caller)
            return self._quotas.hold(caller, tables_of(demand), request.ByteSize, is_stream=False)

        async def admit_stream(request: Any, context: _Context) -> HeldCall | None:
            if gate.is_closed:
                caller = await self.caller_of(context)
                CALLER.set(caller)
                demand = self._demand(rule, request, caller)
            else:
                caller = NOBODY
                try:
                    demand = rule(request, gate.table_name)
                except DuramenError:
                    demand = ANY_USER  # what the request is refused with, the service says itself
            gate.decide(caller, demand)
            hold = self._quotas.hold(caller, tables_of(demand), request.ByteSize, is_stream=True)
            self._note(caller, demand)
            return hold

        return admit_stream if is_stream else admit_call

    def _demand(self, rule: Rule, request: Any, caller: Caller) -> Demand:
        """What a request demands. Who is nobody learns nothing of tables, so that is said first."""
        try:
            return rule(request, self._gate.table_name)
        except DuramenError:
            self._gate.decide(caller, ANY_USER)
            raise

    async def caller_of(self, context: _Context) -> Caller:
        """Who calls: by the header, else by the certificate. Raises `Unauthenticated` for a header that proves nothing,
        and `Overloaded`.
        """
        for key, value in context.invocation_metadata() or ():
            if key == AUTHORIZATION:
                text = value if isinstance(value, str) else value.decode(errors="replace")
                known = self._authenticator.known(text)
                return (
                    known
                    if known is not None
                    else await self._authenticator.by_header(text, address=_address(context.peer()))
                )
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
