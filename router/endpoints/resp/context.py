"""What a command may see of its connection and of the server. Types only: no code of either is imported here.

Commands are below the connections that run them: they know these two protocols, and `connection/client.py` and
`server/resp_server.py` satisfy them. The server holds the table of all commands, so that COMMAND can describe them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from log_tier.access.authenticator import Authenticator
from log_tier.access.gate import Gate
from log_tier.access.quotas.quota_keeper import QuotaKeeper
from log_tier.audit.audit_trail import AuditTrail
from log_tier.concurrency.clocks import Clock
from log_tier.model.identifiers import Offset, Partition
from log_tier.model.tokens import Token
from log_tier.slow_calls.slow_call_log import SlowCallLog
from log_tier.trust.caller import Caller
from router.admin.admin import OpenAdmin
from router.data.freshness import Freshness, FreshnessLevel
from router.data.seam import Connection
from router.endpoints.resp.command_spec import CommandSpec
from router.endpoints.resp.data.cursors import Cursors
from router.endpoints.resp.data.freshness_page import FreshnessPages
from router.endpoints.resp.data.key_views import DataCommand
from router.endpoints.resp.data.native_batches import NativeBatches
from router.endpoints.resp.data.notifications import Listener, Notifications
from router.endpoints.resp.data.reads import Reads
from router.endpoints.resp.data.rounds.command_rounds import CommandRounds
from router.endpoints.resp.data.served_tables import ServedTable, ServedTables
from router.endpoints.resp.data.shared_writer import SharedWriter
from router.endpoints.resp.wire.fallback_parser import RespCommand
from router.endpoints.resp.wire.replies import Problem
from router.membership.live_membership import LiveMembership
from serving_tier.node.node import Node

__all__ = ["CommandContext", "CommandPipeline", "NodeAddress", "ServerContext"]


class NodeAddress(NamedTuple):
    """The address of a node's RESP endpoint."""

    node: str
    host: str
    port: int


class ServerContext(Protocol):
    """What all connections share. See `RespServer` for each field."""

    commands: Mapping[str, CommandSpec]
    connection: Connection
    membership: LiveMembership | None
    node: Node | None
    node_id: str
    admin: OpenAdmin | None
    secret: bytes
    clock: Clock
    loop: asyncio.AbstractEventLoop
    opened_s: float
    run_id: str
    port: int
    pages: FreshnessPages | None
    gate: Gate
    authenticator: Authenticator
    audit: AuditTrail | None
    quotas: QuotaKeeper
    slow: SlowCallLog
    trust_changes: int
    connections_taken: int
    connections_refused: int
    connections_dropped: int
    commands_done: int
    tables: ServedTables
    reads: Reads
    writer: SharedWriter
    changes: CommandRounds
    batches: NativeBatches
    cursors: Cursors
    notifications: Notifications

    @property
    def is_guarded(self) -> bool: ...
    @property
    def clients(self) -> Mapping[int, CommandContext]: ...
    @property
    def connections_max(self) -> int: ...
    @property
    def clustered(self) -> bool: ...
    @property
    def epoch(self) -> int: ...
    async def addresses(self, here: NodeAddress) -> dict[str, NodeAddress]: ...
    def holders(self, table: ServedTable, partition: Partition) -> Sequence[str]: ...
    def own_partitions(self, table: ServedTable) -> list[Partition]: ...
    def redirection(self, client: CommandContext, table: ServedTable, keys: Sequence[bytes]) -> Problem | None: ...
    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]: ...
    def check_redirection(self, client: CommandContext, table: ServedTable, keys: Sequence[bytes]) -> None: ...


class CommandPipeline(Protocol):
    """The commands of a connection that run in rounds. See `Pipeline`."""

    @property
    def takes(self) -> bool: ...
    def queue(
        self,
        table: ServedTable,
        partition: Partition,
        keys: Sequence[bytes],
        step: DataCommand,
        args: Sequence[bytes],
        *,
        size: int,
        reads: bool = True,
        watched: Mapping[bytes, Offset] | None = None,
    ) -> None: ...


class CommandContext(Listener, Protocol):
    """The connection that a command came by. See `RespSession` and `Client` for each field."""

    id: int
    name: bytes
    library: dict[str, bytes]
    protocol: int
    authenticated: bool
    number: int
    table_name: str
    table: ServedTable | None
    level: FreshnessLevel
    token: Token
    transaction: list[tuple[CommandSpec, RespCommand]] | None
    transaction_keys: int
    transaction_bytes: int
    aborted: bool
    watched: dict[tuple[str, bytes], Offset]
    cluster_aware: bool
    commands: int
    last_command: str
    connected_s: float
    closing: bool
    only_waits: bool
    judges_wait: bool

    @property
    def noted_caller(self) -> Caller: ...
    @property
    def server(self) -> ServerContext: ...
    @property
    def pipeline(self) -> CommandPipeline: ...
    @property
    def caller(self) -> Caller: ...
    @property
    def subscribed(self) -> bool: ...
    @property
    def address(self) -> str: ...
    @property
    def local_address(self) -> tuple[str, int]: ...
    def prove(self, caller: Caller) -> None: ...
    def may_come_in(self, may: bool, lapsed: str = "") -> None: ...
    def denied(self, commands: Sequence[tuple[CommandSpec, RespCommand]], *, action: str = "") -> Problem | None: ...
    def denied_by_form(self, spec: CommandSpec, command: RespCommand) -> Problem | None: ...
    async def denied_in_thread(
        self, commands: Sequence[tuple[CommandSpec, RespCommand]], *, action: str = ""
    ) -> Problem | None: ...
    async def denied_since(
        self, judged_by: int, commands: Sequence[tuple[CommandSpec, RespCommand]], *, action: str = ""
    ) -> Problem | None: ...
    def reads_all(self, table: str) -> bool: ...
    def changed(self) -> None: ...
    def leaves_free(self, data: bytes) -> None: ...
    def select(self, name: str, table: ServedTable | None, number: int) -> None: ...
    def freshness(self, table: ServedTable) -> Freshness: ...
    def caught_up(self, table: ServedTable) -> None: ...
    def finish(self, reason: str) -> None: ...
    async def current_table(self) -> ServedTable: ...
