"""What a client makes of stored keys and values, which others may have written, and what it reads of replies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import cache, partial
from typing import Annotated, Any, Final

import pyarrow as pa
from kit.avro_rows import avro_encode

from duramen.client.model.call_records import number_of
from duramen.client.model.results import KeyDifference, KeyVersion
from duramen.client.rows.html_table import html_table
from duramen.client.rows.row_codec import RowCodec
from duramen.client.rows.row_results import decoded_differences, decoded_versions
from duramen.client.rows.shapes.marks import Digits
from duramen.client.rows.shapes.shape import shape_of
from duramen.client.rows.value_codecs import codec_of
from duramen.exporting.text_files import csv_lines
from fuzz.target import Target
from log_tier.model.errors import DuramenError, InvalidValue
from log_tier.model.identifiers import Offset, Partition, TableId
from log_tier.rows.avro.row_reader import READER_ERRORS
from log_tier.rows.definition import TableDefinition
from log_tier.rows.framing import FRAME_BYTES, frame
from log_tier.rows.key_fields import KeyField, KeyType
from log_tier.rows.schema import NumberedSchema, RowSchema
from log_tier.rows.table_index import TableIndex
from log_tier.rows.tuple_key import pack_key
from spark_bulk.source.model.columns import json_columns, typed

__all__ = ["client_targets", "flight_rows"]

_FIELDS: Final = (
    {"name": "carrier", "type": "string"},
    {"name": "flight", "type": "int"},
    {"name": "delay", "type": ["null", "double"], "default": None},
    {"name": "gates", "type": {"type": "array", "items": "string"}, "default": []},
    {"name": "day", "type": {"type": "int", "logicalType": "date"}, "default": 0},
    {"name": "tail", "type": "string", "default": ""},
)
_LATER: Final = (
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 0},
    {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, "default": "\0"},
    {"name": "notes", "type": {"type": "map", "values": ["null", "float"]}, "default": {}},
)
_ROW: Final = {
    "carrier": "UA",
    "flight": 7,
    "delay": 2.5,
    "gates": ["B7"],
    "day": 9,
    "at": 5,
    "price": b"\1",
    "notes": {},
    "tail": "N14228",
}
_KEY_FIELDS: Final = (KeyField("carrier", "str"), KeyField("flight", "int"))
_SCHEMA: Final = pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.list_(pa.float64()))])
_TAIL_TOO_LONG: Final = 600
"""For an entry of an index."""
_TABLE: Final = TableId("AAECAwQFBgcICQoLDA0ODw")
_QUICK_INPUTS: Final = 500
_NUMBERED: Final = (1, 2)
"""The first byte of an input chooses the schema."""


@dataclass(frozen=True)
class _Flight:
    """What a caller has of the newer rows."""

    carrier: str
    flight: int
    delay: float | None
    gates: list[str]
    day: date
    tail: str
    at: datetime
    price: Annotated[Decimal, Digits(9, 2)]
    notes: dict[str, float | None]


class _Rows:
    """A table with two schemas, and three clients of it: by a class, by the older schema, by the newer one."""

    def __init__(self) -> None:
        self.given = [{"type": "record", "name": "Flight", "fields": [*_FIELDS, *more]} for more in ((), _LATER)]
        schemas = tuple(NumberedSchema(number, RowSchema.parse(each)) for number, each in enumerate(self.given, 1))
        self.newest = schemas[-1].schema
        self.definition = TableDefinition(
            2, _KEY_FIELDS, "row", schemas, indexes=(TableIndex(1, "by_tail", ("tail",)),)
        )
        self.rows = [
            frame(number, avro_encode(given, {each["name"]: _ROW[each["name"]] for each in given["fields"]}))
            for number, given in enumerate(self.given, 1)
        ]
        self.codecs: list[RowCodec[Any]] = [
            RowCodec(self.definition, shape_of(each)) for each in (_Flight, *self.given)
        ]


flight_rows: Final = cache(_Rows)


def _bodies() -> list[bytes]:
    found = [bytes((number,)) + row[FRAME_BYTES:] for number, row in enumerate(flight_rows().rows)]
    long = avro_encode(flight_rows().given[0], {**_ROW, "tail": "N" * _TAIL_TOO_LONG})
    return [*found, b"\0" + long]


def _row(data: bytes) -> None:
    """A row that its table takes is one for each client, or is refused by a typed error."""
    rows = flight_rows()
    number = data[0] % len(_NUMBERED) if data else 0
    value = frame(_NUMBERED[number], data[1:])
    judge = rows.definition.judge
    try:
        key = judge.key_of_row(value)
    except READER_ERRORS as error:
        raise InvalidValue(repr(error)) from None
    refusal = judge.refusal(key, value)
    if refusal is not None:
        raise InvalidValue(refusal)
    if number:
        b"".join(csv_lines(rows.newest, iter([value]), ","))
    refused: DuramenError | None = None
    for codec in rows.codecs:
        try:
            decoded_versions([KeyVersion(_TABLE, Partition(0), Offset(1), value, 0, None)], codec.decode)
        except DuramenError as error:
            refused = error
    html_table("flights", rows.definition, [value])
    if refused is not None:
        raise refused


_DEFINITIONS: Final = (
    TableDefinition(key="str", value="json"),
    TableDefinition(key="bytes", value="str"),
    TableDefinition(key=_KEY_FIELDS, value="bytes"),
)
_BETWEEN: Final = b"\0\0"


def _pairs() -> list[bytes]:
    return [
        b"key" + _BETWEEN + json.dumps({"a": [1, 2.5, None, "\u00fc"]}).encode(),
        b"key" + _BETWEEN + "text \u00fc".encode(),
        pack_key("UA", 1545) + _BETWEEN + b"\xff",
    ]


def _pair(data: bytes) -> None:
    """What a table takes is a key and a value for its clients, or a value that they refuse by a typed error."""
    key, _, value = data.partition(_BETWEEN)
    refused: DuramenError | None = None
    for definition in _DEFINITIONS:
        codec = codec_of(definition)
        if definition.judge.refusal(key, value) is not None:
            continue
        try:
            decoded_differences([KeyDifference(key, value, None)], codec.key.decode, codec.value.decode)
        except DuramenError as error:
            refused = error
    if refused is not None:
        raise refused


def _columns(data: bytes) -> None:
    """Values as Spark's columns."""
    values = pa.array(data.split(_BETWEEN), pa.binary())
    keys = pa.array([b"k"] * len(values), pa.binary())
    json_columns(values, _SCHEMA, keys=keys, where="flights/3")
    typed(values, pa.string(), what="value", keys=keys, where="flights/3")


