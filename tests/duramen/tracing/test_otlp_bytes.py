"""The bytes of spans, read by OpenTelemetry's own classes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from duramen.tracing.otlp_bytes import CLIENT, INTERNAL, SERVER, SpanRecord, request_of, resource_of

TEXTS = st.text(max_size=20)
NUMBERS = st.integers(-(2**63), 2**63 - 1)
VALUES = TEXTS | st.booleans() | NUMBERS | st.floats(allow_nan=False) | st.lists(NUMBERS, max_size=4)
ATTRIBUTES = st.dictionaries(TEXTS, VALUES, max_size=4)
TIMES = st.integers(0, 2**63)
TRACES, IDS = st.binary(min_size=16, max_size=16), st.binary(min_size=8, max_size=8)
SPANS = st.builds(
    SpanRecord,
    trace=TRACES,
    id=IDS,
    parent=st.just(b"") | IDS,
    is_parent_remote=st.booleans(),
    state=TEXTS,
    name=st.text(max_size=300),
    kind=st.sampled_from([INTERNAL, SERVER, CLIENT]),
    began_ns=TIMES,
    ended_ns=TIMES,
    attributes=ATTRIBUTES,
    events=st.lists(st.tuples(TIMES, TEXTS, ATTRIBUTES), max_size=3),
    links=st.lists(st.tuples(TRACES, IDS), max_size=3),
    failed=st.booleans(),
)


def value_of(found: Any) -> Any:
    kind = found.WhichOneof("value")
    return [value_of(each) for each in found.array_value.values] if kind == "array_value" else getattr(found, kind)


def attributes_of(pairs: Any) -> dict[str, Any]:
    return {pair.key: value_of(pair.value) for pair in pairs}


@given(ATTRIBUTES, TEXTS, st.lists(SPANS, max_size=4))
def test_what_is_written_is_what_a_collector_reads(
    resource: dict[str, Any], scope: str, spans: list[SpanRecord]
) -> None:
    read = ExportTraceServiceRequest.FromString(request_of(resource_of(resource), scope, spans))
    (of_resource,) = read.resource_spans
    (of_scope,) = of_resource.scope_spans
    assert attributes_of(of_resource.resource.attributes) == resource
    assert of_scope.scope.name == scope
    assert [
        SpanRecord(
            span.trace_id,
            span.span_id,
            span.parent_span_id,
            bool(span.flags & 0x200),
            span.trace_state,
            span.name,
            span.kind,
            span.start_time_unix_nano,
            span.end_time_unix_nano,
            attributes_of(span.attributes),
            [(event.time_unix_nano, event.name, attributes_of(event.attributes)) for event in span.events],
            [(link.trace_id, link.span_id) for link in span.links],
            span.status.code == 2,
        )
        for span in of_scope.spans
    ] == spans
    assert all(span.flags & 0x101 == 0x101 for span in of_scope.spans), "sampled, and whose the parent is, is known"


def test_a_number_and_a_truth_stay_what_they_are() -> None:
    """They are equal in Python, and what is kept of texts must not mix them."""
    span = SpanRecord(
        b"t" * 16, b"i" * 8, b"", False, "", "n", SERVER, 1, 2, {"a": 1, "b": True, "c": 1.0}, [], [], False
    )
    read = ExportTraceServiceRequest.FromString(request_of(b"", "duramen", [span])).resource_spans[0].scope_spans[0]
    kinds = [pair.value.WhichOneof("value") for pair in read.spans[0].attributes]
    assert kinds == ["int_value", "bool_value", "double_value"]


@pytest.mark.parametrize("text", ["\ud800", "a\x00b", "é" * 200])
def test_a_text_that_is_none_is_sent_as_another(text: str) -> None:
    span = SpanRecord(b"t" * 16, b"i" * 8, b"", False, "", "n", SERVER, -1, 2, {"a": text}, [], [], False)
    read = ExportTraceServiceRequest.FromString(request_of(b"", "duramen", [span])).resource_spans[0].scope_spans[0]
    assert read.spans[0].attributes[0].value.string_value == text.replace("\ud800", "?")
    assert read.spans[0].start_time_unix_nano == 0, "a clock before 1970"
