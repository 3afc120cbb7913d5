"""The database as a client sees it: tables, and the session they share."""

from __future__ import annotations

from types import TracebackType
from typing import Final

from duramen.client.context import TIMEOUT_DEFAULT_S, Address, ClientContext, DirectFactory
from duramen.client.lookup import TableLookup
from duramen.client.model.results import TableInfo
from duramen.client.retry import ask_until
from duramen.client.table import Table
from log_tier.model.errors import InvalidRequest, TableExists
from log_tier.model.identifiers import check_adopted_name, check_name
from log_tier.model.partitioner import Partitioner, check_partitioner
from log_tier.model.tokens import Token
from router.data.requests import Connection, TableDescription

__all__ = ["PARTITIONS_DEFAULT", "Database"]

# Enough for a table to be spread over a few nodes later on; each costs one sync of its own in a write to all of them.
PARTITIONS_DEFAULT: Final = 8


class Database:
    """A client: `duramen.aio.connect` and `duramen.aio.open` make one. Belongs to the event loop it was made in.

    All tables of one client share a session: whatever was written or read through it, later reads see.

    **In a forked process** a connection is made anew by the first call there, in the event loop of that call; what the
    session has seen counts there as well, and the parent's connection is not touched. An embedded database is open in
    the parent alone: calls raise `DatabaseForked`. **Pickled** (a process pool, Spark), it and its tables are their
    address and what the session has seen; an embedded one raises `InvalidRequest`.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        timeout: float = TIMEOUT_DEFAULT_S,
        compress: bool = False,
        direct: DirectFactory | None = None,
        address: Address | None = None,
    ) -> None:
        """`address`: how to connect again; None where that cannot be."""
        self.context = ClientContext(address, timeout=timeout, compress=compress, direct=direct)
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

    async def create_table(
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

        `replicas`: how many nodes hold each partition; None: each node, up to three. Raises `TableExists`, and
        `CommandRejected` where there are not so many nodes.

        `over` lays the table over an existing topic that others write and read as well (on a Kafka log): its records
        are the table's, what the table writes they see, and dropping the table leaves it. Its number of partitions is
        the table's. `partitioner` is how keys find their partition, `"slot"` or `"murmur2"` (Kafka's own producers');
        None: `"murmur2"` with `over`, else `"slot"`. It must be the one that the topic's producers use, else keys are
        looked for where they are not.
        """
        check_name(name)
        if over is not None:
            check_adopted_name(over)
        if partitioner is not None:
            check_partitioner(partitioner)
        if partitions is not None and type(partitions) is not int:
            raise InvalidRequest(f"a table has a whole number of partitions, not {partitions!r}")
        if replicas is not None and (type(replicas) is not int or replicas < 1):
            raise InvalidRequest(f"replicas is a whole number, at least 1, or None, not {replicas!r}")
        deadline = self.context.deadline(timeout)
        try:
            ref = await self.connection.create_table(
                name,
                partitions=partitions if partitions is not None else 0 if over else PARTITIONS_DEFAULT,
                replicas=replicas or 0,
                over=over or "",
                partitioner=partitioner or "",
                timeout=self.context.timeout(timeout),
            )
        except TableExists:
            if not if_missing:
                raise
            ref = await ask_until(deadline, lambda remaining: self.connection.find_table(name, timeout=remaining))
        return Table(self.context, name, ref)

    def table(self, name: str) -> Table:
        """An existing table. That it exists shows with the first call. Raises `InvalidName`."""
        return Table(self.context, name)

    async def tables(self, *, timeout: float | None = None) -> list[TableInfo]:
        """All tables, by name."""
        refs = await ask_until(
            self.context.deadline(timeout), lambda remaining: self.connection.list_tables(timeout=remaining)
        )
        return [TableInfo(ref.id, ref.name, ref.partitions, ref.partitioner, ref.over) for ref in refs]

    async def describe_table(self, name: str, *, timeout: float | None = None) -> TableDescription:
        """How a table's partitions stand."""
        return await TableLookup(self.context, name).describe(timeout=timeout)

    async def drop_table(self, name: str, *, timeout: float | None = None) -> None:
        """Delete a table with all it holds. It cannot be undone."""
        check_name(name)
        await self.connection.drop_table(name, timeout=self.context.timeout(timeout))

    def token(self) -> str:
        """Everything that this client has written or seen, for another process: `other.merge_token(token)`."""
        return str(self.context.session.token())

    def merge_token(self, token: str | Token) -> None:
        """From now on, reads see what the token has seen."""
        self.context.session.merge(Token.parse(token))

    async def close(self) -> None:
        """Finish what is under way and close the connection. Idempotent."""
        await self.context.close()
