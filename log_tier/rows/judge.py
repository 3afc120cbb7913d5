"""Whether a record's key and value are what its table's definition says."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, Protocol

from log_tier.model.errors import InvalidKey
from log_tier.model.record import KEY_BYTES_MAX
from log_tier.rows.avro.plain_readers import Reader
from log_tier.rows.avro.row_reader import READER_ERRORS, ReaderTree, located
from log_tier.rows.avro.row_room import UNUSED_ROOM, RowRoom
from log_tier.rows.avro.varints import Misfit
from log_tier.rows.elements import decode_element, skip_element
from log_tier.rows.framing import FRAME_BYTES
from log_tier.rows.index_entries import IndexEntries, UniqueValues
from log_tier.rows.key_fields import KeyField, fits_key_field
from log_tier.rows.key_readers import KeyReader, key_reader
from log_tier.rows.quick_reader import RowReader, quick_reader
from log_tier.rows.schema import NumberedSchema, RowSchema
from log_tier.rows.table_index import TableIndex

__all__ = ["DefinedRows", "RowJudge", "RowReader", "complete_reader", "row_reader"]

_FRAME: Final = struct.Struct(">BI")

# In the canonical form of a schema.
_LISTS: Final = ('"type":"array"', '"type":"map"')

_READERS_MAX: Final = 256
"""Readers of schemas that a process keeps: some 30 KB and 1 ms each, and every map has definitions of its own."""

_REMEMBERED: Final = 64
"""Answers that a process keeps, with what they are of."""
_REMEMBERED_BYTES: Final = 128 * 1024
"""Of the values of one: 8 MiB in all."""


class DefinedRows(Protocol):
    """What a judge asks of a definition."""

    @property
    def key(self) -> str | tuple[KeyField, ...]: ...
    @property
    def value(self) -> str: ...
    @property
    def schemas(self) -> tuple[NumberedSchema, ...]: ...
    @property
    def indexes(self) -> tuple[TableIndex, ...]: ...


class RowJudge:
    """Decides for one definition. Equal on every replica: it depends on its arguments alone, and on no library.

    A definition's schemas are made into readers when the first value of each comes.
    """

    def __init__(self, definition: DefinedRows) -> None:
        self._fields = definition.key if isinstance(definition.key, tuple) else ()
        self._is_key_text = definition.key == "str"
        self._value = definition.value
        self._schemas = {each.number: each.schema for each in definition.schemas if each.number}
        self._readers: dict[int, RowReader] = {}
        self.has_lists = any(kind in each.text for each in self._schemas.values() for kind in _LISTS)
        """Rows may have arrays or maps, so each byte may be a value. Also where only a default says so."""
        self.holds_rows = definition.value == "row"
        """A value is a row, and no number or text that an update makes."""
        self.entries = IndexEntries(definition.indexes, definition.schemas) if definition.indexes else None
        """What the table's indexes have of a row; None: it has no indexes."""
        alone = [each for each in definition.indexes if each.unique]
        self.unique = UniqueValues(alone, definition.schemas) if alone else None
        """What a row has alone; None: nothing, as no index of the table is unique."""

    def fit(self, keys: Sequence[bytes], values: Sequence[bytes]) -> bool:
        """Whether all of them fit, key by key. Some 2 µs for a row of 8 plain fields; linear in the bytes. 0.2 µs where
        the same rows, of at most 128 KiB, were judged lately: a server judges a batch when it takes it and when it
        folds it.
        """
        if sum(map(len, values)) > _REMEMBERED_BYTES:
            return self._fit(keys, values)
        return _fit_lately(self, tuple(keys), tuple(values))

    def _fit(self, keys: Sequence[bytes], values: Sequence[bytes]) -> bool:
        try:
            if self._value == "row":
                key_of, fields, is_text = self.key_of_row, self._fields, self._is_key_text
                for key, value in zip(keys, values, strict=True):
                    if key_of(value) != key and fields:
                        return False
                    if is_text:
                        key.decode()
                return self.entries is None or self.entries.fit(keys, values)
            return all(self.refusal(key, value) is None for key, value in zip(keys, values, strict=True))
        except READER_ERRORS:
            return False

    def refusal(self, key: bytes, value: bytes) -> str | None:
        """Why a put of this key and value does not fit, in one sentence: which field, and what is wrong. None: it fits.
        Linear in the bytes.
        """
        try:
            if self._value == "row":
                of_row = self.key_of_row(value)
                if self._fields and of_row != key:
                    return self._difference(key, of_row)
            elif self._value != "bytes":
                value.decode()
        except UnicodeDecodeError as error:
            return f"the value is no UTF-8: {error.reason} at {error.start}"
        except Misfit as misfit:
            return f"the field {misfit.place}: {misfit.reason}" if misfit.path else misfit.reason
        return self.key_refusal(key) or (None if self.entries is None else self.entries.refusal(key, value))

    def key_refusal(self, key: bytes) -> str | None:
        """Why this is no key of the table, whatever the value. None: it is one."""
        if self._is_key_text:
            try:
                key.decode()
            except UnicodeDecodeError as error:
                return f"the key is no UTF-8: {error.reason} at {error.start}"
        return _fields_refusal(self._fields, key) if self._fields and self._value != "row" else None

    def key_of_row(self, value: bytes) -> bytes:
        """The key of a value of a row table; empty where its keys have no fields. Raises `Misfit` for a value that does
        not fit.
        """
        if len(value) < FRAME_BYTES or value[0]:
            raise Misfit("the value is no row: it begins with a zero and the number of its schema in four bytes")
        number = _FRAME.unpack_from(value)[1]
        read = self._readers.get(number)
        if read is None:
            schema = self._schemas.get(number)
            if schema is None:
                raise Misfit(f"the table has no schema {number}; it has {', '.join(map(str, self._schemas)) or 'none'}")
            read = self._readers[number] = row_reader(schema, tuple(each.name for each in self._fields))
        return read(value, FRAME_BYTES)

    def _difference(self, key: bytes, of_row: bytes) -> str:
        """Why the key is not that of the row."""
        if len(of_row) > KEY_BYTES_MAX:
            return f"the fields of the key have {len(of_row)} bytes; keys have at most {KEY_BYTES_MAX}"
        place = 0
        for field in self._fields:
            end = skip_element(of_row, place)
            if key[place:end] != of_row[place:end]:
                return f"the field {field.name} is {_shown(of_row, place)} in the row, and another in the key"
            place = end
        return f"the key goes on behind the field {self._fields[-1].name}"


