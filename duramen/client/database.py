"""The database as a client sees it: tables, and the session they share."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, NamedTuple

from duramen.client.gather.reads import ReadCoalescer
from duramen.client.gather.writes import WriteCoalescer
from duramen.client.results import TableInfo
from duramen.client.retry import ask_until
from duramen.client.session import Session
from duramen.client.table import Table
from duramen.client.transport.resp_fast_path import RespFastPath
from log_tier.concurrency.forking import keep_for_ever, on_fork
from log_tier.model.errors import DatabaseClosed, DatabaseForked, InvalidRequest, TableExists
from log_tier.model.identifiers import check_adopted_name, check_name
from log_tier.model.partitioner import Partitioner, check_partitioner
from log_tier.model.tokens import Token
from router.data.direct_reads import DirectReads
from router.data.requests import Connection, TableDescription

__all__ = ["PARTITIONS_DEFAULT", "TIMEOUT_DEFAULT_S", "Address", "Database", "check_timeout"]

DirectFactory = Callable[[str, Session], DirectReads]
"""Of a table's name and the session whose offsets hold for its reads."""

# Enough for a table to be spread over a few nodes later on; each costs one sync of its own in a write to all of them.
PARTITIONS_DEFAULT: Final = 8

# The server has just answered; one that does not answer this is asked no more.
_DOOR_S: Final = 1.0

# A month: what is longer is a mistake of units, and overflows the clocks below.
TIMEOUT_MAX_S: Final = 31 * 86_400.0

# Longer than a restart of the server takes, shorter than a person waits.
TIMEOUT_DEFAULT_S: Final = 10.0


class Address(NamedTuple):
    """What it takes to connect again: from a forked process, or from one that was handed this database."""

    targets: tuple[str, ...]
    timeout: float
    compress: bool
    direct: bool
    fast_path: tuple[str, int] | None = None
    """Host and port of the server's RESP endpoint."""


class _Links(NamedTuple):
    """What belongs to one process and its event loop."""

    loop: asyncio.AbstractEventLoop
    connection: Connection
    reads: ReadCoalescer
    writes: WriteCoalescer


