"""The blocking face: the same database for programs without an event loop.

An event loop runs in another thread (`duramen.client.transport.loop_thread`); every call is handed to it and waited
for. There is no second implementation: each method below is the asynchronous one, wrapped. Calls may come from any
number of threads, whose concurrent calls leave together like those of tasks.

One thing is done in the caller's own thread: `Table.get` on an embedded database (`duramen.open`), where the index is
in this process and a read is one short LMDB transaction. Crossing to the loop and back would cost twenty times that.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

from duramen.client import atomic, database, table, writer
from duramen.client.model.results import Change, Done
from duramen.client.table import Level
from duramen.client.transport.loop_thread import LoopThread
from duramen.client.transport.resp_fast_path import FastPathTable
from log_tier.model.errors import DatabaseClosed
from log_tier.model.partitioner import Partitioner
from log_tier.model.tokens import Token
from router.data.direct_reads import NOT_FRESH, DirectReads

__all__ = ["AtomicBatch", "Database", "Table", "TableWriter", "start"]

P = ParamSpec("P")
T = TypeVar("T")


def _wrap(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    """The blocking form of an asynchronous method: same arguments, same result, same documentation."""

    @wraps(method)
    def blocking(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._loop.run(method(self._inner, *args, **kwargs))  # type: ignore[no-any-return]

    return blocking


def _chain(method: Callable[Concatenate[Any, P], Any]) -> Callable[Concatenate[Any, P], Any]:
    """The same for a method that waits for nothing and returns its object, so that calls can be chained."""

    @wraps(method)
    def chained(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        method(self._inner, *args, **kwargs)
        return self

    return chained


class AtomicBatch:
    """See `duramen.client.atomic.AtomicBatch`."""

    def __init__(self, inner: atomic.AtomicBatch, loop: LoopThread) -> None:
        self._inner = inner
        self._loop = loop

    put = _chain(atomic.AtomicBatch.put)
    delete = _chain(atomic.AtomicBatch.delete)
    update = _chain(atomic.AtomicBatch.update)

    def __len__(self) -> int:
        return len(self._inner)

    commit = _wrap(atomic.AtomicBatch.commit)


class TableWriter:
    """See `duramen.client.writer.TableWriter`."""

    def __init__(self, inner: writer.TableWriter, loop: LoopThread) -> None:
        self._inner = inner
        self._loop = loop

    def __enter__(self) -> TableWriter:
        self._loop.run(self._inner.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.run(self._inner.__aexit__(kind, error, trace))

    @property
    def written(self) -> int:
        """Records that this run wrote."""
        return self._inner.written

    @property
    def skipped(self) -> int:
        """Records that an earlier run had written."""
        return self._inner.skipped

    put_rows = _wrap(writer.TableWriter.put_rows)
    flush = _wrap(writer.TableWriter.flush)


class Table:
    """See `duramen.client.table.Table`: the same calls, waited for."""

    def __init__(self, inner: table.Table, loop: LoopThread, owner: Database) -> None:
        self._inner = inner
        self._owner = owner
        self._loop = loop
        self._fast_path: FastPathTable | None = inner.fast_path()
        self._direct: DirectReads | FastPathTable | None = inner.direct_reads() or self._fast_path
        self.name = inner.name

    def __reduce__(self) -> tuple[object, ...]:
        return Database.table, (self._owner, self.name)

    def __repr__(self) -> str:
        return repr(self._inner)

    def get(
        self,
        key: bytes,
        *,
        after: str | Token | None = None,
        level: Level = "session",
        timeout: float | None = None,
    ) -> bytes | None:
        """The value of `key`, or None where it is absent."""
        direct = self._direct
        if direct is not None and after is None and level == "session" and timeout is None:
            value = direct.get(key)
            if value is not NOT_FRESH:
                return value  # type: ignore[return-value]
        return self._loop.run(self._inner.get(key, after=after, level=level, timeout=timeout))

    get_entry = _wrap(table.Table.get_entry)
    get_many = _wrap(table.Table.get_many)

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
        """See `duramen.client.table.Table.put`."""
        fast_path = self._fast_path
        plain = ttl is None and not (keep_ttl or if_absent or if_present) and if_version is None and timeout is None
        if fast_path is not None and plain:
            done = fast_path.put(key, value)
            if isinstance(done, Done):
                return done
            if done is not None:
                return self._loop.run(self._inner.repeat(done))
        return self._loop.run(
            self._inner.put(
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

    delete = _wrap(table.Table.delete)
    update = _wrap(table.Table.update)
    put_many = _wrap(table.Table.put_many)
    describe = _wrap(table.Table.describe)
    end_token = _wrap(table.Table.end_token)

    def scan(
        self,
        *,
        prefix: bytes | None = None,
        start: bytes | None = None,
        end: bytes | None = None,
        reverse: bool = False,
        limit: int | None = None,
        after: str | Token | None = None,
        level: Level = "session",
        timeout: float | None = None,
    ) -> Generator[tuple[bytes, bytes], None, None]:
        """See `duramen.client.table.Table.scan`."""
        return self._loop.iterate(
            self._inner.scan_pages(
                prefix=prefix,
                start=start,
                end=end,
                reverse=reverse,
                limit=limit,
                after=after,
                level=level,
                timeout=timeout,
            )
        )

    def watch(
        self,
        *,
        after: str | Token | None = None,
        start: Literal["now", "earliest"] = "now",
        timeout: float | None = None,
    ) -> Generator[Change, None, None]:
        """See `duramen.client.table.Table.watch`. When this returns, the position is fixed: every write that is
        acknowledged from then on, to anybody, is shown. Raises what the first step would raise."""
        return self._loop.iterate_begun(self._inner.watch_runs(after=after, start=start, timeout=timeout))

    def batch(self) -> AtomicBatch:
        """An atomic batch: all its records take effect, or none. Its keys must share a partition (a `{tag}`)."""
        return AtomicBatch(self._inner.batch(), self._loop)

    def writer(self, producer: str) -> TableWriter:
        """A writer that goes on where it was interrupted: see `duramen.client.writer`."""
        return TableWriter(self._inner.writer(producer), self._loop)


class Database:
    """See `duramen.client.database.Database`: the same calls, waited for. Close it, or use it with `with`."""

    def __init__(self, inner: database.Database, loop: LoopThread) -> None:
        self._inner = inner
        self._loop = loop

    def __reduce__(self) -> tuple[object, ...]:
        return _again, (self._inner,)

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def create_table(
        self,
        name: str,
        *,
        partitions: int | None = None,
        replicas: int | None = None,
        over: str | None = None,
        partitioner: Partitioner | None = None,
        if_missing: bool = False,
        timeout: float | None = None,
    ) -> Table:
        """Create a table of that many partitions (None: 8); the number stays. With `if_missing` an existing one is
        taken, as it is.

        `replicas`: how many nodes hold each partition; None: each node, up to three. `over`: an existing topic of
        others to lay it over; `partitioner`: `"slot"` or `"murmur2"`. See `duramen.client.database`.
        """
        inner = self._inner.create_table(
            name,
            partitions=partitions,
            replicas=replicas,
            over=over,
            partitioner=partitioner,
            if_missing=if_missing,
            timeout=timeout,
        )
        return Table(self._loop.run(inner), self._loop, self)

    def table(self, name: str) -> Table:
        """An existing table. That it exists shows with the first call."""
        return Table(self._inner.table(name), self._loop, self)

    tables = _wrap(database.Database.tables)
    describe_table = _wrap(database.Database.describe_table)
    drop_table = _wrap(database.Database.drop_table)

    def token(self) -> str:
        """Everything that this client has written or seen, for another process: `other.merge_token(token)`."""
        return self._loop.run(_called(self._inner.token))

    def merge_token(self, token: str | Token) -> None:
        """From now on, reads see what the token has seen."""
        self._loop.run(_called(lambda: self._inner.merge_token(token)))

    def close(self) -> None:
        """Finish what is under way and close the connection. Twice is fine."""
        try:
            self._loop.close_iterators()
            self._loop.run(self._inner.close())
        except DatabaseClosed:
            return  # closed before
        finally:
            self._loop.stop()


def _again(inner: database.Database) -> Database:
    """A database that came from another process."""
    return Database(inner, LoopThread(shared=True))


async def _called(work: Callable[[], T]) -> T:
    """The session belongs to the loop: look at it, and change it, there."""
    return work()


def start(make: Callable[[], Awaitable[database.Database]], *, isolated: bool) -> Database:
    """Make a database on the loop of this process, or (`isolated`) on one of its own that ends with it."""
    loop = LoopThread(shared=not isolated)
    try:
        made = loop.run(make())
        loop.run(made.context.find_resp_endpoint())
        return Database(made, loop)
    except BaseException:
        loop.stop()
        raise
