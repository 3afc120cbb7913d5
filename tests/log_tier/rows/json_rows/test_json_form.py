"""Rows as plain JSON and back, with fastavro as the peer for what is written."""

from __future__ import annotations

import json
import time
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.avro_rows import avro_decode, avro_encode, random_row, random_schema

from log_tier.model.errors import DuramenError, InvalidRow, InvalidSchema, InvalidValue, LimitExceeded
from log_tier.rows.json_rows.json_form import row_from_json, row_to_json
from log_tier.rows.schema import RowSchema


def logical(kind: str, name: str, **attributes: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **attributes}


def of_field(type_: Any, **attributes: Any) -> RowSchema:
    return RowSchema.parse({"type": "record", "name": "Row", "fields": [{"name": "f", "type": type_, **attributes}]})


@given(st.randoms(use_true_random=False))
@settings(max_examples=80, deadline=None)
def test_a_row_goes_through_json(random: Random) -> None:
    schema = random_schema(random)
    parsed = RowSchema.parse(schema)
    body = avro_encode(schema, random_row(random, schema))
    text = row_to_json(parsed, body)
    again = row_from_json(parsed, text)
    assert repr(avro_decode(schema, again)) == repr(avro_decode(schema, body))
    assert row_to_json(parsed, again) == text


ENUM = {"type": "enum", "name": "E", "symbols": ["LATE", "GONE"]}
FIXED = {"type": "fixed", "name": "F", "size": 2}
RECORD = {"type": "record", "name": "air.R", "fields": [{"name": "x", "type": "int"}]}
DECIMAL = logical("bytes", "decimal", precision=5, scale=2)
ID = "12345678-1234-5678-1234-56789abcdef0"

FORMS: list[tuple[Any, str, str]] = [
    ("null", "null", ""),
    ("boolean", "true", "01"),
    ("int", "-7", "0d"),
    ("long", "9223372036854775807", "feffffffffffffffff01"),
    ("float", "0.1", "cdcccc3d"),
    ("float", '"NaN"', "0000c07f"),
    ("double", "-0.0", "0000000000000080"),
    ("double", '"-Infinity"', "000000000000f0ff"),
    ("string", '"Zürich \\u0000"', "125ac3bc726963682000"),
    ("bytes", '"AP8="', "0400ff"),
    (FIXED, '"AP8="', "00ff"),
    (ENUM, '"GONE"', "02"),
    (DECIMAL, '"-1.50"', "04ff6a"),
    (DECIMAL, '"999.99"', "0601869f"),
    (logical("bytes", "decimal", precision=40, scale=2), f'"1{"0" * 28}1.01"', "1a7e37be2022c0914b2680000065"),
    ({**FIXED, "logicalType": "decimal", "precision": 4, "scale": 1}, '"-0.1"', "ffff"),
    (logical("string", "uuid"), f'"{ID}"', "48" + ID.encode().hex()),
    ({"type": "fixed", "name": "Id", "size": 16, "logicalType": "uuid"}, f'"{ID}"', ID.replace("-", "")),
    (logical("int", "date"), '"0001-01-01"', "f3e457"),
    (logical("int", "date"), '"2026-11-27"', "e0c402"),
    (logical("int", "time-millis"), '"23:59:59.999000"', "feefb252"),
    (logical("long", "time-micros"), '"12:00:00"', "80c0ddeec102"),
    (logical("long", "timestamp-millis"), '"1970-01-01T00:00:01Z"', "d00f"),
    (logical("long", "timestamp-micros"), '"1969-12-31T23:59:59.999999Z"', "01"),
    (logical("long", "local-timestamp-micros"), '"1970-01-01T00:00:00"', "00"),
    ({"type": "array", "items": "int"}, "[1,2]", "04020400"),
    ({"type": "map", "values": ["null", "int"]}, '{"a":null,"b":1}', "04026100026202" + "0200"),
    (["null", "int"], "null", "00"),
    (["null", "int"], "1", "0202"),
    (["int", "null"], "1", "0002"),
    (["int"], "1", "0002"),
    (["null", "int", "string"], "null", "00"),
    (["null", "int", "string"], '{"string":"a"}', "040261"),
    (["null", RECORD, "string"], '{"air.R":{"x":1}}', "0202"),
    (RECORD, '{"x":1}', "02"),
]


@pytest.mark.parametrize(("type_", "text", "body"), FORMS)
def test_forms(type_: Any, text: str, body: str) -> None:
    schema = of_field(type_)
    assert row_from_json(schema, f'{{"f":{text}}}').hex() == body
    assert row_to_json(schema, bytes.fromhex(body)) == f'{{"f":{text}}}'


