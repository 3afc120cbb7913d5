"""What a key of a table is made of: fields by name, each of one type."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final, Literal, get_args
from uuid import UUID

from log_tier.model.errors import InvalidKey, InvalidSchema
from log_tier.rows.avro.avro_types import AvroType
from log_tier.rows.avro.logical_types import logical_of
from log_tier.rows.elements import KeyElement
from log_tier.rows.schema import RowSchema

__all__ = [
    "KEY_FIELDS_MAX",
    "KEY_TYPES",
    "KeyField",
    "KeyType",
    "fits_key_field",
    "is_local_time",
    "key_field_refusal",
    "key_type_of",
    "keyed_value",
    "without_null",
]

KeyType = Literal["str", "bytes", "int", "float", "bool", "uuid", "date", "datetime", "any"]
"""What a field of a key can be. `any`: each value decides, as `pack_key` does it."""

KEY_TYPES: Final[tuple[KeyType, ...]] = get_args(KeyType)

KEY_FIELDS_MAX: Final = 32
"""A key has at most 511 bytes."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)

_OF_KINDS: Final[dict[str, KeyType]] = {
    "string": "str",
    "bytes": "bytes",
    "fixed": "bytes",
    "int": "int",
    "long": "int",
    "float": "float",
    "double": "float",
    "boolean": "bool",
}
_OF_LOGICAL: Final[dict[str, KeyType | None]] = {
    "uuid": "uuid",
    "date": "date",
    "timestamp-millis": "datetime",
    "timestamp-micros": "datetime",
    "local-timestamp-millis": "datetime",
    "local-timestamp-micros": "datetime",
    "decimal": None,
    "time-millis": None,
    "time-micros": None,
}
"""None: its bytes do not sort as its values do, so it is no field of a key."""


@dataclass(frozen=True, slots=True)
class KeyField:
    """One field of a key. Raises `InvalidSchema` for a name that Avro does not have, and for an unknown type."""

    name: str
    type: KeyType = "any"
    optional: bool = False
    """Whether it can be None, which sorts before all values."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            why = "a field's name has letters, digits and _, and begins with no digit"
            raise InvalidSchema(f"{ascii(self.name)[:60]} is no field of a key: {why}", field="key", reason=why)
        if self.type not in KEY_TYPES or type(self.optional) is not bool:
            why = f"its type is one of {', '.join(KEY_TYPES)}, not {ascii(self.type)[:60]}"
            if self.type in KEY_TYPES:
                why = "`optional` is true or false"
            raise InvalidSchema(f"the key's field {self.name}: {why}", field=self.name, reason=why)


def without_null(type_: AvroType) -> tuple[AvroType, bool]:
    """The type of a field that may be null, and whether it may. A union of several other types is as it is."""
    if isinstance(type_, list) and "null" in type_:
        others = [each for each in type_ if each != "null"]
        return (others[0] if len(others) == 1 else others), True
    return type_, False


def key_type_of(type_: AvroType, schema: RowSchema) -> KeyType | None:
    """The type of a key's field for a field of a row, null aside. None: it sorts as no type of keys does."""
    plain = schema.named.get(type_, type_) if isinstance(type_, str) else type_
    if isinstance(plain, list):
        return None
    logical = logical_of(plain)
    if logical is not None:
        return _OF_LOGICAL[logical]
    kind = plain if isinstance(plain, str) else plain["type"]
    return _OF_KINDS.get(kind)


def fits_key_field(field: KeyField, value: KeyElement) -> bool:
    """Whether a value that a key has is one of the field."""
    if value is None:
        return field.optional
    accepted = _ACCEPTED.get(field.type)
    return accepted is None or accepted(value)


def keyed_value(field: KeyField, value: Any, row_type: AvroType | None) -> KeyElement:
    """The value as the key has it, or an `InvalidKey` that names the field. `row_type` is Avro's, null aside; None: the
    table's rows have no fields.

    An int is a float where one is expected, and a float is rounded as the row's field rounds it.
    """
    if value is None:
        if field.optional:
            return None
        raise InvalidKey(f"the key's field {field.name} is None: it is a {field.type}, and not optional")
    accepted = _ACCEPTED.get(field.type)
    if accepted is None or accepted(value):
        return value if row_type is None else _as_in_rows(field, value, row_type)
    if field.type == "float" and isinstance(value, int) and not isinstance(value, bool):
        try:
            return keyed_value(field, float(value), row_type)
        except OverflowError:
            pass
    raise InvalidKey(
        f"the key's field {field.name} is a {field.type}, {ascii(value)[:60]} is a {type(value).__name__}",
    )


def _as_in_rows(field: KeyField, value: Any, row_type: AvroType) -> KeyElement:
    logical = logical_of(row_type) or ""
    if field.type == "datetime":
        local = logical.startswith("local-")
        if local == (value.utcoffset() is not None):
            raise InvalidKey(
                f"the key's field {field.name} is a time {'without' if local else 'with'} a time zone, {value} is one "
                f"{'with' if local else 'without'}"
            )
        if logical.endswith("-millis") and value.microsecond % 1000:
            raise InvalidKey(f"the key's field {field.name} has milliseconds, {value} has microseconds: round it")
    if row_type == "float" and math.isfinite(value):
        try:
            return float(struct.unpack("<f", struct.pack("<f", value))[0])
        except OverflowError:
            raise InvalidKey(f"the key's field {field.name} is a float of 32 bits, {value} is beyond") from None
    return value  # type: ignore[no-any-return]


_ACCEPTED: Final[dict[str, Callable[[Any], bool]]] = {
    "str": lambda value: isinstance(value, str),
    "bytes": lambda value: isinstance(value, bytes),
    "int": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "float": lambda value: isinstance(value, float),
    "bool": lambda value: isinstance(value, bool),
    "uuid": lambda value: isinstance(value, UUID),
    "date": lambda value: isinstance(value, date) and not isinstance(value, datetime),
    "datetime": lambda value: isinstance(value, datetime),
}


def key_field_refusal(key: KeyField, schema: RowSchema) -> str:
    """Why rows of a schema cannot have this field in their key, as a clause about the field; empty: they can."""
    found = schema.field_of(key.name)
    if found is None:
        return f"the key has this field, and the schema {schema.name} has not"
    plain, nullable = without_null(found.type)
    of_row = key_type_of(plain, schema)
    if of_row is None:
        return f"a key sorts by no field of the type {_shown(plain)}: use a text, a number or a time"
    if key.type != of_row:
        return f"the key has it as {key.type}, rows of {schema.name} have it as {of_row}"
    if key.optional != nullable:
        return f"it can be null in {'the key' if key.optional else 'rows'} only: make both alike"
    return ""


def is_local_time(key: KeyField, schema: RowSchema) -> bool:
    """Whether it is a time without a time zone."""
    found = schema.field_of(key.name)
    return found is not None and (logical_of(without_null(found.type)[0]) or "").startswith("local-")


def _shown(type_: AvroType) -> str:
    name = type_.get("logicalType", type_["type"]) if isinstance(type_, dict) else type_
    return str(name)[:60]
