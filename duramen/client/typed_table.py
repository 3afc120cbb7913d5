"""A table whose keys or values are text, JSON or tuples, for a program with an event loop."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from typing import Any, Generic, Literal, TypeVar

from duramen.client.model.call_records import iterator_of
from duramen.client.model.consistency import AsOf
from duramen.client.model.pages import items_of
from duramen.client.model.results import Done, KeyDifference, KeyVersion, ManyDone
from duramen.client.past.befores import with_befores
from duramen.client.rows.asked_definition import AskedDefinition
from duramen.client.rows.opened import OpenedCodec
from duramen.client.rows.row_results import TypedChange, TypedEntry, change_of, decoded_differences, decoded_versions
from duramen.client.rows.value_codecs import TableCodec, codec_of
from duramen.client.table import Level, Table
from duramen.client.watch import Watch
from log_tier.model.errors import InvalidRequest
from log_tier.model.tokens import Token
from router.data.requests import TableDescription

__all__ = ["TypedTable", "encoded_keys", "encoded_pairs", "range_of"]

K = TypeVar("K")
V = TypeVar("V")


class TypedTable(Generic[K, V]):
    """A table whose keys and values are not bytes: `create_table(…, key=str, value="json")`.

    A key is str, bytes, or a tuple of fields; a value is str, bytes, or what JSON has. Calls, levels, tokens, timeouts
    and errors are those of `Table`; `stored` is the same table in bytes. Besides, each call raises `InvalidSchema`
    where the table's keys and values are others. The first call asks for the table's definition.
    """

    def __init__(self, stored: Table, asked: AskedDefinition) -> None:
        self.stored = stored
        """The same table, in bytes."""
        self.name = stored.name
        self.asked = asked
        """What it was opened as."""
        self.codec: OpenedCodec[TableCodec[K, V]] = OpenedCodec(stored.lookup, asked, codec_of)
        """For the blocking API."""

    def __reduce__(self) -> tuple[object, ...]:
        return TypedTable, (self.stored, self.asked)

    def __repr__(self) -> str:
        return repr(self.stored)

    async def _opened(self, timeout: float | None) -> tuple[TableCodec[K, V], float | None]:
        codec = self.codec.now()
        return (codec, timeout) if codec is not None else await self.find_codec(timeout)

    async def find_codec(self, timeout: float | None) -> tuple[TableCodec[K, V], float]:
        """For the blocking API: the codec, and how many seconds of the call are left."""
        return await self.codec.find(self.stored.lookup.context.deadline(timeout))

    # --- reading

    async def get(
        self,
        key: K,
        *,
        at: AsOf | None = None,
        after: str | Token | None = None,
        level: Level = "session",
        timeout: float | None = None,
    ) -> V | None:
        """The value of `key`, or None if it is absent. As `Table.get`."""
        codec, timeout = await self._opened(timeout)
        value = await self.stored.get(codec.key.encode(key), at=at, after=after, level=level, timeout=timeout)
        return None if value is None else codec.value.decode(value)

    async def history(
        self, key: K, *, at: AsOf | None = None, limit: int = 100, timeout: float | None = None
    ) -> list[KeyVersion[V]]:
        """The versions of `key`, the newest first. As `Table.history`."""
        codec, timeout = await self._opened(timeout)
        found = await self.stored.history(codec.key.encode(key), at=at, limit=limit, timeout=timeout)
        return decoded_versions(found, codec.value.decode)

    async def get_entry(
        self,
        key: K,
        *,
        after: str | Token | None = None,
        level: Level = "session",
        timeout: float | None = None,
    ) -> TypedEntry[V] | None:
        """The value with its version and expiry, or None. As `Table.get_entry`."""
        codec, timeout = await self._opened(timeout)
        found = await self.stored.get_entry(codec.key.encode(key), after=after, level=level, timeout=timeout)
        return (
            None if found is None else TypedEntry(codec.value.decode(found.value), found.version, found.expires_at_ms)
        )

    async def get_many(
        self,
        keys: Iterable[K],
        *,
        after: str | Token | None = None,
        level: Level = "session",
        timeout: float | None = None,
    ) -> list[V | None]:
        """The values of `keys`, in their order; None for each absent key. As `Table.get_many`."""
        codec, timeout = await self._opened(timeout)
        values = await self.stored.get_many(encoded_keys(codec, keys), after=after, level=level, timeout=timeout)
        return [None if value is None else codec.value.decode(value) for value in values]

    def scan(
        self,
        *,
        prefix: K | None = None,
        start: K | None = None,
        end: K | None = None,
        reverse: bool = False,
        limit: int | None = None,
        at: AsOf | None = None,
        after: str | Token | None = None,
        level: Level = "session",
        timeout: float | None = None,
    ) -> AsyncGenerator[tuple[K, V], None]:
        """Keys and values in key order: of a `prefix` (of a tuple, its first fields), or from `start` (inclusive) to
        `end` (exclusive). As `Table.scan`.
        """
        return items_of(
            self.scan_pages(
                prefix=prefix,
                start=start,
                end=end,
                reverse=reverse,
                limit=limit,
                at=at,
                after=after,
                level=level,
                timeout=timeout,
            )
        )

    async def scan_pages(
        self,
        *,
        prefix: K | None = None,
        start: K | None = None,
        end: K | None = None,
        reverse: bool = False,
        limit: int | None = None,
        at: AsOf | None = None,
        after: str | Token | None = None,
        level: Level = "session",
        timeout: float | None = None,
    ) -> AsyncGenerator[list[tuple[K, V]], None]:
        """Scan as `scan` does, and yield whole pages."""
        codec, timeout = await self._opened(timeout)
        first, behind = range_of(codec, prefix, start, end)
        key, value = codec.key.decode, codec.value.decode
        pages = self.stored.scan_pages(
            start=first, end=behind, reverse=reverse, limit=limit, at=at, after=after, level=level, timeout=timeout
        )
        try:
            async for page in pages:
                yield [(key(each), value(stored)) for each, stored in page]
        finally:
            await pages.aclose()

    def diff(
        self,
        before: AsOf,
        after: AsOf | None = None,
        *,
        prefix: K | None = None,
        start: K | None = None,
        end: K | None = None,
        timeout: float | None = None,
    ) -> AsyncGenerator[KeyDifference[K, V], None]:
        """The keys whose values differ between two states, each with both values. As `Table.diff`."""
        return items_of(self.diff_pages(before, after, prefix=prefix, start=start, end=end, timeout=timeout))

    async def diff_pages(
        self,
        before: AsOf,
        after: AsOf | None = None,
        *,
        prefix: K | None = None,
        start: K | None = None,
        end: K | None = None,
        timeout: float | None = None,
    ) -> AsyncGenerator[list[KeyDifference[K, V]], None]:
        """Compare as `diff` does, and yield whole pages."""
        codec, timeout = await self._opened(timeout)
        first, behind = range_of(codec, prefix, start, end)
        pages = self.stored.diff_pages(before, after, start=first, end=behind, timeout=timeout)
        try:
            async for page in pages:
                yield decoded_differences(page, codec.key.decode, codec.value.decode)
        finally:
            await pages.aclose()

    def watch(
        self,
        *,
        after: str | Token | None = None,
        start: Literal["now", "earliest"] = "now",
        timeout: float | None = None,
    ) -> Watch[TypedChange[V]]:
        """Every change, once, in order within each partition: `change.key`, and `change.after`, the value that was
        put. Where the table keeps a history, `change.before` is what the key had until then. As `Table.watch`.
        """
        return Watch(self.watch_runs(after=after, start=start, timeout=timeout))

    async def watch_runs(
        self,
        *,
        after: str | Token | None = None,
        start: Literal["now", "earliest"] = "now",
        timeout: float | None = None,
    ) -> AsyncGenerator[list[TypedChange[V]], None]:
        """The same as `watch`, in runs of what arrived together. The first one is empty: the position is fixed."""
        codec, timeout = await self._opened(timeout)
        watched = self.stored.change_runs(after=after, start=start, timeout=timeout)
        runs = with_befores(self.stored.lookup, watched, timeout, codec.keeps_history)
        try:
            async for run in runs:
                yield [change_of(*each, codec.key.decode, codec.value.decode) for each in run]
        finally:
            await runs.aclose()

    # --- writing

    async def put(
        self,
        key: K,
        value: V,
        *,
        ttl: float | None = None,
        keep_ttl: bool = False,
        if_absent: bool = False,
        if_present: bool = False,
        if_version: int | None = None,
        timeout: float | None = None,
    ) -> Done:
        """Write a value; return when it is on stable storage. As `Table.put`."""
        codec, timeout = await self._opened(timeout)
        return await self.stored.put(
            codec.key.encode(key),
            codec.value.encode(value),
            ttl=ttl,
            keep_ttl=keep_ttl,
            if_absent=if_absent,
            if_present=if_present,
            if_version=if_version,
            timeout=timeout,
        )

    async def put_many(
        self, pairs: Iterable[tuple[K, V]] | Mapping[K, V], *, ttl: float | None = None, timeout: float | None = None
    ) -> ManyDone:
        """Write many pairs; return when all are on stable storage. As `Table.put_many`."""
        codec, timeout = await self._opened(timeout)
        return await self.stored.put_many(encoded_pairs(codec, pairs), ttl=ttl, timeout=timeout)

    async def delete(
        self,
        key: K,
        *,
        if_present: bool = False,
        if_version: int | None = None,
        timeout: float | None = None,
    ) -> Done:
        """Remove a key; deleting an absent one is allowed. As `Table.delete`."""
        codec, timeout = await self._opened(timeout)
        return await self.stored.delete(
            codec.key.encode(key), if_present=if_present, if_version=if_version, timeout=timeout
        )

    # --- about the table

    async def describe(self, *, timeout: float | None = None) -> TableDescription:
        """The state of each partition: offsets, keys, bytes, nodes. Raises `TableNotFound`."""
        return await self.stored.describe(timeout=timeout)

    async def end_token(self, *, timeout: float | None = None) -> str:
        """A token of everything that is in the table's log now, in every partition. Raises `TableNotFound`."""
        return await self.stored.end_token(timeout=timeout)


