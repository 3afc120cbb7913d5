"""A table's keys and values as text, for endpoints whose callers have no types of the schema.

    keys of fields   ["UA",1545]                              str, bytes   as they are
    rows             {"carrier":"UA","flight":1545,…}         str, bytes, json   as they are, JSON checked

What is given is checked against the definition before it leaves, and what is stored was judged when it was folded.
Everything here is text to bytes and back: a stored key has one text, and a text of a key one stored key.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from log_tier.model.errors import InvalidKey, InvalidRow, InvalidValue, LimitExceeded, UnknownFormat
from log_tier.model.record import KEY_BYTES_MAX, check_key
from log_tier.rows.avro.varints import Misfit
from log_tier.rows.definition import TableDefinition
from log_tier.rows.elements import KeyElement, decode_element
from log_tier.rows.framing import FRAME_BYTES, frame
from log_tier.rows.json_rows.json_form import row_from_json, row_to_json
from log_tier.rows.json_rows.json_keys import (
    KEY_TEXT_MAX,
    element_of_text,
    elements_of_json,
    json_of_elements,
    text_of_elements,
)
from log_tier.rows.json_rows.json_patches import patch_from_json, patch_to_json
from log_tier.rows.key_fields import KEY_FIELDS_MAX, KeyField, keyed_value
from log_tier.rows.tuple_key import key_range, unpack_key

__all__ = ["JSON_TEXT_MAX", "KEYED_TEXT_MAX", "JsonTable"]

JSON_TEXT_MAX: Final = 8 << 20
"""Bytes of a value's text. A row has 4 MiB, of which base64 makes 5.6; a text of `{}` takes 20 bytes of memory for one.
"""

KEYED_TEXT_MAX: Final = 16 << 10
"""Bytes of a row's text that is read for its key alone, by who reports of a call: some 3 ms."""

_STR: Final = b"\x02"
"""What the element of a text begins with."""

_JSON_DEPTH_ERRORS: Final = (ValueError, RecursionError)


