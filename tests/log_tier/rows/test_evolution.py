"""Which schema may follow another one, with fastavro as the peer: it reads old rows with what may follow."""

from __future__ import annotations

import io
import time
from random import Random
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.avro_rows import avro_encode, random_row, random_schema

from log_tier.model.errors import InvalidSchema
from log_tier.rows.evolution import EvolutionMode, check_evolution
from log_tier.rows.key_fields import KeyField
from log_tier.rows.schema import RowSchema


def schema(*fields: dict[str, Any], **attributes: Any) -> RowSchema:
    return RowSchema.parse({"type": "record", "name": "Flight", "fields": list(fields), **attributes})


def field(name: str, type_: Any, **attributes: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, **attributes}


def logical(kind: str, name: str, **attributes: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **attributes}


def may_follow(old: RowSchema, new: RowSchema, mode: EvolutionMode, *key: KeyField) -> bool:
    try:
        check_evolution(old, new, mode, key)
    except InvalidSchema:
        return False
    return True


def allowed(old: RowSchema, new: RowSchema) -> str:
    """By which modes `new` may follow: b, f, both or none."""
    backward, forward = may_follow(old, new, "backward"), may_follow(old, new, "forward")
    assert may_follow(old, new, "full") == (backward and forward)
    assert may_follow(old, new, "none")
    assert (backward, forward) == (may_follow(new, old, "forward"), may_follow(new, old, "backward"))
    return "b" * backward + "f" * forward


A = field("a", "int")
ENUM = {"type": "enum", "name": "E", "symbols": ["X", "Y"]}
LESS = {"type": "enum", "name": "E", "symbols": ["X"]}
FIXED = {"type": "fixed", "name": "F", "size": 2}
DECIMAL = logical("bytes", "decimal", precision=5, scale=2)
INNER = {"type": "record", "name": "R", "fields": [field("x", "int")]}
WIDER = {"type": "record", "name": "R", "fields": [field("x", "long"), field("y", "int", default=1)]}


@pytest.mark.parametrize(
    ("old", "new", "modes"),
    [
        ([A], [A], "bf"),
        ([A], [A, field("b", "int")], "f"),
        ([A], [A, field("b", "int", default=1)], "bf"),
        ([A, field("b", "int", default=1)], [A], "bf"),
        ([A, field("b", "int")], [field("b", "int"), A], "bf"),
        ([A], [field("b", "int")], ""),
        ([A], [field("b", "int", aliases=["a"])], "b"),
        ([A], [field("a", "int", default=7, doc="x")], "bf"),
    ],
)
def test_fields_come_and_go(old: list[Any], new: list[Any], modes: str) -> None:
    assert allowed(schema(*old), schema(*new)) == modes


@pytest.mark.parametrize(
    ("old", "new", "modes"),
    [
        ("int", "long", "b"),
        ("int", "double", "b"),
        ("long", "float", "b"),
        ("float", "double", "b"),
        ("string", "bytes", "b"),
        ("int", "string", ""),
        ("int", "boolean", ""),
        ("int", ["null", "int"], "b"),
        ("int", ["null", "long"], "b"),
        ("int", ["null", "string"], ""),
        (["null", "int"], ["int", "null"], "bf"),
        (["null", "int"], ["null", "int", "string"], "b"),
        (["int"], "long", "b"),
        (["int", "string"], ["bytes", "long"], "b"),
        ({"type": "array", "items": "int"}, {"type": "array", "items": "long"}, "b"),
        ({"type": "map", "values": "int"}, {"type": "map", "values": ["null", "int"]}, "b"),
        ({"type": "map", "values": "int"}, {"type": "array", "items": "int"}, ""),
        (LESS, ENUM, "b"),
        ({**LESS, "default": "X"}, ENUM, "bf"),
        (ENUM, {**ENUM, "name": "G"}, ""),
        (ENUM, {**ENUM, "name": "G", "aliases": ["E"]}, "b"),
        (ENUM, "string", ""),
        (FIXED, {**FIXED, "size": 3}, ""),
        (INNER, WIDER, "b"),
        (["null", INNER], ["null", WIDER], "b"),
        ("long", logical("long", "timestamp-micros"), ""),
        (logical("long", "timestamp-millis"), logical("long", "timestamp-micros"), ""),
        ("long", logical("long", "of-tomorrow"), "bf"),
        (DECIMAL, {**DECIMAL, "precision": 6}, "b"),
        (DECIMAL, {**DECIMAL, "scale": 1}, ""),
    ],
    ids=str,
)
def test_types_change(old: Any, new: Any, modes: str) -> None:
    assert allowed(schema(field("a", old)), schema(field("a", new))) == modes


