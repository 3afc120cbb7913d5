"""What the arguments of `create_table` and `table` ask for."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import pytest
from kit.rows.flights import Flight, Wide

from duramen.client.rows.asked_definition import AskedDefinition, asked_definition, asked_kind
from log_tier.model.errors import InvalidRequest, InvalidSchema
from log_tier.rows.definition import TableDefinition
from log_tier.rows.key_fields import KeyField


def asked(**arguments: Any) -> AskedDefinition:
    found = asked_definition(**arguments)
    assert found is not None
    return found


def made(**arguments: Any) -> TableDefinition:
    found = asked(**arguments).definition
    assert found is not None
    return found


def test_nothing_asks_for_a_table_of_bytes() -> None:
    assert asked_definition() is None
    assert asked_kind() is None
    assert asked(key=bytes, value=bytes).definition is None


def test_rows_have_a_key_of_their_fields() -> None:
    found = made(row=Flight, key=("carrier", "flight"), partition_by="carrier")
    assert found.key == (KeyField("carrier", "str"), KeyField("flight", "int"))
    assert (found.value, found.partition_by, found.partitioner) == ("row", 1, "fields:1")
    assert made(row=Flight, key="tailnum").key == (KeyField("tailnum", "str", True),)


def test_keys_and_values_of_other_kinds() -> None:
    assert (made(key=str).key, made(key=str).value) == ("str", "bytes")
    assert (made(value="json").key, made(value="json").value) == ("bytes", "json")
    assert made(key=("a", "b"), value=str).key == (KeyField("a"), KeyField("b"))
    typed = made(key={"day": date, "at": datetime, "number": int | None}, partition_by=["day", "at"])
    assert typed.key == (KeyField("day", "date"), KeyField("at", "datetime"), KeyField("number", "int", True))
    assert typed.partitioner == "fields:2"


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"row": Flight}, InvalidRequest, "give key="),
        ({"row": Flight, "key": ()}, InvalidRequest, "give key="),
        ({"row": Flight, "key": "gate"}, InvalidSchema, "gate: Flight has no such field; it has carrier"),
        ({"row": Wide, "key": "price"}, InvalidSchema, "price: its type does not sort"),
        ({"row": Wide, "key": "seat"}, InvalidSchema, "seat: its type does not sort"),
        ({"row": Flight, "key": ("carrier", "carrier")}, InvalidSchema, "carrier"),
        ({"row": Flight, "key": str}, InvalidRequest, "names its fields"),
        ({"row": Flight, "key": ("carrier", 5)}, InvalidRequest, "names its fields"),
        ({"row": Flight, "key": "carrier", "value": str}, InvalidRequest, "leave out value="),
        ({"row": Flight, "key": ("carrier", "flight"), "partition_by": "flight"}, InvalidRequest, "first fields"),
        ({"row": Flight, "key": "carrier", "partition_by": ()}, InvalidRequest, "first fields"),
        ({"partition_by": "carrier"}, InvalidRequest, "give key="),
        ({"key": str, "partition_by": "carrier"}, InvalidRequest, "first fields"),
        ({"value": int}, InvalidRequest, "value= is str, bytes"),
        ({"value": [str]}, InvalidRequest, "value= is str, bytes"),
        ({"value": dict}, InvalidRequest, "for rows give row="),
        ({"key": int}, InvalidRequest, "key= is str, bytes, names"),
        ({"key": {"a": list[int]}}, InvalidSchema, "the key's field a"),
        ({"key": {"a": int | str}}, InvalidSchema, "the key's field a"),
        ({"key": ("a b",)}, InvalidSchema, "no field of a key"),
    ],
)
def test_arguments_that_make_no_table(arguments: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error) as caught:
        asked_definition(**arguments)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("opened", "table", "says"),
    [
        ({"row": Flight}, {}, 'values are bytes in table t: open it with table("t")'),
        ({"row": Flight}, {"key": str, "value": str}, 'open it with table("t", key=str, value=str)'),
        ({"key": str}, {}, 'keys are bytes in table t: open it with table("t")'),
        ({"key": str}, {"value": "json"}, 'open it with table("t", key=bytes, value="json")'),
        ({"key": str}, {"key": str, "value": "json"}, "values are JSON"),
        (
            {"value": "json"},
            {"row": Flight, "key": "carrier"},
            'values are rows in table t: open it with table("t", row=…)',
        ),
        ({"row": Flight, "key": "flight"}, {"row": Flight, "key": "carrier"}, "keys are the fields (carrier)"),
        ({"key": ("a",)}, {"key": ("a", "b")}, "keys are the fields (a, b)"),
    ],
)
def test_a_table_that_is_another_says_how_to_open_it(opened: dict[str, Any], table: dict[str, Any], says: str) -> None:
    asked_for = asked_kind(**opened)
    assert asked_for is not None
    with pytest.raises(InvalidSchema) as caught:
        asked_for.check(made(**table) if table else None, "t")
    assert says in caught.value.message


def test_a_table_that_is_there_is_opened_without_its_key() -> None:
    definition = made(row=Flight, key="carrier")
    found = asked_kind(row=Flight)
    assert found is not None
    assert found.check(definition, "t") is definition
