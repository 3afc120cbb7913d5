"""The guard of a gRPC server: every call of every method is let in by the gate, or ends with a typed refusal.

A call is decided when its request has been parsed. A stream, and a single call that only reads, is decided again
whenever users, roles or grants change, and when its token expires. One that is not allowed any more ends with the
refusal, in the turn in which the map of the change comes, or the time is over: a read may wait for long, and would show
what was written after the revocation. A write that was let in is answered, since it may have happened. While there is
no user, single calls are let in undecided, and are decided when the first user comes. Calls are counted against the
quotas of their user and tables. A method without a rule is for servers alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

import grpc

from log_tier.access.authenticator import Authenticator
from log_tier.access.call_audit import Answered, CallAudit, address_of
from log_tier.access.current import CALLER
from log_tier.access.demands import ANY_USER, Demand, SpecialDemand, only_reads, tables_of
from log_tier.access.expiry_timer import FirstExpiry
from log_tier.access.gate import NOBODY, Gate
from log_tier.access.quotas.quota_keeper import QuotaKeeper, Stream
from log_tier.access.rules import MethodRules, Rule, servers_only
from log_tier.audit.audit_trail import AuditTrail
from log_tier.concurrency.clocks import SYSTEM_CLOCK, Clock
from log_tier.model.errors import DuramenError, Overloaded, PermissionDenied, Unauthenticated
from log_tier.model.identifiers import Offset
from log_tier.rpc.checked import Admit, AdmitStream
from log_tier.rpc.credentials import AUTHORIZATION
from log_tier.rpc.messages.early_refusals import EarlyRefusal, Metadata
from log_tier.rpc.messages.held_calls import HeldCall, OpenRead
from log_tier.rpc.messages.slow_call_sink import CallEnd
from log_tier.rpc.open_streams import OpenStreams
from log_tier.trust.caller import Caller

__all__ = ["REFUSALS_KEPT_MAX", "CallTurns", "GrpcGuard", "IdentifyPeer"]

REFUSALS_KEPT_MAX: Final = 4096
"""Refusals that are kept back at once, of all users: some 50 MiB. More are sent at once."""

_Context = grpc.aio.ServicerContext[Any, Any]

IdentifyPeer = Callable[[_Context], "tuple[str, bool] | None"]
"""Whom the certificate of a call's connection names, and whether that is a server; None: it showed none."""


_STREAMS: Final[Mapping[str, Stream]] = {"Scan": "scans", "Find": "scans", "Watch": "watches"}
"""What streams of these methods are to a quota. Others, such as the cluster's map, are calls and nothing more."""


_CHANGES: Final = frozenset({"Write", "Put", "Update", "Delete", "Append", "AppendMany"})
"""Methods whose calls have happened when they have been let in."""
_PACKAGE: Final = "/duramen.v1."
_SHOWN: Final = SpecialDemand("a grant about the table of that id", lambda _: False)
"""What a call lacks that names a table which is not shown to its caller."""


class CallTurns(Protocol):
    """Whose turn it is at the event loop that endpoints share. See `router/endpoints/turns`."""

    def must_wait(self, user: str) -> bool: ...
    async def take_turn(self, user: str) -> None: ...


class _OpenCall(NamedTuple):
    caller: Caller
    demand: Demand
    method: str
    peer: str


class _UnaskedCall(NamedTuple):
    method: str
    request: Any
    context: _Context


