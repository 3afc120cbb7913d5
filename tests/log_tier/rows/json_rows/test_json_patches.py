"""Updates of fields as JSON: what is printed is parsed to the same patch, and what does not fit is refused."""

from __future__ import annotations

from typing import Any

import pytest
from kit.rows.patches import patch_of

from log_tier.model.errors import InvalidRequest, InvalidRow, InvalidValue
from log_tier.rows.definition import TableDefinition
from log_tier.rows.json_rows.json_table import JsonTable
from log_tier.rows.key_fields import KeyField
from log_tier.rows.schema import NumberedSchema, RowSchema

CITY = {"type": "record", "name": "City", "fields": [{"name": "size", "type": "int"}]}
SCHEMA = RowSchema.parse(
    {
        "type": "record",
        "name": "Row",
        "fields": [
            {"name": "id", "type": "string"},
            {"name": "seats", "type": ["null", "int"]},
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}},
            {"name": "day", "type": {"type": "int", "logicalType": "date"}},
            {"name": "raw", "type": "bytes"},
            {"name": "tags", "type": {"type": "array", "items": "string"}},
            {"name": "city", "type": ["null", CITY]},
        ],
    }
)
TABLE = JsonTable(TableDefinition(key=(KeyField("id", "str"),), value="row", schemas=(NumberedSchema(1, SCHEMA),)))


@pytest.mark.parametrize(
    "operations",
    [
        {"add": {"seats": -1}},
        {"set": {"seats": None, "price": "1.50", "day": "2026-11-28", "raw": "AP8=", "city": {"size": 5}}},
        {"multiply": {"price": "1.10"}, "max": {"day": "2026-11-28"}, "append": {"tags": ["a", "b"], "raw": "AA=="}},
        {"min": {"city.size": 7}},
    ],
)
def test_what_is_parsed_is_printed(operations: dict[str, Any]) -> None:
    value = TABLE.patch(operations)
    assert TABLE.patch_json(value) == operations


def test_it_is_the_patch_of_other_writers() -> None:
    assert TABLE.patch({"add": {"seats": -1}, "append": {"tags": ["x"]}}) == patch_of(
        SCHEMA, add={"seats": -1}, append={"tags": ["x"]}
    )


@pytest.mark.parametrize(
    ("operations", "why"),
    [
        ({"set": {"seats": "7"}}, 'the field seats is "7", expected an int or null'),
        ({"add": {"seats": 1.5}}, "the field seats is 1.5, expected an int"),
        ({"set": {"gate": 1}}, "the field gate: there is no field gate: Row has id"),
        ({"set": {"id": "x"}}, "the field id: it is a field of the key"),
        ({"add": {"tags": 1}}, "the field tags: add is not for array"),
        ({"set": {"city": {"size": "x"}}}, "the field city.size is"),
        ({"set": {"city": None}, "add": {"city.size": 1}}, "the field city.size: the patch changes it twice"),
        ({"set": {"raw": "x" * 12_000_000}}, "the field raw"),
    ],
)
def test_what_does_not_fit_is_refused(operations: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidRow) as caught:
        TABLE.patch(operations)
    assert why in caught.value.message


def test_what_is_no_update_is_refused() -> None:
    none: list[dict[str, dict[str, Any]]] = [{}, {"set": {}}, {"put": {"seats": 1}}]
    for operations in none:
        with pytest.raises(InvalidRequest):
            TABLE.patch(operations)
    with pytest.raises(InvalidRequest, match="no fields"):
        JsonTable(TableDefinition(key="str", value="str")).patch({"set": {"a": 1}})
    for value in (b"", b"junk", patch_of(SCHEMA, 2, add={"seats": 1})):
        with pytest.raises(InvalidValue):
            TABLE.patch_json(value)
