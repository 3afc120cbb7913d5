"""Messages of gRPC changed and grown by their fields: every input is a message that protobuf accepts."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any, Final, cast

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from fuzz.growth import filler, grown_goal, varint
from log_tier.model.identifiers import Offset, Partition, TableId
from log_tier.model.tokens import Token

__all__ = ["changed_fields", "grown_fields"]

_TOKEN: Final = str(Token({TableId("AAECAwQFBgcICQoLDA0ODw"): {Partition(3): Offset(7)}}))
_UNKNOWN: Final = 1900
"""A field that no message has: it is kept, and means nothing."""
_BYTES_FIELD: Final = 2
_DEEPEST: Final = 3


def changed_fields(kind: type[Message], samples: Sequence[bytes], chance: random.Random) -> bytes:
    """One of the samples with some of its fields set to values that they may have and hardly ever do."""
    message = kind.FromString(chance.choice(samples))
    for _ in range(chance.randint(1, 4)):
        _change_field(message, chance)
    return message.SerializeToString()


def _change_field(message: Message, chance: random.Random) -> None:
    field: FieldDescriptor = cast("FieldDescriptor", chance.choice(list(message.DESCRIPTOR.fields)))
    inside = field.type == field.TYPE_MESSAGE
    if field.is_repeated:
        entries: Any = getattr(message, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            return  # the fields of errors
        if entries and chance.random() < 0.3:
            del entries[chance.randrange(len(entries))]
        elif inside:
            _change_field(chance.choice(entries) if entries and chance.random() < 0.7 else entries.add(), chance)
        else:
            value = _value_of(field, chance)
            entries.extend([value] * (2 if isinstance(value, (bytes, str)) else chance.choice((1, 2, 2000))))
    elif inside:
        part: Message = getattr(message, field.name)
        part.SetInParent()
        if part.DESCRIPTOR.fields:
            _change_field(part, chance)
    elif chance.random() < 0.2:
        message.ClearField(field.name)
    else:
        setattr(message, field.name, _value_of(field, chance))


def _value_of(field: FieldDescriptor, chance: random.Random) -> Any:
    if field.type == field.TYPE_STRING:
        return chance.choice(("", "flights", "d1.", _TOKEN, "\0", "é" * 70, "../..", "x" * 5000))
    if field.type == field.TYPE_BYTES:
        return chance.choice((b"", b"k", bytes(15), bytes(16), b"{a}", b"{", b"x" * 511, b"x" * 512, b"x" * 5000))
    if field.type == field.TYPE_BOOL:
        return chance.random() < 0.5
    if field.type in (field.TYPE_DOUBLE, field.TYPE_FLOAT):
        return chance.choice((0.0, -0.0, math.inf, -math.inf, math.nan, 1e300, 5e-324))
    bits = 31 if field.type in (field.TYPE_INT32, field.TYPE_SINT32, field.TYPE_ENUM, field.TYPE_SFIXED32) else 63
    if field.type in (field.TYPE_UINT32, field.TYPE_FIXED32, field.TYPE_UINT64, field.TYPE_FIXED64):
        bits = 32 if field.type in (field.TYPE_UINT32, field.TYPE_FIXED32) else 64
        return chance.choice((0, 1, 8, 1 << 14, (1 << bits) - 1, 1 << bits - 1))
    return chance.choice((0, 1, -1, 8, 1 << 14, (1 << bits) - 1, -(1 << bits), (1 << bits) - 2))


def grown_fields(kind: type[Message], samples: Sequence[bytes], chance: random.Random, most: int) -> bytes:
    """Some kilobytes that are one message: messages one behind the other are read as one, lists of it one list."""
    goal, way = grown_goal(chance, most), chance.random()
    changed = changed_fields(kind, samples, chance)
    if way < 0.5:
        message = kind.FromString(changed)
        if _grow_field(message, goal, chance, _DEEPEST):
            return message.SerializeToString()
    elif way < 0.9 and changed:
        parts = [changed, *(changed_fields(kind, samples, chance) for _ in range(3)), chance.choice(samples)]
        mean = max(1, sum(map(len, parts)) // len(parts))
        return b"".join(chance.choices(parts, k=goal // mean + 1))[: 2 * most] if mean > 1 else changed
    more = filler(goal, chance)
    return changed + varint(_UNKNOWN << 3 | _BYTES_FIELD) + varint(len(more)) + more


def _grow_field(message: Message, goal: int, chance: random.Random, depth: int) -> bool:
    """Whether there is a field that can be long."""
    fields = list(message.DESCRIPTOR.fields)
    chance.shuffle(fields)
    for field in cast("list[FieldDescriptor]", fields):
        if field.message_type is not None:
            if field.message_type.GetOptions().map_entry or not depth:
                continue
            if not field.is_repeated:
                if _grow_field(getattr(message, field.name), goal, chance, depth - 1):
                    return True
                continue
            entries: Any = getattr(message, field.name)
            made = entries.add()
            for _ in range(chance.randint(0, 3)):
                if made.DESCRIPTOR.fields:
                    _change_field(made, chance)
            entries.extend([made] * min(4000, goal // (made.ByteSize() + 2)))
            return True
        value = _long_value(field, goal, chance)
        if field.is_repeated:
            value = _value_of(field, chance)
            size = len(value) if isinstance(value, (bytes, str)) else 4
            getattr(message, field.name).extend([value] * min(8000, goal // (size + 2)))
            return True
        if value is not None:
            setattr(message, field.name, value)
            return True
    return False


def _long_value(field: FieldDescriptor, goal: int, chance: random.Random) -> Any:
    if field.type == field.TYPE_BYTES:
        return filler(goal, chance)
    if field.type == field.TYPE_STRING:
        return filler(goal, chance).decode("utf-8", "replace")[:goal]
    return None