@pytest.mark.parametrize(
    ("type_", "given", "shown"),
    [
        ("double", "7", "7.0"),
        ("float", "0.10000000149", "0.1"),
        (DECIMAL, '"7"', '"7.00"'),
        (DECIMAL, '"07.1000"', '"7.10"'),
        (logical("string", "uuid"), f'"{ID.upper()}"', f'"{ID}"'),
        (logical("long", "timestamp-micros"), '"2026-11-27T12:00:00+02:00"', '"2026-11-27T10:00:00Z"'),
        (logical("long", "timestamp-millis"), '"2026-11-27 12:00:00.5Z"', '"2026-11-27T12:00:00.500000Z"'),
    ],
)
def test_other_forms_of_a_value(type_: Any, given: str, shown: str) -> None:
    schema = of_field(type_)
    assert row_to_json(schema, row_from_json(schema, f'{{"f":{given}}}')) == f'{{"f":{shown}}}'


REFUSED: list[tuple[Any, str, str]] = [
    ("null", "0", "is 0, expected null"),
    ("boolean", "1", "expected true or false"),
    ("int", "true", "expected an int"),
    ("int", "7.0", "a whole number without a point"),
    ("int", "2147483648", "a number from -2147483648 to 2147483647"),
    ("long", '"7"', "expected a long"),
    ("float", "1e39", "too large for its bits"),
    ("double", "1e999", "expected a double"),
    ("double", "1" + "0" * 400, "too large for its bits"),
    ("double", '"nan"', 'the text "NaN"'),
    ("string", "7", "expected a text"),
    ("string", '"\\ud800"', "half of a surrogate pair"),
    ("bytes", '"é"', "base64"),
    ("bytes", '"AP8"', "base64"),
    ("bytes", "[1]", "is a list of 1, expected bytes as base64 text"),
    (FIXED, '"AP8A"', "these are 3"),
    (ENUM, '"EARLY"', "one of LATE, GONE"),
    (ENUM, "[]", "one of LATE, GONE"),
    (DECIMAL, "1.5", "put it in quotation marks"),
    (DECIMAL, '"1.555"', "round it"),
    (DECIMAL, '"1000"', "a decimal of 5 digits, 2 of them behind the point"),
    (DECIMAL, '"1e2"', "digits, a point, digits"),
    (DECIMAL, '"' + "9" * 100_000 + '"', "digits, a point, digits"),
    (logical("string", "uuid"), '"x"', "a uuid"),
    (logical("string", "uuid"), f'"{{{ID}}}"', f"write {ID}"),
    (logical("int", "date"), '"20261127"', "a date as text: 2026-11-27"),
    (logical("int", "date"), '"2026-02-30"', "a date as text"),
    (logical("int", "time-millis"), '"12:00:00.0001"', "round it"),
    (logical("int", "time-millis"), '"24:00:00"', "a time as text"),
    (logical("long", "timestamp-micros"), '"2026-11-27T12:00:00"', "a time with a time zone"),
    (logical("long", "timestamp-micros"), '"2026-11-27T12:00:00.1234567Z"', "a time with a time zone"),
    (logical("long", "timestamp-micros"), '"2026-11-31T12:00:00Z"', "a time with a time zone"),
    (logical("long", "timestamp-micros"), '"0001-01-01T00:00:00+01:00"', "not in the years 1 to 9999"),
    (logical("long", "local-timestamp-micros"), '"2026-11-27T12:00:00Z"', "a time without a time zone"),
    ({"type": "array", "items": "int"}, "{}", "is an object of 0, expected a list"),
    ({"type": "map", "values": "int"}, "[]", "expected an object"),
    ({"type": "map", "values": "int"}, '{"\\ud800":1}', "half of a surrogate pair"),
    (["null", "int"], '"x"', "expected an int or null"),
    (["null", "int", "string"], "1", "an object of one type and its value: null, int, string"),
    (["null", "int", "string"], '{"long":1}', "an object of one type and its value"),
    (RECORD, "7", "expected an object of air.R"),
]


@pytest.mark.parametrize(("type_", "text", "reason"), REFUSED)
def test_a_value_of_another_type_is_refused_by_its_field(type_: Any, text: str, reason: str) -> None:
    with pytest.raises(InvalidRow) as refused:
        row_from_json(of_field(type_), f'{{"f":{text}}}')
    assert str(refused.value.fields["field"]).startswith("f")
    assert refused.value.fields["expected"]
    assert reason in refused.value.message
    assert len(refused.value.message) < 500


NESTED = {"type": "array", "items": RECORD}