def _schema(data: bytes) -> None:
    """A schema that a table takes is one of its clients, which have its rows as dicts. Each is parsed anew."""
    schema = RowSchema.parse(data.decode("utf-8", "replace"))
    key = next((each.name for each in schema.fields if each.type in ("string", "int", "long")), None)
    if key is None:
        raise InvalidValue("no field for a key")
    kind: KeyType = "str" if next(each.type for each in schema.fields if each.name == key) == "string" else "int"
    definition = TableDefinition(1, (KeyField(key, kind),), "row", (NumberedSchema(1, schema),))
    RowCodec(definition, shape_of(schema.text))


def _schemas() -> list[bytes]:
    return [json.dumps(each).encode() for each in flight_rows().given]


def client_targets() -> Iterator[Target]:
    """Rows, keys and values at clients and in Spark, and the number of an update."""
    documents = [b'{"a": 1, "b": "x", "c": [1.5]}', b'{"a": 1}' + _BETWEEN + b'{"b": "y", "z": {"d": 1}}']
    yield Target("row at a client", _bodies, _row, quick_inputs=_QUICK_INPUTS)
    yield Target("schema at a client", _schemas, _schema, quick_inputs=_QUICK_INPUTS)
    yield Target("key and value at a client", _pairs, _pair)
    yield Target("values as columns of Spark", partial(list[bytes], documents), _columns, quick_inputs=_QUICK_INPUTS)
    yield Target("number of an update", lambda: [b"-12", b"0.5", b"1e300"], number_of)
