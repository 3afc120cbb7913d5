"""The JSON of a call and of its answer. Pure. docs/FORMATS.md describes both."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from google.protobuf.descriptor import FileDescriptor, MethodDescriptor
from google.protobuf.json_format import ParseDict
from google.protobuf.json_format import ParseError as JsonError
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from duramen.server.console.calls.message_document import document_of_message
from log_tier.model.errors import DuramenError, InvalidRequest
from router.proto import admin_pb2, console_pb2, tables_pb2, users_pb2

__all__ = [
    "CALL_FORMAT",
    "METHODS",
    "CallAsked",
    "answer_to_json",
    "error_to_json",
    "parse_call",
    "reply_of",
]

CALL_FORMAT: Final = 1

_TIMEOUT_S: Final = 5.0
"""A page asks again; what it asks for is answered within some milliseconds, or a node is silent."""
_TIMEOUT_MAX_S: Final = 30.0
_MESSAGES_MAX: Final = 1000
"""Of a stream of replies: what a page can list."""

_SERVICES: Final[Sequence[tuple[FileDescriptor, str]]] = (
    (admin_pb2.DESCRIPTOR, "Admin"),
    (users_pb2.DESCRIPTOR, "Users"),
    (tables_pb2.DESCRIPTOR, "Tables"),
    (console_pb2.DESCRIPTOR, "Console"),
)


def _methods() -> dict[str, MethodDescriptor]:
    services = [file.services_by_name[name] for file, name in _SERVICES]
    return {f"{service.name}/{each.name}": each for service in services for each in service.methods}


METHODS: Final[Mapping[str, MethodDescriptor]] = _methods()
"""What can be called, by `Service/Method`."""


class CallAsked(NamedTuple):
    """One call."""

    method: str
    """As gRPC names it: `/duramen.v1.Admin/Nodes`."""
    request: Message
    messages: int = 1
    """How many replies of a stream are wanted at most."""
    timeout_s: float = _TIMEOUT_S


def parse_call(body: bytes) -> CallAsked:
    """The call that a body asks for. Raises `InvalidRequest`."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"the body is no JSON: {error}") from error
    if not isinstance(document, dict) or document.get("format") != CALL_FORMAT:
        raise InvalidRequest(f'a call is a JSON object with "format": {CALL_FORMAT}')
    if unknown := document.keys() - {"format", "method", "request", "messages", "timeout_s"}:
        raise InvalidRequest(
            f"a call has no {min(unknown)[:60]!r}: it has format, method, request, messages, timeout_s"
        )
    name, request = document.get("method"), document.get("request", {})
    found = METHODS.get(name) if isinstance(name, str) else None
    if found is None:
        raise InvalidRequest(f"there is no method {str(name)[:60]!r} for pages: there are {', '.join(METHODS)}")
    if not isinstance(request, dict):
        raise InvalidRequest("the request of a call is an object")
    messages, timeout_s = document.get("messages", 1), document.get("timeout_s", _TIMEOUT_S)
    if type(messages) is not int or not 1 <= messages <= _MESSAGES_MAX:
        raise InvalidRequest(f"messages is a number from 1 to {_MESSAGES_MAX}")
    if type(timeout_s) not in (int, float) or not math.isfinite(timeout_s) or not 0 < timeout_s <= _TIMEOUT_MAX_S:
        raise InvalidRequest(f"timeout_s is a number of seconds up to {_TIMEOUT_MAX_S:g}")
    made = GetMessageClass(found.input_type)()
    try:
        ParseDict(request, made)
    except (JsonError, ValueError, TypeError, RecursionError) as error:
        raise InvalidRequest(f"this is no request of {name}: {str(error)[:300]}") from error
    return CallAsked(f"/{found.containing_service.full_name}/{found.name}", made, messages, float(timeout_s))


def reply_of(method: str, reply: Message | bytes) -> Message:
    """A reply as a message; a service may have serialized it."""
    if isinstance(reply, Message):
        return reply
    service, _, name = method.rpartition("/")
    kind = METHODS[f"{service.rpartition('.')[2]}/{name}"].output_type
    found: Message = GetMessageClass(kind).FromString(reply)
    return found


def answer_to_json(replies: Sequence[Message], *, more: bool) -> bytes:
    """The answer. Numbers that a double does not hold are strings, as protobuf's JSON has it. Some 0.5 µs a field."""
    document = {"format": CALL_FORMAT, "replies": [document_of_message(each) for each in replies], "more": more}
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def error_to_json(error: DuramenError) -> bytes:
    """The answer of a call that failed."""
    document = {
        "error": error.message,
        "code": error.code,
        "retryable": error.retryable,
        "fields": {name: value for name, value in error.fields.items() if isinstance(value, (int, str))},
    }
    return json.dumps(document, separators=(",", ":")).encode()
