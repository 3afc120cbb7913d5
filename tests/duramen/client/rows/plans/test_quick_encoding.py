"""The quick encoding gives the bytes of fastavro, and leaves to the complete one what is not of exactly the types."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.rows.plain_types import FITTING, ODD, key_kind, type_of

from duramen.client.rows.plans.quick_encoding import quick_encoder
from duramen.client.rows.row_codec import RowCodec
from duramen.client.rows.shapes.row_class import row_class_of
from duramen.client.rows.shapes.shape import shape_of
from log_tier.model.errors import DuramenError
from log_tier.rows.definition import TableDefinition
from log_tier.rows.key_fields import KeyField
from log_tier.rows.schema import NumberedSchema, RowSchema


def both(kinds: list[str], optional: list[int | None], key: list[int]) -> tuple[Any, Any]:
    """The encoding of rows as dicts, and the complete one alone. `optional`: which branch is null, if one is."""
    fields = []
    for number, (kind, null_at) in enumerate(zip(kinds, optional, strict=True)):
        type_: Any = type_of(kind)
        if null_at is not None:
            type_ = ["null", type_] if null_at == 0 else [type_, "null"]
        fields.append({"name": f"f{number}", "type": type_})
    schema = RowSchema.parse({"type": "record", "name": "Row", "fields": fields})
    parts = tuple(KeyField(f"f{each}", key_kind(kinds[each]), optional[each] is not None) for each in key)
    codec: RowCodec[Any] = RowCodec(
        TableDefinition(key=parts, value="row", schemas=(NumberedSchema(9, schema),)), shape_of(schema.text)
    )
    return codec.encode, codec.encode.__globals__["complete"]


def answer(encode: Callable[[Any], tuple[bytes, bytes]], row: Any) -> Any:
    try:
        return encode(row)
    except DuramenError as error:
        return type(error), str(error), error.fields


@given(st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_both_say_the_same(random: Random) -> None:
    kinds = [random.choice(list(FITTING)) for _ in range(random.randrange(1, 7))]
    able = [number for number, kind in enumerate(kinds) if kind != "float"]
    if not able:
        return
    optional = [random.choice((None, None, 0, 1)) for _ in kinds]
    quick, complete = both(kinds, optional, random.sample(able, random.randrange(1, min(len(able), 3) + 1)))
    for _ in range(20):
        row = {
            f"f{number}": None
            if optional[number] is not None and random.random() < 0.3
            else random.choice(FITTING[kind])
            for number, kind in enumerate(kinds)
        }
        assert answer(quick, row) == answer(complete, row)
        odd = dict(row)
        odd[random.choice(list(odd))] = random.choice(ODD)
        assert answer(quick, odd) == answer(complete, odd)
        del odd[random.choice(list(odd))]
        assert answer(quick, odd) == answer(complete, odd)
        assert answer(quick, {**row, "other": 1}) == answer(complete, {**row, "other": 1})
    assert answer(quick, None) == answer(complete, None)


def never(row: Any) -> tuple[bytes, bytes]:
    raise AssertionError(f"{row!r} was left to the complete encoding")


@pytest.mark.parametrize("kind", FITTING)
def test_values_of_a_fields_own_type_are_encoded_quickly(kind: str) -> None:
    schema = RowSchema.parse(
        {
            "type": "record",
            "name": "Row",
            "fields": [{"name": "k", "type": "long"}, {"name": "f", "type": ["null", type_of(kind)]}],
        }
    )
    encode = quick_encoder(schema, ("k",), None, b"head", never)
    for value in (None, *FITTING[kind]):
        key, stored = encode({"k": 5, "f": value})
        assert key == b"\x15\x05"
        assert stored.startswith(b"head\x0a")


@dataclasses.dataclass
class Passage:
    carrier: str
    seats: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class SlottedPassage:
    carrier: str
    seats: int | None


class CheckedPassage(Passage):
    """A subclass, which is another class."""


@pytest.mark.parametrize("python", [Passage, SlottedPassage])
def test_instances_are_taken_apart_and_those_of_other_classes_are_not(python: Any) -> None:
    shape = shape_of(python)
    encode = quick_encoder(shape.schema, ("carrier",), row_class_of(python), b"", lambda row: (b"complete", b""))
    assert encode(python("UA", 7))[0] == b"\x02UA\0"
    assert encode(python("UA", None))[0] == b"\x02UA\0"
    assert encode(python("UA", "7"))[0] == b"complete"
    assert encode(CheckedPassage("UA", 7))[0] == b"complete"
    assert encode({"carrier": "UA", "seats": 7})[0] == b"complete"


@pytest.mark.parametrize(
    "field",
    [
        {"type": "array", "items": "long"},
        {"type": "map", "values": "long"},
        {"type": "enum", "name": "E", "symbols": ["A"]},
        {"type": "fixed", "name": "F", "size": 2},
        {"type": "bytes", "logicalType": "decimal", "precision": 4},
        {"type": "string", "logicalType": "uuid"},
        {"type": "long", "logicalType": "string"},
        ["long", "string"],
        ["null", "long", "string"],
    ],
)
def test_what_is_not_plain_is_left_to_fastavro(field: Any) -> None:
    fields = [{"name": "k", "type": "long"}, {"name": "f", "type": field}]
    schema = RowSchema.parse({"type": "record", "name": "Row", "fields": fields})
    assert quick_encoder(schema, ("k",), None, b"", never) is never


def test_what_is_refused_has_no_other_error_behind_it() -> None:
    quick, _ = both(["string", "long"], [None, None], [0])
    with pytest.raises(DuramenError, match="f1") as refused:
        quick({"f0": "UA", "f1": "7"})
    assert refused.value.__context__ is None
