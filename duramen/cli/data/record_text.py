"""A table's keys and values as a command takes and shows them: what the text of any table does, and the text of bytes.

    bytes            UA1545                     departed            base64:… for what is no printable text
    keys of fields   '["UA", 1545]', UA 1545    …                   shown as ["UA",1545]
    rows             …                          {"carrier": "UA", …}

A key of several fields is one argument, a list of JSON, or as many arguments as it has fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from duramen.cli.terminal.text import bytes_of, json_text, shown_key, shown_value
from log_tier.model.errors import InvalidRequest

__all__ = ["PlainText", "RecordText", "ScannedKeys"]


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


class PlainText:
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
