"""A table's keys and values as text: rows with their keys, and tables of text and JSON."""

from __future__ import annotations

import json
import random
import tracemalloc
from contextlib import suppress

import pytest
from kit.hostile_json import hostile_rows

from log_tier.model.errors import InvalidKey, InvalidRow, InvalidValue, UnknownFormat
from log_tier.rows.definition import TableDefinition
from log_tier.rows.json_rows.json_table import JsonTable
from log_tier.rows.key_fields import KeyField
from log_tier.rows.schema import NumberedSchema, RowSchema
from log_tier.rows.tuple_key import pack_key

SCHEMA = RowSchema.parse(
    {
        "type": "record",
        "name": "Flight",
        "fields": [
            {"name": "carrier", "type": "string"},
            {"name": "flight", "type": "int"},
            {"name": "dep_delay", "type": ["null", "double"], "default": None},
            {"name": "ratio", "type": "float", "default": 0.5},
            {"name": "legs", "type": {"type": "array", "items": "string"}, "default": []},
        ],
    }
)
KEY = (KeyField("carrier", "str"), KeyField("flight", "int"))
ROWS = JsonTable(TableDefinition(1, KEY, "row", (NumberedSchema(7, SCHEMA),), 1))


def test_a_row_has_its_key_inside() -> None:
    key, value = ROWS.row(b'{"flight": 1545, "carrier": "UA", "ratio": 0.1}')
    assert key == pack_key("UA", 1545) == ROWS.key(b'[ "UA", 1545 ]')
    assert ROWS.definition.judge.refusal(key, value) is None
    text = ROWS.value_text(value)
    assert text == b'{"carrier":"UA","flight":1545,"dep_delay":null,"ratio":0.1,"legs":[]}'
    assert ROWS.pair(b'["UA",1545]', text) == (key, value)
    assert ROWS.key_text(key) == b'["UA",1545]'
    assert ROWS.key_json(key) == ["UA", 1545]


@pytest.mark.parametrize(
    ("beginning", "text"),
    [
        (pack_key("UA", 1545), '["UA",1545]'),
        (pack_key("UA", 1545)[:-1], '["UA",…'),
        (pack_key("UA"), '["UA",…'),
        (pack_key("United Air Lines")[:7], '["United…'),
        (pack_key("Zürich")[:3], '["Z…'),
        (pack_key("UA", 1545, 1), ""),
        (b"hello", ""),
        (b"", ""),
        (b'\x02<\xff\0\xff"', '["<\\u0000\\"…'),
        (b"\x41" + b"\xff" * 8, ""),
    ],
)
def test_the_text_of_what_a_key_begins_with(beginning: bytes, text: str) -> None:
    assert ROWS.beginning_text(beginning) == text


def test_keys_without_fields_have_no_text_of_fields() -> None:
    assert JsonTable(TableDefinition(key="str", value="str")).beginning_text(b"key") == ""


def test_a_key_that_is_not_the_rows() -> None:
    with pytest.raises(InvalidRow) as refused:
        ROWS.pair(b'["UA",1546]', b'{"flight": 1545, "carrier": "UA"}')
    assert refused.value.message == "the field flight is 1545 in the row, and 1546 in the key: make both alike"
    assert refused.value.fields == {"field": "flight", "expected": "1546, as in the key"}


@pytest.mark.parametrize(
    ("text", "field", "reason"),
    [
        (b'{"carrier": "UA"}', "flight", "missing, expected int"),
        (b'{"carrier": "UA", "flight": "x"}', "flight", '"x", expected an int'),
        (b'{"carrier": "UA", "flight": 1, "gate": "B7"}', "gate", "no such field"),
        (b'{"carrier": "UA", "flight": 1, "flight": 2}', "", "a name twice"),
        (b'{"carrier": "UA", "flight": NaN}', "", 'write "NaN"'),
        (b"\xff", "", "no UTF-8"),
        (b'{"carrier": "\\ud800", "flight": 1}', "carrier", "half of a surrogate pair"),
    ],
)
def test_a_row_that_does_not_fit_is_refused_by_its_field(text: bytes, field: str, reason: str) -> None:
    with pytest.raises(InvalidRow) as refused:
        ROWS.row(text)
    assert refused.value.fields["field"] == field
    assert reason in refused.value.message


def test_a_key_that_is_too_long() -> None:
    with pytest.raises(InvalidKey, match=r"511"):
        ROWS.row(json.dumps({"carrier": "x" * 600, "flight": 1}).encode())


def test_a_float_of_the_key_is_rounded_as_the_row_rounds_it() -> None:
    fields = [{"name": "at", "type": "float"}]
    schema = RowSchema.parse({"type": "record", "name": "Row", "fields": fields})
    table = JsonTable(TableDefinition(1, (KeyField("at", "float"),), "row", (NumberedSchema(1, schema),)))
    key, _ = table.row(b'{"at": 0.1}')
    assert table.key(b"[0.1]") == key
    assert table.key_text(key) == b"[0.1]"


def test_a_schema_that_is_not_known_here() -> None:
    with pytest.raises(UnknownFormat, match="not known here"):
        ROWS.value_text(b"\0\0\0\0\x08")
    with pytest.raises(UnknownFormat):
        ROWS.value_text(b"")


def test_tables_of_text_and_of_json() -> None:
    text = JsonTable(TableDefinition(key="str", value="str"))
    assert text.pair("Zürich".encode(), b"x") == ("Zürich".encode(), b"x")
    assert (text.key_text(b"k"), text.value_text(b"v")) == (b"k", b"v")
    with pytest.raises(InvalidKey, match="no UTF-8"):
        text.key(b"\xff")
    with pytest.raises(InvalidValue, match="no UTF-8"):
        text.value(b"\xff")
    document = JsonTable(TableDefinition(key=(KeyField("day", "date"),), value="json"))
    assert document.value(b'{"a": 1}') == b'{"a": 1}'
    for wrong in (b"{", b"NaN", b"[" * 100_000):
        with pytest.raises(InvalidValue, match="no JSON"):
            document.value(wrong)


def test_hostile_values_are_refused_in_bounded_memory() -> None:
    """10,000 mutated rows: each is one, or is refused; what is kept of them meanwhile is bounded."""
    fit = 0
    tracemalloc.start()
    try:
        for text in hostile_rows(random.Random(87), 10_000):
            row: tuple[bytes, bytes] | None = None
            with suppress(InvalidRow, InvalidKey):
                row = ROWS.row(text)
            if row is not None:
                fit += 1
                assert ROWS.definition.judge.refusal(*row) is None
                assert ROWS.row(ROWS.value_text(row[1])) == row
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 500 < fit < 9500, "both happen"
    assert most < 64 << 20
