"""What a caller asks for who changes a schema, against the definition of the table."""

from __future__ import annotations

import pytest
from kit.flight_rows import ALTERED_FLIGHTS, FLIGHT_SCHEMA, FLIGHTS, LATER_SCHEMA

from log_tier.model.errors import InvalidRequest, InvalidSchema, LimitExceeded
from log_tier.rows.alter_table import DEFINITION_BYTES_MAX, SchemaChange
from log_tier.rows.definition import TableDefinition
from log_tier.rows.schema import SCHEMA_BYTES_MAX, NumberedSchema, RowSchema


def long_schema(number: int) -> RowSchema:
    """One that is nearly as long as a schema may be."""
    return RowSchema.parse({**LATER_SCHEMA, "doc": f"{number:03}" * (SCHEMA_BYTES_MAX // 3 - 200)})


def next_of(definition: TableDefinition, number: int) -> TableDefinition:
    SchemaChange(long_schema(number)).check(definition, "flights")
    return definition.with_schema(NumberedSchema(number, long_schema(number)))


def test_the_next_definition_fits_into_a_barrier() -> None:
    """So a refusal says it before a job begins, and no partition is left with a record that its log does not take."""
    definition = FLIGHTS
    for number in range(DEFINITION_BYTES_MAX // SCHEMA_BYTES_MAX):
        definition = next_of(definition, number + 2)
    assert len(definition.text) <= DEFINITION_BYTES_MAX
    with pytest.raises(LimitExceeded, match="make a new table"):
        next_of(definition, 100)


def test_what_may_follow() -> None:
    SchemaChange(RowSchema.parse(LATER_SCHEMA)).check(FLIGHTS, "flights")
    with pytest.raises(InvalidSchema, match="the table has this one, as schema 1"):
        SchemaChange(RowSchema.parse(FLIGHT_SCHEMA)).check(ALTERED_FLIGHTS, "flights")
    for definition in (None, TableDefinition(key="str", value="json")):
        with pytest.raises(InvalidRequest, match="tables of rows alone have a schema"):
            SchemaChange(RowSchema.parse(LATER_SCHEMA)).check(definition, "flights")
