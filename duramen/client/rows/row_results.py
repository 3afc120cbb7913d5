"""Results of calls on tables with types: entries and changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from duramen.client.model.call_records import iterator_of
from duramen.client.model.results import Change
from duramen.client.rows.row_codec import RowCodec
from log_tier.model.errors import InvalidKey
from log_tier.model.identifiers import Offset, Partition, TableId
from log_tier.model.record import Operation
from log_tier.model.tokens import Token

__all__ = ["TypedChange", "TypedEntry", "change_of", "changes_of", "keys_of", "rows_of"]

V = TypeVar("V")


class TypedEntry(NamedTuple, Generic[V]):
    """A row, or a value, with its version and expiry."""

    value: V
    version: Offset
    """The offset of the last write: pass it to `if_version=`."""
    expires_at_ms: int
    """Milliseconds since 1970; 0: never."""


@dataclass(frozen=True, slots=True)
class TypedChange(Generic[V]):
    """One accepted record of a table's log."""

    table_id: TableId
    partition: Partition
    offset: Offset
    timestamp_ms: int
    """When the log appended it, in milliseconds since 1970."""
    operation: Operation
    key: Any
    """The key; of rows and of keys with fields, the tuple of its fields. For a BARRIER (the table went over to another
    version of its content, or to another schema): None."""
    after: V | None
    """The row or value that was put; None for anything else. After an update of fields (PATCH) read the row by its
    key."""
    shown: Mapping[Partition, Offset]
    """The offsets of all partitions that the watch had shown before this run of changes."""

    @property
    def token(self) -> str:
        """Pass it to `watch(after=…)`: that watch begins with the next change."""
        return str(Token({self.table_id: {**self.shown, self.partition: self.offset}}))


def keys_of(keys: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """The keys of `get_many`. Raises `InvalidKey` for one that is no tuple: text would be taken apart."""
    for key in iterator_of(keys, "get_many takes keys, each a tuple of fields"):
        if not isinstance(key, (tuple, list)):
            raise InvalidKey(f"get_many takes keys, each a tuple of fields; this one is {type(key).__name__}")
        yield tuple(key)


def change_of(change: Change, key_of: Callable[[bytes], Any], value_of: Callable[[bytes], V]) -> TypedChange[V]:
    """A change with its key and its value decoded."""
    is_put = change.operation is Operation.PUT and change.value is not None
    return TypedChange(
        change.table_id,
        change.partition,
        change.offset,
        change.timestamp_ms,
        change.operation,
        None if change.operation is Operation.BARRIER else key_of(change.key),
        value_of(change.value) if is_put and change.value is not None else None,
        change.before,
    )


def rows_of(page: Sequence[tuple[bytes, bytes]], codec: RowCodec[V]) -> list[V]:
    """The rows of a page of a scan."""
    return [codec.decode(value) for _, value in page]


def changes_of(run: Sequence[Change], codec: RowCodec[V]) -> list[TypedChange[V]]:
    """The changes that arrived together."""
    return [change_of(change, codec.key.fields_of, codec.decode) for change in run]
