"""The Arrow schema of a schema of Avro."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

from log_tier.model.errors import InvalidRequest, InvalidSchema
from log_tier.rows.avro.avro_types import AvroType, NamedTypes, branch_name
from log_tier.rows.avro.logical_types import logical_of
from log_tier.rows.schema import RowField, RowSchema

__all__ = ["FoundType", "arrow_schema", "arrow_type", "chosen_fields", "found_type", "optional_branch"]

_PLAIN: Final = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
}
_LOGICAL: Final = {
    "uuid": pa.string(),
    "date": pa.date32(),
    "time-millis": pa.time32("ms"),
    "time-micros": pa.time64("us"),
    "timestamp-millis": pa.timestamp("ms", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
}
_DIGITS_MAX: Final = 76
"""Of Arrow's decimals."""
_SHORT_DIGITS_MAX: Final = 38
"""Of those of 128 bits, which every tool has."""


class FoundType(NamedTuple):
    """A type with its name resolved."""

    type: Any
    """A text, or a dict."""
    kind: str
    """`record`, `long`, …"""
    logical: str | None


def found_type(type_: AvroType, named: NamedTypes) -> FoundType:
    """What a type, which is no union, is."""
    found: Any = named.get(type_, type_) if isinstance(type_, str) else type_
    return FoundType(found, found if isinstance(found, str) else found["type"], logical_of(found))


def optional_branch(union: Sequence[AvroType]) -> int | None:
    """Of a union of null and one other type, or of one alone: the place of that. None: it is another union."""
    others = [number for number, each in enumerate(union) if each != "null"]
    return others[0] if len(others) == 1 else 0 if not others else None


def chosen_fields(schema: RowSchema, columns: Sequence[str] | None) -> list[RowField]:
    """The fields of these names, in their order; None: all. Raises `InvalidRequest` for a name that is none, and for
    one that comes twice.
    """
    if columns is None:
        return list(schema.fields)
    if isinstance(columns, str):
        raise InvalidRequest(f'columns= is a list of names, as ["{columns}"]')
    chosen = []
    for name in columns:
        found = schema.field_of(name)
        if found is None:
            known = ", ".join(each.name for each in schema.fields[:30])
            raise InvalidRequest(f"the table has no column {name!r}; it has {known}")
        if found in chosen:
            raise InvalidRequest(f"the column {name!r} is named twice")
        chosen.append(found)
    return chosen


def arrow_schema(schema: RowSchema, columns: Sequence[str] | None = None) -> pa.Schema:
    """The Arrow schema of rows. Raises `InvalidSchema` for a record that has itself inside, which Arrow cannot have."""
    return pa.schema([_field(each.name, each.type, schema.named, each.name) for each in chosen_fields(schema, columns)])


def arrow_type(type_: AvroType, named: NamedTypes, path: str = "", inside: frozenset[str] = frozenset()) -> pa.DataType:
    """The Arrow type of one of Avro. `inside`: the records around it."""
    if isinstance(type_, list):
        return _union(type_, named, path, inside)
    found, kind, logical = found_type(type_, named)
    if logical == "decimal":
        return _decimal(found["precision"], found.get("scale", 0))
    if logical is not None:
        return _LOGICAL[logical]
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind == "fixed":
        return pa.binary(found["size"])
    if kind == "enum":
        return pa.dictionary(pa.int32(), pa.string())
    if kind == "array":
        return pa.list_(_field("item", found["items"], named, f"{path}[]", inside))
    if kind == "map":
        return pa.map_(pa.string(), _field("value", found["values"], named, f"{path}[]", inside))
    if found["name"] in inside:
        why = f"records of {found['name']} have themselves inside, which Arrow cannot have: leave it out by columns="
        raise InvalidSchema(f"the field {path}: {why}", field=path, reason=why)
    deeper = inside | {found["name"]}
    fields = [_field(each["name"], each["type"], named, f"{path}.{each['name']}", deeper) for each in found["fields"]]
    return pa.struct([each.with_nullable(True) for each in fields])  # as they are null where the record is


def _field(name: str, type_: AvroType, named: NamedTypes, path: str, inside: frozenset[str] = frozenset()) -> pa.Field:
    nullable = type_ == "null" or (isinstance(type_, list) and "null" in type_)
    return pa.field(name, arrow_type(type_, named, path, inside), nullable)


def _union(union: Sequence[AvroType], named: NamedTypes, path: str, inside: frozenset[str]) -> pa.DataType:
    place = optional_branch(union)
    if place is not None:
        return arrow_type(union[place], named, path, inside)
    return pa.struct(
        [pa.field(branch_name(each), arrow_type(each, named, path, inside)) for each in union if each != "null"]
    )


def _decimal(precision: int, scale: int) -> pa.DataType:
    if precision > _DIGITS_MAX:
        return pa.string()
    return (pa.decimal128 if precision <= _SHORT_DIGITS_MAX else pa.decimal256)(precision, scale)
