"""Answers as JSON: the messages of `admin.proto` under their own names, with every field. Pure.

Protobuf's own JSON mapping writes 64-bit numbers as strings and leaves out what is not set. Scripts and `jq` want
numbers, and a null that they can ask for: so a number is a number here, an optional field that is not set is null, and
a list of `AdminArgument` is one object.
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf.message import Message

from router.proto import admin_pb2 as pb

__all__ = ["document_of"]

# Descriptors of fields are `Any` below: protobuf has one class of them for each of its implementations.
_ARGUMENT: Final = pb.AdminArgument.DESCRIPTOR.full_name


def document_of(message: Message) -> dict[str, Any]:
    """One answer as what `json.dumps` takes; the fields in the order of the proto. Some µs a field."""
    return {_name(field): _value(message, field) for field in message.DESCRIPTOR.fields}


def _name(field: Any) -> str:
    """The proto's name, or the `json_name` that it gives in its place."""
    name: str = field.name
    first, *rest = name.split("_")
    derived = first + "".join(part.capitalize() for part in rest)
    return name if field.json_name == derived else str(field.json_name)


def _value(message: Message, field: Any) -> Any:
    value = getattr(message, field.name)
    kind = field.message_type
    if field.is_repeated:
        if kind is None:
            return list(value)
        if kind.full_name == _ARGUMENT:
            return {each.name: getattr(each, each.WhichOneof("value")) for each in value}
        return [document_of(each) for each in value]
    if field.has_presence and not message.HasField(field.name):
        return None
    return value if kind is None else document_of(value)