def range_of(
    codec: TableCodec[K, Any], prefix: K | None, start: K | None, end: K | None
) -> tuple[bytes | None, bytes | None]:
    """The bounds of a scan in bytes. Raises `InvalidRequest`, `InvalidKey`."""
    if prefix is not None:
        if start is not None or end is not None:
            raise InvalidRequest("give a prefix, or start and end, not both")
        return codec.key.prefixed(prefix)
    return (
        None if start is None else codec.key.prefixed(start)[0],
        None if end is None else codec.key.prefixed(end)[0],
    )


def encoded_keys(codec: TableCodec[K, Any], keys: Iterable[K]) -> list[bytes]:
    """Keys in bytes. Raises `InvalidKey`, and `InvalidRequest` for what is no iterable."""
    return [codec.key.encode(each) for each in iterator_of(keys, "get_many takes keys")]


def encoded_pairs(codec: TableCodec[K, V], pairs: Iterable[tuple[K, V]] | Mapping[K, V]) -> Iterator[Any]:
    """Pairs in bytes. What is no pair is left to `Table.put_many`, which refuses it."""
    given = pairs.items() if isinstance(pairs, Mapping) else pairs
    stream: Iterator[Any] = iterator_of(given, "put_many takes pairs (key, value), or a mapping")
    for pair in stream:
        is_pair = isinstance(pair, (tuple, list)) and len(pair) == 2
        yield (codec.key.encode(pair[0]), codec.value.encode(pair[1])) if is_pair else pair
