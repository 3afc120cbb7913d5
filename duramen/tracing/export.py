"""Where a server's spans go: to a collector, by OTLP over HTTP, in the background.

OpenTelemetry's own environment variables say where, how, and which calls are traced; its users know them. What is ours
is what the log shows while no collector can be reached: one line, and one when it is there again.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, Sampler

from duramen.tracing.harmless import harmless
from duramen.tracing.otel_spans import TRACER_NAME
from duramen.tracing.otlp_bytes import SpanRecord, request_of, resource_of
from duramen.tracing.otlp_http import CollectorLine, address_of
from duramen.tracing.served_spans import ServedTraces, follows_callers, share_of
from log_tier.model.errors import InvalidRequest

__all__ = ["AnnouncedSending", "QueueLimits", "ServerTraces", "SpanQueue", "limits_of"]

logger = logging.getLogger(__name__)

# A server that stops sends what it still has, if the collector answers at all.
_LAST_SPANS_S: Final = 2.0


class QueueLimits(NamedTuple):
    """OpenTelemetry's `OTEL_BSP_…`, with its defaults."""

    delay_ms: int = 5_000
    """A span waits so long at most, while the collector answers."""
    spans_max: int = 2_048
    """Spans that wait. Beyond it the oldest are lost."""
    batch_max: int = 512
    """Spans that are sent at once. So many do not wait."""


def limits_of(environment: Mapping[str, str]) -> QueueLimits:
    """What OpenTelemetry's variables say. Raises `InvalidRequest`."""
    found = []
    for name, otherwise in zip(
        ("SCHEDULE_DELAY", "MAX_QUEUE_SIZE", "MAX_EXPORT_BATCH_SIZE"), QueueLimits(), strict=True
    ):
        said = environment.get(f"OTEL_BSP_{name}", "").strip() or str(otherwise)
        if not said.isdecimal() or int(said) < 1:
            raise InvalidRequest(f"OTEL_BSP_{name} is {said!r}: give a number from 1 on")
        found.append(int(said))
    limits = QueueLimits(*found)
    if limits.batch_max > limits.spans_max:
        raise InvalidRequest(
            f"OTEL_BSP_MAX_EXPORT_BATCH_SIZE is {limits.batch_max}, above the {limits.spans_max} spans of "
            "OTEL_BSP_MAX_QUEUE_SIZE: give at most so many"
        )
    return limits


class AnnouncedSending:
    """Sends spans. Its failures make one line in the log, until it succeeds again."""

    def __init__(self, send: Callable[[Sequence[SpanRecord]], bool]) -> None:
        self._send = harmless(send, bool)
        self._failing = False
        self._lost = 0

    def __call__(self, spans: Sequence[SpanRecord]) -> None:
        if self._send(spans):
            if self._failing:
                logger.warning("the collector of traces takes spans again; %d were lost", self._lost)
            self._failing, self._lost = False, 0
            return
        self._lost += len(spans)
        if not self._failing:
            self._failing = True
            logger.warning(
                "the collector of traces does not take spans, and they are lost until it does: is "
                "OTEL_EXPORTER_OTLP_ENDPOINT where it listens for OTLP over HTTP? Calls are answered as before"
            )


class SpanQueue:
    """Spans that wait to be sent by a thread of its own. `put` is called from any thread, and never waits."""

    def __init__(self, send: Callable[[Sequence[SpanRecord]], None], limits: QueueLimits) -> None:
        self._send = send
        self._limits = limits
        self._spans: deque[SpanRecord] = deque(maxlen=limits.spans_max)
        self._awake = threading.Event()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="duramen-traces", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def put(self, span: SpanRecord) -> None:
        """A span has ended."""
        self._spans.append(span)
        if len(self._spans) >= self._limits.batch_max and not self._awake.is_set():
            self._awake.set()

    def _run(self) -> None:
        while not self._is_closed:
            self._awake.wait(self._limits.delay_ms / 1000)
            self._awake.clear()
            self._send_all()
        self._send_all()

    def _send_all(self) -> None:
        for _ in range(self._limits.spans_max // self._limits.batch_max + 1):  # what comes meanwhile has its turn later
            batch: list[SpanRecord] = []
            while self._spans and len(batch) < self._limits.batch_max:
                batch.append(self._spans.popleft())
            if not batch:
                return
            self._send(batch)

    def close(self, patience_s: float) -> None:
        """Send what is left, for so long at most. Blocks."""
        self._is_closed = True
        self._awake.set()
        self._thread.join(patience_s)


class ServerTraces:
    """The traces of one server process."""

    def __init__(self, role: str) -> None:
        """Raises `InvalidRequest` for what the environment says and is not here, and what OpenTelemetry refuses."""
        limits = limits_of(os.environ)
        self._line = CollectorLine(address_of(os.environ))
        try:
            sampler, found = _of_environment(role)
        except (ValueError, KeyError, OSError) as error:
            raise InvalidRequest(f"OpenTelemetry refuses what its variables, OTEL_…, say: {error}") from error
        resource = resource_of(found.attributes)
        sending = AnnouncedSending(lambda spans: self._line.send(request_of(resource, TRACER_NAME, spans)))
        self._queue = SpanQueue(sending, limits)
        self._queue.start()
        share = 0.0 if sampler is ALWAYS_OFF else share_of(os.environ)
        follows = sampler is not ALWAYS_OFF and follows_callers(os.environ)
        self.tracing = ServedTraces(sampler, self._queue.put, share=share, follows=follows)

    def close(self) -> None:
        """Send what is left, for two seconds at most. Blocks."""
        self._queue.close(_LAST_SPANS_S)
        self._line.close()


def _of_environment(role: str) -> tuple[Sampler, Resource]:
    """Which calls are traced, and whose spans they are."""
    found = Resource.create({"duramen.role": role})
    if str(found.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
        found = found.merge(Resource({SERVICE_NAME: "duramen"}))
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return ALWAYS_OFF, found
    return TracerProvider(resource=found, shutdown_on_exit=False).sampler, found