class JsonTable:
    """The text of one definition's keys and values. Without state, and cheap to make."""

    def __init__(self, definition: TableDefinition) -> None:
        self.definition = definition
        self.fields: tuple[KeyField, ...] = definition.key if isinstance(definition.key, tuple) else ()
        """Of its keys; empty: keys are text or bytes."""
        self.holds_rows = definition.value == "row"
        self.has_key_in_row = self.holds_rows and bool(self.fields)
        """The key of a row need not be given."""
        self._schemas = {each.number: each.schema for each in definition.schemas}
        self._types = definition.key_types if self.fields else ()

    # --- keys

    def key(self, text: bytes) -> bytes:
        """The stored key of a key's text. Raises `InvalidKey`, which names the field, its value and the type."""
        if not self.fields:
            return self._checked(text)
        return self.definition.key_of(elements_of_json(self.fields, _decoded(text, "key")))

    def key_of_words(self, words: Sequence[str]) -> bytes:
        """The stored key of its fields, as a person writes them. Raises `InvalidKey`."""
        if len(words) != len(self.fields):
            names = ", ".join(each.name for each in self.fields)
            raise InvalidKey(f"the key has the fields {names}, and {len(words)} values are given")
        return self.definition.key_of([element_of_text(*each) for each in zip(self.fields, words, strict=True)])

    def keyed_words(self, words: Sequence[str]) -> list[KeyElement]:
        """The values of the first fields, as a person writes them. Raises `InvalidKey`."""
        return self.keyed([element_of_text(*each) for each in zip(self.fields, words, strict=False)])

    def first_fields(self, text: bytes) -> bytes:
        """What the keys with these first fields begin with, as a list; none: every key. Raises `InvalidKey`."""
        elements = elements_of_json(self.fields, _decoded(text, "key"), partial=True)
        return key_range(*self.keyed(elements)).start

    def keyed(self, elements: Sequence[Any]) -> list[KeyElement]:
        """The first fields' values as keys have them. Raises `InvalidKey`."""
        return [
            keyed_value(field, value, row_type)
            for field, value, row_type in zip(self.fields, elements, self._types, strict=False)
        ]

    def first_of_texts(self, prefix: bytes) -> bytes:
        """What the stored keys begin with whose texts begin so: the fields that are whole in it. O(its size)."""
        if not self.fields:
            return prefix[:KEY_BYTES_MAX]
        text, at = prefix[:KEY_TEXT_MAX].decode(errors="ignore"), KEY_TEXT_MAX
        for _ in range(KEY_FIELDS_MAX):
            at = text.rfind(",", 0, at)
            if at < 0:
                break
            with suppress(InvalidKey):  # a comma in a text
                return self.first_fields((text[:at] + "]").encode())
        return b""

    def key_text(self, key: bytes) -> bytes:
        """The text of a stored key. Raises `InvalidKey` for one that is none of the definition."""
        return self._text_of(self._elements(key)).encode() if self.fields else key

    def beginning_text(self, beginning: bytes) -> str:
        """The text of what stored keys begin with: `["UA",1545]` of a whole key, `["UA",…` and `["UA","N14…` of less.

        Empty: keys have no fields, or it has none of them. Raises nothing. Some 2 µs for a field.
        """
        elements, place = list[KeyElement](), 0
        with suppress(InvalidKey):  # the last one is not whole
            while place < len(beginning) and len(elements) < len(self.fields):
                element, place = decode_element(beginning, place)
                elements.append(element)
        rest = beginning[place:]
        if len(elements) == len(self.fields):
            return "" if rest else self._text_of(elements)
        if rest[:1] == _STR:
            elements.append(rest[1:].replace(b"\0\xff", b"\0").decode(errors="ignore"))
            return self._text_of(elements).removesuffix('"]') + "…"
        return self._text_of(elements).removesuffix("]") + ",…" if elements else ""

    def _text_of(self, elements: Sequence[KeyElement]) -> str:
        count = len(elements)
        return text_of_elements(self.fields[:count], elements, self._types[:count])

    def key_json(self, key: bytes) -> list[Any]:
        """The fields of a stored key as values of JSON. Raises `InvalidKey`."""
        return json_of_elements(self.fields, self._elements(key), self._types)

    def _elements(self, key: bytes) -> tuple[KeyElement, ...]:
        elements = unpack_key(key)
        if len(elements) != len(self.fields):
            raise InvalidKey(f"a stored key has {len(elements)} fields, the table's keys have {len(self.fields)}")
        return elements

    def _checked(self, text: bytes) -> bytes:
        if self.definition.key == "str":
            _decoded(text, "key")
        return check_key(text)

    # --- values

    def row(self, text: bytes) -> tuple[bytes, bytes]:
        """The key and the stored value of a row that has its key inside. Raises `InvalidRow`, with the field, its value
        and the expected type, and `InvalidKey` for a key of more than 511 bytes.
        """
        assert self.has_key_in_row, "the table's keys are no fields of its values"
        value = self.value(text)
        return self._key_of(value), value

    def key_in(self, text: bytes) -> bytes:
        """The stored key of a row that has its key inside; empty: it has none, or more than `KEYED_TEXT_MAX` bytes."""
        if not self.has_key_in_row or len(text) > KEYED_TEXT_MAX:
            return b""
        try:
            return self.row(text)[0]
        except (InvalidRow, InvalidKey, InvalidValue):
            return b""

    def value(self, text: bytes) -> bytes:
        """The stored value of a value's text. Raises `InvalidRow`, `InvalidValue`. O(its size), and
        some twenty times as many bytes of memory meanwhile.
        """
        kind = self.definition.value
        if len(text) > JSON_TEXT_MAX:
            raise LimitExceeded(
                f"a value has at most {JSON_TEXT_MAX} bytes as text, this one has {len(text)}: split it",
                limit=JSON_TEXT_MAX,
                size=len(text),
            )
        if kind == "row":
            newest = self.definition.schemas[-1]
            try:
                return frame(newest.number, row_from_json(newest.schema, text.decode()))
            except UnicodeDecodeError as error:
                raise InvalidRow(
                    f"the row is no UTF-8: {error.reason} at {error.start}",
                    field="",
                    expected=f"an object of {newest.schema.name}",
                ) from None
        if kind != "bytes":
            decoded = _decoded(text, "value")
            if kind == "json":
                _check_json(decoded)
        return text

    def pair(self, key: bytes, text: bytes) -> tuple[bytes, bytes]:
        """The stored key and value of both texts. Raises also `InvalidRow` where the row has another key."""
        stored = self.key(key)
        value = self.value(text)
        if self.has_key_in_row and (of_row := self._key_of(value)) != stored:
            self._refuse_key(stored, of_row)
        return stored, value

    def value_text(self, value: bytes) -> bytes:
        """The text of a stored value; a row of any schema has the fields of the newest one, with its defaults.

        Raises `UnknownFormat` with the number of a schema that is not known here, and `LimitExceeded` for a row whose
        text is too long. Some 40 µs for a row of 8 fields.
        """
        if not self.holds_rows:
            return value
        number = int.from_bytes(value[1:FRAME_BYTES])
        schema = self._schemas.get(number)
        if schema is None or len(value) < FRAME_BYTES or value[0]:
            raise UnknownFormat(
                f"a stored row has schema {number}, which is not known here: try again, or open the table again",
                schema=number,
            )
        newest = self.definition.schemas[-1]
        return row_to_json(schema, value[FRAME_BYTES:], None if number == newest.number else newest.schema).encode()

    def patch(self, operations: Mapping[str, Mapping[str, Any]]) -> bytes:
        """The stored form of an update of fields. Raises `InvalidRow`, `InvalidRequest`."""
        return patch_from_json(self.definition, operations)

    def patch_json(self, value: bytes) -> dict[str, dict[str, Any]]:
        """What a stored update of fields changes. Raises `InvalidValue`."""
        return patch_to_json(self.definition, value)

    def _key_of(self, value: bytes) -> bytes:
        try:
            return check_key(self.definition.judge.key_of_row(value))
        except Misfit as misfit:
            raise InvalidRow(
                f"the field {misfit.place}: {misfit.reason}", field=misfit.place, expected="a value that keys have"
            ) from None
        except InvalidKey as error:
            raise InvalidKey(f"the key of the row: {error.message}") from None

    def _refuse_key(self, stored: bytes, of_row: bytes) -> None:
        """Say which field of the row is not the key's."""
        pairs = zip(self.fields, self.key_json(stored), self.key_json(of_row), strict=True)
        field, of_key, in_row = next((field, a, b) for field, a, b in pairs if a != b)
        raise InvalidRow(
            f"the field {field.name} is {json.dumps(in_row)} in the row, and {json.dumps(of_key)} in the key: "
            "make both alike",
            field=field.name,
            expected=f"{json.dumps(of_key)}, as in the key",
        )


def _check_json(text: str) -> None:
    try:
        json.loads(text, parse_constant=_no_number)
    except _JSON_DEPTH_ERRORS as error:
        raise InvalidValue(f"the value is no JSON: {error}") from None


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def _decoded(text: bytes, what: str) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        kind = InvalidKey if what == "key" else InvalidValue
        raise kind(f"the {what} is no UTF-8: {error.reason} at {error.start}") from None
