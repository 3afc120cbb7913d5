"""Rows to bytes and back, for one type of rows."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, make_dataclass, replace
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from io import BytesIO
from typing import Any
from uuid import UUID

import fastavro
import pyarrow
import pydantic
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kit.rows.flights import WIDE, Flight, Seat, Wide

from duramen.client.rows.asked_definition import asked_definition
from duramen.client.rows.row_codec import RowCodec
from duramen.client.rows.shapes.shape import shape_of
from log_tier.model.errors import InvalidKey, InvalidRow, UnknownFormat
from log_tier.rows.definition import TableDefinition
from log_tier.rows.schema import NumberedSchema
from log_tier.rows.tuple_key import pack_key

FLIGHT = Flight("UA", 1545, "N14228", 2.0)


def definition(row: object, *key: str, number: int = 7) -> TableDefinition:
    """A table's, numbered."""
    asked = asked_definition(row, key)
    assert asked is not None
    assert asked.definition is not None
    return asked.definition.numbered([number])


def codec(row: Any, *key: str) -> RowCodec[Any]:
    return RowCodec(definition(row, *key), shape_of(row))


FLIGHTS = codec(Flight, "carrier", "flight")
WIDES = codec(Wide, "id")


def record(*fields: tuple[str, Any], name: str = "Row") -> dict[str, Any]:
    """A schema of Avro, of names and types."""
    return {"type": "record", "name": name, "fields": [{"name": each, "type": kind} for each, kind in fields]}


def dicts(kind: Any) -> RowCodec[Any]:
    """The codec of dicts with a key and a field `x`."""
    return codec(record(("k", "long"), ("x", kind)), "k")


def test_a_value_is_the_frame_and_what_any_reader_of_avro_reads() -> None:
    key, value = FLIGHTS.encode(FLIGHT)
    assert key == pack_key("UA", 1545)
    assert value[:5] == b"\0\0\0\0\x07"
    schema = fastavro.parse_schema(json.loads(FLIGHTS.schema.text))
    assert fastavro.schemaless_reader(BytesIO(value[5:]), schema, None) == dataclasses.asdict(FLIGHT)
    assert FLIGHTS.decode(value) == FLIGHT


@pytest.mark.parametrize("either", [None, 5, "text", Seat(9, "Z")])
def test_every_type_comes_back_as_it_went(either: Any) -> None:
    row = replace(WIDE, either=either, maybe=Seat(1, "x"), parts=[replace(WIDE, either=either)])
    back = WIDES.decode(WIDES.encode(row)[1])
    assert back == row
    assert type(back.seats[0]) is Seat
    assert back.when.tzinfo == UTC
    assert back.local.tzinfo is None
    assert str(back.price) == str(row.price)


def test_what_stands_for_a_value_becomes_it() -> None:
    offset = timezone(timedelta(hours=5, minutes=30))
    payload: Any = bytearray(b"x")
    row = replace(WIDE, ratio=3, price=Decimal("1.5"), when=datetime(2020, 1, 1, tzinfo=offset), payload=payload)
    back = WIDES.decode(WIDES.encode(row)[1])
    assert (back.ratio, type(back.ratio)) == (3.0, float)
    assert str(back.price) == "1.50"
    assert back.when == row.when
    assert back.payload == b"x"


@given(
    st.builds(
        Flight,
        carrier=st.text(),
        flight=st.integers(-(1 << 63), (1 << 63) - 1),
        tailnum=st.none() | st.text(),
        dep_delay=st.floats(),
    )
)
def test_any_row_comes_back(row: Flight) -> None:
    try:
        key, value = FLIGHTS.encode(row)
    except InvalidKey:
        assert len(row.carrier.encode()) > 480
        return
    assert key == pack_key(row.carrier, row.flight)
    assert repr(FLIGHTS.decode(value)) == repr(row)


@example(Decimal(10**26))
@given(
    st.decimals(allow_nan=False, allow_infinity=False) | st.decimals(places=2, min_value=-(10**10), max_value=10**10)
)
def test_a_decimal_comes_back_or_is_refused(number: Decimal) -> None:
    for kind in (
        {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2},
        {"type": "fixed", "name": "F", "size": 8, "logicalType": "decimal", "precision": 12, "scale": 2},
    ):
        money = dicts(kind)
        try:
            value = money.encode({"k": 1, "x": number})[1]
        except InvalidRow:
            assert abs(number) >= 10**10 or number != round(number, 2)  # more digits than a context has do not round
        else:
            assert money.decode(value)["x"] == number


