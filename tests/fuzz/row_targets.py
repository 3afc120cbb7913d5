"""Rows and their schemas: what writers of a topic put there, what callers give as a schema and as JSON.

fastavro is the peer: what is accepted it reads to the end, and its value is that of the same row by way of JSON.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Final

import fastavro
from kit.avro_rows import avro_decode, avro_encode, random_row, random_schema
from kit.rows.judged_rows import sortable_paths
from kit.storage.versioned_rows import DEFINITION

from fuzz.target import Target
from log_tier.model.barrier import Barrier, barrier_batch, parse_barrier
from log_tier.model.batch import decode_batch
from log_tier.model.errors import InvalidRow, InvalidValue
from log_tier.rows.avro.row_reader import READER_ERRORS
from log_tier.rows.definition import TableDefinition
from log_tier.rows.framing import frame
from log_tier.rows.index_entries import complete_entries, entries_reader
from log_tier.rows.json_rows.json_form import row_from_json, row_to_json
from log_tier.rows.quick_reader import EntriesReader
from log_tier.rows.schema import NumberedSchema, RowSchema
from log_tier.rows.table_index import EntryForm
from serving_tier.fold.defined import defined_behind

__all__ = ["row_targets"]

_SCHEMAS: Final = 24
"""The first byte of an input chooses one of so many."""

_KEY: Final = b"k"

_INDEXES_MAX: Final = 8

# A byte of a row may be a value of its own, and an input is decoded and encoded several times, as JSON as well.
_BODY_BYTES_MAX: Final = 6 * 1024
_TEXT_BYTES_MAX: Final = 32 * 1024


@cache
def _schema(number: int) -> tuple[dict[str, object], RowSchema, TableDefinition]:
    given = random_schema(random.Random(number))
    schema = RowSchema.parse(given)
    return given, schema, TableDefinition(value="row", schemas=(NumberedSchema(1, schema),))


def _bodies() -> list[bytes]:
    found: list[bytes] = []
    for number in range(_SCHEMAS):
        given = _schema(number)[0]
        rows = random.Random(-number)
        found += [bytes((number,)) + avro_encode(given, random_row(rows, given)) for _ in range(2)]
    return found


def _read_body(data: bytes) -> None:
    given, schema, definition = _schema(data[0] % _SCHEMAS if data else 0)
    body = data[1:]
    refusal = definition.judge.refusal(_KEY, frame(1, body))
    assert definition.judge.fit([_KEY], [frame(1, body)]) == (refusal is None)
    if refusal is not None:
        raise InvalidValue(refusal)
    again = row_from_json(schema, row_to_json(schema, body))
    assert repr(avro_decode(given, again)) == repr(avro_decode(given, body))


@cache
def _readers_of_entries(number: int) -> tuple[EntriesReader, EntriesReader] | None:
    schema = _schema(number)[1]
    paths = tuple(tuple(each.split(".")) for each in sortable_paths(schema))
    if not paths:
        return None
    indexes = tuple(EntryForm(bytes((0, at)), (path,)) for at, path in enumerate(paths[:_INDEXES_MAX], 1))
    return complete_entries(schema, indexes), entries_reader(schema, indexes)


def _read_entries(data: bytes) -> None:
    readers = _readers_of_entries(data[0] % _SCHEMAS if data else 0)
    if readers is None:
        raise InvalidValue("no field of the schema sorts")
    complete, quick = readers
    try:
        entries = complete(data, 1, _KEY)
    except READER_ERRORS as error:
        # The quick one gets rows that fit: it may make entries of others, and raises nothing else.
        with suppress(*READER_ERRORS):
            quick(data, 1, _KEY)
        raise InvalidValue(repr(error)) from None
    assert quick(data, 1, _KEY) == entries


def _texts() -> list[bytes]:
    return [body[:1] + row_to_json(_schema(body[0])[1], body[1:]).encode() for body in _bodies()]


def _read_text(data: bytes) -> None:
    _, schema, definition = _schema(data[0] % _SCHEMAS if data else 0)
    try:
        text = data[1:].decode()
    except UnicodeDecodeError:
        raise InvalidRow("no text") from None
    body = row_from_json(schema, text)
    assert definition.judge.refusal(_KEY, frame(1, body)) is None
    assert row_from_json(schema, row_to_json(schema, body)) == body


def _schemas() -> list[bytes]:
    given = [json.dumps(_schema(number)[0]).encode() for number in range(_SCHEMAS)]
    flight = {
        "type": "record",
        "name": "Flight",
        "namespace": "air",
        "aliases": ["Old"],
        "doc": "Zürich",
        "fields": [
            {"name": "seats", "type": ["int", "null"], "default": 7, "aliases": ["places"]},
            {"name": "next", "type": ["null", "Flight"], "default": None},
            {"name": "raw", "type": "bytes", "default": "\u00ff"},
            {"name": "many", "type": {"type": "map", "values": "string"}, "default": {"a": "b"}, "order": "ignore"},
        ],
    }
    return [*given, json.dumps(flight, indent=1, ensure_ascii=False).encode()]


def _read_schema(data: bytes) -> None:
    schema = RowSchema.parse(data.decode(errors="replace"))
    again = RowSchema.parse(schema.text)
    assert (again.text, again.fields, again.name) == (schema.text, schema.fields, schema.name)
    fastavro.parse_schema(json.loads(schema.text), _force=True)


def _barriers() -> list[bytes]:
    batch = barrier_batch(Barrier(2, 10, definition=DEFINITION.decode()), producer_id=5, sequence=1)
    return list(decode_batch(batch).columns.values)


def _barrier(data: bytes) -> None:
    """A barrier brings a definition, or every replica stops at it with a typed error."""
    barrier = parse_barrier(data)
    if barrier is None or not barrier.definition:
        raise InvalidValue("no barrier with a definition")
    defined_behind(barrier.definition, None)


def row_targets() -> Iterator[Target]:
    """A row's bytes, its entries in indexes, a row as JSON, a schema."""
    yield Target("row in Avro", _bodies, _read_body, grown_bytes_max=_BODY_BYTES_MAX)
    yield Target("entries of a row", _bodies, _read_entries)
    yield Target("row as JSON", _texts, _read_text, grown_bytes_max=_TEXT_BYTES_MAX)
    yield Target("schema of rows", _schemas, _read_schema)
    yield Target("definition of a barrier", _barriers, _barrier)