@lru_cache(maxsize=_REMEMBERED)
def _fit_lately(judge: RowJudge, keys: tuple[bytes, ...], values: tuple[bytes, ...]) -> bool:
    return judge._fit(keys, values)


@lru_cache(maxsize=_READERS_MAX)
def row_reader(schema: RowSchema, key_names: tuple[str, ...]) -> RowReader:
    """The reader of a schema's records. `key_names` are the fields of the key in their order."""
    return quick_reader(schema, key_names, complete_reader(schema, key_names))


def complete_reader(schema: RowSchema, key_names: tuple[str, ...]) -> RowReader:
    """The same, which decides on each value by itself: a quick one may leave any to it."""
    tree = ReaderTree(schema.named)
    steps: list[tuple[str, Reader | None, KeyReader | None, int]] = []
    for field in schema.fields:
        if field.name in key_names:
            steps.append((field.name, None, key_reader(field.type, schema.named), key_names.index(field.name)))
            continue
        read = tree.reader(field.type)
        if read is not None:
            steps.append((field.name, read, None, 0))
    count, takes_room = len(key_names), tree.takes_room

    def read_row(value: bytes, at: int) -> bytes:
        end = len(value)
        elements = [b""] * count
        room = RowRoom() if takes_room else UNUSED_ROOM
        name = ""
        try:
            for name, read, read_key, number in steps:  # noqa: B007 - the handler names it
                if read is not None:
                    at = read(value, at, end, room)
                elif read_key is not None:
                    at, elements[number] = read_key(value, at, end)
        except READER_ERRORS as error:
            raise located(error, name) from None
        if at != end:
            raise Misfit(
                f"the value goes on {end - at} bytes behind its last field"
                if at < end
                else f"the value ends {at - end} bytes before its last field does"
            )
        return b"".join(elements)

    return read_row


def _fields_refusal(fields: tuple[KeyField, ...], key: bytes) -> str | None:
    """Why a key is not of these fields."""
    place = 0
    for field in fields:
        if place == len(key):
            return f"the key ends before its field {field.name}"
        try:
            value, place = decode_element(key, place)
        except InvalidKey as error:
            return f"the key's field {field.name}: {error.message}"
        if not fits_key_field(field, value):
            return f"the key's field {field.name} is a {field.type}, not {type(value).__name__}"
    return None if place == len(key) else f"the key goes on behind the field {fields[-1].name}"


def _shown(key: bytes, place: int) -> str:
    shown = ascii(decode_element(key, place)[0])
    return shown if len(shown) <= 60 else f"{shown[:56]} …"
