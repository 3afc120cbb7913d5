"""Keys and values that are text, JSON or tuples, to bytes and back."""

from __future__ import annotations

import json
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from duramen.client.model.call_records import check_key, check_value
from duramen.client.rows.plans.refusals import shown
from duramen.client.rows.row_key import RowKey
from log_tier.model.errors import InvalidKey, InvalidRequest, InvalidValue
from log_tier.model.prefix_range import prefix_range
from log_tier.model.record import check_key as checked_key
from log_tier.rows.definition import TableDefinition
from log_tier.rows.tuple_key import key_range

__all__ = ["KeyCodec", "TableCodec", "ValueCodec", "codec_of"]

_SHOWN_BYTES: Final = 40

K = TypeVar("K")
V = TypeVar("V")


class KeyCodec(Protocol[K]):
    """The keys of a table."""

    def encode(self, key: K) -> bytes:
        """The stored key. Raises `InvalidKey`."""
        ...

    def decode(self, key: bytes) -> K:
        """The key of a stored one."""
        ...

    def prefixed(self, prefix: K) -> tuple[bytes, bytes | None]:
        """The range of the keys that begin so."""
        ...


class ValueCodec(Protocol[V]):
    """The values of a table."""

    def encode(self, value: V) -> bytes:
        """The stored value. Raises `InvalidValue`."""
        ...

    def decode(self, value: bytes) -> V:
        """The value of a stored one. Raises `InvalidValue` for what another client has put there and is none."""
        ...


class TableCodec(NamedTuple, Generic[K, V]):
    """Both."""

    key: KeyCodec[K]
    value: ValueCodec[V]
    keeps_history: bool = False
    """Does the table?"""


class _BytesKeys:
    def encode(self, key: bytes) -> bytes:
        return check_key(key)

    def decode(self, key: bytes) -> bytes:
        return key

    def prefixed(self, prefix: bytes) -> tuple[bytes, bytes | None]:
        return prefix_range(prefix if type(prefix) is bytes else check_key(prefix))


class _TextKeys:
    def encode(self, key: str) -> bytes:
        return checked_key(self._text(key))

    def decode(self, key: bytes) -> str:
        return key.decode()

    def prefixed(self, prefix: str) -> tuple[bytes, bytes | None]:
        return prefix_range(self._text(prefix))

    @staticmethod
    def _text(key: str) -> bytes:
        if not isinstance(key, str):
            raise InvalidKey(f"a key of this table is str, this is {type(key).__name__}")
        try:
            return key.encode()
        except UnicodeEncodeError as error:
            raise InvalidKey(f"the key {shown(key)} is no text of UTF-8: {error.reason}") from None


class _TupleKeys:
    def __init__(self, key: RowKey) -> None:
        self._key = key

    def encode(self, key: tuple[Any, ...]) -> bytes:
        return self._key.of_fields(self._fields(key))

    def decode(self, key: bytes) -> tuple[Any, ...]:
        return self._key.fields_of(key)

    def prefixed(self, prefix: tuple[Any, ...]) -> tuple[bytes, bytes | None]:
        fields = self._fields(prefix)
        if len(fields) > len(self._key.names):
            raise InvalidRequest(f"a prefix has at most the fields of a key, {', '.join(self._key.names)}")
        return self._key.bounds(dict(zip(self._key.names, fields, strict=False))) if fields else key_range()

    def _fields(self, key: tuple[Any, ...]) -> tuple[Any, ...]:
        if not isinstance(key, tuple):
            raise InvalidKey(
                f"a key of this table is a tuple of {', '.join(self._key.names)}, this is {type(key).__name__}"
            )
        return key


class _BytesValues:
    def encode(self, value: bytes) -> bytes:
        return check_value(value)

    def decode(self, value: bytes) -> bytes:
        return value


class _TextValues:
    def encode(self, value: str) -> bytes:
        if not isinstance(value, str):
            raise InvalidValue(f"a value of this table is str, this is {type(value).__name__}")
        try:
            return value.encode()
        except UnicodeEncodeError as error:
            raise InvalidValue(f"the value {shown(value)} is no text of UTF-8: {error.reason}") from None

    def decode(self, value: bytes) -> str:
        return value.decode()


class _JsonValues:
    def encode(self, value: Any) -> bytes:
        try:
            return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidValue(f"the value {shown(value)} is none of JSON: {error}") from None

    def decode(self, value: bytes) -> Any:
        try:
            return json.loads(value)
        except (ValueError, RecursionError) as error:
            raise InvalidValue(
                f"the stored value {value[:_SHOWN_BYTES]!r} is no JSON ({error}): another client has put it there; "
                "read the table as bytes, or put a value in its place"
            ) from error


def codec_of(definition: TableDefinition) -> TableCodec[Any, Any]:
    """The codec of a table whose values are no rows."""
    keys: KeyCodec[Any] = _BytesKeys() if definition.key == "bytes" else _TextKeys()
    if isinstance(definition.key, tuple):
        keys = _TupleKeys(RowKey(definition))
    values: dict[str, ValueCodec[Any]] = {"bytes": _BytesValues(), "str": _TextValues(), "json": _JsonValues()}
    return TableCodec(keys, values[definition.value], definition.keeps is not None)
