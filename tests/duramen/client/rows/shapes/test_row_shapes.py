"""What is given as `row=`, as a schema."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import InitVar, dataclass, field, make_dataclass
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, ClassVar, NewType, Optional, Union

import pyarrow
import pydantic
import pytest
from kit.rows.flights import Flight, Seat, Wide

from duramen.client.rows.shapes.marks import NAIVE, Digits
from duramen.client.rows.shapes.shape import shape_of
from log_tier.model.errors import InvalidSchema

Miles = NewType("Miles", int)


class FlightModel(pydantic.BaseModel):
    """A model with what pydantic adds."""

    name: Annotated[str, pydantic.Field(min_length=1)]
    miles: pydantic.PositiveInt
    seats: list[Seat] = []
    note: str | None = pydantic.Field(default=None, alias="Note")


def fields_of(row: object) -> dict[str, Any]:
    """The fields of a schema: the type, and the default where there is one."""
    document = json.loads(shape_of(row).schema.text)
    return {
        each["name"]: (each["type"], *([each["default"]] if "default" in each else [])) for each in document["fields"]
    }


def one(annotation: object, **options: Any) -> type:
    """A class of one field `x`."""
    return make_dataclass("One", [("x", annotation, field(**options))] if options else [("x", annotation)])


def test_a_dataclass_is_a_record_of_its_fields() -> None:
    assert shape_of(Flight).schema.name == "Flight"
    assert fields_of(Flight) == {
        "carrier": ("string",),
        "flight": ("long",),
        "tailnum": (["null", "string"],),
        "dep_delay": ("double",),
        "remark": ("string", ""),
    }


def test_every_type_has_its_type_of_avro() -> None:
    found = fields_of(Wide)
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}
    assert {name: found[name] for name in ("is_open", "ratio", "payload", "price", "sizes")} == {
        "is_open": ("boolean",),
        "ratio": ("double",),
        "payload": ("bytes",),
        "price": (decimal,),
        "sizes": ({"type": "array", "items": {"type": "array", "items": "long"}}, []),
    }
    times = {name: found[name][0]["logicalType"] for name in ("unique", "day", "at", "when", "local")}
    assert times == {
        "unique": "uuid",
        "day": "date",
        "at": "time-micros",
        "when": "timestamp-micros",
        "local": "local-timestamp-micros",
    }
    assert found["cabin"] == ({"type": "enum", "name": "Cabin", "symbols": ["ECONOMY", "FIRST"]},)
    assert found["seats"] == ({"type": "array", "items": "Seat"},)
    assert found["by_name"] == ({"type": "map", "values": "Seat"},)
    assert found["either"] == (["null", "long", "string", "Seat"],)
    assert found["parts"] == ({"type": "array", "items": "Wide"}, [])


def test_defaults_are_those_of_the_class() -> None:
    found = fields_of(Wide)
    assert found["tax"][1].encode("latin-1") == (-190).to_bytes(2, signed=True)
    assert found["fallback"] == (["Cabin", "null"], "FIRST")  # a default is of the first branch
    assert found["since"][1] == 18_321
    assert found["tag"][1] == "\xff\0"


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (Miles, "long"),
        (Optional[int], ["null", "long"]),  # noqa: UP045
        (Union[None, float], ["null", "double"]),  # noqa: UP007
        (Annotated[str, "words"], "string"),
        (dict[str, int | None], {"type": "map", "values": ["null", "long"]}),
    ],
)
def test_other_ways_to_write_a_type(annotation: object, expected: object) -> None:
    assert fields_of(one(annotation)) == {"x": (expected,)}


def test_a_model_of_pydantic_is_a_record() -> None:
    seats = fields_of(FlightModel)["seats"]
    assert seats[0]["items"]["name"] == "Seat"
    assert seats[1] == []
    assert fields_of(FlightModel)["miles"] == ("long",)
    assert fields_of(FlightModel)["note"] == (["null", "string"], None)


def test_a_schema_of_avro_is_itself() -> None:
    given = {"type": "record", "name": "n.Row", "fields": [{"name": "x", "type": "int", "doc": "of us"}]}
    assert shape_of(given).schema == shape_of(json.dumps(given)).schema
    assert shape_of(given).hint is None


def test_a_schema_of_arrow_is_the_same_in_avro() -> None:
    schema = pyarrow.schema(
        [
            pyarrow.field("id", pyarrow.uint32(), nullable=False),
            pyarrow.field("name", pyarrow.large_string()),
            pyarrow.field("at", pyarrow.timestamp("us", "UTC"), nullable=False),
            pyarrow.field("local", pyarrow.timestamp("ms"), nullable=False),
            pyarrow.field("price", pyarrow.decimal128(10, 2), nullable=False),
            pyarrow.field("kind", pyarrow.dictionary(pyarrow.int8(), pyarrow.string()), nullable=False),
            pyarrow.field("digest", pyarrow.binary(16), nullable=False),
            pyarrow.field("list", pyarrow.list_(pyarrow.field("item", pyarrow.int8(), nullable=False)), nullable=False),
            pyarrow.field("map", pyarrow.map_(pyarrow.string(), pyarrow.float32()), nullable=False),
            pyarrow.field("in", pyarrow.struct([pyarrow.field("x", pyarrow.bool_(), nullable=False)]), nullable=False),
        ]
    )
    assert fields_of(schema) == {
        "id": ("long",),
        "name": (["null", "string"], None),
        "at": ({"type": "long", "logicalType": "timestamp-micros"},),
        "local": ({"type": "long", "logicalType": "local-timestamp-millis"},),
        "price": ({"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},),
        "kind": ("string",),
        "digest": ({"type": "fixed", "name": "Row_digest", "size": 16},),
        "list": ({"type": "array", "items": "int"},),
        "map": ({"type": "map", "values": ["null", "float"]},),
        "in": ({"type": "record", "name": "Row_in", "fields": [{"name": "x", "type": "boolean"}]},),
    }


@pytest.mark.parametrize(
    ("kind", "instead"),
    [
        (pyarrow.uint64(), "int64"),
        (pyarrow.timestamp("ns"), "timestamp('us')"),
        (pyarrow.timestamp("ns", "UTC"), "timestamp('us', tz)"),
        (pyarrow.time64("ns"), "time64('us')"),
        (pyarrow.null(), "say which"),
        (pyarrow.duration("us"), "cast it"),
    ],
)
def test_a_type_that_arrow_has_alone_says_what_to_cast_it_to(kind: Any, instead: str) -> None:
    with pytest.raises(InvalidSchema) as refused:
        shape_of(pyarrow.schema([pyarrow.field("x", pyarrow.struct([pyarrow.field("y", kind)]))]))
    assert refused.value.fields["field"] == "x.y"
    assert instead in refused.value.message


@pytest.mark.parametrize(
    ("annotation", "field_", "says"),
    [
        (Any, "x", "say which type"),
        (object, "x", "say which type"),
        (Decimal, "x", "duramen.Digits"),
        (list, "x", "list[str]"),
        (dict, "x", "dict[str, int]"),
        (dict[int, str], "x", "keys of a dict are str"),
        (set[int], "x", "make it a list"),
        (tuple[int, str], "x", "a list, or a dataclass"),
        (list[complex], "x[]", "two floats"),
        (int | list[Decimal], "x[]", "duramen.Digits"),
        (Seat | Flight, "x", "which of both"),
        (datetime | Annotated[datetime, NAIVE], "x", "which of both"),
        (type, "x", "no type of Avro"),
    ],
)
def test_a_field_without_a_type_of_avro_is_refused_with_the_fix(annotation: object, field_: str, says: str) -> None:
    with pytest.raises(InvalidSchema, match="the field x") as refused:
        shape_of(one(annotation))
    assert refused.value.fields["field"] == field_
    assert says in refused.value.message


def test_a_default_that_is_made_for_each_row_is_none_of_the_schema() -> None:
    assert fields_of(one(list[int], default_factory=list)) == {"x": ({"type": "array", "items": "long"}, [])}
    assert fields_of(one(list[int], default_factory=lambda: [1])) == {"x": ({"type": "array", "items": "long"},)}
    with pytest.raises(InvalidSchema, match=r"the field x: the default .* default_factory"):
        shape_of(one(Seat, default=Seat(1, "A")))
    with pytest.raises(InvalidSchema, match=r"the field x: the default .* 2 digits"):
        shape_of(one(Annotated[Decimal, Digits(5, 2)], default=Decimal("0.001")))


def test_classes_that_make_no_row() -> None:
    @dataclass
    class Local:
        x: Hidden  # type: ignore[name-defined] # noqa: F821

    @dataclass
    class Begun:
        x: int
        y: InitVar[int]

    @dataclass
    class Constant:
        x: int
        names: ClassVar[list[str]] = []

    assert fields_of(Constant) == {"x": ("long",)}
    with pytest.raises(InvalidSchema, match="top level"):
        shape_of(Local)
    with pytest.raises(InvalidSchema, match="InitVar"):
        shape_of(Begun)
    with pytest.raises(InvalidSchema, match="no fields"):
        shape_of(make_dataclass("Empty", []))
    with pytest.raises(InvalidSchema, match="ASCII"):
        shape_of(make_dataclass("Flüge", [("x", int)]))
    other = make_dataclass("Seat", [("x", int)])
    with pytest.raises(InvalidSchema, match="two classes in the row are called Seat"):
        shape_of(make_dataclass("Both", [("a", Seat), ("b", other)]))
    for wrong in (int, dict, 5, None, [Flight], Flight("UA", 1, None, 0.0)):
        with pytest.raises(InvalidSchema, match="row="):
            shape_of(wrong)


@pytest.mark.parametrize("wrong", [0, -1, 1001, True, "9"])
def test_digits_that_no_decimal_has(wrong: Any) -> None:
    with pytest.raises(InvalidSchema):
        Digits(wrong)
    with pytest.raises(InvalidSchema):
        Digits(5, 6)


def test_a_dataclass_needs_neither_pydantic_nor_arrow() -> None:
    program = (
        "import sys; from kit.rows.flights import Flight; from duramen.client.rows.shapes.shape import shape_of;"
        "shape_of(Flight); print(sorted({'pydantic', 'pyarrow', 'fastavro'} & sys.modules.keys()))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], check=True, env={"PYTHONPATH": "tests"}, capture_output=True, text=True
    )
    assert ran.stdout == "[]\n"
