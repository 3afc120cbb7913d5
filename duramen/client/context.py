"""What all tables of one client share: the connection, the gatherers, the session, and the time that a call may take.

`Database` makes one `ClientContext`; tables, batches, writers, scans and watches hold it, and nothing of each other.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple

from duramen.client.model.session import Session
from duramen.client.transport.observer import CLIENT_OBSERVER, ClientWays, SubmitsReads, SubmitsWrites
from duramen.client.transport.resp_fast_path import RespFastPath, reachable_place
from duramen.tracing.asked_for import client_operations
from duramen.tracing.operations import Operations
from log_tier.concurrency.forking import keep_for_ever, on_fork
from log_tier.concurrency.tasks import every_step
from log_tier.model.errors import DatabaseClosed, DatabaseForked, DuramenError, InvalidRequest
from log_tier.model.tokens import Token
from log_tier.rpc.credentials import CallCredentials, proving
from log_tier.rpc.security import ChannelSecurity, secured
from router.data.gather.acknowledged import Acknowledged
from router.data.gather.read_coalescer import ReadCoalescer
from router.data.gather.write_coalescer import WriteCoalescer
from router.data.seam import CallerReads, Connection
from router.remote.resp_place import RespPlace

__all__ = ["TIMEOUT_DEFAULT_S", "Address", "ClientContext", "DirectFactory", "check_timeout"]

DirectFactory = Callable[[str, Session], CallerReads]
"""Makes the direct reads of a table, from its name and the session whose offsets hold for them."""

# The server has just answered. If it does not answer this question in time, the client goes without the endpoint.
_ENDPOINT_S: Final = 1.0

# A month: what is longer is a mistake of units, and overflows the clocks below.
TIMEOUT_MAX_S: Final = 31 * 86_400.0

# Longer than a restart of the server takes, shorter than a person waits.
TIMEOUT_DEFAULT_S: Final = 10.0


class Address(NamedTuple):
    """What is needed to connect again: in a forked process, or in one that got a pickled database."""

    targets: tuple[str, ...]
    timeout: float
    compress: bool
    direct: bool
    fast_path: RespPlace | None = None
    """Where the server's RESP endpoint is."""
    security: ChannelSecurity | None = None
    """How its channels are secured; None: plain."""
    credentials: CallCredentials | None = None
    """How its calls prove who makes them; None: they do not."""
    traces: bool | float = False
    """Are its calls operations of OpenTelemetry, or what share of them?"""


class _Links(NamedTuple):
    """What belongs to one process and its event loop."""

    loop: asyncio.AbstractEventLoop
    connection: Connection
    reads: SubmitsReads
    writes: SubmitsWrites


