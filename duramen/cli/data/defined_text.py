"""The text of keys and values that a definition describes: JSON, or plain text where they are text."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from duramen.cli.data.record_text import PlainText, ScannedKeys
from duramen.cli.terminal.text import bytes_of, json_text, shown_key, shown_value
from log_tier.model.errors import InvalidKey, InvalidRequest, InvalidRow, InvalidValue, UnknownFormat
from log_tier.rows.definition import NEWEST_SCHEMA, TableDefinition
from log_tier.rows.json_rows.json_table import JsonTable
from log_tier.rows.tuple_key import key_range

__all__ = ["DefinedText"]


class DefinedText:
    """Of one table. A definition that comes later is learned where a row needs it."""

    def __init__(self, definition: TableDefinition, learn: Callable[[int], TableDefinition | None]) -> None:
        """`learn`: the table's definition with the schema of that number, which came later."""
        self._learn = learn
        self._table = JsonTable(definition)
        self._fields = self._table.fields
        self._kind = definition.value
        self.has_key_in_value, self.holds_rows = self._table.has_key_in_row, self._table.holds_rows

    def keys(self, words: Sequence[str]) -> list[bytes]:
        size = len(self._fields)
        if not size:
            return [self._table.key(bytes_of(word)) for word in words]
        if words[0].startswith("["):
            return [self._table.key(_raw(word)) for word in words]
        return [self._table.key_of_words(words[at : at + size]) for at in range(0, len(words), size)]

    def pair(self, words: Sequence[str], value: bytes | None) -> tuple[bytes, bytes]:
        try:
            return self._pair(words, value)
        except InvalidRow:
            if not self._is_newer(self._learn(NEWEST_SCHEMA)):
                raise
        return self._pair(words, value)

    def _is_newer(self, found: TableDefinition | None) -> bool:
        """Take over a definition that is newer than what is known."""
        if found is None or found.number <= self._table.definition.number:
            return False
        self._table = JsonTable(found)
        return True

    def _text(self, value: bytes) -> bytes:
        """The text of a stored value. Its schema may have come after the command began."""
        try:
            return self._table.value_text(value)
        except UnknownFormat as unknown:
            if not self._is_newer(self._learn(int(unknown.fields["schema"]))):
                raise
        return self._table.value_text(value)

    def _pair(self, words: Sequence[str], value: bytes | None) -> tuple[bytes, bytes]:
        *of_key, last = words
        text = self._value(last) if value is None else value
        if self.has_key_in_value:
            if of_key:
                raise InvalidRequest(
                    f"put takes a row, which has its key in it, and {len(words)} arguments are given: quote the JSON"
                )
            return self._table.row(text)
        if not of_key:
            raise InvalidRequest("put takes a key and a value, and one argument is given")
        keys = self.keys(of_key)
        if len(keys) != 1:
            raise InvalidRequest(f"put takes one key and a value, and {len(keys)} keys are given")
        return keys[0], self._table.value(text)

    def _value(self, word: str) -> bytes:
        return _raw(word) if self._kind in ("row", "json") else bytes_of(word)

    def scan_range(self, prefix: str | None, start: str | None, end: str | None, fields: Sequence[str]) -> ScannedKeys:
        if not self._fields:
            if fields:
                raise InvalidRequest("--field takes a field of the key, and the table's keys have none: use --prefix")
            return PlainText().scan_range(prefix, start, end, ())
        if fields:
            if prefix is not None or start is not None or end is not None:
                raise InvalidRequest("give --field, or --prefix, --start and --end")
            return self._by_fields(fields)
        return ScannedKeys(
            *(None if each is None else self._table.first_fields(_raw(each)) for each in (prefix, start, end))
        )

    def _by_fields(self, given: Sequence[str]) -> ScannedKeys:
        """`carrier=UA`, `flight=1500..1600`: the first fields, the last of them perhaps as a range."""
        named: dict[str, str] = {}
        for each in given:
            name, equals, text = each.partition("=")
            if not equals:
                raise InvalidRequest(f"--field takes NAME=VALUE, not {each!r}")
            if name in named:
                raise InvalidRequest(f"--field {name} is given twice: a range is {name}=START..END")
            named[name] = text
        names = [field.name for field in self._fields]
        other = next((name for name in named if name not in names), None)
        if other is not None:
            raise InvalidRequest(f"{other} is no field of the key ({', '.join(names)}): a scan goes along the key")
        missing = next((name for name in names[: len(named)] if name not in named), None)
        if missing is not None:
            raise InvalidRequest(f"a scan needs the field {missing} too: the key is {', '.join(names)}")
        words = [named[name] for name in names[: len(named)]]
        if ".." not in words[-1]:
            return ScannedKeys(None, *key_range(*self._table.keyed_words(words)))
        *first, last = words
        start, _, end = last.partition("..")
        bounds = [self._table.keyed_words([*first, each])[-1] if each else ... for each in (start, end)]
        return ScannedKeys(None, *key_range(*self._table.keyed_words(first), start=bounds[0], end=bounds[1]))

    def key(self, key: bytes) -> str:
        with suppress(InvalidKey):  # somebody deleted what was never a key
            return self._table.key_text(key).decode() if self._fields else shown_key(key)
        return shown_key(key)

    def value(self, value: bytes, *, lines: bool) -> str:
        text = self._text(value)
        if self._kind in ("row", "json"):
            return text.decode()
        return shown_value(text) if lines else shown_key(text)

    def json_key(self, key: bytes) -> Any:
        with suppress(InvalidKey):
            return self._table.key_json(key) if self._fields else json_text(key)
        return json_text(key)

    def json_value(self, value: bytes) -> Any:
        text = self._text(value)
        return json.loads(text) if self._kind in ("row", "json") else json_text(text)

    def patch(self, fields: Mapping[str, Sequence[str]]) -> bytes:
        operations: dict[str, dict[str, Any]] = {}
        for operation, words in fields.items():
            for word in words:
                name, equals, text = word.partition("=")
                if not equals:
                    raise InvalidRequest(f"--{operation} takes FIELD=VALUE in a table of rows, not {word!r}")
                if name in operations.setdefault(operation, {}):
                    raise InvalidRequest(f"--{operation} {name} is given twice")
                operations[operation][name] = self._operand(operation, name, text)
        return self._table.patch(operations)

    def _operand(self, operation: str, name: str, text: str) -> Any:
        """JSON where the field takes it, else the text: `7` is a number for a number, and text for a text."""
        with suppress(ValueError, RecursionError, InvalidRow):
            value = json.loads(text)
            self._table.patch({operation: {name: value}})
            return value
        return text

    def json_patch(self, value: bytes) -> Any:
        with suppress(InvalidValue):  # of a schema that came since
            return self._table.patch_json(value)
        return json_text(value)


def _raw(text: str) -> bytes:
    """An argument's own bytes."""
    return text.encode("utf-8", "surrogateescape")
