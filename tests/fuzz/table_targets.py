"""Tables of rows: patches, the texts of keys, rows and patches, columns of stored rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any, Final

from kit.avro_rows import avro_encode
from kit.rows.patches import patch_of

from fuzz.target import Target
from log_tier.model.errors import InvalidRequest, InvalidValue
from log_tier.rows.columns.batch_reader import BatchReader
from log_tier.rows.definition import TableDefinition
from log_tier.rows.finding.condition_words import conditions_of_json
from log_tier.rows.finding.conditions import conditions_of
from log_tier.rows.finding.find_plan import find_plan
from log_tier.rows.framing import frame
from log_tier.rows.json_rows.json_table import JsonTable
from log_tier.rows.json_rows.strict_json import strict_json
from log_tier.rows.key_fields import KeyField
from log_tier.rows.patches.row_patch import NotPatched
from log_tier.rows.patches.row_patcher import RowPatcher
from log_tier.rows.schema import NumberedSchema, RowSchema
from log_tier.rows.table_index import pack_where, unpack_where
from router.admin.answers.json_text import json_text
from router.endpoints.grpc.kv.texts import stored_update
from router.endpoints.grpc.pages.entries import text_of_key
from router.proto import kv_pb2

__all__ = ["table_targets"]

_QUICK_INPUTS: Final = 500
"""Columns of a batch take a millisecond."""
_CITY: Final = {
    "type": "record",
    "name": "City",
    "fields": [{"name": "name", "type": "string"}, {"name": "size", "type": ["null", "int"]}],
}
_OLD_FIELDS: Final = (
    {"name": "carrier", "type": "string"},
    {"name": "flight", "type": "int"},
    {"name": "seats", "type": "long", "default": 7},
    {"name": "delay", "type": ["null", "double"], "default": None},
    {"name": "gates", "type": {"type": "array", "items": "string"}, "default": []},
    {"name": "city", "type": ["null", _CITY], "default": None},
)
_MORE_FIELDS: Final = (
    {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, "default": "\0"},
    {"name": "notes", "type": {"type": "map", "values": ["null", "float"]}, "default": {}},
    {"name": "raw", "type": {"type": "fixed", "name": "Raw", "size": 4}, "default": "\0\0\0\0"},
    {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["on", "off"]}, "default": "on"},
    {"name": "day", "type": {"type": "int", "logicalType": "date"}, "default": 0},
    {"name": "id", "type": {"type": "fixed", "name": "Id", "size": 16, "logicalType": "uuid"}, "default": "\0" * 16},
    {"name": "stops", "type": {"type": "array", "items": "City"}, "default": []},
)
_ROW: Final = {
    "carrier": "UA",
    "flight": 1545,
    "seats": 3,
    "delay": 2.5,
    "gates": ["B7", ""],
    "city": {"name": "Ulm", "size": 5},
    "notes": {"a": None, "b": 1.5},
    "raw": b"1234",
    "state": "off",
    "price": b"\x01\x02",
    "day": 9,
    "id": b"0123456789abcdef",
    "stops": [{"name": "Ulm", "size": None}],
    "ratio": 0.5,
    "ratios": [1.5, 2.5],
}
_KEY_FIELDS: Final = (KeyField("carrier", "str"), KeyField("flight", "int"))


def _ratios(kind: str) -> tuple[dict[str, Any], ...]:
    """Fields whose type is a wider one in the newer schema."""
    many = {"type": "array", "items": kind}
    return {"name": "ratio", "type": kind, "default": 0.0}, {"name": "ratios", "type": many, "default": []}


class _Table:
    """A table of rows with two schemas, an old row and a new one of it."""

    def __init__(self) -> None:
        self.given: list[dict[str, Any]] = [
            {"type": "record", "name": "Flight", "fields": [*_OLD_FIELDS, *more]}
            for more in (_ratios("float"), (*_ratios("double"), *_MORE_FIELDS))
        ]
        self.schemas = [RowSchema.parse(each) for each in self.given]
        numbered = tuple(NumberedSchema(number, each) for number, each in enumerate(self.schemas, 1))
        self.definition = TableDefinition(2, _KEY_FIELDS, "row", numbered)
        self.patcher = RowPatcher(self.definition)
        self.texts = JsonTable(self.definition)
        self.rows = [
            frame(number, avro_encode(given, {each["name"]: _ROW[each["name"]] for each in given["fields"]}))
            for number, given in enumerate(self.given, 1)
        ]
        self.key = self.texts.key(b'["UA",1545]')
        self.reader = BatchReader(numbered[-1], None, self.newest)
        self.some = BatchReader(numbered[-1], ["delay", "notes", "day"], self.newest)

    def newest(self, value: bytes) -> bytes:
        return self.texts.value(self.texts.value_text(value))


_table: Final = cache(_Table)


def _patches() -> list[bytes]:
    old, new = _table().schemas
    return [
        patch_of(old, 1, add={"seats": -1}, set={"delay": None, "city": {"name": "Köln", "size": None}}),
        patch_of(new, 2, append={"gates": ["A1", "A2"]}, multiply={"seats": 3}),
        patch_of(
            new, 2, set={"notes": {"a": 1.5}, "raw": b"abcd", "state": "on"}, add={"price": b"\x01", "delay": 0.5}
        ),
        patch_of(new, 2, max={"day": 30, "seats": 4}, min={"delay": 0.5}),
        patch_of(old, 1, set={"city.name": "x", "city.size": 5}),
    ]


def _patch(value: bytes) -> None:
    """What a log accepts as a patch, every replica folds, and a table shows as text."""
    table = _table()
    refusal = table.patcher.refusal(table.key, value)
    if refusal is not None:
        raise InvalidValue(refusal)
    table.texts.patch_json(value)
    for stored in table.rows:
        try:
            made = table.patcher.patched(table.key, stored, value)
        except NotPatched as hindered:
            if hindered.change >= 0:
                table.patcher.field_of(value, hindered.change)
            continue
        assert table.definition.judge.refusal(table.key, made) is None, f"{made!r} is no row"


def _patch_texts() -> list[bytes]:
    return [json.dumps(_table().texts.patch_json(each), ensure_ascii=False).encode() for each in _patches()]


def _patch_text(data: bytes) -> None:
    """A text of a client is a patch that every replica takes."""
    table = _table()
    update = stored_update(table.texts, kv_pb2.KVUpdateRequest(key=b'["UA",1545]', patch=data))
    assert table.patcher.refusal(update.key, update.patch) is None, f"{update.patch!r} is no patch"


def _conditions(data: bytes) -> None:
    """What a find is asked for has a plan, or is refused."""
    try:
        where = strict_json(data.decode())
    except ValueError as error:
        raise InvalidRequest("no JSON") from error
    if not isinstance(where, dict):
        raise InvalidRequest("no object")
    definition = _table().definition
    find_plan(definition, conditions_of(conditions_of_json(where, definition), definition), [])


def _key_texts() -> list[bytes]:
    return [b'["UA",1545]', b'["", -3]', b'["\\u00fcber\\n", 9223372036854775807]', b"UA\n1545", b'"a"\nnull']


def _key_text(data: bytes) -> None:
    """A key that is read of its text has a text, which is that key's."""
    table = _table()
    text_of_key(table.texts, data)
    json_text(data)
    key = table.texts.key(data)
    assert text_of_key(table.texts, key) == table.texts.key_text(key).decode()
    assert table.texts.key(table.texts.key_text(key)) == key


