"""A table whose keys or values are text, JSON or tuples, for a program without an event loop."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from functools import partial
from typing import Any, Generic, Literal, TypeVar

from duramen.blocking.table import Table
from duramen.blocking.wrapped import wrapped
from duramen.client import typed_table
from duramen.client.model.consistency import AsOf
from duramen.client.model.results import Done, KeyDifference, KeyVersion, ManyDone
from duramen.client.rows.asked_definition import AskedDefinition
from duramen.client.rows.row_results import TypedChange, TypedEntry, decoded_versions
from duramen.client.rows.value_codecs import TableCodec
from duramen.client.table import Level
from log_tier.model.tokens import Token

__all__ = ["TypedTable"]

K = TypeVar("K")
V = TypeVar("V")


class TypedTable(Generic[K, V]):
    """A table whose keys and values are not bytes. Calls return when they are done; `timeout` is in seconds."""

    def __init__(self, stored: Table, inner: typed_table.TypedTable[K, V]) -> None:
        self.stored = stored
        """The same table, in bytes."""
        self.name = stored.name
        self._inner = inner
        self._loop = stored.loop

    def __reduce__(self) -> tuple[object, ...]:
        return _again, (self.stored, self._inner.asked)

    def __repr__(self) -> str:
        return repr(self._inner)

    def _opened(self, timeout: float | None) -> tuple[TableCodec[K, V], float | None]:
        codec = self._inner.codec.now()
        return (codec, timeout) if codec is not None else self._loop.run(partial(self._inner.find_codec, timeout))

    def get(
        self,
        key: K,
        *,
        at: AsOf | None = None,
        after: str | Token | None = None,
        level: Level = "session",
        timeout: float | None = None,
    ) -> V | None:
        codec, timeout = self._opened(timeout)
        value = self.stored.get(codec.key.encode(key), at=at, after=after, level=level, timeout=timeout)
        return None if value is None else codec.value.decode(value)

    def history(
        self, key: K, *, at: AsOf | None = None, limit: int = 100, timeout: float | None = None
    ) -> list[KeyVersion[V]]:
        codec, timeout = self._opened(timeout)
        found = self.stored.history(codec.key.encode(key), at=at, limit=limit, timeout=timeout)
        return decoded_versions(found, codec.value.decode)

    def get_entry(
        self,
        key: K,
        *,
        after: str | Token | None = None,
        level: Level = "session",
        timeout: float | None = None,
    ) -> TypedEntry[V] | None:
        codec, timeout = self._opened(timeout)
        found = self.stored.get_entry(codec.key.encode(key), after=after, level=level, timeout=timeout)
        return (
            None if found is None else TypedEntry(codec.value.decode(found.value), found.version, found.expires_at_ms)
        )

    def get_many(
        self,
        keys: Iterable[K],
        *,
        after: str | Token | None = None,
        level: Level = "session",
        timeout: float | None = None,
    ) -> list[V | None]:
        codec, timeout = self._opened(timeout)
        values = self.stored.get_many(typed_table.encoded_keys(codec, keys), after=after, level=level, timeout=timeout)
        return [None if value is None else codec.value.decode(value) for value in values]

    def put(
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
        codec, timeout = self._opened(timeout)
        return self.stored.put(
            codec.key.encode(key),
            codec.value.encode(value),
            ttl=ttl,
            keep_ttl=keep_ttl,
            if_absent=if_absent,
            if_present=if_present,
            if_version=if_version,
            timeout=timeout,
        )

    def put_many(
        self, pairs: Iterable[tuple[K, V]] | Mapping[K, V], *, ttl: float | None = None, timeout: float | None = None
    ) -> ManyDone:
        codec, timeout = self._opened(timeout)
        return self.stored.put_many(typed_table.encoded_pairs(codec, pairs), ttl=ttl, timeout=timeout)

    def delete(
        self,
        key: K,
        *,
        if_present: bool = False,
        if_version: int | None = None,
        timeout: float | None = None,
    ) -> Done:
        codec, timeout = self._opened(timeout)
        return self.stored.delete(codec.key.encode(key), if_present=if_present, if_version=if_version, timeout=timeout)

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
    ) -> Generator[tuple[K, V], None, None]:
        codec, timeout = self._opened(timeout)
        first, behind = typed_table.range_of(codec, prefix, start, end)
        pairs = self.stored.scan(
            start=first, end=behind, reverse=reverse, limit=limit, at=at, after=after, level=level, timeout=timeout
        )
        return _decoded(pairs, codec)

    def diff(
        self,
        before: AsOf,
        after: AsOf | None = None,
        *,
        prefix: K | None = None,
        start: K | None = None,
        end: K | None = None,
        timeout: float | None = None,
    ) -> Generator[KeyDifference[K, V], None, None]:
        pages = self._inner.diff_pages(before, after, prefix=prefix, start=start, end=end, timeout=timeout)
        yield from self._loop.iterate(pages)

    def watch(
        self,
        *,
        after: str | Token | None = None,
        start: Literal["now", "earliest"] = "now",
        timeout: float | None = None,
    ) -> Generator[TypedChange[V], None, None]:
        return self._loop.iterate_begun(self._inner.watch_runs(after=after, start=start, timeout=timeout))

    for _method in (get, get_entry, get_many, history, put, put_many, delete, scan, diff, watch):
        _method.__doc__ = getattr(typed_table.TypedTable, _method.__name__).__doc__
    del _method

    describe = wrapped(typed_table.TypedTable.describe)
    end_token = wrapped(typed_table.TypedTable.end_token)


def _decoded(
    pairs: Generator[tuple[bytes, bytes], None, None], codec: TableCodec[K, V]
) -> Generator[tuple[K, V], None, None]:
    try:
        for key, value in pairs:
            yield codec.key.decode(key), codec.value.decode(value)
    finally:
        pairs.close()


def _again(stored: Table, asked: AskedDefinition) -> TypedTable[Any, Any]:
    """A table that came from another process."""
    return TypedTable(stored, typed_table.TypedTable(stored.asynchronous, asked))