class ClientContext:
    """One client: its links to the data, made anew in a forked process, and what outlives them.

    Belongs to the event loop it was made in, or to that of the first call where it connects with its first call.
    Pickled, it is its address and what the session has seen; an embedded database raises `InvalidRequest`.
    """

    def __init__(
        self, address: Address | None, *, timeout: float, compress: bool, direct: DirectFactory | None = None
    ) -> None:
        """`address`: how to connect, with the first call or again after a fork; None: only what `link` is given."""
        self._timeout = check_timeout(timeout)
        self._address = address
        self._links: _Links | None = None
        self._closed = False
        self._direct = direct
        self._direct_reads: dict[str, CallerReads] = {}
        """By name of a table that the caller has used: as many as its program names."""
        self.fast_path: RespFastPath | None = None
        """The fast path of blocking callers to a server that is the whole cluster."""
        self._looking: asyncio.Task[None] | None = None
        self.compress = compress
        """Whether batches are compressed with zstd where that makes them smaller."""
        self.session = Session()
        self.acknowledged = Acknowledged()
        """What was written through this client and acknowledged, of the last minutes."""
        self.operations: Operations | None = None
        """What sees each call as an operation, if anything does."""
        if address is not None and address.traces:
            self.operations = client_operations(address.targets, address.traces)
        on_fork(self)

    @classmethod
    def at(cls, address: Address, token: str) -> ClientContext:
        """A client that connects with its first call, and sees what `token` has seen."""
        context = cls(address, timeout=address.timeout, compress=address.compress)
        context.session.merge(Token.parse(token))
        if address.fast_path is not None:
            context.fast_path = context._fast_path_to(address.fast_path)
        return context

    def __reduce__(self) -> tuple[object, ...]:
        if self._address is None:
            raise InvalidRequest(
                "an embedded database is open in one process and cannot be sent to another: serve it with `duramen up` "
                "and connect to it from every process"
            )
        fast_path = self._address.fast_path if self.fast_path is None else self.fast_path.place
        return ClientContext.at, (self._address._replace(fast_path=fast_path), str(self.session.token()))

    def link(self, connection: Connection) -> _Links:
        """From now on calls go by this connection, in the running event loop."""
        # 63 random bits: a producer id is this client's alone, and this process's.
        ways = ClientWays(
            connection,
            ReadCoalescer(connection, self.session),
            WriteCoalescer(
                connection,
                self.session,
                secrets.randbits(63) | 1,
                compress=self.compress,
                acknowledged=self.acknowledged,
            ),
        )
        observer = CLIENT_OBSERVER.get()
        if observer is not None:
            ways = observer.observe(() if self._address is None else self._address.targets, ways)
        self._links = links = _Links(asyncio.get_running_loop(), *ways)
        return links

    def _link_again(self) -> _Links:
        address = self._address
        if address is None:
            raise DatabaseForked(
                "this process was forked from the one that has the database open, and only one process can: open it "
                "after the fork, or serve it with `duramen up` and connect to it from every process"
            )
        # Here, and not at the top: an embedded database needs neither gRPC nor the routes.
        from duramen.client.transport.connect import connect_to
        from duramen.client.transport.deferred import DeferredConnection

        async def connect(failed: Callable[[DuramenError], None]) -> Connection:
            with secured(address.security), proving(address.credentials):
                return await connect_to(address.targets, timeout=address.timeout, direct=address.direct, failed=failed)

        return self.link(DeferredConnection(connect))

    def after_fork(self) -> None:
        """This process has inherited the client: nothing of the connection may be used here, or destroyed."""
        links, self._links, self._looking = self._links, None, None
        self.acknowledged.forget()
        if links is not None:
            keep_for_ever(links)
            for task in asyncio.all_tasks(links.loop):
                keep_for_ever(task)

    @property
    def connection(self) -> Connection:
        """The way to the data."""
        return (self._links or self._link_again()).connection

    @connection.setter
    def connection(self, connection: Connection) -> None:
        self._links = (self._links or self._link_again())._replace(connection=connection)

    @property
    def reads(self) -> SubmitsReads:
        """The gatherer of reads: concurrent calls leave in one request."""
        return (self._links or self._link_again()).reads

    @property
    def writes(self) -> SubmitsWrites:
        """The gatherer of writes: concurrent calls leave in one request."""
        return (self._links or self._link_again()).writes

    def direct_reads(self, name: str) -> CallerReads | None:
        """The shortest way to the values of the table of that name, where they are in this process; always the same
        one, so that the token has what it showed.
        """
        if self._direct is None:
            return None
        return self._direct_reads.get(name) or self._direct_reads.setdefault(name, self._direct(name, self.session))

    def token(self) -> Token:
        """Everything that was written and read through this client. O(tables x partitions)."""
        for reads in list(self._direct_reads.values()):
            reads.note_shown()
        return self.session.token()

    async def find_resp_endpoint(self, *, opens: bool = False) -> None:
        """Look for the server's RESP endpoint, for blocking callers. What is not found is not used.

        `opens`: the server opens the one for its machine. It does so for a client that has made some calls already.
        """
        look: Any = getattr(self.connection, "resp_endpoint", None)  # of other connections there is none to be found
        found: RespPlace | None = None if look is None else await look(opens=opens, timeout=_ENDPOINT_S)
        if found is None:
            return
        address = self._address
        secured = address is not None and address.security is not None
        has_secret = address is not None and address.credentials is not None
        place = reachable_place(found, secured=secured, has_secret=has_secret)
        if self.fast_path is None:
            self.fast_path = self._fast_path_to(place)
        else:
            self.fast_path.found(place)

    def _look_again(self) -> None:
        """Of any thread: find the endpoint in the background."""
        links = self._links
        if links is not None and not self._closed:
            with suppress(RuntimeError):  # the loop has ended, and the client with it
                links.loop.call_soon_threadsafe(self._start_looking)

    def _start_looking(self) -> None:
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self.find_resp_endpoint(opens=True), name="looking for RESP")

    def _fast_path_to(self, place: RespPlace) -> RespFastPath:
        credentials = None if self._address is None else self._address.credentials
        return RespFastPath(
            place,
            self.session,
            compress=self.compress,
            credentials=credentials,
            acknowledged=self.acknowledged,
            look=self._look_again,
        )

    def timeout(self, timeout: float | None) -> float:
        """The seconds that a call may take. Raises `InvalidRequest`, and `DatabaseClosed` after `close`."""
        if self._closed:
            raise DatabaseClosed("this database was closed; connect or open again")
        if self._links is None:
            self._link_again()
        return self._timeout if timeout is None else check_timeout(timeout)

    def deadline(self, timeout: float | None) -> float:
        """The call's deadline on the event loop's clock."""
        seconds = self.timeout(timeout)
        return (self._links or self._link_again()).loop.time() + seconds

    async def close(self) -> None:
        """Finish what is under way and close the connection. Idempotent."""
        if self._closed:
            return
        self._closed = True
        if self.fast_path is not None:
            self.fast_path.close()
        if self._looking is not None:
            self._looking.cancel()
        links = self._links
        if links is None:
            return  # no call has come since the fork
        await every_step(links.writes.close, links.reads.close, links.connection.close)


def check_timeout(timeout: float) -> float:
    """Return `timeout`, or raise `InvalidRequest` saying what a timeout is."""
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout <= TIMEOUT_MAX_S:
        raise InvalidRequest(f"timeout is a number of seconds above 0 and up to {TIMEOUT_MAX_S:g}, not {timeout!r}")
    return timeout