def _words(data: bytes) -> None:
    words = data.decode("utf-8", "replace").split("\n")
    table = _table()
    table.texts.first_of_texts(data)
    table.texts.keyed_words(words)
    key = table.texts.key_of_words(words)
    assert table.texts.key(table.texts.key_text(key)) == key


def _row_texts() -> list[bytes]:
    return [*map(_table().texts.value_text, _table().rows), b'{"carrier": "UA", "flight": 7}']


def _row_text(data: bytes) -> None:
    """The key and the row of a text are judged fit, and make the same text again."""
    table = _table()
    key, value = table.texts.row(data)
    assert table.definition.judge.refusal(key, value) is None
    assert table.texts.row(table.texts.value_text(value)) == (key, value)


def _columns(data: bytes) -> None:
    """Rows that fit are read as columns; others are too, or are refused."""
    table = _table()
    rows = [frame(2, each) for each in data.split(_BETWEEN)]
    fit = all(table.definition.judge.refusal(table.key, each) is None for each in rows)
    for reader in (table.reader, table.some):
        try:
            assert reader.batch(rows).num_rows == len(rows)
        except InvalidValue:
            assert not fit, f"{rows!r} are rows of their table"
    if not fit:
        raise InvalidValue("no rows of the table")


_BETWEEN: Final = b"\xfe\xfdROW"


def _bodies() -> list[bytes]:
    body = _table().rows[1][5:]
    return [body, _BETWEEN.join([body] * 5)]


def _where_text(data: bytes) -> None:
    """Conditions that are read are written as conditions that are the same."""
    where = unpack_where(data.decode("utf-8", "replace"))
    assert unpack_where(pack_where(where)) == where


@cache
def _documents() -> list[JsonTable]:
    return [JsonTable(TableDefinition(key="str", value="json")), JsonTable(TableDefinition(value="str"))]


def _document(data: bytes) -> None:
    """What a caller gives as a value is one: of JSON, or a text."""
    key, _, value = data.partition(b"\n")
    for table in reversed(_documents()):
        stored = table.pair(key, value)[1]
    json.loads(table.value_text(stored))


def table_targets() -> Iterator[Target]:
    """What callers, replicas and readers parse of a table of rows."""
    where = [b'[["carrier","02554100","0255410000"],["flight","1501","ff"]]', b""]
    finds = [b'{"carrier": "UA", "flight": [1500, 1600]}', b'{"carrier": "UA", "seats": [null, 5], "delay": null}']
    targets: tuple[tuple[str, Callable[[], Sequence[bytes]], Callable[[bytes], object]], ...] = (
        ("patch of a row", _patches, _patch),
        ("key as text", _key_texts, _key_text),
        ("fields of a key as words", _key_texts, _words),
        ("row of a table as text", _row_texts, _row_text),
        ("key and value as texts", partial(list[bytes], [b'key\n{"a": [1, "x", null]}', b"key\n5"]), _document),
        ("columns of rows", _bodies, _columns),
        ("patch as text", _patch_texts, _patch_text),
        ("conditions of a find", partial(list[bytes], finds), _conditions),
        ("conditions of an index", partial(list[bytes], where), _where_text),
    )
    for name, samples, read in targets:
        yield Target(name, samples, read, quick_inputs=_QUICK_INPUTS)