class Database:
    """A connection to a cluster, or an embedded database. `connect` and `open` make one; close it, or use `with`.

    All tables of one database share a session: a read sees everything that was written or read through it before.

    **In a forked process** the first call connects anew, in the event loop of that call. The child keeps the session's
    offsets and does not touch the parent's connection. An embedded database is open in the parent alone: calls raise
    `DatabaseForked`. **Pickled** (a process pool, Spark), a database and its tables are their address and the session's
    offsets; pickling an embedded one raises `InvalidRequest`.
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
        self._prepare(address, timeout=timeout, compress=compress, direct=direct)
        self._link(connection)

    @classmethod
    def at(cls, address: Address, token: str) -> Database:
        """A database that connects with its first call, and sees what `token` has seen."""
        database = cls.__new__(cls)
        database._prepare(address, timeout=address.timeout, compress=address.compress)
        database.session.merge(Token.parse(token))
        if address.fast_path is not None:
            database.fast_path = RespFastPath(*address.fast_path, database.session, compress=address.compress)
        return database

    def _prepare(
        self, address: Address | None, *, timeout: float, compress: bool, direct: DirectFactory | None = None
    ) -> None:
        self._timeout = check_timeout(timeout)
        self._address = address
        self._links: _Links | None = None
        self._closed = False
        self.direct = direct
        """Makes the shortest way to a table's values, where they are in this process."""
        self.fast_path: RespFastPath | None = None
        """The fast path of blocking callers to a server that is the whole cluster."""
        self.compress = compress
        """Whether batches are compressed with zstd where that makes them smaller."""
        self.session = Session()
        on_fork(self)

    def _link(self, connection: Connection) -> _Links:
        # 63 random bits: a producer id is this client's alone, and this process's.
        self._links = links = _Links(
            asyncio.get_running_loop(),
            connection,
            ReadCoalescer(connection, self.session),
            WriteCoalescer(connection, self.session, secrets.randbits(63) | 1, compress=self.compress),
        )
        return links

    def _linked(self) -> _Links:
        return self._links or self._link_again()

    def _link_again(self) -> _Links:
        address = self._address
        if address is None:
            raise DatabaseForked(
                "this process was forked from the one that has the database open, and only one process can: open it "
                "after the fork, or serve it with `duramen up` and connect to it from every process"
            )
        from duramen.client.transport.connect import connect_to
        from duramen.client.transport.deferred import DeferredConnection

        return self._link(
            DeferredConnection(lambda: connect_to(address.targets, timeout=address.timeout, direct=address.direct))
        )

    def after_fork(self) -> None:
        """This process has inherited the database: nothing of the connection may be used here, or destroyed."""
        links, self._links = self._links, None
        if links is not None:
            keep_for_ever(links)
            for task in asyncio.all_tasks(links.loop):
                keep_for_ever(task)

    def __reduce__(self) -> tuple[object, ...]:
        if self._address is None:
            raise InvalidRequest(
                "an embedded database is open in one process and cannot be sent to another: serve it with `duramen up` "
                "and connect to it from every process"
            )
        fast_path = self._address.fast_path if self.fast_path is None else self.fast_path.address
        return Database.at, (self._address._replace(fast_path=fast_path), self.token())

    @property
    def connection(self) -> Connection:
        """The way to the data."""
        return self._linked().connection

    @connection.setter
    def connection(self, connection: Connection) -> None:
        self._links = self._linked()._replace(connection=connection)

    @property
    def reads(self) -> ReadCoalescer:
        """The reads that leave together."""
        return self._linked().reads

    @property
    def writes(self) -> WriteCoalescer:
        """The writes that leave together."""
        return self._linked().writes

    async def __aenter__(self) -> Database:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def find_door(self) -> None:
        """Look for the server's RESP endpoint, for blocking callers. What is not found is not used."""
        look: Any = getattr(self.connection, "resp_endpoint", None)  # of other connections there is none to be found
        found = None if look is None else await look(timeout=_DOOR_S)
        if found is not None:
            host, port = found
            self.fast_path = RespFastPath(host, port, self.session, compress=self.compress)

    def timeout(self, timeout: float | None) -> float:
        """The seconds that a call may take. Raises `InvalidRequest`, and `DatabaseClosed` after `close`."""
        if self._closed:
            raise DatabaseClosed("this database was closed; connect or open again")
        self._linked()
        return self._timeout if timeout is None else check_timeout(timeout)

    def deadline(self, timeout: float | None) -> float:
        """The same as a moment on the event loop's clock."""
        seconds = self.timeout(timeout)
        return self._linked().loop.time() + seconds

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
        """Create a table. With `if_missing`, an existing table of that name is returned as it is.

        `partitions`: 1 to 1024, fixed for the table's life; None: 8. `replicas`: how many nodes hold each partition;
        None: each node, up to three. Raises `TableExists`, `InvalidName`, and `CommandRejected` if there are fewer
        nodes than `replicas`.

        `over`: the name of an existing Kafka topic that becomes the table's log. Other programs go on writing and
        reading it; its partitions are the table's; dropping the table leaves it. `partitioner`: how a key finds its
        partition, `"slot"` or `"murmur2"` (as Kafka's Java producers do); None: `"murmur2"` with `over`, else `"slot"`.
        With `over` it must be the partitioner of the topic's producers, else reads look in the wrong partition.
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
        deadline = self.deadline(timeout)
        try:
            ref = await self.connection.create_table(
                name,
                partitions=partitions if partitions is not None else 0 if over else PARTITIONS_DEFAULT,
                replicas=replicas or 0,
                over=over or "",
                partitioner=partitioner or "",
                timeout=self.timeout(timeout),
            )
        except TableExists:
            if not if_missing:
                raise
            ref = await ask_until(deadline, lambda remaining: self.connection.find_table(name, timeout=remaining))
        return Table(self, name, ref)

    def table(self, name: str) -> Table:
        """An existing table, without a request: the first call on it raises `TableNotFound` if there is none.

        Raises `InvalidName`.
        """
        return Table(self, name)

    async def tables(self, *, timeout: float | None = None) -> list[TableInfo]:
        """All tables, sorted by name. One request."""
        refs = await ask_until(self.deadline(timeout), lambda remaining: self.connection.list_tables(timeout=remaining))
        return [TableInfo(ref.id, ref.name, ref.partitions, ref.partitioner, ref.over) for ref in refs]

    async def describe_table(self, name: str, *, timeout: float | None = None) -> TableDescription:
        """The state of each partition of a table: offsets, keys, bytes, nodes. Raises `TableNotFound`."""
        check_name(name)
        return await ask_until(
            self.deadline(timeout), lambda remaining: self.connection.describe_table(name, timeout=remaining)
        )

    async def drop_table(self, name: str, *, timeout: float | None = None) -> None:
        """Delete a table with its log and its indexes. This cannot be undone. Raises `TableNotFound`."""
        check_name(name)
        await self.connection.drop_table(name, timeout=self.timeout(timeout))

    def token(self) -> str:
        """A token of everything that this client has written or read, for `merge_token` in another process."""
        return str(self.session.token())

    def merge_token(self, token: str | Token) -> None:
        """From now on, session reads see what the token names. Raises `InvalidToken`."""
        self.session.merge(Token.parse(token))

    async def close(self) -> None:
        """Finish calls under way and close the connection. Idempotent; later calls raise `DatabaseClosed`."""
        if self._closed:
            return
        self._closed = True
        if self.fast_path is not None:
            self.fast_path.close()
        links = self._links
        if links is None:
            return  # no call has come since the fork
        try:
            await links.writes.close()
            await links.reads.close()
        finally:
            await links.connection.close()


def check_timeout(timeout: float) -> float:
    """Return `timeout`, or raise `InvalidRequest` saying what a timeout is."""
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout <= TIMEOUT_MAX_S:
        raise InvalidRequest(f"timeout is a number of seconds above 0 and up to {TIMEOUT_MAX_S:g}, not {timeout!r}")
    return timeout
