"""Rows of earlier schemas, as the newest one has them in JSON: what fastavro makes of them, written as JSON."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest

from log_tier.model.errors import LimitExceeded
from log_tier.rows.definition import TableDefinition
from log_tier.rows.evolution import check_evolution
from log_tier.rows.json_rows.json_form import row_from_json, row_to_json
from log_tier.rows.json_rows.json_table import JsonTable
from log_tier.rows.key_fields import KeyField
from log_tier.rows.schema import NumberedSchema, RowSchema

LEG = {"type": "record", "name": "Leg", "fields": [{"name": "to", "type": "string"}]}
LATER_LEG = {**LEG, "fields": [*LEG["fields"], {"name": "gate", "type": ["null", "string"], "default": None}]}


def schema(*fields: Any, **more: Any) -> RowSchema:
    return RowSchema.parse({"type": "record", "name": "Row", "fields": list(fields), **more})


def field(name: str, type_: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, **more}


CASES = [
    (field("a", "int"), field("a", "long"), "7", "7"),
    (field("a", "int"), field("a", "double"), "7", "7.0"),
    (field("a", "string"), field("a", "bytes"), '"x"', '"eA=="'),
    (field("a", "string"), field("a", ["null", "string"]), '"x"', '"x"'),
    (field("a", "string"), field("a", ["null", "long", "string"]), '"x"', '{"string":"x"}'),
    (field("a", "int"), field("a", ["null", "string", "double"]), "7", '{"double":7.0}'),
    (field("a", ["null", "int"]), field("a", ["null", "string", "long"]), "null", "null"),
    (field("a", ["null", "int"]), field("a", ["null", "string", "long"]), "7", '{"long":7}'),
    (field("a", ["int", "string", "null"]), field("a", ["null", "string", "long"]), '{"int":7}', '{"long":7}'),
    (field("a", LEG), field("a", LATER_LEG), '{"to":"x"}', '{"to":"x","gate":null}'),
    (
        field("a", {"type": "array", "items": LEG}),
        field("a", {"type": "array", "items": LATER_LEG}),
        '[{"to":"x"},{"to":"y"}]',
        '[{"to":"x","gate":null},{"to":"y","gate":null}]',
    ),
    (
        field("a", {"type": "map", "values": LEG}),
        field("a", {"type": "map", "values": LATER_LEG}),
        '{"k":{"to":"x"}}',
        '{"k":{"to":"x","gate":null}}',
    ),
    (
        field("a", {"type": "enum", "name": "E", "symbols": ["X", "Y"]}),
        field("a", {"type": "enum", "name": "E", "symbols": ["Y", "Z"], "default": "Z"}),
        '"X"',
        '"Z"',
    ),
    (field("old", "string"), field("a", "string", aliases=["old"]), '"x"', '"x"'),
]


@pytest.mark.parametrize(("written", "read", "given", "shown"), CASES)
def test_a_value_is_what_readers_make_of_it(written: Any, read: Any, given: str, shown: str) -> None:
    first, next_ = schema(written), schema(read)
    check_evolution(first, next_, "backward")
    body = row_from_json(first, f'{{"{written["name"]}":{given}}}')
    text = row_to_json(first, body, next_)
    assert text == f'{{"a":{shown}}}'
    resolved = fastavro.schemaless_reader(
        io.BytesIO(body), fastavro.parse_schema(json.loads(first.text)), fastavro.parse_schema(json.loads(next_.text))
    )
    again = io.BytesIO()
    fastavro.schemaless_writer(again, fastavro.parse_schema(json.loads(next_.text)), resolved)
    assert row_to_json(next_, again.getvalue()) == text, "fastavro reads the same row"


def test_fields_come_and_go_in_the_order_of_the_newest() -> None:
    first = schema(field("gone", "string"), field("b", "int"), field("a", "int"))
    days = {"type": "int", "logicalType": "date"}
    next_ = schema(
        field("a", "int"), field("day", days, default=1), field("raw", "bytes", default="\u00ff"), field("b", "int")
    )
    body = row_from_json(first, '{"gone":"x","b":1,"a":2}')
    assert row_to_json(first, body, next_) == '{"a":2,"day":"1970-01-02","raw":"/w==","b":1}'


def test_what_cannot_be_read_stays_as_it_was_written() -> None:
    """After a change without compatibility."""
    first, next_ = schema(field("a", "string")), schema(field("a", "long"), field("b", "long"))
    assert row_to_json(first, row_from_json(first, '{"a":"x"}'), next_) == '{"a":"x"}'


def test_many_defaults_are_bounded() -> None:
    """A row of 4 MiB may have 300,000 records inside; each of them would get a default of 4 KiB."""
    long = "x" * 4096
    later = {**LEG, "fields": [*LEG["fields"], {"name": "note", "type": "string", "default": long}]}
    first = schema(field("a", {"type": "array", "items": LEG}))
    next_ = schema(field("a", {"type": "array", "items": later}))
    body = row_from_json(first, json.dumps({"a": [{"to": ""}] * 8000}))
    with pytest.raises(LimitExceeded, match="with the defaults of the newest schema"):
        row_to_json(first, body, next_)


def test_a_table_shows_all_its_rows_alike() -> None:
    first, next_ = schema(field("k", "int")), schema(field("k", "int"), field("gate", "string", default="-"))
    definition = TableDefinition(1, (KeyField("k", "int"),), "row", (NumberedSchema(7, first),))
    stored = JsonTable(definition).value(b'{"k":1}')
    table = JsonTable(definition.with_schema(NumberedSchema(9, next_)))
    assert table.value_text(stored) == b'{"k":1,"gate":"-"}'
    assert table.value_text(table.value(b'{"k":1,"gate":"B7"}')) == b'{"k":1,"gate":"B7"}'
