"""The blocking interface: the same database for programs without an event loop.

An event loop runs in another thread (`duramen.client.transport.loop_thread`). Each method below runs the asynchronous
method there and waits for it; there is no second implementation. Calls may come from any number of threads; concurrent
calls share requests, as those of tasks do.

Two fast paths stay in the caller's thread, because crossing to the loop and back costs more than the call itself:

- `get` on an embedded database: one LMDB transaction (`router.data.direct_reads`). Its `put` crosses to the loop, and
  on a quick disk the log commits without a third thread (`log_tier.embedded.commit`).
- plain `get` and `put` on a single server with a RESP endpoint: one exchange on a socket of the thread's own
  (`duramen.client.transport.resp_fast_path`).

A call with an argument that these paths do not know goes through the loop.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import partial, wraps
from types import TracebackType
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

from duramen.client import atomic, database, observed_writer, table, table_writer
from duramen.client.model.results import Change, Done
from duramen.client.observed_table import ObservedTable, count_records, count_values
from duramen.client.table import Level
from duramen.client.transport.loop_thread import LoopThread
from duramen.client.transport.resp_fast_path import FastPathTable
from duramen.tracing.operations import observed_blocking, observed_pages
from log_tier.model.errors import DatabaseClosed
from log_tier.model.partitioner import Partitioner
from log_tier.model.tokens import Token
from log_tier.tracing.span import TRACED
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
        return self._loop.run(partial(method, self._inner, *args, **kwargs))  # type: ignore[no-any-return]

    return blocking


def _chain(method: Callable[Concatenate[Any, P], Any]) -> Callable[Concatenate[Any, P], Any]:
    """The blocking form of a method that waits for nothing and returns its object, so that calls can be chained."""

    @wraps(method)
    def chained(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        method(self._inner, *args, **kwargs)
        return self

    return chained


class AtomicBatch:
    """Collects records of one partition; `commit()` writes them: all take effect, or none."""

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

    put_rows = _wrap(table_writer.TableWriter.put_rows)
    flush = _wrap(table_writer.TableWriter.flush)


class Table:
    """Keys and values of one table. Calls return when they are done; `timeout` is in seconds."""

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
        direct = self._direct
        if direct is not None and after is None and level == "session" and timeout is None and not TRACED.get():
            value = direct.get(key)
            if value is not NOT_FRESH:
                return value  # type: ignore[return-value]
        return self._loop.run(partial(self._inner.get, key, after=after, level=level, timeout=timeout))

    get.__doc__ = table.Table.get.__doc__

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
        fast_path = self._fast_path
        plain = ttl is None and not (keep_ttl or if_absent or if_present) and if_version is None and timeout is None
        if fast_path is not None and plain and not TRACED.get():
            done = fast_path.put(key, value)
            if isinstance(done, Done):
                return done
            if done is not None:
                return self._loop.run(partial(self._inner.repeat, done))
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

    scan.__doc__ = table.Table.scan.__doc__

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


class ObservedBlockingBatch(AtomicBatch):
    """An atomic batch whose commit is an operation."""

    def __init__(self, inner: atomic.AtomicBatch, loop: LoopThread, table: ObservedBlockingTable) -> None:
        super().__init__(inner, loop)
        self.operations, self.name = table.operations, table.name

    commit = observed_blocking("batch", AtomicBatch.commit)


class ObservedBlockingWriter(TableWriter):
    """A stream whose flights are operations."""

    put_rows = _wrap(observed_writer.ObservedWriter.put_rows)


class ObservedBlockingTable(Table):
    """A table whose calls are operations (`duramen.tracing`). They begin in the thread of their caller."""

    def __init__(self, inner: ObservedTable, loop: LoopThread, owner: Database) -> None:
        super().__init__(inner.unobserved(), loop, owner)
        self.operations = inner.operations
        self._writer = inner.writer

    get = observed_blocking("get", Table.get)
    get_entry = observed_blocking("get_entry", Table.get_entry)
    get_many = observed_blocking("get_many", Table.get_many, count_values)
    put = observed_blocking("put", Table.put)
    delete = observed_blocking("delete", Table.delete)
    update = observed_blocking("update", Table.update)
    put_many = observed_blocking("put_many", Table.put_many, count_records)

    def scan(self, **asked: Any) -> Generator[tuple[bytes, bytes], None, None]:
        operation = self.operations.begin("scan", self.name)
        yield from self._loop.iterate(observed_pages(operation, self._inner.scan_pages(**asked)))

    scan.__doc__ = Table.scan.__doc__

    def batch(self) -> AtomicBatch:
        return ObservedBlockingBatch(self._inner.batch(), self._loop, self)

    def writer(self, producer: str) -> TableWriter:
        return ObservedBlockingWriter(self._writer(producer), self._loop)


def _table(inner: table.Table, loop: LoopThread, owner: Database) -> Table:
    return ObservedBlockingTable(inner, loop, owner) if isinstance(inner, ObservedTable) else Table(inner, loop, owner)


class Database:
    """A connection to a cluster, or an embedded database. Close it, or use it with `with`."""

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
        retention_ms: int = 0,
        retention_bytes: int = 0,
        if_missing: bool = False,
        timeout: float | None = None,
    ) -> Table:
        inner = self._loop.run(
            partial(
                self._inner.create_table,
                name,
                partitions=partitions,
                replicas=replicas,
                over=over,
                partitioner=partitioner,
                retention_ms=retention_ms,
                retention_bytes=retention_bytes,
                if_missing=if_missing,
                timeout=timeout,
            )
        )
        return _table(inner, self._loop, self)

    create_table.__doc__ = database.Database.create_table.__doc__

    def table(self, name: str) -> Table:
        """An existing table, without a request: the first call on it raises `TableNotFound` if there is none."""
        return _table(self._inner.table(name), self._loop, self)

    tables = _wrap(database.Database.tables)
    describe_table = _wrap(database.Database.describe_table)
    set_retention = _wrap(database.Database.set_retention)
    drop_table = _wrap(database.Database.drop_table)

    def token(self) -> str:
        """A token of everything that this client has written or read, for `merge_token` in another process."""
        return self._loop.run(partial(_called, self._inner.token))

    def acknowledged(self) -> str:
        """What this client wrote and was acknowledged in the last ten minutes or so, as JSON for
        `duramen audit data TABLE --session FILE`, which says whether the log holds all of it. O(tables x partitions).
        """
        return self._loop.run(partial(_called, self._inner.acknowledged))

    def merge_token(self, token: str | Token) -> None:
        """From now on, session reads see what the token names. Raises `InvalidToken`."""
        self._loop.run(partial(_called, partial(self._inner.merge_token, token)))

    def close(self) -> None:
        """Finish calls under way and close the connection. Idempotent; later calls raise `DatabaseClosed`."""
        try:
            self._loop.close_iterators()
            self._loop.run(self._inner.close)
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
        made = loop.run(make)
        loop.run(made.context.find_resp_endpoint)
        return Database(made, loop)
    except BaseException:
        loop.stop()
        raise
