"""Results of calls on tables with types: entries, versions and changes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from duramen.client.model.call_records import iterator_of
from duramen.client.model.consistency import AsOf
from duramen.client.model.pages import items_of
from duramen.client.model.results import Before, Change, KeyDifference, KeyVersion
from duramen.client.rows.opened_rows import OpenedRows
from duramen.client.rows.row_codec import RowCodec
from log_tier.model.errors import InvalidKey
from log_tier.model.identifiers import Offset, Partition, TableId
from log_tier.model.record import Operation
from log_tier.model.tokens import Token

__all__ = [
    "HasVersions",
    "RowHistory",
    "TypedChange",
    "TypedEntry",
    "change_of",
    "changes_of",
    "decoded_differences",
    "decoded_versions",
    "keys_of",
    "rows_of",
]

K = TypeVar("K")
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
    before: V | None = None
    """Of a table that keeps a history: the row or value that the key had until this change, of an atomic group until
    the group; None: it had none, or `before_is_kept` is false. It is asked for when the change has come."""
    before_is_kept: bool = False
    """Is `before` known? Not where the table keeps no history, where its history begins later, as it does for a version
    that was swapped in after the change, or where the record is a BARRIER."""

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


def change_of(
    change: Change, before: Before, key_of: Callable[[bytes], Any], value_of: Callable[[bytes], V]
) -> TypedChange[V]:
    """A change with its key and its values decoded."""
    is_put = change.operation is Operation.PUT and change.value is not None
    return TypedChange(
        change.table_id,
        change.partition,
        change.offset,
        change.timestamp_ms,
        change.operation,
        None if change.operation is Operation.BARRIER else key_of(change.key),
        value_of(change.value) if is_put and change.value is not None else None,
        change.shown,
        None if before.value is None else value_of(before.value),
        before.is_kept,
    )


def decoded_versions(versions: Sequence[KeyVersion[bytes]], value_of: Callable[[bytes], V]) -> list[KeyVersion[V]]:
    """The versions of a key with their values decoded."""
    return [
        KeyVersion(
            each.table_id,
            each.partition,
            each.offset,
            None if each.value is None else value_of(each.value),
            each.expires_at_ms,
            each.time,
        )
        for each in versions
    ]


def decoded_differences(
    page: Sequence[KeyDifference[bytes, bytes]], key_of: Callable[[bytes], K], value_of: Callable[[bytes], V]
) -> list[KeyDifference[K, V]]:
    """Differences with their keys and values decoded."""
    return [
        KeyDifference(
            key_of(each.key),
            None if each.before is None else value_of(each.before),
            None if each.after is None else value_of(each.after),
        )
        for each in page
    ]


def rows_of(page: Sequence[tuple[bytes, bytes]], codec: RowCodec[V]) -> list[V]:
    """The rows of a page of a scan."""
    return [codec.decode(value) for _, value in page]


def changes_of(run: Sequence[tuple[Change, Before]], codec: RowCodec[V]) -> list[TypedChange[V]]:
    """The changes that arrived together."""
    return [change_of(*each, codec.key.fields_of, codec.decode) for each in run]


class HasVersions(Protocol):
    """The stored form of a table: the versions of its keys."""

    async def history(
        self, key: bytes, *, at: AsOf | None = None, limit: int = 100, timeout: float | None = None
    ) -> list[KeyVersion[bytes]]: ...

    def diff_pages(
        self,
        before: AsOf,
        after: AsOf | None = None,
        *,
        start: bytes | None,
        end: bytes | None,
        timeout: float | None,
    ) -> AsyncGenerator[list[KeyDifference[bytes, bytes]], None]: ...


class RowHistory(OpenedRows[V]):
    """The half of a table of rows that reads its past."""

    _past_in: HasVersions

    async def history(
        self, *key: Any, at: AsOf | None = None, limit: int = 100, timeout: float | None = None
    ) -> list[KeyVersion[V]]:
        """The versions of the row with these key fields, the newest first: `history("UA", 1545)`. As
        `Table.history`.
        """
        codec, timeout = await self._opened(timeout)
        found = await self._past_in.history(codec.key.of_fields(key), at=at, limit=limit, timeout=timeout)
        _, versions = await self._decoded(codec, lambda codec: decoded_versions(found, codec.decode), timeout)
        return versions

    def diff(
        self,
        before: AsOf,
        after: AsOf | None = None,
        fields: Mapping[str, Any] | None = None,
        /,
        *,
        timeout: float | None = None,
        **key_fields: Any,
    ) -> AsyncGenerator[KeyDifference[tuple[Any, ...], V], None]:
        """The rows that differ between two states, each with its key and both rows: `diff(monday, tuesday,
        carrier="UA")`. As `Table.diff`, and of the rows with these key fields, as `scan` takes them.
        """
        return items_of(self.diff_pages(before, after, {**(fields or {}), **key_fields}, timeout=timeout))

    async def diff_pages(
        self, before: AsOf, after: AsOf | None, fields: Mapping[str, Any], *, timeout: float | None = None
    ) -> AsyncGenerator[list[KeyDifference[tuple[Any, ...], V]], None]:
        """Compare as `diff` does, and yield whole pages."""
        codec, timeout = await self._opened(timeout)
        start, end = codec.key.bounds(fields)
        pages = self._past_in.diff_pages(before, after, start=start, end=end, timeout=timeout)
        try:
            async for page in pages:
                codec, differences = await self._decoded(codec, partial(_differences_of, page), timeout)
                yield differences
        finally:
            await pages.aclose()


def _differences_of(
    page: Sequence[KeyDifference[bytes, bytes]], codec: RowCodec[V]
) -> list[KeyDifference[tuple[Any, ...], V]]:
    return decoded_differences(page, codec.key.fields_of, codec.decode)
