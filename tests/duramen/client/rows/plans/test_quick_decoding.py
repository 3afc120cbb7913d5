"""The quick decoding gives the rows of fastavro, and leaves to the complete one what is not as usual."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.avro_rows import mutated
from kit.rows.plain_types import FITTING, type_of

from duramen.client.rows.plans.quick_decoding import quick_decoder
from duramen.client.rows.plans.quick_encoding import quick_encoder
from duramen.client.rows.row_codec import RowCodec
from duramen.client.rows.shapes.shape import shape_of
from log_tier.model.errors import DuramenError
from log_tier.rows.avro.varints import Misfit
from log_tier.rows.definition import TableDefinition
from log_tier.rows.framing import frame
from log_tier.rows.key_fields import KeyField
from log_tier.rows.schema import NumberedSchema, RowSchema


def schema_of(kinds: list[str], optional: list[int | None]) -> RowSchema:
    """A schema with a key `k`, and a field of each kind. `optional`: which branch is null, if one is."""
    fields: list[Any] = [{"name": "k", "type": "long"}]
    for number, (kind, null_at) in enumerate(zip(kinds, optional, strict=True)):
        type_: Any = type_of(kind)
        if null_at is not None:
            type_ = ["null", type_] if null_at == 0 else [type_, "null"]
        fields.append({"name": f"f{number}", "type": type_})
    return RowSchema.parse({"type": "record", "name": "Row", "fields": fields})


def codec_of(schema: RowSchema) -> RowCodec[Any]:
    definition = TableDefinition(key=(KeyField("k", "int"),), value="row", schemas=(NumberedSchema(9, schema),))
    return RowCodec(definition, shape_of(schema.text))


def answer(decode: Callable[[bytes], Any], value: bytes) -> str:
    try:
        return repr(decode(value))
    except (DuramenError, EOFError, IndexError) as error:
        return f"{type(error).__name__} {error}"


@given(st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_both_read_the_same(random: Random) -> None:
    """Of changed bytes too: of those that a replica would serve, which are not all."""
    kinds = [random.choice(list(FITTING)) for _ in range(random.randrange(1, 7))]
    optional = [random.choice((None, None, 0, 1)) for _ in kinds]
    codec = codec_of(schema_of(kinds, optional))
    judge = TableDefinition(key=(KeyField("k", "int"),), value="row", schemas=(NumberedSchema(9, codec.schema),)).judge
    quick, complete = codec.decode, codec.decode.__globals__["complete"]
    for _ in range(10):
        row: dict[str, Any] = {"k": random.randrange(-300, 70_000)}
        for number, kind in enumerate(kinds):
            is_null = optional[number] is not None and random.random() < 0.3
            row[f"f{number}"] = None if is_null else random.choice(FITTING[kind])
        key, value = codec.encode(row)
        assert repr(quick(value)) == repr(complete(value)) == answer(quick, value)
        for other in (value[:-1], value + b"\0", *(mutated(random, value) for _ in range(10))):
            try:
                key = judge.key_of_row(other)
            except Misfit:  # no replica serves it
                continue
            assert judge.fit([key], [other])
            assert answer(quick, other) == answer(complete, other)


def never(value: Any) -> Any:
    raise AssertionError(f"{value!r} was left to the complete decoding")


@pytest.mark.parametrize("kind", FITTING)
def test_usual_values_are_decoded_quickly(kind: str) -> None:
    schema = schema_of([kind], [0])
    encode = quick_encoder(schema, ("k",), None, b"head", never)
    decode = quick_decoder(schema, b"head", None, never)
    for value in (None, *FITTING[kind]):
        row = {"k": 5, "f0": value}
        found = decode(encode(row)[1])
        assert repr(found) == repr(row) or found == row
        assert type(found["f0"]) is type(value)


@dataclasses.dataclass
class Landing:
    carrier: str
    seats: int | None = None


def test_what_makes_the_row_is_heard_where_it_fails() -> None:
    """It is called once, and what it raises is not taken for unusual bytes."""
    schema = shape_of(Landing).schema
    made: list[dict[str, Any]] = []

    def make(found: dict[str, Any]) -> Landing:
        made.append(found)
        raise ValueError("no landing")

    decode = quick_decoder(schema, b"", make, never)
    with pytest.raises(ValueError, match="no landing") as refused:
        decode(b"\x04UA\0" if schema.fields[1].type == ["null", "long"] else b"\x04UA\x02")
    assert made == [{"carrier": "UA", "seats": None}]
    assert refused.value.__context__ is None


def test_another_schema_is_the_complete_decodings() -> None:
    schema = schema_of(["string"], [None])
    decode: Any = quick_decoder(schema, frame(9, b""), None, lambda value: "complete")
    assert decode(frame(8, b"\0\0")) == "complete"
    assert decode(b"") == "complete"
    assert decode(frame(9, b"\0\0")) == {"k": 0, "f0": ""}


@pytest.mark.parametrize(
    "field", [{"type": "array", "items": "long"}, ["long", "string"], {"type": "string", "logicalType": "uuid"}]
)
def test_what_is_not_plain_is_read_by_fastavro(field: Any) -> None:
    fields = [{"name": "k", "type": "long"}, {"name": "f", "type": field}]
    assert (
        quick_decoder(RowSchema.parse({"type": "record", "name": "Row", "fields": fields}), b"", None, never) is never
    )
