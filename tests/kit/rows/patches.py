"""Patches as other programs write them: operands encoded by fastavro, paths by the names of fields."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

import fastavro

from log_tier.rows.patches.field_paths import path_of, place_at
from log_tier.rows.patches.row_patch import FieldChange, FieldOperation, encode_patch
from log_tier.rows.schema import RowSchema

__all__ = ["field_change", "operand_bytes", "patch_of"]


def patch_of(schema: RowSchema, number: int = 1, /, **operations: Mapping[str, Any]) -> bytes:
    """The value of a patch: `patch_of(schema, add={"seats": -1})`."""
    return encode_patch(
        number,
        [
            field_change(schema, FieldOperation[operation.upper()], name, operand)
            for operation, fields in operations.items()
            for name, operand in fields.items()
        ],
    )


def field_change(schema: RowSchema, operation: FieldOperation, name: str, operand: Any) -> FieldChange:
    path = path_of(schema, name, operation)
    return FieldChange(path, operation, operand_bytes(schema, place_at(schema, path).type, operand))


def operand_bytes(schema: RowSchema, type_: Any, operand: Any) -> bytes:
    """A value of a type of the schema."""
    named: dict[str, Any] = {}
    fastavro.parse_schema(json.loads(schema.text), named_schemas=named)
    if isinstance(type_, dict) and "name" in type_:
        type_ = type_["name"]
    wrapped = {"type": "record", "name": "operand__", "fields": [{"name": "value", "type": _bare(type_)}]}
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(wrapped, named_schemas=named), {"value": operand})
    return body.getvalue()


def _bare(type_: Any) -> Any:
    """Names in place of what is defined once already."""
    if isinstance(type_, list):
        return [_bare(each) for each in type_]
    if not isinstance(type_, dict):
        return type_
    if "name" in type_:
        return type_["name"]
    return {name: _bare(value) if name in ("items", "values") else value for name, value in type_.items()}
