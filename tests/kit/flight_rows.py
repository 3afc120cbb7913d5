"""Rows of flights as other programs write them: encoded by fastavro, keyed by `pack_key`."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any, Final

import fastavro

from log_tier.rows.definition import TableDefinition
from log_tier.rows.key_fields import KeyField
from log_tier.rows.schema import NumberedSchema, RowSchema
from log_tier.rows.tuple_key import pack_key

__all__ = [
    "ALTERED_FLIGHTS",
    "FLIGHTS",
    "FLIGHT_SCHEMA",
    "LATER_SCHEMA",
    "UNNUMBERED_FLIGHTS",
    "flight",
    "flight_key",
    "later_flight",
]

FLIGHT_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "record",
    "name": "Flight",
    "fields": [
        {"name": "carrier", "type": "string"},
        {"name": "flight", "type": "long"},
        {"name": "tailnum", "type": ["null", "string"], "default": None},
        {"name": "dep_delay", "type": "double"},
    ],
}

_KEY: Final = (KeyField("carrier", "str"), KeyField("flight", "int"))

UNNUMBERED_FLIGHTS: Final = TableDefinition(
    key=_KEY, value="row", schemas=(NumberedSchema(0, RowSchema.parse(FLIGHT_SCHEMA)),), partition_by=1
)
"""As `create_table` takes it."""

FLIGHTS: Final = UNNUMBERED_FLIGHTS.numbered([1])
"""As the catalog has it, where it is the first one."""

LATER_SCHEMA: Final[Mapping[str, Any]] = {
    **FLIGHT_SCHEMA,
    "fields": [*FLIGHT_SCHEMA["fields"], {"name": "gate", "type": "string", "default": "-"}],
}
"""The next one of them, which has one more field."""

ALTERED_FLIGHTS: Final = FLIGHTS.with_schema(NumberedSchema(2, RowSchema.parse(LATER_SCHEMA)))
"""The next definition, where it is the second schema of the cluster."""

_WRITER: Final = fastavro.parse_schema(dict(FLIGHT_SCHEMA))
_LATER_WRITER: Final = fastavro.parse_schema(dict(LATER_SCHEMA))


def flight(carrier: str, number: int, tailnum: str | None = None, dep_delay: float = 0.0, *, schema: int = 1) -> bytes:
    """A stored row."""
    row = {"carrier": carrier, "flight": number, "tailnum": tailnum, "dep_delay": dep_delay}
    return _stored(_WRITER, row, schema)


def later_flight(carrier: str, number: int, gate: str = "B7", *, tailnum: str | None = None, schema: int = 2) -> bytes:
    """A stored row of the later schema."""
    row = {"carrier": carrier, "flight": number, "tailnum": tailnum, "dep_delay": 0.0, "gate": gate}
    return _stored(_LATER_WRITER, row, schema)


def _stored(writer: Any, row: Mapping[str, Any], schema: int) -> bytes:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, writer, row)
    return b"\0" + schema.to_bytes(4) + body.getvalue()


def flight_key(carrier: str, number: int) -> bytes:
    """Its key."""
    return pack_key(carrier, number)
