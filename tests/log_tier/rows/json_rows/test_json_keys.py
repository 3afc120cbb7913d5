"""Keys as lists of JSON, and as the words of a command."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, date, datetime
from typing import Any, cast
from uuid import UUID

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from log_tier.model.errors import InvalidKey
from log_tier.rows.definition import TableDefinition
from log_tier.rows.json_rows.json_keys import KEY_TEXT_MAX
from log_tier.rows.json_rows.json_table import JsonTable
from log_tier.rows.key_fields import KEY_TYPES, KeyField, KeyType
from log_tier.rows.tuple_key import unpack_key

ID = UUID("12345678-1234-5678-1234-56789abcdef0")

FORMS: list[tuple[KeyType, Any, str]] = [
    ("str", "UA", '["UA"]'),
    ("str", 'Zürich\0"[', '["Zürich\\u0000\\"["]'),
    ("bytes", b"\0\xff", '["AP8="]'),
    ("int", -(1 << 70), f"[{-(1 << 70)}]"),
    ("float", -1.5, "[-1.5]"),
    ("float", float("inf"), '["Infinity"]'),
    ("bool", True, "[true]"),
    ("uuid", ID, f'["{ID}"]'),
    ("date", date(1, 1, 1), '["0001-01-01"]'),
    ("datetime", datetime(2026, 11, 27, 18, 30, tzinfo=UTC), '["2026-11-27T18:30:00Z"]'),
    ("datetime", datetime(2026, 11, 27, 18, 30, 0, 5), '["2026-11-27T18:30:00.000005"]'),
    ("any", "UA", '["UA"]'),
    ("any", 7, "[7]"),
    ("any", 7.0, "[7.0]"),
    ("any", None, "[null]"),
    ("any", float("-inf"), '[{"float":"-Infinity"}]'),
    ("any", b"\0", '[{"bytes":"AA=="}]'),
    ("any", ID, f'[{{"uuid":"{ID}"}}]'),
    ("any", date(2026, 11, 27), '[{"date":"2026-11-27"}]'),
    ("any", datetime(2026, 11, 27, tzinfo=UTC), '[{"datetime":"2026-11-27T00:00:00Z"}]'),
]


def table_of(*types: KeyType, optional: bool = False) -> JsonTable:
    fields = tuple(KeyField(f"f{number}", type_, optional) for number, type_ in enumerate(types))
    return JsonTable(TableDefinition(key=fields, value="bytes"))


@pytest.mark.parametrize(("type_", "value", "text"), FORMS)
def test_forms(type_: KeyType, value: Any, text: str) -> None:
    table = table_of(type_, optional=value is None)
    key = table.key(text.encode())
    assert unpack_key(key) == (value,)
    assert table.key_text(key) == text.encode()


ELEMENTS = (
    st.text(max_size=9).filter(lambda text: not any(0xD800 <= ord(each) < 0xE000 for each in text))
    | st.binary(max_size=9)
    | st.integers(-(1 << 80), 1 << 80)
    | st.floats(allow_nan=False)
    | st.booleans()
    | st.uuids()
    | st.dates()
    | st.datetimes()
    | st.datetimes(timezones=st.just(UTC))
    | st.none()
)


@given(st.lists(ELEMENTS, min_size=1, max_size=4))
@settings(deadline=None)
def test_a_key_goes_through_json(elements: list[Any]) -> None:
    table = table_of(*cast("list[KeyType]", ["any"] * len(elements)), optional=True)
    key = table.definition.key_of(elements)
    text = table.key_text(key)
    assert table.key(text) == key
    assert table.key(text.replace(b"[", b"[ ", 1)) == key, "blanks mean nothing"


@given(st.text() | st.text('[]{}",:0123456789.eE+-nulltrueNaN \\', max_size=60), st.sampled_from(KEY_TYPES))
@example("[" * 5000, "str")
@example("[" + "9" * 5000 + "]", "int")
@example('["\\ud800"]', "str")
@example("[NaN]", "float")
@example('["NaN"]', "float")
@example('[{"uuid":1}]', "any")
@example('[{"date":"2026-11-27","date":"2026-11-28"}]', "any")
@example('["2026-11-27T18:30:00+01:00"]', "datetime")
@settings(max_examples=300, deadline=None)
def test_any_text_is_refused_or_a_key(text: str, type_: KeyType) -> None:
    table = table_of(type_, optional=True)
    given_key = text.encode("utf-8", "surrogatepass")
    key: bytes | None = None
    with suppress(InvalidKey):
        key = table.key(given_key)
    if key is not None:
        assert table.key(table.key_text(key)) == key
        return
    with pytest.raises(InvalidKey) as refused:
        table.key(given_key)
    assert len(refused.value.message) < 400


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("UA", "the key UA is no JSON"),
        ('"UA"', 'the key "UA" is no list: write [f0, f1]'),
        ('["UA"]', "the key has the fields f0, f1, and 1 values are given"),
        ('["UA","1545"]', 'the key\'s field f1 is "1545", expected a whole number'),
        ('["UA",15.0]', "the key's field f1 is 15.0, expected a whole number"),
        ("[1545,1]", "the key's field f0 is 1545, expected a text"),
        ("[null,1]", "the key's field f0 is null, expected a text"),
        ("[[],1]", "the key's field f0 is a list of 0, expected a text"),
        ('["\\ud800",1]', "is no text"),
        (f'["{"x" * 600}",1]', "511"),
        (" " * (KEY_TEXT_MAX + 1), "at most"),
    ],
)
def test_a_key_is_refused_by_its_field(text: str, reason: str) -> None:
    with pytest.raises(InvalidKey) as refused:
        table_of("str", "int").key(text.encode())
    assert reason in refused.value.message


def test_a_key_as_words() -> None:
    table = table_of("str", "int", "date")
    assert unpack_key(table.key_of_words(["[UA]", "-5", "2026-11-27"])) == ("[UA]", -5, date(2026, 11, 27))
    assert unpack_key(table_of("bool", "float").key_of_words(["true", "1e3"])) == (True, 1000.0)
    assert unpack_key(table_of("str").key_of_words(["17"])) == ("17",)
    for words, reason in ((["UA", "x", "2026-11-27"], "f1 is"), (["UA", "5"], "2 values"), (["UA", "5", "5"], "f2 is")):
        with pytest.raises(InvalidKey, match=reason):
            table.key_of_words(words)
    with pytest.raises(InvalidKey, match="write the key as a list of JSON"):
        table_of("any").key_of_words(["7"])


def test_first_fields_are_what_keys_begin_with() -> None:
    table = table_of("str", "int")
    key = table.key(b'["UA",1545]')
    assert key.startswith(table.first_fields(b'["UA"]'))
    assert not key.startswith(table.first_fields(b'["U"]'))
    assert table.first_fields(b"[]") == b""
