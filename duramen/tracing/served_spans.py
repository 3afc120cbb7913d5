"""The spans of a server: plain values, which become bytes when they are sent.

A server has a pipeline of its own, so its spans need no OpenTelemetry: the SDK takes 25 µs for a span and 40 µs to
encode it, and a put has seven. What is OpenTelemetry's is the sampler, and how a header is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf, log
from random import getrandbits, random
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace.sampling import Decision, Sampler, SamplingResult
from opentelemetry.trace import SpanContext, SpanKind
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from duramen.tracing.harmless import harmless
from duramen.tracing.otlp_bytes import CLIENT, INTERNAL, SERVER, SpanRecord
from log_tier.concurrency.clocks import SYSTEM_CLOCK, Clock
from log_tier.tracing import span as seam

__all__ = ["ServedSpan", "ServedTraces", "follows_callers", "gap", "share_of"]

_KINDS: Final = {"internal": INTERNAL, "client": CLIENT}

_CARRIED: Final = ("traceparent", "tracestate")

# What the W3C says that a `tracestate` needs at most; a `traceparent` has 55 characters.
_HEADER_CHARS_MAX: Final = 512

# What clients call. The other services are called by servers all the time: they continue traces, and begin none.
_BEGINNING: Final = ("/duramen.v1.KeyValue/", "/duramen.v1.KV/", "/duramen.v1.Tables/")

_FORMAT: Final = TraceContextTextMapPropagator()
_PLAIN: Final = re.compile("00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-01")
"""What nearly every sampled call carries."""
_NO_CONTEXT: Final = Context()
_LINKS_MAX: Final = 2 * seam.CALLERS_MAX

Sink = Callable[[SpanRecord], None]
"""Takes a span that has ended. Never waits, and raises nothing."""


class ServedSpan:
    """A recorded span of a server. Safe from any thread, as single assignments are."""

    __slots__ = (
        "_attributes",
        "_began_ns",
        "_clock",
        "_events",
        "_failed",
        "_is_elsewhere",
        "_kind",
        "_links",
        "_name",
        "_parent",
        "_parts",
        "_remote",
        "_sink",
        "_state",
        "id",
        "is_open",
        "trace",
    )

    is_client: Final = False

    def __init__(
        self,
        sink: Sink,
        clock: Clock,
        trace: bytes,
        parent: bytes,
        name: str,
        kind: int,
        *,
        ago_s: float = 0.0,
        state: str = "",
        remote: bool = False,
        attributes: Mapping[str, Any] | None = None,
        links: Sequence[tuple[bytes, bytes]] = (),
    ) -> None:
        """`parent`: empty for the first span of a trace. `remote`: the parent is of another process."""
        self._sink = sink
        self._clock = clock
        self.trace = trace
        self.id = (getrandbits(64) or 1).to_bytes(8, "big")
        self._parent = parent
        self._remote = remote
        self._state = state
        self._name = name
        self._kind = kind
        self._began_ns = self._at(ago_s)
        self._attributes: dict[str, Any] = dict(attributes) if attributes else {}
        self._events: list[tuple[int, str, Mapping[str, Any]]] = []
        self._links = list(links)
        self._failed = False
        self._parts = 0
        self._is_elsewhere = False
        self.is_open = True

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        parent = ("traceparent", f"00-{self.trace.hex()}-{self.id.hex()}-01")
        return (parent, ("tracestate", self._state)) if self._state else (parent,)

    def _at(self, ago_s: float) -> int:
        return self._clock.wall_us() * 1000 - int(ago_s * 1e9)

    def child(
        self, name: str, *, kind: seam.SpanKind = "internal", links: Sequence[seam.Span] = (), ago_s: float = 0.0
    ) -> seam.Span:
        named = [(other.trace, other.id) for other in links if isinstance(other, ServedSpan)]
        return ServedSpan(
            self._sink,
            self._clock,
            self.trace,
            self.id,
            name,
            _KINDS[kind],
            ago_s=ago_s,
            state=self._state,
            remote=self._is_elsewhere,
            links=named,
        )

    def link(self, other: seam.Span) -> None:
        if isinstance(other, ServedSpan) and self.is_open and len(self._links) < _LINKS_MAX:
            self._links.append((other.trace, other.id))

    def set(self, name: str, value: seam.SpanValue) -> None:
        if self.is_open:
            self._attributes[name] = value

    def place(self, partition: int, offset: int) -> None:
        if not self.is_open:
            return
        if not self._parts:
            self._attributes[seam.PARTITION] = partition
            self._attributes[seam.OFFSET] = offset
        elif self._parts < seam.PARTS_MAX:
            self._events.append((self._at(0.0), "part", {seam.PARTITION: partition, seam.OFFSET: offset}))
        self._parts += 1

    def leaves(self) -> None:
        """It is no call of a client."""

    def lost(self, kind: str) -> None:
        """It is no call of a client."""

    def fail(self, kind: str) -> None:
        if not self._failed:
            self._failed = True
            self.set("error.type", kind)

    def is_elsewhere(self, number: bytes) -> None:
        """It is the span of this number of another process, for which others are made below it."""
        self.id = number
        self._is_elsewhere, self.is_open = True, False

    def end(self, *, ago_s: float = 0.0) -> None:
        if not self.is_open:
            return
        self.is_open = False
        self._sink(
            SpanRecord(
                self.trace,
                self.id,
                self._parent,
                self._remote,
                self._state,
                self._name,
                self._kind,
                self._began_ns,
                self._at(ago_s),
                self._attributes,
                self._events,
                self._links,
                self._failed,
            )
        )


class _Method:
    """What the spans of a method have in common."""

    __slots__ = ("attributes", "begins", "name")

    def __init__(self, method: str) -> None:
        service, _, name = method[1:].rpartition("/")
        self.name = f"{service}/{name}"
        self.attributes = {"rpc.system": "grpc", "rpc.service": service, "rpc.method": name}
        self.begins = method.startswith(_BEGINNING)


class ServedTraces:
    """The spans of calls that come to a server, and of its commands."""

    def __init__(
        self,
        sampler: Sampler,
        sink: Sink,
        clock: Clock = SYSTEM_CLOCK,
        *,
        share: float | None = None,
        follows: bool = False,
    ) -> None:
        """`share`: of what comes without a context, so much is traced; None: the sampler decides each time. `follows`:
        what its caller sampled is traced, and the sampler need not be asked.
        """
        self._follows = follows
        self._share = share
        self._left = gap(share)
        self._sample = harmless(sampler.should_sample, _not_sampled)
        self._sink = sink
        self._clock = clock
        self._methods: dict[str, _Method] = {}
        """Of the methods that this server has, which ask by their names."""

    def serve(self, method: str, metadata: Any) -> seam.Span | None:
        known = self._methods.get(method)
        if known is None:
            known = self._methods[method] = _Method(method)
        plain = _plain_parent(metadata or ()) if self._follows else None
        if plain is not None:
            return ServedSpan(
                self._sink, self._clock, *plain, known.name, SERVER, remote=True, attributes=known.attributes
            )
        context, above = _carried(metadata or ())
        if above is None and not known.begins:
            return None
        return self._begun(known.name, context, above, known.attributes)

    def elsewhere(self, traceparent: str, tracestate: str) -> seam.Span | None:
        context, above = _carried((("traceparent", traceparent), ("tracestate", tracestate)))
        if above is None:
            return None
        span = self._begun("elsewhere", context, above, {})
        if span is not None:
            span.is_elsewhere(above.span_id.to_bytes(8, "big"))
        return span

    def command(self, name: str, table: str) -> seam.Span | None:
        left = self._left
        if left > 0:
            self._left = left - 1
            return None
        self._left = gap(self._share)
        attributes = {"db.system.name": "duramen", "db.collection.name": table, "network.protocol.name": "resp"}
        if self._share is None:
            return self._begun(name, _NO_CONTEXT, None, attributes)
        number = (getrandbits(128) or 1).to_bytes(16, "big")
        return ServedSpan(self._sink, self._clock, number, b"", name, SERVER, attributes=attributes)

    def _begun(
        self, name: str, context: Context, above: SpanContext | None, attributes: Mapping[str, str]
    ) -> ServedSpan | None:
        number = above.trace_id if above is not None else getrandbits(128) or 1
        result = self._sample(context, number, name, SpanKind.SERVER, attributes)
        if result.decision is not Decision.RECORD_AND_SAMPLE:
            return None
        return ServedSpan(
            self._sink,
            self._clock,
            number.to_bytes(16, "big"),
            b"" if above is None else above.span_id.to_bytes(8, "big"),
            name,
            SERVER,
            state=result.trace_state.to_header() if result.trace_state else "",
            remote=above is not None,
            attributes=result.attributes,
        )


def _carried(metadata: Iterable[tuple[str, Any]]) -> tuple[Context, SpanContext | None]:
    """What headers say of the span above, for a sampler, and which that is; none where they say nothing valid."""
    carrier: dict[str, str] = {}
    for name, value in metadata:
        if name in _CARRIED and type(value) is str and len(value) <= _HEADER_CHARS_MAX:
            if name in carrier:  # two parents are none
                return _NO_CONTEXT, None
            carrier[name] = value
    if not carrier:
        return _NO_CONTEXT, None
    context = _FORMAT.extract(carrier, Context())
    found = trace.get_current_span(context).get_span_context()
    return context, found if found.is_valid else None


def _plain_parent(metadata: Iterable[tuple[str, Any]]) -> tuple[bytes, bytes] | None:
    """Trace and span of a sampled `traceparent` of version 00 that comes alone; None: see `_carried`. OpenTelemetry's
    parser makes three objects of it, and takes five times as long.
    """
    found: tuple[bytes, bytes] | None = None
    for name, value in metadata:
        if name in _CARRIED:
            matched = (
                _PLAIN.fullmatch(value) if found is None and name == "traceparent" and type(value) is str else None
            )
            if matched is None:
                return None
            found = bytes.fromhex(matched[1]), bytes.fromhex(matched[2])
    return found


def follows_callers(environment: Mapping[str, str]) -> bool:
    """Do OpenTelemetry's variables ask for a sampler that takes whatever its caller has sampled?"""
    name = environment.get("OTEL_TRACES_SAMPLER", "").strip().lower() or "parentbased_always_on"
    return name in ("parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio")


def share_of(environment: Mapping[str, str]) -> float | None:
    """The share of new traces that OpenTelemetry's variables ask for; None: it is a sampler that decides by itself.
    A share that is none is 1, as OpenTelemetry has it.
    """
    name = environment.get("OTEL_TRACES_SAMPLER", "").strip().lower().removeprefix("parentbased_") or "always_on"
    if name == "traceidratio":
        try:
            share = float(environment.get("OTEL_TRACES_SAMPLER_ARG", "") or 1.0)
        except ValueError:
            return 1.0
        return share if 0 <= share <= 1 else 1.0
    return {"always_on": 1.0, "always_off": 0.0}.get(name)


def gap(share: float | None) -> float:
    """How many are not traced until the next one: as if a share was drawn for each, by one draw for all."""
    if share is None or share >= 1.0:
        return 0
    return inf if share <= 0.0 else int(log(1.0 - random()) / log(1.0 - share))


def _not_sampled() -> SamplingResult:
    """What comes of a sampler that raised."""
    return SamplingResult(Decision.DROP)
