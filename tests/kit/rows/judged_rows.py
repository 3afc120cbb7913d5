"""Tables of rows for a judge, and bytes that it is asked about."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from log_tier.rows.definition import TableDefinition
from log_tier.rows.framing import frame
from log_tier.rows.key_fields import KeyField, key_type_of, without_null
from log_tier.rows.schema import NumberedSchema, RowSchema

__all__ = ["logical", "of_fields", "of_rows", "refusal", "sortable_paths", "varint"]


def of_rows(schema: Any, *key: KeyField) -> TableDefinition:
    return TableDefinition(1, key or "bytes", "row", (NumberedSchema(7, RowSchema.parse(schema)),))


def of_fields(*types: Any) -> TableDefinition:
    """A table of rows with the fields a, b, …"""
    names = ("a", "b", *(f"f{number}" for number in range(2, len(types))))
    fields = [{"name": name, "type": type_} for name, type_ in zip(names, types, strict=False)]
    return of_rows({"type": "record", "name": "Row", "fields": fields})


def sortable_paths(schema: RowSchema) -> list[str]:
    """What an index of a schema's rows may have: its fields, and those of the records in them."""
    return list(_sortable([{"name": each.name, "type": each.type} for each in schema.fields], schema, 0))


def _sortable(fields: Any, schema: RowSchema, depth: int) -> Iterator[str]:
    for field in fields:
        plain, _ = without_null(field["type"])
        found: Any = schema.named.get(plain, plain) if isinstance(plain, str) else plain
        if key_type_of(plain, schema) is not None:
            yield field["name"]
        elif depth < 2 and isinstance(found, dict) and found["type"] == "record":
            yield from (f"{field['name']}.{inner}" for inner in _sortable(found["fields"], schema, depth + 1))


def refusal(definition: TableDefinition, body: bytes, key: bytes = b"k") -> str | None:
    found = definition.judge.refusal(key, frame(7, body))
    assert definition.judge.fit([key], [frame(7, body)]) == (found is None)
    return found


def varint(value: int) -> bytes:
    """Of a value that is zigzag already, as long as it is."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes((*out, value))


def logical(kind: str, name: str) -> dict[str, Any]:
    return {"type": kind, "logicalType": name}