@pytest.mark.parametrize(
    ("old", "new", "path", "reason"),
    [
        (
            schema(A),
            schema(A, field("b", "int")),
            "b",
            "rows of the present one do not have it, and the next schema has",
        ),
        (
            schema(A),
            schema(field("a", "string")),
            "a",
            "int of the present one is not read as string of the next schema",
        ),
        (
            schema(field("a", INNER)),
            schema(field("a", {**INNER, "fields": [field("z", "int")]})),
            "a.z",
            "do not have it",
        ),
        (
            schema(field("a", {"type": "array", "items": ENUM})),
            schema(field("a", {"type": "array", "items": LESS})),
            "a[]",
            "does not have the symbol Y",
        ),
        (schema(A), schema(A, name="Other"), "", "give it that name as an alias"),
        (schema(field("a", ["null", "int"])), schema(A), "a", "null of the present one is not read as int"),
    ],
)
def test_what_may_not_follow_is_refused_by_its_field(old: RowSchema, new: RowSchema, path: str, reason: str) -> None:
    with pytest.raises(InvalidSchema, match=reason) as refused:
        check_evolution(old, new, "backward")
    assert refused.value.fields["field"] == path


@pytest.mark.parametrize(
    ("type_", "kind"),
    [("int", "int"), (["null", "string"], "str"), (FIXED, "bytes"), (logical("long", "timestamp-micros"), "datetime")],
    ids=str,
)
def test_fields_of_the_key_stay(type_: Any, kind: Any) -> None:
    old, key = schema(field("k", type_), A), KeyField("k", kind, isinstance(type_, list))
    modes: tuple[EvolutionMode, ...] = ("backward", "forward", "full", "none")
    for mode in modes:
        check_evolution(old, schema(field("k", type_, doc="the key"), A), mode, [key])
        for other in (
            schema(A),
            schema(field("m", type_, aliases=["k"]), A),
            schema(field("k", "long", default=1), A),
            schema(field("k", ["null", "bytes"], default=None), A),
            schema(field("k", {**FIXED, "size": 3}), A),
            schema(field("k", logical("long", "local-timestamp-micros")), A),
        ):
            with pytest.raises(InvalidSchema, match="the field k: it is a field of the key"):
                check_evolution(old, other, mode, [key])


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(InvalidSchema, match="compatibility is one of backward, forward, full, none"):
        check_evolution(schema(A), schema(A), "transitive")  # type: ignore[arg-type]


def test_records_that_contain_themselves() -> None:
    old = schema(field("next", ["null", "Flight"]), A)
    assert allowed(old, schema(field("next", ["null", "Flight"]), field("a", "long"))) == "b"
    assert allowed(old, schema(field("next", ["null", "Flight"]), field("a", "string"))) == ""


def test_what_relied_on_a_type_that_parts_is_compared_again() -> None:
    """In a union the comparison goes on after a type that does not agree, which others took for granted."""
    both = {
        "type": "record",
        "name": "P",
        "fields": [
            field("q", {"type": "record", "name": "Q", "fields": [field("p", ["null", "P"])]}),
            field("x", "int"),
        ],
    }
    old = schema(field("a", both), field("b", "Q"))
    wrong = {**both, "fields": [both["fields"][0], field("x", "string")]}
    other = {"type": "record", "name": "O", "aliases": ["P"], "fields": [field("x", "int")]}
    new = schema(field("a", [wrong, other]), field("b", "Q"))
    assert not may_follow(old, new, "backward")


def evolved(random: Random, before: dict[str, Any]) -> dict[str, Any]:
    """A schema that somebody might make of one, right or wrong."""
    fields = [dict(each) for each in before["fields"]]
    for each in fields:
        match random.randrange(6):
            case 0 if isinstance(each["type"], str):
                each["type"] = random.choice(["long", "double", "bytes", "string"])
            case 1 if not isinstance(each["type"], list) and each["type"] != "null":
                each["type"] = ["null", each["type"]]
            case 2 if isinstance(each["type"], list):
                each["type"] = [*each["type"], "int"]
    if random.random() < 0.3:
        fields.pop(random.randrange(len(fields)))
    if random.random() < 0.5:
        fields.insert(random.randrange(len(fields) + 1), field("new", "string", default="é"))
    random.shuffle(fields)
    return {**before, "fields": fields}


@given(st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None)
def test_old_rows_are_read_with_what_may_follow(random: Random) -> None:
    before = random_schema(random, fields=3)
    after = evolved(random, before)
    try:
        old, new = RowSchema.parse(before), RowSchema.parse(after)
    except InvalidSchema:  # a name is used where it is no longer defined
        return
    if may_follow(old, new, "backward"):
        body = avro_encode(before, random_row(random, before))
        written, read = (fastavro.parse_schema(each, _force=True) for each in (before, after))
        row = fastavro.schemaless_reader(io.BytesIO(body), written, read)
        assert isinstance(row, dict)
        assert set(row) == {each["name"] for each in after["fields"]}


def test_the_time_grows_with_the_size() -> None:
    names = [{"type": "record", "name": f"R{number}", "fields": [field("x", "int")]} for number in range(800)]
    one, other = schema(field("a", names)), schema(field("a", [*names[::-1], "null"]))
    start = time.process_time()
    assert allowed(one, other) == "b"
    assert time.process_time() - start < 10
