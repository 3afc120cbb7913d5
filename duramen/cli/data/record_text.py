"""A table's keys and values as a command takes and shows them: text of bytes, or JSON where the table has a definition.

    bytes            UA1545                     departed            base64:… for what is no printable text
    keys of fields   '["UA", 1545]', UA 1545    …                   shown as ["UA",1545]
    rows             …                          {"carrier": "UA", …}

A key of several fields is one argument, a list of JSON, or as many arguments as it has fields.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

from duramen.cli.terminal.text import bytes_of, json_text, shown_key, shown_value
from log_tier.model.errors import InvalidKey, InvalidRequest, InvalidRow, InvalidValue, UnknownFormat
from log_tier.rows.definition import NEWEST_SCHEMA, TableDefinition
from log_tier.rows.json_rows.json_table import JsonTable
from log_tier.rows.tuple_key import key_range

__all__ = ["RecordText", "text_of"]


class ScannedKeys(NamedTuple):
    """The keys of a scan, as `Table.scan` takes them."""

    prefix: bytes | None = None
    start: bytes | None = None
    end: bytes | None = None


class RecordText(Protocol):
    """The text of one table's keys and values."""

    has_key_in_value: bool
    """A value is a row that has its key's fields, so it is shown alone."""
    holds_rows: bool
    """Values are rows."""

    def keys(self, words: Sequence[str]) -> list[bytes]:
        """The stored keys of a command's arguments. Raises `InvalidRequest`."""
        ...

    def pair(self, words: Sequence[str], value: bytes | None) -> tuple[bytes, bytes]:
        """The stored key and value of the arguments of `put`; `value`: the last of them as it came by the standard
        input. Raises `InvalidRequest`.
        """
        ...

    def scan_range(self, prefix: str | None, start: str | None, end: str | None, fields: Sequence[str]) -> ScannedKeys:
        """The keys that the options of `scan` name. Raises `InvalidRequest`."""
        ...

    def key(self, key: bytes) -> str:
        """A key on one line."""
        ...

    def value(self, value: bytes, *, lines: bool) -> str:
        """A value; `lines`: it may have several."""
        ...

    def json_key(self, key: bytes) -> Any:
        """A key in JSON."""
        ...

    def json_value(self, value: bytes) -> Any:
        """A value in JSON."""
        ...

    def patch(self, fields: Mapping[str, Sequence[str]]) -> bytes:
        """The update of fields that options name, `add` to `seats=-1`. Raises `InvalidRequest`."""
        ...

    def json_patch(self, value: bytes) -> Any:
        """What an update of fields changes, in JSON."""
        ...


class HasDefinitions(Protocol):
    """A database: what its tables are."""

    def definition(self, table: str, /, *, schema: int = 0) -> TableDefinition | None:
        """What a table's keys and values are; None: bytes."""
        ...


def text_of(database: HasDefinitions, table: str) -> RecordText:
    """How the keys and values of a table are written. One request, or two. Raises `TableNotFound`."""
    return record_text(database.definition(table), lambda schema: database.definition(table, schema=schema))


def record_text(definition: TableDefinition | None, learn: Callable[[int], TableDefinition | None]) -> RecordText:
    """How the keys and values of a table of this definition are written. `learn`: asks for the definition with the
    schema of a number, which came later.
    """
    return _Plain() if definition is None else _Defined(definition, learn)


class _Plain:
    """Keys and values that are bytes."""

    has_key_in_value = holds_rows = False

    def keys(self, words: Sequence[str]) -> list[bytes]:
        return list(map(bytes_of, words))

    def pair(self, words: Sequence[str], value: bytes | None) -> tuple[bytes, bytes]:
        if len(words) != 2:
            raise InvalidRequest(f"put takes a key and a value, and {len(words)} arguments are given")
        key, text = words
        return bytes_of(key), bytes_of(text) if value is None else value

    def scan_range(self, prefix: str | None, start: str | None, end: str | None, fields: Sequence[str]) -> ScannedKeys:
        if fields:
            raise InvalidRequest("--field takes a field of the key, and the table's keys are bytes: use --prefix")
        return ScannedKeys(*(None if each is None else bytes_of(each) for each in (prefix, start, end)))

    def key(self, key: bytes) -> str:
        return shown_key(key)

    def value(self, value: bytes, *, lines: bool) -> str:
        return shown_value(value) if lines else shown_key(value)

    def json_key(self, key: bytes) -> Any:
        return json_text(key)

    def json_value(self, value: bytes) -> Any:
        return json_text(value)

    def patch(self, fields: Mapping[str, Sequence[str]]) -> bytes:
        raise InvalidRequest("the table's values are bytes, which have no fields: give one number, as --add 1")

    def json_patch(self, value: bytes) -> Any:
        return json_text(value)


class _Defined:
    """Keys and values that a definition describes."""

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
            return _Plain().scan_range(prefix, start, end, ())
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
