"""What comes over HTTP and in headers: requests, bodies of calls, paths of the registry, queries, traces, problems."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import grpc
import h11
from grpc.aio import AioRpcError, Metadata
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from duramen.server.console.calls.call_messages import CALL_FORMAT, parse_call
from duramen.server.console.history_answer import parse_history_query
from duramen.server.console.node_facts import facts_of_status
from duramen.server.registry.registry_view import RegistryView
from duramen.server.registry.subjects import Subject, SubjectIndex
from duramen.server.sight.http_messages import HttpRequest, header_of, host_of, read_request
from duramen.server.sight.log_watch import seen_of
from duramen.server.sight.observed import LogServerSeen
from duramen.tracing.served_spans import ServedTraces
from fuzz.target import Target
from log_tier.model.errors import DuramenError, InvalidRequest, InvalidToken
from log_tier.rows.schema import NumberedSchema, RowSchema
from log_tier.rpc.problems import PROBLEM_KEY, error_of_call, problem_of

__all__ = ["http_targets"]

_HEAD_BYTES_MAX: Final = 16 << 10
_BODY_BYTES_MAX: Final = 64 << 10
_REQUESTS_BYTES_MAX: Final = 16 << 10
"""Some hundreds of requests, each of which a connection answers before it reads the next: 100 us."""
_REQUESTS: Final = (
    b"GET /status?x=1 HTTP/1.1\r\nhost: [::1]:8080\r\naccept: text/plain\r\nauthorization: Bearer x\r\n\r\n",
    b"POST /call HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}",
    b"POST /call HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nx-y: z\r\n\r\n",
    b"HEAD /livez HTTP/1.0\r\n\r\nGET / HTTP/1.1\r\nhost:\r\nexpect: 100-continue\r\n\r\n",
)


def _request(data: bytes) -> None:
    """Requests of one connection, one after the other, until it ends or one is none."""
    asyncio.run(_connection(data))


async def _connection(data: bytes) -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    reader.feed_eof()
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=_HEAD_BYTES_MAX)
    while True:
        read = await read_request(connection, reader, _HEAD_BYTES_MAX, lambda target: _BODY_BYTES_MAX)
        if read is None:
            return
        asked = HttpRequest(read[0], "peer", read[1])
        host_of(asked.head), header_of(asked.head, b"accept"), asked.path, asked.query
        connection.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
        connection.send(h11.EndOfMessage())
        if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
            return
        connection.start_next_cycle()


_CALLS: Final = (
    {"format": CALL_FORMAT, "method": "Tables/Describe", "request": {"table": "flights"}, "timeout_s": 2.5},
    {"format": CALL_FORMAT, "method": "Console/Scan", "request": {"table": "flights"}, "messages": 9},
)


@cache
def _registry() -> RegistryView:
    def schema(name: str, *fields: str) -> RowSchema:
        listed = [{"name": each, "type": "long", "default": 0} for each in ("id", *fields)]
        return RowSchema.parse({"type": "record", "name": name, "fields": listed})

    schemas = tuple(NumberedSchema(number, schema("Row", *"abc"[:number])) for number in (1, 2, 3))
    subject = Subject("flights-value", "flights", schemas)
    index = SubjectIndex({subject.name: subject}, {each.number: (subject,) for each in schemas})
    return RegistryView(index, {each.number: each.schema.text for each in schemas}, None)


_PATHS: Final = (
    b"/schemas/ids/2/versions?offset=1&limit=2",
    b"/subjects/flights%2Dvalue/versions/latest?verbose=true",
    b"/subjects?subjectPrefix=fl&limit=-1",
    b"/config/flights-value",
)


def _registry_path(data: bytes) -> None:
    """Every path and query has an answer that is a document."""
    path, _, query = data.decode("ascii", "replace").partition("?")
    reply = _registry().answer(path, query).reply()
    assert reply.status < 500
    json.loads(reply.body)


def _registry_bodies() -> list[bytes]:
    text = _registry().schemas[2]
    return [
        json.dumps({"schema": text}).encode(),
        json.dumps({"schema": text, "schemaType": "AVRO"}, indent=1).encode(),
    ]


def _registry_body(data: bytes) -> None:
    path = "/compatibility/subjects/flights-value/versions"
    reply = _registry().checked(path, "verbose=true", data).reply()
    if reply.status != 200:
        assert reply.status < 500
        raise InvalidRequest(str(reply.status))
    json.loads(reply.body)


def _query(data: bytes) -> None:
    parse_history_query(data.decode("ascii", "replace"))


_TRACEPARENT: Final = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@cache
def _traces() -> list[ServedTraces]:
    return [ServedTraces(ALWAYS_ON, lambda span: None, follows=follows) for follows in (False, True)]


def _traced(data: bytes) -> None:
    parent, _, state = data.decode("latin-1").partition("\n")
    metadata = [("traceparent", parent), *([("tracestate", state)] if state else [])]
    for each in _traces():
        each.serve("/duramen.v1.KV/Get", metadata)
        each.elsewhere(parent, state)


def _problems() -> list[bytes]:
    return [problem_of(InvalidToken("no", version=7, name="x")).SerializeToString(), b""]


def _problem(data: bytes) -> None:
    """What a server says of a call that failed is an error that can be sent on."""
    failure = AioRpcError(grpc.StatusCode.UNKNOWN, Metadata(), Metadata((PROBLEM_KEY, data)), "no", "no")
    error = error_of_call(failure, "target:7070")
    assert isinstance(error, DuramenError)
    problem_of(error).SerializeToString()


_STATUS: Final = {
    "format": 1,
    "now_ms": 7,
    "ready": True,
    "troubles": [{"kind": "disk"}],
    "memory_bytes": 5,
    "disk": {"free_bytes": 5, "full_bytes": 9},
    "log": {"stopped": None},
    "partitions": [{"state": "ready"}],
}


def _statuses() -> list[bytes]:
    return [json.dumps(_STATUS).encode(), json.dumps({**_STATUS, "disk": None, "log": None}, indent=1).encode()]


def _log_status(data: bytes) -> None:
    seen = seen_of(data, LogServerSeen("log:7070", False, ""), now_ms=5)
    if not seen.alive:
        raise InvalidRequest(seen.reason)


def _node_status(data: bytes) -> None:
    try:
        document: Any = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest("no JSON") from error
    facts_of_status(document, 1.0)


def http_targets() -> Iterator[Target]:
    """Requests, their parts, and what servers say to each other in JSON."""
    calls = [json.dumps(each).encode() for each in _CALLS]
    queries = [b"since=-3600&step=10&of=orders/3&of=a%2Fb/0", b"", b"since=1e9"]
    yield Target(
        "request of HTTP",
        lambda: _REQUESTS,
        _request,
        (h11.RemoteProtocolError,),
        quick_inputs=500,
        grown_bytes_max=_REQUESTS_BYTES_MAX,
    )
    yield Target("body of a call", lambda: calls, parse_call)
    yield Target("path of the registry", lambda: _PATHS, _registry_path)
    yield Target("schema for the registry", _registry_bodies, _registry_body)
    yield Target("query of the history", lambda: queries, _query)
    yield Target("trace of a caller", lambda: [_TRACEPARENT, _TRACEPARENT + b"\na=1,b=t61rcWkgMzE"], _traced)
    yield Target("problem of a failed call", _problems, _problem)
    yield Target("status of the log's server", _statuses, _log_status)
    yield Target("status of a node", _statuses, _node_status, (DuramenError, ValueError, LookupError, TypeError))