@given(st.datetimes(timezones=st.timezones()), st.datetimes(), st.dates(), st.times(), st.uuids())
def test_times_come_back(when: datetime, local: datetime, day: date, at: time, unique: UUID) -> None:
    row = replace(WIDE, when=when, local=local.replace(fold=0), day=day, at=at, unique=unique)
    try:
        value = WIDES.encode(row)[1]
    except InvalidRow:
        assert when.year in (1, 9999)
        return
    # By its instant: a local time in the gap of a time zone equals none of another zone.
    assert WIDES.decode(value) == replace(row, when=when.astimezone(UTC))


def refused(row: object, codec: RowCodec[Any] = WIDES) -> InvalidRow:
    with pytest.raises(InvalidRow) as caught:
        codec.encode(row)
    return caught.value


@pytest.mark.parametrize(
    ("field", "value", "expected", "says"),
    [
        ("id", 1 << 63, "an int of 64 bits", "-9223372036854775808 to"),
        ("id", -(1 << 63) - 1, "an int of 64 bits", "it is"),
        ("id", None, "an int of 64 bits", "not optional"),
        ("id", True, "an int of 64 bits", "True"),
        ("id", 1.0, "an int of 64 bits", "int(…)"),
        ("is_open", 1, "a bool", "True or False"),
        ("ratio", "1", "a float", "'1'"),
        ("ratio", (1 << 53) + 1, "a float", "float(…)"),
        ("ratio", 10**400, "a float", "float(…)"),
        ("name", None, "a str", "not optional"),
        ("name", b"x", "a str", "decode it"),
        ("name", "a\ud800b", "a str", "surrogate"),
        ("payload", "x", "bytes", "encode it"),
        ("price", 1.5, "a Decimal of 12 digits, 2 of them behind the point", "Decimal(str(…))"),
        ("price", Decimal("0.001"), "a Decimal of 12 digits, 2 of them behind the point", "round it"),
        ("price", Decimal("1E10"), "a Decimal of 12 digits, 2 of them behind the point", "too large"),
        ("price", Decimal("NaN"), "a Decimal of 12 digits, 2 of them behind the point", "numbers"),
        ("unique", "x", "a UUID", "uuid.UUID"),
        ("day", datetime(2020, 1, 1), "a date", ".date()"),
        ("at", time(1, tzinfo=UTC), "a time of day without a time zone", ".replace(tzinfo=None)"),
        ("when", datetime(2020, 1, 1), "a datetime with a time zone", "duramen.NAIVE"),
        ("when", datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1))), "a datetime with a time zone", "years 1"),
        ("when", "2020-01-01", "a datetime with a time zone", "fromisoformat"),
        ("local", datetime(2020, 1, 1, tzinfo=UTC), "a datetime without a time zone", "tzinfo=None"),
        ("cabin", "FIRST", "a Cabin", "Cabin(…)"),
        ("cabin", 2, "a Cabin", "Cabin(…)"),
        ("seat", None, "a Seat", "one class"),
        ("seat", {"row": 1, "letter": "A"}, "a Seat", "one class"),
        ("either", 1.5, "None or an int of 64 bits or a str or a Seat", "1.5"),
        ("either", True, "None or an int of 64 bits or a str or a Seat", "True"),
    ],
)
def test_what_does_not_fit_is_refused_with_field_value_and_type(
    field: str, value: Any, expected: str, says: str
) -> None:
    error = refused(replace(WIDE, **{field: value}))
    assert error.fields == {"field": field, "expected": expected}
    assert error.message.startswith(f"the field {field} is ")
    assert says in error.message
    assert len(error.message) < 400


def test_a_field_inside_is_named_by_its_path() -> None:
    wrong: Any = "1"
    assert refused(replace(WIDE, seats=[Seat(1, "A"), Seat(wrong, "B")])).fields["field"] == "seats[1].row"
    assert refused(replace(WIDE, by_name={"n": Seat(1, wrong, wrong)})).fields["field"] == "by_name['n'].cabin"
    assert refused(replace(WIDE, parts=[replace(WIDE, id=wrong)])).fields["field"] == "parts[0].id"
    assert refused(replace(WIDE, sizes=[[1], [wrong]])).fields["field"] == "sizes[1][0]"
    assert refused(replace(WIDE, by_name={"\ud800": Seat(1, "A")})).fields["expected"] == "a str"


def test_a_row_of_another_class_is_refused() -> None:
    @dataclass
    class Later(Flight):
        gate: str = ""

    for other in (WIDE, None, {"carrier": "UA"}, Flight, Later("UA", 1, None, 0.0)):
        assert refused(other, FLIGHTS).fields["expected"] == "a Flight"


