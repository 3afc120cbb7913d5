"""The database as a client sees it: tables, and the session they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, Unpack, overload

from duramen.client.context import TIMEOUT_DEFAULT_S, Address, ClientContext, DirectFactory
from duramen.client.lookup import TableLookup
from duramen.client.model.acknowledged_json import acknowledged_to_json
from duramen.client.model.results import TableInfo
from duramen.client.model.table_options import TableOptions
from duramen.client.table import Table
from duramen.client.transport.retry import ask_until
from duramen.tracing.operations import Operations
from log_tier.model.errors import TableExists
from log_tier.model.identifiers import check_name
from log_tier.model.partitioner import Partitioner
from log_tier.model.retention import Retention
from log_tier.model.table_ref import TableRef
from log_tier.model.tokens import Token
from router.data.requests import TableDescription
from router.data.seam import Connection

if TYPE_CHECKING:
    from duramen.client.model.asked_index import IndexFields
    from duramen.client.row_table import RowTable
    from duramen.client.rows.asked_definition import AskedDefinition
    from duramen.client.rows.shapes.arrow_schema import ArrowSchema
    from duramen.client.typed_table import TypedTable
    from log_tier.rows.definition import TableDefinition
    from log_tier.rows.evolution import EvolutionMode

__all__ = ["AnyTable", "Database"]

R = TypeVar("R")
K = TypeVar("K", str, bytes)
V = TypeVar("V", str, bytes)

AnyTable: TypeAlias = "Table | RowTable[Any] | TypedTable[Any, Any]"
"""Whatever `create_table` and `table` return."""


class Database:
    """A connection to a cluster, or an embedded database. `connect` and `open` make one; close it, or use `with`.

    All tables of one database share a session: a read sees everything that was written or read through it before.

    **In a forked process** the first call connects anew, in the event loop of that call. The child keeps the session's
    offsets and does not touch the parent's connection; its garbage collector leaves alone what it has inherited
    (`gc.freeze`). An embedded database is open in the parent alone: calls raise `DatabaseForked`.

    **Pickled** (a process pool, Spark), a database and its tables are their address and the session's offsets; pickling
    an embedded one raises `InvalidRequest`.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        timeout: float = TIMEOUT_DEFAULT_S,
        compress: bool = False,
        direct: DirectFactory | None = None,
        address: Address | None = None,
        operations: Operations | None = None,
    ) -> None:
        """`address`: how to connect again; None where that cannot be. `operations`: of a client without an address."""
        self.context = ClientContext(address, timeout=timeout, compress=compress, direct=direct)
        self.context.operations = self.context.operations or operations
        """What its tables share."""
        self.context.link(connection)

    @classmethod
    def over(cls, context: ClientContext) -> Database:
        """A database on a client that is there already, or connects with its first call."""
        database = cls.__new__(cls)
        database.context = context
        return database

    def __reduce__(self) -> tuple[object, ...]:
        return Database.over, (self.context,)

    @property
    def connection(self) -> Connection:
        """The way to the data."""
        return self.context.connection

    async def __aenter__(self) -> Database:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @overload
    async def create_table(
        self, name: str, *, row: None = None, key: None = None, value: None = None, **options: Unpack[TableOptions]
    ) -> Table: ...

    @overload
    async def create_table(
        self, name: str, *, row: type[R], key: str | Sequence[str], **options: Unpack[TableOptions]
    ) -> RowTable[R]: ...

    @overload
    async def create_table(
        self,
        name: str,
        *,
        row: Mapping[str, Any] | str | ArrowSchema,
        key: str | Sequence[str],
        **options: Unpack[TableOptions],
    ) -> RowTable[dict[str, Any]]: ...

    @overload
    async def create_table(
        self, name: str, *, key: type[K], value: type[V], **options: Unpack[TableOptions]
    ) -> TypedTable[K, V]: ...

    @overload
    async def create_table(
        self, name: str, *, key: type[K], value: Literal["json"], **options: Unpack[TableOptions]
    ) -> TypedTable[K, Any]: ...

    @overload
    async def create_table(
        self, name: str, *, key: type[K], **options: Unpack[TableOptions]
    ) -> TypedTable[K, bytes]: ...

    @overload
    async def create_table(
        self, name: str, *, value: type[V], **options: Unpack[TableOptions]
    ) -> TypedTable[bytes, V]: ...

    @overload
    async def create_table(
        self, name: str, *, value: Literal["json"], **options: Unpack[TableOptions]
    ) -> TypedTable[bytes, Any]: ...

    @overload
    async def create_table(
        self,
        name: str,
        *,
        key: str | Sequence[str] | Mapping[str, object],
        value: object = None,
        **options: Unpack[TableOptions],
    ) -> TypedTable[tuple[Any, ...], Any]: ...

    async def create_table(
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
        """Create a table. With `if_missing`, an existing table of that name is returned as it is.

        Keys and values are bytes, or what these say, for the table's life:

        - `row`: values are rows: a dataclass, a pydantic model, a schema of Avro (a mapping, or JSON) or a
          `pyarrow.Schema`; rows are then instances of the class, or dicts. `key` names the fields that are the key,
          which sorts as they do: `create_table("flights", row=Flight, key=("carrier", "flight"))` is a
          `RowTable[Flight]`.
        - `value`: `str`, `bytes` or `"json"`; `key`: `str`, `bytes`, names of fields, or names with types, as
          `{"day": date, "number": int}`, for keys that are tuples. It is a `TypedTable`.
        - `partition_by`: the first of the key's fields, if they alone shall decide the partition. Rows that have them
          in common lie together, and may be in one atomic batch.
        - `indexes`: of rows, ordered indexes by name, each with the field or fields that it sorts by, as `{"by_tail":
          "tailnum", "by_origin": ("origin.code", "time_hour")}`, or an `OrderedIndex`, which may have some rows only.
          `RowTable.find` reads them. `RowTable.create_index` adds one later.

        `history`: the table keeps what its keys had before, for its life: `"30d"` (s, m, h, d, w), the newest 100
        changes of each key as `100`, or `"all"`. `get(key, at=…)` and `history(key)` read it; every change costs the
        space of the value that it replaces.

        Raises `InvalidSchema`, which names the field, for a type that no schema has; with `if_missing` also where the
        table that is there has other rows. A table of rows costs one request more, for the numbers of its schemas.

        `partitions`: 1 to 1024, fixed for the table's life; None: 8. `replicas`: how many nodes hold each partition;
        None: each node, up to three. Raises `TableExists`, `InvalidName`, and `CommandRejected` if there are fewer
        nodes than `replicas`.

        `over`: the name of an existing Kafka topic that becomes the table's log. Other programs go on writing and
        reading it; its partitions are the table's; dropping the table leaves it. `partitioner`: how a key finds its
        partition, `"slot"`, `"murmur2"` (as Kafka's Java producers do), or `"fields:2"` (by the first two fields of a
        key of `pack_key`); None: `"murmur2"` with `over`, else `"slot"`. With `over` it must be the partitioner of the
        topic's producers, else reads look in the wrong partition.

        `retention_ms`, `retention_bytes`: each partition's log keeps its records so long, and so many bytes; 0: no such
        bound. Keys and values stay, whatever their age: only the log's history goes, below a verified snapshot;
        so a server or `duramen.open` without snapshots removes nothing (`--snapshot-every-s`, `snapshot_every_s=`).
        `set_retention` changes both. Raises `InvalidRequest` with `over`, and for a bound by size where the log
        is in Kafka.
        """
        from duramen.client.model.asked_table import asked_table
        from duramen.client.rows.asked_definition import asked_definition

        asked = asked_definition(row, key, value, partition_by, indexes, history)
        spec = asked_table(
            name,
            None if asked is None else asked.definition,
            partitions=partitions,
            replicas=replicas,
            over=over,
            partitioner=partitioner,
            retention=Retention(retention_ms, retention_bytes),
        )
        deadline = self.context.deadline(timeout)
        try:
            ref = await self.connection.create_table(spec, timeout=self.context.timeout(timeout))
        except TableExists:
            if not if_missing:
                raise
            ref = await ask_until(deadline, lambda remaining: self.connection.find_table(name, timeout=remaining))
        stored = self._stored(name, ref)
        if asked is None or (row is None and key is None and value is None):
            return stored
        opened = _opened(stored, asked)
        await opened.codec.find(deadline)
        return opened

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
        """An existing table, without a request: the first call on it raises `TableNotFound` if there is none.

        `row`, `key` and `value` as for `create_table`; the key of a table of rows need not be said again. The first
        call raises `InvalidSchema`, which names the field, where the table has other rows, keys or values. Without
        them, a table is opened in bytes, whatever it has. Raises `InvalidName`, `InvalidSchema`.
        """
        if row is None and key is None and value is None:
            return self._stored(name)
        from duramen.client.rows.asked_definition import asked_kind

        asked = asked_kind(row, key, value)
        stored = self._stored(name)
        return stored if asked is None else _opened(stored, asked)

    def _stored(self, name: str, ref: TableRef | None = None) -> Table:
        if self.context.operations is None:
            return Table(self.context, name, ref)
        from duramen.client.observed_table import ObservedTable

        return ObservedTable(self.context, name, ref)

    async def tables(self, *, timeout: float | None = None) -> list[TableInfo]:
        """All tables, sorted by name. One request."""
        refs = await ask_until(
            self.context.deadline(timeout), lambda remaining: self.connection.list_tables(timeout=remaining)
        )
        return [TableInfo(ref.id, ref.name, ref.partitions, ref.partitioner, ref.over) for ref in refs]

    async def describe_table(self, name: str, *, timeout: float | None = None) -> TableDescription:
        """The state of each partition of a table: offsets, keys, bytes, nodes. Raises `TableNotFound`."""
        return await TableLookup(self.context, name).describe(timeout=timeout)

    async def definition(self, name: str, *, schema: int = 0, timeout: float | None = None) -> TableDefinition | None:
        """What a table's keys and values are: the fields of its key, and the schemas of its rows; None: bytes. Raises
        `TableNotFound`. Two requests, or one for a table of bytes.

        `schema`: the number of a schema that a stored row has. Where the server does not know that the table has it, it
        looks at the end of the catalog first.
        """
        _, found = await TableLookup(self.context, name).definition(self.context.deadline(timeout), schema)
        return found

    async def set_retention(
        self,
        name: str,
        *,
        retention_ms: int | None = None,
        retention_bytes: int | None = None,
        timeout: float | None = None,
    ) -> Retention:
        """Change how much of each partition's log of a table stays, in milliseconds and in bytes; None: as it is, 0: no
        such bound. Returns both bounds as they are then: `ms` and `bytes`.

        The bounds hold within a minute. Keys and values stay, whatever their age; only the log's history goes, in whole
        segments, below a verified snapshot: without snapshots (`--snapshot-every-s`, in `duramen.open`
        `snapshot_every_s=`) nothing goes. Raises `TableNotFound`, `InvalidRequest` where neither is given or for a
        bound by size where the log is in Kafka, and `CommandRejected` for a table over a topic of others.
        """
        return await ask_until(
            self.context.deadline(timeout),
            lambda remaining: self.connection.set_retention(
                name, ms=retention_ms, size=retention_bytes, timeout=remaining
            ),
        )

    @overload
    async def alter_table(
        self,
        name: str,
        *,
        row: type[R],
        compatibility: EvolutionMode = "backward",
        if_definition: int = 0,
        timeout: float | None = None,
    ) -> RowTable[R]: ...

    @overload
    async def alter_table(
        self,
        name: str,
        *,
        row: Mapping[str, Any] | str | ArrowSchema,
        compatibility: EvolutionMode = "backward",
        if_definition: int = 0,
        timeout: float | None = None,
    ) -> RowTable[dict[str, Any]]: ...

    async def alter_table(
        self,
        name: str,
        *,
        row: object,
        compatibility: EvolutionMode = "backward",
        if_definition: int = 0,
        timeout: float | None = None,
    ) -> RowTable[Any]:
        """Give the rows of a table another schema; returns the table with rows of that type. See `RowTable.alter`."""
        from duramen.client.row_table import altered

        return await altered(self._stored(name), row, compatibility, if_definition, timeout)

    async def drop_table(self, name: str, *, timeout: float | None = None) -> None:
        """Delete a table with its log and its indexes. This cannot be undone. Raises `TableNotFound`."""
        check_name(name)
        await self.connection.drop_table(name, timeout=self.context.timeout(timeout))

    def token(self) -> str:
        """A token of everything that this client has written or read, for `merge_token` in another process."""
        return str(self.context.token())

    def acknowledged(self) -> str:
        """What this client wrote and was acknowledged in the last ten minutes or so, as JSON for
        `duramen audit data TABLE --session FILE`, which says whether the log holds all of it. O(tables x partitions).
        """
        return acknowledged_to_json(self.context.acknowledged.runs())

    def merge_token(self, token: str | Token) -> None:
        """From now on, session reads see what the token names. Raises `InvalidToken`."""
        self.context.session.merge(Token.parse(token))

    async def close(self) -> None:
        """Finish calls under way and close the connection. Idempotent; later calls raise `DatabaseClosed`."""
        await self.context.close()


def _opened(stored: Table, asked: AskedDefinition) -> RowTable[Any] | TypedTable[Any, Any]:
    from duramen.client import row_table, typed_table

    return typed_table.TypedTable(stored, asked) if asked.shape is None else row_table.RowTable(stored, asked)
