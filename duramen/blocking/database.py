"""The database, for a program without an event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, Unpack, overload

from duramen.blocking.table import Table
from duramen.blocking.wrapped import wrapped
from duramen.client import database, table
from duramen.client.model.table_options import TableOptions
from duramen.client.transport.loop_thread import LoopThread
from log_tier.model.errors import DatabaseClosed
from log_tier.model.partitioner import Partitioner
from log_tier.model.tokens import Token

if TYPE_CHECKING:
    from duramen.blocking.row_table import RowTable
    from duramen.blocking.typed_table import TypedTable
    from duramen.client import row_table
    from duramen.client.model.asked_index import IndexFields
    from duramen.client.rows.shapes.arrow_schema import ArrowSchema
    from log_tier.rows.evolution import EvolutionMode

__all__ = ["Database", "start"]

T = TypeVar("T")
R = TypeVar("R")
K = TypeVar("K", str, bytes)
V = TypeVar("V", str, bytes)

AnyTable: TypeAlias = "Table | RowTable[Any] | TypedTable[Any, Any]"
"""Whatever `create_table` and `table` return."""


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

    @overload
    def create_table(
        self, name: str, *, row: None = None, key: None = None, value: None = None, **options: Unpack[TableOptions]
    ) -> Table: ...

    @overload
    def create_table(
        self, name: str, *, row: type[R], key: str | Sequence[str], **options: Unpack[TableOptions]
    ) -> RowTable[R]: ...

    @overload
    def create_table(
        self,
        name: str,
        *,
        row: Mapping[str, Any] | str | ArrowSchema,
        key: str | Sequence[str],
        **options: Unpack[TableOptions],
    ) -> RowTable[dict[str, Any]]: ...

    @overload
    def create_table(
        self, name: str, *, key: type[K], value: type[V], **options: Unpack[TableOptions]
    ) -> TypedTable[K, V]: ...

    @overload
    def create_table(
        self, name: str, *, key: type[K], value: Literal["json"], **options: Unpack[TableOptions]
    ) -> TypedTable[K, Any]: ...

    @overload
    def create_table(self, name: str, *, key: type[K], **options: Unpack[TableOptions]) -> TypedTable[K, bytes]: ...

    @overload
    def create_table(self, name: str, *, value: type[V], **options: Unpack[TableOptions]) -> TypedTable[bytes, V]: ...

    @overload
    def create_table(
        self, name: str, *, value: Literal["json"], **options: Unpack[TableOptions]
    ) -> TypedTable[bytes, Any]: ...

    @overload
    def create_table(
        self,
        name: str,
        *,
        key: str | Sequence[str] | Mapping[str, object],
        value: object = None,
        **options: Unpack[TableOptions],
    ) -> TypedTable[tuple[Any, ...], Any]: ...

    def create_table(
        self,
        name: str,
        *,
        row: object = None,
        key: object = None,
        value: object = None,
        partition_by: str | Sequence[str] | None = None,
        indexes: Mapping[str, IndexFields] | None = None,
        history: str | int | None = None,
        partitions: int | None = None,
        replicas: int | None = None,
        over: str | None = None,
        partitioner: Partitioner | None = None,
        retention_ms: int = 0,
        retention_bytes: int = 0,
        if_missing: bool = False,
        timeout: float | None = None,
    ) -> AnyTable:
        create: Callable[..., Awaitable[database.AnyTable]] = self._inner.create_table
        options: TableOptions = {
            "partition_by": partition_by,
            "indexes": indexes,
            "history": history,
            "partitions": partitions,
            "replicas": replicas,
            "over": over,
            "partitioner": partitioner,
            "retention_ms": retention_ms,
            "retention_bytes": retention_bytes,
            "if_missing": if_missing,
            "timeout": timeout,
        }
        return self._blocking(self._loop.run(partial(create, name, row=row, key=key, value=value, **options)))

    create_table.__doc__ = database.Database.create_table.__doc__

    @overload
    def table(self, name: str, *, row: None = None, key: None = None, value: None = None) -> Table: ...

    @overload
    def table(self, name: str, *, row: type[R], key: str | Sequence[str] | None = None) -> RowTable[R]: ...

    @overload
    def table(
        self, name: str, *, row: Mapping[str, Any] | str | ArrowSchema, key: str | Sequence[str] | None = None
    ) -> RowTable[dict[str, Any]]: ...

    @overload
    def table(self, name: str, *, key: type[K], value: type[V]) -> TypedTable[K, V]: ...

    @overload
    def table(self, name: str, *, key: type[K], value: Literal["json"]) -> TypedTable[K, Any]: ...

    @overload
    def table(self, name: str, *, key: type[K]) -> TypedTable[K, bytes]: ...

    @overload
    def table(self, name: str, *, value: type[V]) -> TypedTable[bytes, V]: ...

    @overload
    def table(self, name: str, *, value: Literal["json"]) -> TypedTable[bytes, Any]: ...

    @overload
    def table(
        self, name: str, *, key: str | Sequence[str] | Mapping[str, object], value: object = None
    ) -> TypedTable[tuple[Any, ...], Any]: ...

    def table(self, name: str, *, row: object = None, key: object = None, value: object = None) -> AnyTable:
        find: Callable[..., database.AnyTable] = self._inner.table
        return self._blocking(find(name, row=row, key=key, value=value))

    table.__doc__ = database.Database.table.__doc__

    def _blocking(self, inner: database.AnyTable) -> AnyTable:
        if isinstance(inner, table.Table):
            return _table(inner, self._loop, self)
        from duramen.blocking.row_table import RowTable
        from duramen.blocking.typed_table import TypedTable
        from duramen.client import row_table

        stored = _table(inner.stored, self._loop, self)
        return RowTable(stored, inner) if isinstance(inner, row_table.RowTable) else TypedTable(stored, inner)

    tables = wrapped(database.Database.tables)
    describe_table = wrapped(database.Database.describe_table)
    definition = wrapped(database.Database.definition)
    set_retention = wrapped(database.Database.set_retention)

    @overload
    def alter_table(
        self,
        name: str,
        *,
        row: type[R],
        compatibility: EvolutionMode = "backward",
        if_definition: int = 0,
        timeout: float | None = None,
    ) -> RowTable[R]: ...

    @overload
    def alter_table(
        self,
        name: str,
        *,
        row: Mapping[str, Any] | str | ArrowSchema,
        compatibility: EvolutionMode = "backward",
        if_definition: int = 0,
        timeout: float | None = None,
    ) -> RowTable[dict[str, Any]]: ...

    def alter_table(
        self,
        name: str,
        *,
        row: object,
        compatibility: EvolutionMode = "backward",
        if_definition: int = 0,
        timeout: float | None = None,
    ) -> RowTable[Any]:
        alter: Callable[..., Awaitable[row_table.RowTable[Any]]] = partial(self._inner.alter_table, name)
        asked = partial(alter, row=row, compatibility=compatibility, if_definition=if_definition, timeout=timeout)
        inner = self._loop.run(asked)
        from duramen.blocking.row_table import RowTable

        return RowTable(_table(inner.stored, self._loop, self), inner)

    alter_table.__doc__ = database.Database.alter_table.__doc__

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
    if type(inner) is table.Table:
        return Table(inner, loop, owner)
    from duramen.blocking.observed_table import ObservedBlockingTable
    from duramen.client.observed_table import ObservedTable

    return ObservedBlockingTable(inner, loop, owner) if isinstance(inner, ObservedTable) else Table(inner, loop, owner)
