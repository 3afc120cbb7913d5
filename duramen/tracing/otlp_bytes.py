"""Spans as OpenTelemetry's collector reads them: the bytes of an `ExportTraceServiceRequest` of OTLP 1. Pure.

The messages are those of `opentelemetry/proto/trace/v1/trace.proto`, whose fields have kept their numbers since version
1. They are written by hand: objects of protobuf take 40 µs for a span, and a put has seven spans.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

__all__ = ["CLIENT", "INTERNAL", "SERVER", "SpanRecord", "request_of", "resource_of"]

INTERNAL: Final = 1
SERVER: Final = 2
CLIENT: Final = 3

_SAMPLED: Final = 0x101
"""Sampled, and it is known whether the parent is of another process."""
_PARENT_IS_REMOTE: Final = 0x200
_TIMES: Final = struct.Struct("<cQcQ")
_FIXED_64: Final = struct.Struct("<cQ")
_DOUBLE: Final = struct.Struct("<cd")
_FLAGS: Final = struct.Struct("<2sI")
_ERROR: Final = b"z\x02\x18\x02"
"""The status of a span that failed."""

_TEXTS_MAX: Final = 2_048
"""Names, and attributes that are texts: words of the program, and codes."""


class SpanRecord(NamedTuple):
    """A span that has ended."""

    trace: bytes
    id: bytes
    parent: bytes
    """Empty: it is the first of its trace."""
    is_parent_remote: bool
    state: str
    """W3C's `tracestate`."""
    name: str
    kind: int
    began_ns: int
    ended_ns: int
    attributes: Mapping[str, Any]
    events: Sequence[tuple[int, str, Mapping[str, Any]]]
    links: Sequence[tuple[bytes, bytes]]
    """Trace and span of each."""
    failed: bool


def request_of(resource: bytes, scope: str, spans: Iterable[SpanRecord]) -> bytes:
    """The body that carries these spans. `resource`: made by `resource_of`. 5 µs for a span."""
    of_scope = [_sized(b"\n", _sized(b"\n", scope.encode()))]
    of_scope += [_sized(b"\x12", _span(span)) for span in spans]
    return _sized(b"\n", resource + _sized(b"\x12", b"".join(of_scope)))


def resource_of(attributes: Mapping[str, Any]) -> bytes:
    """Whose spans they are."""
    return _sized(b"\n", b"".join([_sized(b"\n", _pair(key, value)) for key, value in attributes.items()]))


def _span(span: SpanRecord) -> bytes:
    parts = [b"\n\x10", span.trace, b"\x12\x08", span.id]
    if span.state:
        parts.append(_sized(b"\x1a", span.state.encode()))
    if span.parent:
        parts += b'"\x08', span.parent
    parts += (
        _text(b"*", span.name),
        b"0%c" % span.kind,
        _TIMES.pack(b"9", max(0, span.began_ns), b"A", max(0, span.ended_ns)),
    )
    parts += [_sized(b"J", _pair(key, value)) for key, value in span.attributes.items()]
    for at_ns, name, attributes in span.events:
        of_event = [_FIXED_64.pack(b"\x09", max(0, at_ns)), _text(b"\x12", name)]
        of_event += [_sized(b"\x1a", _pair(key, value)) for key, value in attributes.items()]
        parts.append(_sized(b"Z", b"".join(of_event)))
    parts += [b"j\x1c\n\x10%b\x12\x08%b" % link for link in span.links]
    if span.failed:
        parts.append(_ERROR)
    flags = _SAMPLED | _PARENT_IS_REMOTE if span.is_parent_remote else _SAMPLED
    parts.append(_FLAGS.pack(b"\x85\x01", flags))
    return b"".join(parts)


def _pair(key: str, value: Any) -> bytes:
    """A `KeyValue`."""
    if type(value) is str:
        return _pair_of_texts(key, value)
    if type(value) is int:
        number = _varint(value & 0xFFFF_FFFF_FFFF_FFFF)
        return b"%b\x12%c\x18%b" % (_text(b"\n", key), len(number) + 1, number)
    return _text(b"\n", key) + _sized(b"\x12", _value(value))


@lru_cache(_TEXTS_MAX)
def _pair_of_texts(key: str, value: str) -> bytes:
    return _text(b"\n", key) + _sized(b"\x12", _value(value))


def _value(value: Any) -> bytes:
    """An `AnyValue`: a text, a boolean, a number, or several of them."""
    if isinstance(value, str):
        return _sized(b"\n", value.encode(errors="replace"))
    if isinstance(value, bool):
        return b"\x10\x01" if value else b"\x10\x00"
    if isinstance(value, int):
        return b"\x18" + _varint(value & 0xFFFF_FFFF_FFFF_FFFF)
    if isinstance(value, float):
        return _DOUBLE.pack(b"!", value)
    return _sized(b"*", b"".join([_sized(b"\n", _value(each)) for each in value]))


@lru_cache(_TEXTS_MAX)
def _text(tag: bytes, text: str) -> bytes:
    return _sized(tag, text.encode(errors="replace"))


def _sized(tag: bytes, data: bytes) -> bytes:
    return b"%b%b%b" % (tag, _varint(len(data)), data)


def _varint(number: int) -> bytes:
    if number < 0x80:
        return b"%c" % number
    parts = bytearray()
    while number >= 0x80:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)
