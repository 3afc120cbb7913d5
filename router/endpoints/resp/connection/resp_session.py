"""What a connection carries from one command to the next: who it is, its table, its token, its transaction."""

from __future__ import annotations

import asyncio

from log_tier.model.errors import DuramenError, TableNotFound
from log_tier.model.identifiers import Offset
from log_tier.model.tokens import Token
from router.data.freshness import Freshness, FreshnessLevel
from router.endpoints.resp.command_spec import CommandSpec
from router.endpoints.resp.connection.connection_context import ConnectionOwner
from router.endpoints.resp.data.served_tables import DEFAULT_TABLE, ServedTable
from router.endpoints.resp.wire.error_replies import problem_of
from router.endpoints.resp.wire.fallback_parser import RespCommand
from router.endpoints.resp.wire.fence import ConnectionState
from router.endpoints.resp.wire.replies import NULL, Problem

__all__ = ["RespSession"]


class RespSession:
    """The state of one connection. Commands change it, and then call `changed`."""

    def __init__(self, server: ConnectionOwner) -> None:
        self.server = server
        self.id = server.next_id()
        self.transport: asyncio.Transport
        self.origin = ""
        """Where the client is, if this is the upstream connection of a reader process."""
        self.name = b""
        self.library: dict[str, bytes] = {}
        """What CLIENT SETINFO was given."""
        self.protocol = 2
        self.authenticated = not server.secret
        """May it do more than prove who it is?"""
        self.lapsed = ""
        """Why its proof does not count any more."""
        self.number = 0
        """Of the database that was selected, for CLIENT INFO."""
        self.table_name = DEFAULT_TABLE
        self.table: ServedTable | None = None
        self.level: FreshnessLevel = "session"
        self.token = Token()
        """What reads of this connection must still wait for."""
        self.transaction: list[tuple[CommandSpec, RespCommand]] | None = None
        """The commands after MULTI."""
        self.transaction_keys = 0
        self.transaction_bytes = 0
        """Keys that they name."""
        self.aborted = False
        """One of them could not be queued."""
        self.watched: dict[tuple[str, bytes], Offset] = {}
        self.channels: set[bytes] = set()
        self.patterns: set[bytes] = set()
        self.cluster_aware = False
        """The client knows about clusters: it may be redirected."""
        self.commands = 0
        self.last_command = "NULL"
        self.connected_s = server.loop.time()
        self.plain = False
        """The fast paths are open: nothing about this connection is unusual."""
        self.null = NULL[2]
        """The reply for a value that is not there."""
        self.changed()

    def changed(self) -> None:
        """Something that decides about the fast paths has changed."""
        self.null = NULL[self.protocol]
        self.plain = (
            self.authenticated
            and self.transaction is None
            and not self.subscribed
            and self.level == "session"
            and not self.token.tables
            and (self.table is None or self.table.form is None)
        )

    def state_for(self, plain: bool, changes: int) -> ConnectionState:
        """The state for a reader process: may it read by itself, and by how many changes of users is that so?"""
        table = self.table = self.table or self.server.tables.at_hand(self.table_name)
        self.changed()
        plain = plain and self.plain
        page = table.page if table is not None and not table.gone else None
        return ConnectionState(plain, self.protocol, 0 if page is None else page.number, changes)

    def may_come_in(self, may: bool, lapsed: str = "") -> None:
        """The client has proved who it is, or its proof counts no more, and why."""
        self.authenticated, self.lapsed = may, lapsed
        self.changed()

    def unproved(self) -> Problem:
        """The reply to a command of somebody who is nobody, or whose proof counts no more."""
        text = "NOAUTH Authentication required."
        return Problem(f"{text} {self.lapsed[:1].upper()}{self.lapsed[1:]}" if self.lapsed else text)

    @property
    def subscribed(self) -> bool:
        """The client has subscriptions and uses RESP2, where it may do nothing else."""
        return self.protocol == 2 and bool(self.channels or self.patterns)

    def refusal(self, spec: CommandSpec, command: RespCommand) -> Problem | None:
        """Why a command is not to run on this connection; None where it may."""
        if not self.authenticated and "no_auth" not in spec.flags:
            return self.unproved()
        refusal = spec.refusal(command)
        if refusal is None and self.subscribed and "pubsub" not in spec.flags:
            return Problem(
                f"ERR Can't execute '{spec.name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET "
                "are allowed in this context"
            )
        return refusal

    @property
    def address(self) -> str:
        """The client's address."""
        if self.origin:
            return self.origin
        peer = self.transport.get_extra_info("peername")
        return f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else f"{self.server.socket_path or 'local'}:0"

    @property
    def local_address(self) -> tuple[str, int]:
        """Host and port at which it reached this server."""
        name = self.transport.get_extra_info("sockname")
        return (name[0], name[1]) if isinstance(name, tuple) else ("127.0.0.1", self.server.port)

    def select(self, name: str, table: ServedTable | None, number: int) -> None:
        """Go to another table."""
        self.table_name, self.table, self.number = name, table, number
        self.changed()

    def freshness(self, table: ServedTable) -> Freshness:
        """How new this connection's answers must be. Raises `InvalidToken`."""
        return Freshness(self.level, self.token.offsets(table.ref.id, table_name=table.ref.name))

    def caught_up(self, table: ServedTable) -> None:
        """A read was answered: drop from the token each offset that the table has reached."""
        offsets = self.token.tables.get(table.ref.id)
        if offsets is None:
            return
        # Not `seen`: that a write was acknowledged does not keep a read of another key from showing less.
        left = {partition: offset for partition, offset in offsets.items() if not table.reached(partition, offset)}
        tables = {table_id: asked for table_id, asked in self.token.tables.items() if table_id != table.ref.id}
        self.token = Token({**tables, table.ref.id: left} if left else tables, session=self.token.session)
        self.changed()

    def report(self, error: DuramenError) -> Problem:
        """The reply for an error of the database.

        Where the selected table may be gone, the next command looks for it; it keeps its floors if it is still there.
        """
        table = self.table
        if isinstance(error, TableNotFound) and table is not None:
            name, table_id = table.ref.name, table.ref.id
            missing = error.fields.get("table", table_id)
            if missing in (name, table_id):
                table.gone = True
            if missing == table_id:
                return Problem(
                    f"ERR there is no table {name!r} with the id {table_id} here: it was dropped; the next command "
                    "looks for a table of that name"
                )
        return problem_of(error)

    async def current_table(self) -> ServedTable:
        """The selected table; made where it is one that is made at first use."""
        table = self.table
        if table is None or table.gone:
            table = self.table = await self.server.tables.open(self.table_name)
            self.changed()
        return table
