"""Schemas of rows, and rows of them as fastavro takes them, from a source of random numbers."""

from __future__ import annotations

import io
import struct
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from random import Random
from typing import Any, Final
from uuid import UUID

import fastavro

__all__ = ["avro_decode", "avro_encode", "mutated", "random_row", "random_schema"]

_DEPTH_MAX: Final = 3
_EPOCH: Final = datetime(1970, 1, 1)
_TEXTS: Final = ("", "UA", "\0", "Zürich", "\U0001f6eb", "a\0b\xff")
_INTS: Final = (0, 1, -1, 63, 64, -65, 8191, 8192, (1 << 31) - 1, -(1 << 31))
_LONGS: Final = (*_INTS, 1 << 31, (1 << 63) - 1, -(1 << 63), 1_764_200_000_000_000)
_DOUBLES: Final = (0.0, -0.0, 1.5, -1e300, float("inf"), float("-inf"), float("nan"), 5e-324)
_FLOATS: Final = (0.0, -0.0, 1.5, float("inf"), float("nan"), struct.unpack("<f", struct.pack("<f", 0.1))[0])

_PLAIN: Final[tuple[Any, ...]] = (
    "null",
    "boolean",
    "int",
    "long",
    "float",
    "double",
    "bytes",
    "string",
    {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
    {"type": "string", "logicalType": "uuid"},
    {"type": "int", "logicalType": "date"},
    {"type": "int", "logicalType": "time-millis"},
    {"type": "long", "logicalType": "time-micros"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "long", "logicalType": "local-timestamp-millis"},
    {"type": "long", "logicalType": "local-timestamp-micros"},
    {"type": "long", "logicalType": "of-tomorrow"},
)
_NAMED: Final[tuple[dict[str, Any], ...]] = (
    {"type": "enum", "symbols": ["ON_TIME", "LATE", "GONE"]},
    {"type": "fixed", "size": 3},
    {"type": "fixed", "size": 5, "logicalType": "decimal", "precision": 11, "scale": 3},
)


def random_schema(random: Random, fields: int = 5) -> dict[str, Any]:
    """A record of that many fields, with some of each kind of type."""
    names = [0]
    return {
        "type": "record",
        "name": "Row",
        "namespace": "air",
        "fields": [{"name": f"f{number}", "type": _type(random, 1, names)} for number in range(fields)],
    }


def _type(random: Random, depth: int, names: list[int]) -> Any:
    kind = random.randrange(11 if depth < _DEPTH_MAX else 6)
    if kind < 5:
        return random.choice(_PLAIN)
    if kind == 5:
        names[0] += 1
        return random.choice(_NAMED) | {"name": f"N{names[0]}"}
    if kind == 6:
        return ["null", _not_null(random, depth, names)]
    if kind == 7:
        return [{"type": "array", "items": "double"}, "boolean", "bytes", "string"]
    if kind == 8:
        return {"type": "map", "values": _type(random, depth + 1, names)}
    if kind == 9:
        return {"type": "array", "items": "Row"}
    if random.random() < 0.5:
        return {"type": "array", "items": _not_null(random, depth + 1, names)}
    names[0] += 1
    name = f"R{names[0]}"
    inner = [{"name": f"g{number}", "type": _type(random, depth + 1, names)} for number in range(random.randrange(3))]
    return {"type": "record", "name": name, "fields": [*inner, {"name": "next", "type": ["null", name]}]}


def _not_null(random: Random, depth: int, names: list[int]) -> Any:
    while isinstance(found := _type(random, depth + 1, names), list) or found == "null":
        pass
    return found


def random_row(random: Random, schema: dict[str, Any]) -> dict[str, Any]:
    """A row of the schema, with values at the limits of their types."""
    named: dict[str, Any] = {}
    _collect(schema, named)
    row = _value(random, schema, named, 1)
    assert isinstance(row, dict)
    return row


def _collect(type_: Any, named: dict[str, Any]) -> None:
    for each in type_ if isinstance(type_, list) else [type_]:
        if isinstance(each, dict):
            if "name" in each:
                named[each["name"]] = each
            for field in each.get("fields", ()):
                _collect(field["type"], named)
            _collect(each.get("items", each.get("values", [])), named)


def _value(random: Random, type_: Any, named: dict[str, Any], depth: int) -> Any:
    if isinstance(type_, list):
        # A record that contains itself ends.
        branch = type_[0] if depth > 6 and type_[0] == "null" else random.choice(type_[1:] if depth > 6 else type_)
        return _value(random, branch, named, depth)
    found = named.get(type_, type_) if isinstance(type_, str) else type_
    kind = found if isinstance(found, str) else found["type"]
    if kind == "record":
        return {each["name"]: _value(random, each["type"], named, depth + 1) for each in found["fields"]}
    if kind in ("array", "map"):
        count = random.choice((0, 1, 3)) if depth < 6 else 0
        values = [_value(random, found.get("items", found.get("values")), named, depth + 1) for _ in range(count)]
        return values if kind == "array" else {f"k{number}é": each for number, each in enumerate(values)}
    if kind == "enum":
        return random.choice(found["symbols"])
    if isinstance(found, dict) and "logicalType" in found:
        return _logical(random, found)
    return random.randbytes(found["size"]) if kind == "fixed" else _plain(random, kind)


def _plain(random: Random, kind: str) -> Any:
    if kind == "bytes":
        return random.randbytes(random.choice((0, 1, 70)))
    choices: dict[str, tuple[Any, ...]] = {
        "null": (None,),
        "boolean": (False, True),
        "int": _INTS,
        "long": _LONGS,
        "float": _FLOATS,
        "double": _DOUBLES,
        "string": (*_TEXTS, "x" * 70),
    }
    return random.choice(choices[kind])


def _logical(random: Random, type_: dict[str, Any]) -> Any:
    name = type_["logicalType"]
    if name == "decimal":
        unscaled = random.choice((0, 1, -1, 127, -128, 255, 10 ** type_["precision"] - 1, 1 - 10 ** type_["precision"]))
        return Decimal(unscaled).scaleb(-type_["scale"])
    if name == "uuid":
        return UUID(int=random.getrandbits(128))
    if name == "date":
        return random.choice((date.min, date(1969, 12, 31), date(2026, 11, 27), date.max))
    step = timedelta(milliseconds=1) if name.endswith("-millis") else timedelta(microseconds=1)
    if name.startswith("time-"):
        return random.choice((time.min, time(12), (datetime.max.replace(microsecond=0) - step * 7).time()))
    if name == "of-tomorrow":
        return random.choice(_LONGS)
    local = random.choice((datetime.min, _EPOCH - step, datetime(2026, 11, 27, 12) + step, _EPOCH + step * (1 << 44)))
    return local if name.startswith("local-") else local.replace(tzinfo=UTC)


def avro_encode(schema: Any, row: Any) -> bytes:
    """Avro's binary as fastavro writes it."""
    written = io.BytesIO()
    fastavro.schemaless_writer(written, fastavro.parse_schema(schema, _force=True), row)
    return written.getvalue()


def avro_decode(schema: Any, body: bytes) -> Any:
    """What fastavro reads; all bytes are used."""
    read = io.BytesIO(body)
    row = fastavro.schemaless_reader(read, fastavro.parse_schema(schema, _force=True), None)
    assert read.tell() == len(body)
    return row


def mutated(random: Random, body: bytes) -> bytes:
    """The bytes with some changed, left out, or put in: what readers of Avro stumble over."""
    data = bytearray(body)
    for _ in range(random.choice((1, 1, 2, 5))):
        at = random.randrange(len(data) + 1)
        match random.randrange(4):
            case 0:
                data[at : at + 1] = random.randbytes(1)
            case 1:
                data[at:at] = random.choice(
                    (b"\0", b"\x02", b"\x80", b"\xff" * 9, b"\xed\xa0\x80", random.randbytes(3))
                )
            case 2:
                del data[at : at + random.choice((1, 4))]
            case 3:
                data[at:at] = data[: random.randrange(20)]
    return bytes(data)
