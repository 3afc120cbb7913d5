"""Tables of rows for a judge, and bytes that it is asked about."""

from __future__ import annotations

from typing import Any

from log_tier.rows.definition import TableDefinition
from log_tier.rows.framing import frame
from log_tier.rows.key_fields import KeyField
from log_tier.rows.schema import NumberedSchema, RowSchema

__all__ = ["logical", "of_fields", "of_rows", "refusal", "varint"]


def of_rows(schema: Any, *key: KeyField) -> TableDefinition:
    return TableDefinition(1, key or "bytes", "row", (NumberedSchema(7, RowSchema.parse(schema)),))


def of_fields(*types: Any) -> TableDefinition:
    """A table of rows with the fields a, b, …"""
    names = ("a", "b", *(f"f{number}" for number in range(2, len(types))))
    fields = [{"name": name, "type": type_} for name, type_ in zip(names, types, strict=False)]
    return of_rows({"type": "record", "name": "Row", "fields": fields})


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