class _AuditedCall:
    """A call whose end the audit wants to know, and what it holds of its quotas."""

    __slots__ = ("_answered", "_hold", "counts_replies")

    def __init__(self, answered: Answered, hold: HeldCall | None) -> None:
        self._answered = answered
        self._hold = hold
        self.counts_replies = hold is not None and hold.counts_replies

    def sent(self, size: int) -> float:
        return 0.0 if self._hold is None else self._hold.sent(size)

    def release(self, end: CallEnd) -> None:
        if self._hold is not None:
            self._hold.release(end)
        self._answered(end)


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
        quotas: QuotaKeeper | None = None,
        turns: CallTurns | None = None,
    ) -> None:
        """`identify`: for a server that has a port where callers show certificates. `unguarded`: full names of services
        that answer everybody. `quotas`, `turns`: what it shares with other endpoints of its server.
        """
        self._gate = gate
        self._authenticator = authenticator
        self._rules = rules
        self._streams = streams
        self._identify = identify
        self._unguarded = unguarded
        self._quotas = quotas or QuotaKeeper(gate, clock)
        self._turns = turns
        self._audit = None if audit is None else CallAudit(audit, gate)
        self._kept = 0
        """Refusals that are kept back."""
        self._open: dict[asyncio.Task[Any], _OpenCall] = {}
        """Streams."""
        self._reads: dict[OpenRead, _OpenCall] = {}
        self._unasked: dict[OpenRead, _UnaskedCall] = {}
        """Single calls that were let in while there was no user, and are under way."""
        self._expiry = FirstExpiry(self._decide_again, clock=clock)
        """Of the tokens of open calls."""
        self.is_closed = gate.is_closed
        """Does the catalog hold a user?"""
        self._leave = gate.on_change(self._decide_again)

    def admitting(self, method: str) -> Admit | None:
        """What lets in the single calls of a method, and notes who calls in `CALLER`; None: everybody may call it.

        It raises `Unauthenticated`, `PermissionDenied`, `Overloaded`, and what the rule raises.
        """
        if method[1:].partition("/")[0] in self._unguarded:
            return None
        rule = self._rules.get(method, servers_only)

        async def admit_call(request: Any, context: _Context) -> HeldCall | OpenRead | None:
            caller = await self._caller_in_turn(context)
            demand = self._demand(method, rule, request, caller, context)
            version = self._decide(method, caller, demand, context)
            CALLER.set(caller)
            self._quotas.connections.called(caller, context.peer())
            held: HeldCall | None = self._quotas.hold(caller, tables_of(demand), request.ByteSize)
            if self._audit is not None and type(demand) not in self._audit.quiet:
                peer = context.peer()
                answered = self._audit.allowed(method, request, caller, demand, peer, version, is_stream=False)
                held = held if answered is None else _AuditedCall(answered, held)
            return (
                held
                if caller.proof == "server" or not only_reads(demand)
                else self._read(method, caller, demand, context, held)
            )

        return admit_call

    def may_end(self, method: str) -> bool:
        """Is it to be noted? See `CallGuard`."""
        return method.rpartition("/")[2] not in _CHANGES

    def unasked(self, method: str, request: Any, context: _Context) -> OpenRead:
        """Note a single call while there is no user. See `CallGuard`. 1 µs."""

        def ended(error: DuramenError | None) -> None:
            if self._unasked.pop(read, None) is None:
                self._read_ended(read, error)

        read = OpenRead(None, ended)
        self._unasked[read] = _UnaskedCall(method, request, context)
        return read

    def admitting_streams(self, method: str) -> AdmitStream | None:
        """The same for streams, which are let in for their tasks, also while the gate is open."""
        if method[1:].partition("/")[0] in self._unguarded:
            return None
        rule, gate = self._rules.get(method, servers_only), self._gate
        stream = _STREAMS.get(method.rpartition("/")[2])

        async def admit_stream(request: Any, context: _Context) -> HeldCall | None:
            if gate.is_closed:
                caller = await self._caller_in_turn(context)
                CALLER.set(caller)
                demand = self._demand(method, rule, request, caller, context)
            else:
                caller = NOBODY
                try:
                    demand = rule(request, gate.table_name)
                except DuramenError:
                    demand = ANY_USER  # what the request is refused with, the service says itself
                CALLER.set(caller)  # who proved nothing is shown nothing from the first user on
            version = self._decide(method, caller, demand, context)
            self._quotas.connections.called(caller, context.peer())
            hold = self._quotas.hold(caller, tables_of(demand), request.ByteSize, stream=stream)
            self._note(method, caller, demand, context)
            if gate.is_closed and self._audit is not None and type(demand) not in self._audit.quiet:
                self._audit.allowed(method, request, caller, demand, context.peer(), version, is_stream=True)
            return hold

        return admit_stream

    def early(self, method: str, metadata: Metadata) -> EarlyRefusal | None:
        """What refuses a single call before its message is read, whose caller has used up its own quota; None: nothing.

        Only a caller whose header was checked before is known so early; others are looked at when the message is there.
        1 µs, and nothing where nobody has a quota.
        """
        if not self._quotas.has_some or method[1:].partition("/")[0] in self._unguarded:
            return None
        header = next((value for key, value in metadata or () if key == AUTHORIZATION), None)
        caller = self._authenticator.known(header) if isinstance(header, str) else None
        if caller is None or caller.proof == "server":
            return None
        if (refusal := self._quotas.early_refusal(caller)) is not None:
            error, kept_s = refusal
            return partial(self._kept_back, error, kept_s)
        return None

    async def _kept_back(self, error: Overloaded, kept_s: float) -> Overloaded:
        if kept_s and self._kept < REFUSALS_KEPT_MAX:
            self._kept += 1
            try:
                await asyncio.sleep(kept_s)
            finally:
                self._kept -= 1
        return error

    def _demand(self, method: str, rule: Rule, request: Any, caller: Caller, context: _Context) -> Demand:
        """What a request demands. Who is nobody learns nothing of tables, so that is said first."""
        try:
            return rule(request, partial(self._gate.shown_name, caller))
        except DuramenError as error:
            self._decide(method, caller, ANY_USER, context)
            if self._audit is not None and isinstance(error, PermissionDenied):
                self._audit.refused(method, caller, _SHOWN, context.peer(), error)
            raise

    def _decide(self, method: str, caller: Caller, demand: Demand, context: _Context) -> Offset:
        try:
            return self._gate.decide(caller, demand, f"call {method.removeprefix(_PACKAGE)}")
        except (Unauthenticated, PermissionDenied) as error:
            if self._audit is not None:
                self._audit.refused(method, caller, demand, context.peer(), error)
            raise

    async def _caller_in_turn(self, context: _Context) -> Caller:
        """Who calls, when its turn has come. What it may do is decided after that. Raises as `caller_of`."""
        caller = await self.caller_of(context)
        if self._turns is not None and caller.proof != "server" and self._turns.must_wait(caller.name):
            await self._turns.take_turn(caller.name)
        return caller

    async def caller_of(self, context: _Context) -> Caller:
        """Who calls: by the header, else by the certificate. Raises `Unauthenticated` for a header that proves nothing,
        and `Overloaded`.
        """
        for key, value in context.invocation_metadata() or ():
            if key == AUTHORIZATION:
                text = value if isinstance(value, str) else value.decode(errors="replace")
                return await self._caller_by(text, context.peer())
        caller = self._by_certificate(context)
        if self._audit is not None and caller is not NOBODY:
            self._audit.proved(caller, context.peer())
        return caller

    def _caller_at_once(self, context: _Context) -> Caller:
        """Who calls, as far as no thread has to look: a password proves nothing here."""
        for key, value in context.invocation_metadata() or ():
            if key == AUTHORIZATION:
                text = value if isinstance(value, str) else value.decode(errors="replace")
                return self._authenticator.at_once(text)
        return self._by_certificate(context)

    def _by_certificate(self, context: _Context) -> Caller:
        shown = None if self._identify is None else self._identify(context)
        return NOBODY if shown is None else self._authenticator.by_certificate(shown[0], is_server=shown[1])

    async def _caller_by(self, header: str, peer: str) -> Caller:
        caller = self._authenticator.known(header)
        if caller is None:
            try:
                caller = await self._authenticator.by_header(header, address=address_of(peer))
            except (Unauthenticated, Overloaded) as error:
                if self._audit is not None:
                    self._audit.not_proved(NOBODY, header, peer, error)
                raise
        if self._audit is not None:
            self._audit.proved(caller, peer)
        return caller

    def _read(self, method: str, caller: Caller, demand: Demand, context: _Context, held: HeldCall | None) -> OpenRead:
        """Note a single call that only reads, until it is over. 1 µs."""

        def ended(error: DuramenError | None) -> None:
            self._read_ended(read, error)

        read = OpenRead(held, ended)
        self._reads[read] = _OpenCall(caller, demand, method, context.peer())
        self._expiry.await_ms(self._gate.expires_ms(caller))
        return read

    def _read_ended(self, read: OpenRead, error: DuramenError | None) -> None:
        call = self._reads.pop(read, None)
        if call is not None and error is not None and self._audit is not None:
            self._audit.refused(call.method, call.caller, call.demand, call.peer, error)

    def _note(self, method: str, caller: Caller, demand: Demand, context: _Context) -> None:
        task = asyncio.current_task()
        assert task is not None, "a stream is served by a task"
        self._open[task] = _OpenCall(caller, demand, method, context.peer())
        self._quotas.connections.opened(caller, context.peer())
        task.add_done_callback(self._forget)
        self._expiry.await_ms(self._gate.expires_ms(caller))

    def _forget(self, task: asyncio.Task[Any]) -> None:
        if (ended := self._open.pop(task, None)) is not None:
            self._quotas.connections.closed(ended.caller, ended.peer)
        self._streams.forgive(task)

    def _decide_again(self) -> None:
        self.is_closed = self._gate.is_closed
        if self.is_closed and self._unasked:
            unasked, self._unasked = self._unasked, {}
            for read, asked in unasked.items():
                if (open_call := self._asked(asked)) is not None:
                    self._reads[read] = open_call
        for task, stream in list(self._open.items()):
            error = self._refusal(stream)
            if error is not None and self._streams.refuse(task, error) and self._audit is not None:
                caller, demand, method, peer = stream
                self._audit.refused(method, caller, demand, peer, error, ended=True)
        for read, call in list(self._reads.items()):
            if (error := self._refusal(call)) is not None:
                read.refuse(error)

    def _asked(self, call: _UnaskedCall) -> _OpenCall | None:
        """A call that began before the first user, to be decided now; None: it goes on, as a server's, one that does
        more than read, and one that names no table that is there.
        """
        method, request, context = call
        rule, caller = self._rules.get(method, servers_only), self._caller_at_once(context)
        try:
            demand = rule(request, self._gate.table_name)
        except DuramenError:
            return None
        if caller.proof == "server" or not only_reads(demand):
            return None
        try:
            if caller is not NOBODY:  # who hears nothing of the table anyway
                rule(request, partial(self._gate.shown_name, caller))
        except DuramenError:
            demand = _SHOWN
        return _OpenCall(caller, demand, method, context.peer())

    def _refusal(self, call: _OpenCall) -> DuramenError | None:
        """Decide again about a call under way; None: it may go on, until its token expires."""
        try:
            self._gate.decide(call.caller, call.demand, f"go on with {call.method.removeprefix(_PACKAGE)}")
        except DuramenError as error:
            return error
        self._expiry.await_ms(self._gate.expires_ms(call.caller))
        return None

    def close(self) -> None:
        """Follow changes no longer. Idempotent."""
        self._leave()
        self._expiry.cancel()
