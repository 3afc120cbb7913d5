"""Messages as documents: what protobuf's own JSON gives, for every reply that a page can get."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from duramen.server.console.calls.call_messages import METHODS
from duramen.server.console.calls.message_document import document_of_message

NUMBERS = (0, 1, 5, (1 << 31) - 1, (1 << 53) - 1, 1 << 53, (1 << 53) + 1, (1 << 63) - 1)
TEXTS = ("", "orders", "</script>\u2028\x00", "Zürich 🦉")


def filled(kind: Descriptor, random: Random) -> Message:
    """A message some of whose fields are set, to ordinary and to extreme values."""
    message: Message = GetMessageClass(kind)()
    for field in kind.fields:
        if random.random() < 0.3:
            continue
        values = [value_of(field, random) for _ in range(random.randrange(3) if field.is_repeated else 1)]
        if field.message_type is not None and not field.is_repeated:
            getattr(message, field.name).CopyFrom(values[0])
        elif field.is_repeated:
            getattr(message, field.name).extend(values)
        else:
            setattr(message, field.name, values[0])
    return message


def value_of(field: FieldDescriptor, random: Random) -> Any:
    if field.message_type is not None:
        return filled(field.message_type, random)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return random.randbytes(random.randrange(5))
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return random.choice(TEXTS)
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return random.random() < 0.5
    if field.cpp_type in (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT):
        return random.choice((0.0, 0.25, -3.5, float("nan"), float("inf"), float("-inf")))
    if field.cpp_type in (FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_UINT32):
        return random.choice(NUMBERS[:4])
    number = random.choice(NUMBERS)
    return -number if field.cpp_type == FieldDescriptor.CPPTYPE_INT64 and random.random() < 0.5 else number


@pytest.mark.parametrize("method", METHODS)
def test_it_is_what_protobuf_gives(method: str) -> None:
    random = Random(method)
    for _ in range(50):
        message = filled(METHODS[method].output_type, random)
        document = document_of_message(message)
        assert json.dumps(document, allow_nan=False)
        assert document == with_safe_numbers(message)
        assert ParseDict(document, type(message)()).SerializeToString() == message.SerializeToString()


def with_safe_numbers(message: Message) -> dict[str, Any]:
    """By protobuf's own code, whose numbers of 64 bits are text where a double has no room for them."""
    return MessageToDict(
        message,
        always_print_fields_with_no_presence=True,
        preserving_proto_field_name=True,
        unquote_int64_if_possible=True,
    )
