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

__all__ = ["FLIGHTS", "FLIGHT_SCHEMA", "UNNUMBERED_FLIGHTS", "flight", "flight_key"]

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

_WRITER: Final = fastavro.parse_schema(dict(FLIGHT_SCHEMA))


def flight(carrier: str, number: int, tailnum: str | None = None, dep_delay: float = 0.0, *, schema: int = 1) -> bytes:
    """A stored row."""
    body = io.BytesIO()
    row = {"carrier": carrier, "flight": number, "tailnum": tailnum, "dep_delay": dep_delay}
    fastavro.schemaless_writer(body, _WRITER, row)
    return b"\0" + schema.to_bytes(4) + body.getvalue()


def flight_key(carrier: str, number: int) -> bytes:
    """Its key."""
    return pack_key(carrier, number)