def test_a_row_in_itself_is_refused() -> None:
    row = replace(WIDE, parts=[])
    row.parts.append(row)
    assert "nested" in refused(row).message or "deep" in refused(row).message


def test_a_row_with_more_inside_than_a_table_holds_is_refused_before_it_leaves() -> None:
    booleans = dicts({"type": "array", "items": "boolean"})
    assert booleans.encode({"k": 1, "x": [True] * 65_535})
    with pytest.raises(
        InvalidRow, match=r"the field x\[0\]: the row has more than 65536 values .*: make several rows"
    ) as caught:
        booleans.encode({"k": 1, "x": [True] * 65_536})
    assert caught.value.fields["field"] == "x[0]"
    doubles = dicts({"type": "array", "items": "double"})
    assert len(doubles.encode({"k": 1, "x": [0.5] * 400_000})[1]) > 3_000_000


def test_a_row_that_is_deeper_than_a_table_holds_is_refused_before_it_leaves() -> None:
    lists = codec(record(("k", "long"), ("next", ["null", "Row"])), "k")

    def nested(levels: int) -> dict[str, Any]:
        row: dict[str, Any] = {"k": 1, "next": None}
        for _ in range(levels - 1):
            row = {"k": 1, "next": row}
        return row

    assert lists.encode(nested(64))
    with pytest.raises(InvalidRow, match="nested more than 64 deep"):
        lists.encode(nested(65))


def test_a_number_that_is_none_is_no_field_of_a_key() -> None:
    make: Any = make_dataclass("Place", [("x", float), ("y", float)])
    places = codec(make, "x")
    assert refused(make(float("nan"), 0.0), places).fields["field"] == "x"
    assert places.encode(make(-0.0, -0.0))[0] == places.encode(make(0.0, 0.0))[0]
    with pytest.raises(InvalidKey):
        places.key.of_fields([float("nan")])
    with pytest.raises(InvalidKey, match="511"):
        FLIGHTS.encode(replace(FLIGHT, carrier="x" * 510))


def test_the_key_of_a_short_float_is_made_of_what_the_row_keeps() -> None:
    floats = codec(record(("x", "float")), "x")
    key, value = floats.encode({"x": 0.1})
    kept = floats.decode(value)["x"]
    assert kept != 0.1
    assert key == pack_key(kept) == floats.key.of_fields([0.1])


def test_dicts_are_rows_of_a_schema() -> None:
    schema = record(("k", "long"), ("b", {"type": "bytes"}), ("e", {"type": "enum", "name": "E", "symbols": ["A"]}))
    schema["fields"] += [
        {"name": "d", "type": {"type": "int", "logicalType": "date"}, "default": 3},
        {
            "name": "m",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1},
            "default": "\x05",
        },
        {"name": "u", "type": ["string", "long"], "default": "x"},
    ]
    rows = codec(schema, "k")
    back = rows.decode(rows.encode({"k": 1, "b": b"x", "e": "A"})[1])
    assert back == {"k": 1, "b": b"x", "e": "A", "d": date(1970, 1, 4), "m": Decimal("0.5"), "u": "x"}
    assert rows.decode(rows.encode({**back, "u": 5})[1])["u"] == 5
    assert refused({"k": 1, "e": "A"}, rows).fields == {"field": "b", "expected": "bytes"}
    assert refused({"k": 1, "b": b"", "e": "B"}, rows).fields == {"field": "e", "expected": "one of A"}
    assert refused({**back, "z": 1}, rows).fields["field"] == "z"
    assert refused([1], rows).fields["field"] == ""


@pytest.mark.parametrize(
    ("kind", "value", "says"),
    [
        ("int", 1 << 31, "32 bits"),
        ("float", 1e39, "32 bits"),
        ({"type": "fixed", "name": "F", "size": 2}, b"x", "2 bytes"),
        ({"type": "long", "logicalType": "timestamp-millis"}, datetime(2020, 1, 1, 0, 0, 0, 1, UTC), "round it"),
        ({"type": "int", "logicalType": "time-millis"}, time(0, 0, 0, 1), "round it"),
        ({"type": "array", "items": "long"}, {1}, "list(…)"),
        ({"type": "array", "items": "long"}, "12", "a list"),
        ({"type": "map", "values": "long"}, {1: 1}, "a str"),
        ({"type": "map", "values": "long"}, [], "a dict"),
    ],
)
def test_types_that_classes_do_not_have_are_as_strict(kind: Any, value: Any, says: str) -> None:
    assert says in refused({"k": 1, "x": value}, dicts(kind)).message


