"""A server whose catalog has users, and the rows of its audit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc

from duramen.server.roles.all_in_one import SingleServer
from duramen.server.roles.resp_endpoint import NO_RESP_ENDPOINT
from duramen.server.wiring.single_machine import THIS_MACHINE, MachineParts
from kit.deadlines import patience_s, until_true
from log_tier.access.authenticator import bearer_header
from log_tier.access.passwords import hash_password
from log_tier.access.tokens import MintedToken, mint_token
from log_tier.audit.audit_settings import AuditSettings
from log_tier.audit.row_format import parse_row
from log_tier.catalog.catalog import Catalog
from log_tier.catalog.commands import Command
from log_tier.model.errors import DuramenError, NotHosted, TableNotFound
from log_tier.model.identifiers import AUDIT_TABLE
from log_tier.rows.table_spec import TableSpec
from log_tier.rpc.problems import error_of_call
from log_tier.trust.trust_commands import AddToken, AddUser
from router.data.requests import ScanRequest
from router.data.seam import Connection
from router.endpoints.resp.server.sockets import RespSettings
from router.proto import admin_pb2_grpc, keyvalue_pb2_grpc, kv_pb2_grpc, tables_pb2_grpc

__all__ = ["AuditedCalls", "Row", "audit_rows", "audited_server"]

Row = dict[str, Any]


async def audit_rows(connection: Connection) -> list[Row]:
    """All rows that are in the table, which may not be there yet."""
    timeout = patience_s(30)
    try:
        table = await connection.find_table(AUDIT_TABLE, timeout=timeout)
        page = await connection.scan(ScanRequest(table.id, limit=4000, strong=True), timeout=timeout)
    except (TableNotFound, NotHosted):
        return []
    assert not page.more, "a test makes fewer rows than a page has"
    return [parse_row(key, value) for key, value in zip(page.keys, page.values, strict=True)]


class AuditedCalls:
    """Calls of users to the server at a port, whose catalog they are in."""

    def __init__(self, port: int, catalog: Catalog, connection: Connection) -> None:
        self.catalog = catalog
        self.connection = connection
        self.channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}")
        self.kv: Any = kv_pb2_grpc.KVStub(self.channel)  # type: ignore[no-untyped-call]
        self.key_value: Any = keyvalue_pb2_grpc.KeyValueStub(self.channel)  # type: ignore[no-untyped-call]
        self.tables: Any = tables_pb2_grpc.TablesStub(self.channel)  # type: ignore[no-untyped-call]
        self.admin: Any = admin_pb2_grpc.AdminStub(self.channel)  # type: ignore[no-untyped-call]
        self.tokens: dict[str, MintedToken] = {}

    async def submit(self, command: Callable[[Any], Command]) -> None:
        await self.catalog.submit(command(self.catalog.map.version))

    async def add_user(self, name: str, *grants: str, password: str = "") -> None:
        hashed = await asyncio.to_thread(hash_password, password) if password else ""
        await self.submit(lambda seen: AddUser(name, seen, hashed, grants))
        token = self.tokens[name] = mint_token(name)
        await self.submit(lambda seen: AddToken(name, seen, token.id, token.sha256))

    def of(self, name: str) -> tuple[tuple[str, str], ...]:
        """The metadata of a call with the token of a user."""
        return (("authorization", bearer_header(self.tokens[name].text)),) if name else ()

    async def error(self, call: Awaitable[Any]) -> DuramenError | None:
        try:
            await call
        except grpc.aio.AioRpcError as failure:
            return error_of_call(failure, "the server")
        return None

    async def rows(self, **fields: Any) -> list[Row]:
        """The rows that have these fields."""
        every = await audit_rows(self.connection)
        return [row for row in every if all(row[name] == value for name, value in fields.items())]

    async def until_rows(self, count: int = 1, **fields: Any) -> list[Row]:
        """The same, when there are as many."""

        async def are_there() -> bool:
            return len(await self.rows(**fields)) >= count

        await until_true(are_there)
        return await self.rows(**fields)


@asynccontextmanager
async def audited_server(
    folder: Path,
    *,
    audit: AuditSettings | None = None,
    machine: MachineParts = THIS_MACHINE,
    resp: RespSettings = NO_RESP_ENDPOINT,
) -> AsyncIterator[tuple[SingleServer, AuditedCalls]]:
    """A server in this process with the tables `orders` and `ships`. It has no user yet."""
    server = await SingleServer.open(folder, port=0, audit=audit, machine=machine, resp_endpoint=resp)
    calls = AuditedCalls(server.port, server.data_plane.catalog, server.data_plane)
    try:
        for name in ("orders", "ships"):
            if server.data_plane.catalog.map.named(name) is None:
                await server.data_plane.create_table(TableSpec(name, 2), timeout=patience_s(30))
        yield server, calls
    finally:
        await calls.channel.close(None)
        await server.close()
