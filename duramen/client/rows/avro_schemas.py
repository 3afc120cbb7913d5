"""Schemas as fastavro has them. It is imported with the first one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from io import BytesIO
from typing import Any, Final

from duramen.client.rows.plans.default_values import default_value
from log_tier.rows.schema import RowSchema

__all__ = ["AvroSchema", "avro_schema", "has_mutable_default", "value_schema"]

AvroSchema = dict[str, Any]
"""What fastavro makes of a schema."""

_SCHEMAS_MAX: Final = 1024
"""Kept parsed: as many as a program has tables open."""


@lru_cache(_SCHEMAS_MAX)
def avro_schema(schema: RowSchema) -> AvroSchema:
    """The schema, parsed. Its defaults are the values that they stand for, as fastavro hands them out as they are. Not
    to be changed.
    """
    import fastavro

    parsed = fastavro.parse_schema(json.loads(schema.text))
    assert isinstance(parsed, dict), "the schema of a row is a record"
    for field in _fields(parsed):
        if "default" in field:
            field["default"] = _read(field["default"], field["type"], schema)
    return parsed


def has_mutable_default(schema: RowSchema) -> bool:
    """Is a default a list or a dict, which two rows must not share?"""
    return any(isinstance(field.get("default"), (list, dict)) for field in _fields(avro_schema(schema)))


def _read(default: Any, type_: Any, schema: RowSchema) -> Any:
    """The value that a reader has of a default: written and read."""
    import fastavro

    parsed = value_schema(type_, schema)
    buffer = BytesIO()
    fastavro.schemaless_writer(buffer, parsed, {"value": default_value(default, _bare(type_), schema.named)})
    buffer.seek(0)
    found = fastavro.schemaless_reader(buffer, parsed, None)
    assert isinstance(found, dict), "a record is read as a dict"
    return found["value"]


def value_schema(type_: Any, schema: RowSchema) -> AvroSchema:
    """A record of one field `value`, of a type of the schema. Its bytes are those of the field."""
    import fastavro

    # In a record of its own, where the types that it names are known.
    named: dict[str, Any] = {}
    fastavro.parse_schema(json.loads(schema.text), named_schemas=named)
    parsed = fastavro.parse_schema(
        {"type": "record", "name": "__value", "fields": [{"name": "value", "type": _bare(type_)}]},
        named_schemas=named,
    )
    assert isinstance(parsed, dict), "a record is parsed to a dict"
    return parsed


def _bare(type_: Any) -> Any:
    """A parsed type with names in place of what it defines."""
    if isinstance(type_, list):
        return [_bare(each) for each in type_]
    if not isinstance(type_, dict):
        return type_
    if type_["type"] in ("record", "enum", "fixed"):
        return type_["name"]
    return {name: _bare(value) if name in ("items", "values") else value for name, value in type_.items()}


def _fields(type_: Any) -> Iterator[dict[str, Any]]:
    if isinstance(type_, list):
        for each in type_:
            yield from _fields(each)
    elif isinstance(type_, dict):
        for field in type_.get("fields", ()):
            yield field
            yield from _fields(field["type"])
        for inner in ("items", "values"):
            yield from _fields(type_.get(inner))
