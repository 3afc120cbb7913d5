"""OpenTelemetry is imported only here, when somebody asks for traces; without it, errors say what to install."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from duramen.tracing.operations import Operations
from log_tier.model.errors import InvalidRequest
from log_tier.tracing.span import TRACING

__all__ = ["begin_traces", "client_operations"]

_MISSING = "traces need the extra `otel`: pip install 'duramen[otel]' ({})"


def client_operations(targets: Sequence[str], traces: bool | float) -> Operations:
    """The operations of a client of these servers (none: an embedded database), by the program's own providers of
    traces and metrics. `traces`: True, or the share of the calls that may be traced. Raises `InvalidRequest` for
    another share, and if OpenTelemetry is not installed.
    """
    if not 0 < traces <= 1:
        raise InvalidRequest(
            f"traces are True, or the share of the calls to trace, above 0 and up to 1: not {traces!r}"
        )
    try:
        from duramen.tracing.client_operations import OtelOperations
    except ImportError as error:
        raise InvalidRequest(_MISSING.format(error)) from error
    return OtelOperations(targets, float(traces))


def begin_traces(kind: str, role: str) -> Callable[[], None]:
    """Trace the calls of the servers that are made in this context from now on. `kind`: where spans go, `otlp`;
    `none`: no traces. Returns what sends the last spans, when the servers have stopped.

    Raises `InvalidRequest` if OpenTelemetry is not installed, or its environment asks for what is not here.
    """
    if kind == "none":
        return _nothing
    try:
        from duramen.tracing.export import ServerTraces
    except ImportError as error:
        raise InvalidRequest(_MISSING.format(error)) from error
    traces = ServerTraces(role)
    TRACING.set(traces.tracing)
    return traces.close


def _nothing() -> None:
    """There are no spans to be sent."""
