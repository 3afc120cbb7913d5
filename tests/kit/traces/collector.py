"""A collector of OpenTelemetry, as far as servers and programs see it: OTLP over HTTP, on loopback."""

from __future__ import annotations

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1 import trace_pb2

from kit.deadlines import wait_until

__all__ = ["Collector", "ReceivedSpan", "tree_of"]


class ReceivedSpan(NamedTuple):
    """A span as it arrived."""

    service: str
    role: str
    name: str
    kind: str
    trace: bytes
    id: bytes
    parent: bytes
    began_ns: int
    ended_ns: int
    attributes: dict[str, Any]
    links: list[tuple[bytes, bytes]]
    """Trace and span that each names."""
    events: list[tuple[str, dict[str, Any]]]
    failed: bool


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    return [_value(each) for each in value.array_value.values] if kind == "array_value" else getattr(value, kind)


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


class Collector:
    """`with Collector() as collector`: listens, and keeps what it is sent."""

    def __init__(self, port: int = 0) -> None:
        self.received: list[ReceivedSpan] = []
        self.requests = 0
        collector = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                collector.take(self.path, body)
                reply = ExportTraceServiceResponse().SerializeToString()
                self.send_response(200)
                self.send_header("content-type", "application/x-protobuf")
                self.send_header("content-length", str(len(reply)))
                self.end_headers()
                self.wfile.write(reply)

            def log_message(self, *_: Any) -> None:
                """Nothing on the standard error."""

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def endpoint(self) -> str:
        """For OTEL_EXPORTER_OTLP_ENDPOINT."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def take(self, path: str, body: bytes) -> None:
        """Keep what came."""
        assert path == "/v1/traces", path
        self.requests += 1
        for of_resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            resource = _attributes(of_resource.resource.attributes)
            for scope in of_resource.scope_spans:
                assert scope.scope.name == "duramen" or scope.scope.name.startswith("program"), scope.scope.name
                self.received += [_received(resource, span) for span in scope.spans]

    def __enter__(self) -> Collector:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def named(self, name: str) -> list[ReceivedSpan]:
        return [span for span in self.received if span.name == name]

    def wait_for(self, name: str, count: int = 1) -> list[ReceivedSpan]:
        """The spans of that name, as soon as there are so many."""
        wait_until(lambda: len(self.named(name)) >= count, f"{count} of {name} in {sorted(map(_name, self.received))}")
        return self.named(name)

    def wait_for_part(self, root: ReceivedSpan, name: str) -> ReceivedSpan:
        """The first span of that name in the trace of `root`, as soon as it is there."""

        def there() -> list[ReceivedSpan]:
            return [span for span in self.named(name) if span.trace == root.trace]

        wait_until(there, f"{name} in {tree_of(self.received, root.trace)}")
        return there()[0]


def _name(span: ReceivedSpan) -> str:
    return span.name


def _received(resource: dict[str, Any], span: trace_pb2.Span) -> ReceivedSpan:
    return ReceivedSpan(
        resource.get("service.name", ""),
        resource.get("duramen.role", ""),
        span.name,
        trace_pb2.Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"),
        span.trace_id,
        span.span_id,
        span.parent_span_id,
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        _attributes(span.attributes),
        [(link.trace_id, link.span_id) for link in span.links],
        [(event.name, _attributes(event.attributes)) for event in span.events],
        span.status.code == trace_pb2.Status.STATUS_CODE_ERROR,
    )


def tree_of(spans: list[ReceivedSpan], trace: bytes) -> list[str]:
    """The spans of one trace, each as its role and its names from the root: `program: a > b`. Sorted."""
    mine = {span.id: span for span in spans if span.trace == trace}

    def path(span: ReceivedSpan) -> str:
        above = mine.get(span.parent)
        return span.name if above is None else f"{path(above)} > {span.name}"

    return sorted(f"{span.role or span.service}: {path(span)}" for span in mine.values())
