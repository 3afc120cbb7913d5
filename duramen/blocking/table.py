"""One table, for a program without an event loop."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from types import TracebackType
from typing import Literal, Protocol

from duramen.blocking.wrapped import chained, wrapped
from duramen.client import atomic, table, table_writer
from duramen.client.model.consistency import AsOf
from duramen.client.model.results import Change, Done, KeyDifference
from duramen.client.model.scan_range import ScanRange
from duramen.client.scan import begun_scan, table_pages
from duramen.client.table import Level
from duramen.client.transport.loop_thread import LoopThread
from duramen.client.transport.resp_fast_path import FastPathTable
from log_tier.model.tokens import Token
from log_tier.tracing.span import TRACED
from router.data.seam import NOT_FRESH, CallerReads

__all__ = ["AtomicBatch", "Table", "TableOwner", "TableWriter"]


class TableOwner(Protocol):
    """The database that a table is of."""

    def table(self, name: str) -> Table:
        """The table of that name, without a request."""


class AtomicBatch:
    """Collects records of one partition; `commit()` writes them: all take effect, or none."""

    def __init__(self, inner: atomic.AtomicBatch, loop: LoopThread) -> None:
        self._inner = inner
        self._loop = loop

    put = chained(atomic.AtomicBatch.put)
    delete = chained(atomic.AtomicBatch.delete)
    update = chained(atomic.AtomicBatch.update)

    def __len__(self) -> int:
        return len(self._inner)

    commit = wrapped(atomic.AtomicBatch.commit)


class TableWriter:
    """A stream of puts that resumes after an interruption: each row is written exactly once."""

    def __init__(self, inner: table_writer.TableWriter, loop: LoopThread) -> None:
        self._inner = inner
        self._loop = loop

    def __enter__(self) -> TableWriter:
        self._loop.run(self._inner.__aenter__)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.run(partial(self._inner.__aexit__, kind, error, trace))

    @property
    def written(self) -> int:
        """Records that this run wrote."""
        return self._inner.written

    @property
    def skipped(self) -> int:
        """Records that an earlier run had written."""
        return self._inner.skipped

    put_rows = wrapped(table_writer.TableWriter.put_rows)
    flush = wrapped(table_writer.TableWriter.flush)


class Table:
    """Keys and values of one table. Calls return when they are done; `timeout` is in seconds."""

    def __init__(self, inner: table.Table, loop: LoopThread, owner: TableOwner) -> None:
        self._inner = inner
        self._owner = owner
        self._loop = loop
        self._fast_path: FastPathTable | None = inner.fast_path()
        self._local: CallerReads | None = inner.direct_reads()
        self._direct: CallerReads | FastPathTable | None = self._local or self._fast_path
        self.name = inner.name

    @property
    def asynchronous(self) -> table.Table:
        """The table whose calls this one runs."""
        return self._inner

    @property
    def loop(self) -> LoopThread:
        """Where it runs them."""
        return self._loop

    def __reduce__(self) -> tuple[object, ...]:
        return table_of, (self._owner, self.name)

    def __repr__(self) -> str:
        return repr(self._inner)

    def get(
        self,
        key: bytes,
        *,
        at: AsOf | None = None,
        after: str | Token | None = None,
        level: Level = "session",
        timeout: float | None = None,
    ) -> bytes | None:
        direct = self._direct
        if (
            direct is not None
            and at is None
            and after is None
            and level == "session"
            and timeout is None
            and not TRACED.get()
        ):
            value = direct.get(key)
            if value is not NOT_FRESH:
                return value  # type: ignore[return-value]
        return self._loop.run(partial(self._inner.get, key, at=at, after=after, level=level, timeout=timeout))

    get.__doc__ = table.Table.get.__doc__

    get_entry = wrapped(table.Table.get_entry)
    get_many = wrapped(table.Table.get_many)
    history = wrapped(table.Table.history)

    def put(
        self,
        key: bytes,
        value: bytes,
        *,
        ttl: float | None = None,
        keep_ttl: bool = False,
        if_absent: bool = False,
        if_present: bool = False,
        if_version: int | None = None,
        timeout: float | None = None,
    ) -> Done:
        fast_path = self._fast_path
        plain = ttl is None and not (keep_ttl or if_absent or if_present) and if_version is None and timeout is None
        if fast_path is not None and plain and not TRACED.get():
            way = fast_path.way
            if way.is_known:
                done = fast_path.put(key, value)
                if isinstance(done, Done):
                    return done
                if done is not None:
                    return self._loop.run(partial(self._inner.repeat, done))
            else:
                way.missed += 1  # here, and not by a call: it is on the way of every put
                if way.missed >= way.look_at:
                    way.look_again()
        return self._loop.run(
            partial(
                self._inner.put,
                key,
                value,
                ttl=ttl,
                keep_ttl=keep_ttl,
                if_absent=if_absent,
                if_present=if_present,
                if_version=if_version,
                timeout=timeout,
            )
        )

    put.__doc__ = table.Table.put.__doc__

    delete = wrapped(table.Table.delete)
    update = wrapped(table.Table.update)
    write_record = wrapped(table.Table.write_record)
    put_many = wrapped(table.Table.put_many)
    describe = wrapped(table.Table.describe)
    end_token = wrapped(table.Table.end_token)

    def scan(
        self,
        *,
        prefix: bytes | None = None,
        start: bytes | None = None,
        end: bytes | None = None,
        reverse: bool = False,
        limit: int | None = None,
        at: AsOf | None = None,
        after: str | Token | None = None,
        level: Level = "session",
        timeout: float | None = None,
    ) -> Generator[tuple[bytes, bytes], None, None]:
        asked_range = ScanRange.of(prefix=prefix, start=start, end=end, reverse=reverse, limit=limit)
        if at is not None:
            from duramen.client.past.past_scans import past_pages

            yield from self._loop.iterate(past_pages(self._inner.lookup, asked_range, at, after, level, timeout))
            return
        yield from self.range_pairs(asked_range, after=after, level=level, timeout=timeout)

    scan.__doc__ = table.Table.scan.__doc__

    def diff(
        self,
        before: AsOf,
        after: AsOf | None = None,
        *,
        prefix: bytes | None = None,
        start: bytes | None = None,
        end: bytes | None = None,
        timeout: float | None = None,
    ) -> Generator[KeyDifference[bytes, bytes], None, None]:
        pages = self._inner.diff_pages(before, after, prefix=prefix, start=start, end=end, timeout=timeout)
        yield from self._loop.iterate(pages)

    diff.__doc__ = table.Table.diff.__doc__

    def range_pairs(
        self, asked_range: ScanRange, *, after: str | Token | None, level: Level, timeout: float | None
    ) -> Generator[tuple[bytes, bytes], None, None]:
        """Keys and values of a range, or entries and values of an index. Of an embedded database the first page is read
        in this thread where it can be, with the first step.
        """
        begun = None
        direct = self._local
        if direct is not None and after is None and level == "session" and timeout is None and not TRACED.get():
            begun = begun_scan(direct, asked_range)
        if begun is not None:
            page = begun.page
            yield from zip(page.keys, page.values, strict=True)
            if not page.more or len(page.keys) == asked_range.limit:
                return
        yield from self._loop.iterate(table_pages(self._inner.lookup, asked_range, after, level, timeout, begun))

    def watch(
        self,
        *,
        after: str | Token | None = None,
        start: Literal["now", "earliest"] = "now",
        timeout: float | None = None,
    ) -> Generator[Change, None, None]:
        return self._loop.iterate_begun(self._inner.watch_runs(after=after, start=start, timeout=timeout))

    watch.__doc__ = table.Table.watch.__doc__

    def batch(self) -> AtomicBatch:
        """An atomic batch: all its records take effect, or none. Its keys must share a partition (a `{tag}`)."""
        return AtomicBatch(self._inner.batch(), self._loop)

    def writer(self, producer: str) -> TableWriter:
        """A resumable stream of puts. `producer`: the stream's name, the same in every run."""
        return TableWriter(self._inner.writer(producer), self._loop)


def table_of(owner: TableOwner, name: str) -> Table:
    """The table of an unpickled database."""
    return owner.table(name)