@pytest.mark.parametrize(
    ("text", "field", "reason"),
    [
        ("", "", "no JSON"),
        ("[" * 100_000, "", "no JSON"),
        ('{"f":[],"f":[]}', "", "twice"),
        ('{"f":NaN}', "", 'write "NaN"'),
        ("[]", "", "the row is a list of 0, expected an object of Row"),
        ("{}", "f", "the field f is missing, expected array: give it, as it has no default"),
        ('{"f":[],"g":1}', "g", "the field g is 1, expected no such field in Row: it has f"),
        ('{"f":[],"\\ud800":1}', "\\ud800", "no such field"),
        ('{"f":[{"x":1},{"x":"a"}]}', "f[1].x", 'the field f[1].x is "a", expected an int'),
        ('{"f":[{"x":1,"y":1}]}', "f[0].y", "no such field in air.R"),
    ],
)
def test_a_row_is_refused_by_its_field(text: str, field: str, reason: str) -> None:
    with pytest.raises(InvalidRow) as refused:
        row_from_json(of_field(NESTED), text)
    assert refused.value.fields["field"] == field
    assert reason in refused.value.message


@pytest.mark.parametrize(
    ("type_", "default", "shown"),
    [
        ("int", 7, "7"),
        ("bytes", "\x00\xff", '"AP8="'),
        (FIXED, "\x00\xff", '"AP8="'),
        (DECIMAL, "\xff\x6a", '"-1.50"'),
        (logical("int", "date"), 0, '"1970-01-01"'),
        (["null", "int"], None, "null"),
        (["string", "int"], "a", '{"string":"a"}'),
        (ENUM, "GONE", '"GONE"'),
        ({"type": "array", "items": "double"}, [1, 2.5], "[1.0,2.5]"),
        ({"type": "map", "values": "string"}, {"a": "é"}, '{"a":"é"}'),
        ({"type": "record", "name": "R", "fields": [{"name": "x", "type": "int", "default": 1}]}, {}, '{"x":1}'),
    ],
)
def test_a_field_that_is_missing_has_its_default(type_: Any, default: Any, shown: str) -> None:
    schema = of_field(type_, default=default)
    assert row_to_json(schema, row_from_json(schema, "{}")) == f'{{"f":{shown}}}'


@pytest.mark.parametrize(
    ("type_", "default"),
    [(logical("int", "date"), 3_000_000), (DECIMAL, ""), (logical("string", "uuid"), "x"), (ENUM, ["GONE"])],
)
def test_a_default_that_no_reader_takes_is_refused(type_: Any, default: Any) -> None:
    with pytest.raises(InvalidSchema, match="the default"):
        of_field(type_, default=default)


def test_what_is_no_row_is_refused() -> None:
    with pytest.raises(InvalidValue, match="no row of Row: f: a boolean is 0 or 1"):
        row_to_json(of_field("boolean"), b"\2")
    with pytest.raises(InvalidValue, match="no row of Row: it: the value goes on"):
        row_to_json(of_field("boolean"), b"\1\1")


def test_a_row_that_is_nested_too_deep_is_refused() -> None:
    schema = of_field(["null", "Row"])
    deep = '{"f":' * 63 + '{"f":null}' + "}" * 63
    assert row_to_json(schema, row_from_json(schema, deep)) == deep
    with pytest.raises(InvalidRow, match="at most 64 deep"):
        row_from_json(schema, f'{{"f":{deep}}}')


def test_few_bytes_do_not_become_gigabytes() -> None:
    nulls = [{"name": f"{'n' * 200}{number}", "type": "null", "default": None} for number in range(150)]
    wide = {"type": "record", "name": "Wide", "fields": [{"name": "x", "type": "boolean", "default": False}, *nulls]}
    schema = of_field({"type": "array", "items": wide})
    start = time.process_time()
    with pytest.raises(LimitExceeded, match="characters as JSON"):
        row_to_json(schema, b"\xe0\xd4\x03" + bytes(30_000) + b"\0")
    with pytest.raises(InvalidRow, match="more than 4194304 bytes"):
        row_from_json(schema, '{"f":[' + ",".join(["{}"] * 100_000) + "]}")
    long = {"type": "record", "name": "Long", "fields": [{"name": "x", "type": "string", "default": "x" * 30_000}]}
    schema = of_field({"type": "array", "items": long}, default=[{}] * 5000)
    with pytest.raises(InvalidRow, match="more than 4194304 bytes"):
        row_from_json(schema, "{}")
    assert time.process_time() - start < 60


@given(
    st.text(max_size=30)
    | st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=4), lambda each: st.lists(each, max_size=3)
    ).map(json.dumps)
)
@settings(deadline=None)
def test_any_text_is_refused_or_a_row(text: str) -> None:
    for type_, _, _ in FORMS:
        schema = of_field(type_)
        for each in (text, f'{{"f":{text}}}'):
            try:
                body = row_from_json(schema, each)
            except DuramenError:
                continue
            assert row_from_json(schema, row_to_json(schema, body)) == body
