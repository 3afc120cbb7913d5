"""The database, for a program without an event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from types import TracebackType
from typing import TypeVar

from duramen.blocking.observed_table import ObservedBlockingTable
from duramen.blocking.table import Table
from duramen.blocking.wrapped import wrapped
from duramen.client import database, table
from duramen.client.observed_table import ObservedTable
from duramen.client.transport.loop_thread import LoopThread
from log_tier.model.errors import DatabaseClosed
from log_tier.model.partitioner import Partitioner
from log_tier.model.tokens import Token

__all__ = ["Database", "start"]

T = TypeVar("T")


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

    tables = wrapped(database.Database.tables)
    describe_table = wrapped(database.Database.describe_table)
    set_retention = wrapped(database.Database.set_retention)
    drop_table = wrapped(database.Database.drop_table)

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


def _table(inner: table.Table, loop: LoopThread, owner: Database) -> Table:
    return ObservedBlockingTable(inner, loop, owner) if isinstance(inner, ObservedTable) else Table(inner, loop, owner)
