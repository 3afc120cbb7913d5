"""Messages of calls as a server's handlers parse them, before a service sees them: small ones at once, large ones after
their fields were counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

import grpc
from google.protobuf.message import Message

from fuzz.fields import changed_fields, grown_fields
from fuzz.target import Target
from log_tier.model.errors import InvalidRequest
from log_tier.model.identifiers import Offset, Partition, PartitionId, TableId
from log_tier.proto.problem_pb2 import Problem
from log_tier.rpc.checked import CheckedHandler, Refusals
from log_tier.rpc.problems import PROBLEM_KEY
from router.data.requests import ReadPart, WritePart
from router.remote import messages

__all__ = ["call_targets"]

_PLACE: Final = PartitionId(TableId("AAECAwQFBgcICQoLDA0ODw"), Partition(3))
_LARGE_BYTES: Final = 64 * 1024
"""Larger messages are parsed behind a count of their fields."""
_LARGE_INPUTS: Final = 100


class _Context:
    """What a handler knows of its call, as far as it refuses it."""

    def peer(self) -> str:
        return "peer"

    def invocation_metadata(self) -> tuple[()]:
        return ()

    async def abort(self, code: grpc.StatusCode, details: str, trailing: Sequence[tuple[str, bytes]]) -> None:
        assert details, f"{code} without a word"
        Problem.FromString(dict(trailing)[PROBLEM_KEY])
        raise InvalidRequest(details)


async def _answered(request: Message, _: object) -> Message:
    return request


def _handler(kind: type[Message]) -> Any:
    """Of a method that answers with its request."""
    method = grpc.unary_unary_rpc_method_handler(
        _answered, request_deserializer=kind.FromString, response_serializer=kind.SerializeToString
    )
    service = grpc.method_handlers_generic_handler("fuzz", {"Call": method})
    return CheckedHandler([service], Refusals()).service(_Details())


class _Details:
    method = "/fuzz/Call"
    invocation_metadata = ()


def _call(handler: Any, data: bytes) -> None:
    """The call is answered with the message, or refused by a typed problem."""
    asyncio.run(_parsed(handler, data))


async def _parsed(handler: Any, data: bytes) -> None:
    request = handler.request_deserializer(data)
    assert type(handler.response_serializer(await handler.unary_unary(request, _Context()))) is bytes


def _large(handler: Any, data: bytes) -> None:
    """The same message again and again is one of many parts."""
    _call(handler, data * (_LARGE_BYTES // max(1, len(data)) + 1))


def call_targets() -> Iterator[Target]:
    """Two requests with parts: as they are, and so long that a thread parses them."""
    read = messages.read_request([ReadPart(_PLACE, [b"one", b"two"], Offset(7), True, 5)], patience=0.1)
    write = messages.write_request([WritePart(_PLACE, b"batch", True)])
    for message in (read, write):
        kind = type(message)
        samples = partial(list[bytes], [message.SerializeToString()])
        handler = _handler(kind)
        name = f"message of a call, {kind.DESCRIPTOR.name}"
        change, grow = partial(changed_fields, kind), partial(grown_fields, kind)
        yield Target(name, samples, partial(_call, handler), quick_inputs=500)
        yield Target(f"{name}, by fields", samples, partial(_call, handler), change=change, grow=grow, quick_inputs=500)
        yield Target(f"{name}, large", samples, partial(_large, handler), quick_inputs=_LARGE_INPUTS)