def test_nanoseconds_of_pandas_are_refused_and_its_microseconds_taken() -> None:
    import pandas

    stamp = pandas.Timestamp("2020-01-01T00:00:00.000001", tz="UTC")
    assert WIDES.decode(WIDES.encode(replace(WIDE, when=stamp))[1]).when == stamp.to_pydatetime()
    wrong = refused(replace(WIDE, when=pandas.Timestamp(1, unit="ns", tz="UTC")))
    assert "nanoseconds" in wrong.message


class Booking(pydantic.BaseModel):
    """A model that checks more than types."""

    number: int = pydantic.Field(gt=0)
    name: str = pydantic.Field(alias="Name")
    seat: Seat | None = None


def test_models_of_pydantic_are_rows() -> None:
    rows = codec(Booking, "number")
    booking = Booking(number=1, Name="x", seat=Seat(1, "A"))
    assert rows.decode(rows.encode(booking)[1]) == booking
    unchecked = Booking.model_construct(number=-1, name="x", seat=None)
    stored = rows.encode(unchecked)[1]
    with pytest.raises(InvalidRow, match="no Booking: number") as caught:
        rows.decode(stored)
    assert caught.value.fields["field"] == "number"
    wrong: Any = "1"
    assert refused(Booking.model_construct(number=wrong, name="x", seat=None), rows).fields["field"] == "number"


def test_a_class_with_slots_or_a_constructor_of_its_kind_is_made_by_it() -> None:
    @dataclass(frozen=True, slots=True)
    class Slotted:
        x: int
        y: str = ""

    @dataclass
    class Doubled:
        x: int
        twice: int = dataclasses.field(init=False, default=0)

        def __post_init__(self) -> None:
            self.twice = self.x * 2

    @dataclass(slots=True)
    class Unrounded:
        x: int
        y: float

    @dataclass(slots=True)
    class Rounded:
        x: int
        y: float

        def __setattr__(self, name: str, value: Any) -> None:
            object.__setattr__(self, name, round(value))

    assert codec(Rounded, "x").decode(codec(Unrounded, "x").encode(Unrounded(1, 2.5))[1]) == Rounded(1, 2.0)
    for row in (Slotted(1, "z"), Doubled(2)):
        rows = codec(type(row), "x")
        assert rows.decode(rows.encode(row)[1]) == row


def test_a_schema_of_arrow_has_dicts() -> None:
    schema = pyarrow.schema([pyarrow.field("k", pyarrow.int64(), nullable=False), pyarrow.field("v", pyarrow.string())])
    rows = codec(schema, "k")
    assert rows.decode(rows.encode({"k": 1})[1]) == {"k": 1, "v": None}


def test_a_stored_time_that_python_does_not_have_is_a_typed_error() -> None:
    times = dicts({"type": "long", "logicalType": "timestamp-micros"})
    whole = fastavro.parse_schema(record(("k", "long"), ("x", "long")))
    buffer = BytesIO()
    fastavro.schemaless_writer(buffer, whole, {"k": 1, "x": (1 << 63) - 1})
    with pytest.raises(InvalidRow, match="Python does not have"):
        times.decode(b"\0\0\0\0\x07" + buffer.getvalue())


def test_an_unknown_number_of_a_schema_is_named() -> None:
    _, value = FLIGHTS.encode(FLIGHT)
    with pytest.raises(UnknownFormat, match="schema 8"):
        FLIGHTS.decode(b"\0\0\0\0\x08" + value[5:])


def test_a_row_of_an_older_schema_has_the_defaults_of_the_newer() -> None:
    old = record(("k", "long"))
    new = record(("k", "long"))
    new["fields"] += [
        {"name": "day", "type": {"type": "int", "logicalType": "date"}, "default": 1},
        {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
    ]
    both = replace(
        definition(old, "k"), schemas=(NumberedSchema(7, shape_of(old).schema), NumberedSchema(9, shape_of(new).schema))
    )
    stored = RowCodec[Any](definition(old, "k"), shape_of(old)).encode({"k": 1})[1]
    newer, older = RowCodec[Any](both, shape_of(new)), RowCodec[Any](both, shape_of(old))
    first = newer.decode(stored)
    assert first == {"k": 1, "day": date(1970, 1, 2), "tags": []}
    first["tags"].append("x")
    assert newer.decode(stored)["tags"] == []
    assert newer.encode({"k": 1})[1][:5] == b"\0\0\0\0\x09"
    assert older.decode(newer.encode({"k": 2})[1]) == {"k": 2}
    assert older.encode({"k": 2})[1][:5] == b"\0\0\0\0\x07"
