"""A server with users, and a gRPC channel to it whose calls say who calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc

from duramen.server.roles.all_in_one import SingleServer
from log_tier.access.authenticator import bearer_header
from log_tier.access.passwords import hash_password
from log_tier.access.tokens import MintedToken, mint_token
from log_tier.catalog.commands import Command
from log_tier.model.errors import DuramenError
from log_tier.rpc.problems import error_of_call
from log_tier.trust.trust_commands import AddToken, AddUser
from router.proto import kv_pb2_grpc

__all__ = ["Guarded"]


class Guarded:
    """A server with users, and a channel to it."""

    def __init__(self, server: SingleServer) -> None:
        self.server = server
        self.catalog = server.data_plane.catalog
        self.channel = grpc.aio.insecure_channel(f"127.0.0.1:{server.port}")
        self.kv: Any = kv_pb2_grpc.KVStub(self.channel)  # type: ignore[no-untyped-call]
        self.tokens: dict[str, MintedToken] = {}

    async def submit(self, command: Callable[[Any], Command]) -> None:
        await self.catalog.submit(command(self.catalog.map.version))

    async def add_user(self, name: str, *grants: str, password: str = "") -> None:
        hashed = await asyncio.to_thread(hash_password, password) if password else ""
        await self.submit(lambda seen: AddUser(name, seen, hashed, grants))
        await self.add_token(name)

    async def add_token(self, name: str, *, expires_ms: int = 0) -> None:
        token = self.tokens[name] = mint_token(name)
        await self.submit(lambda seen: AddToken(name, seen, token.id, token.sha256, expires_ms))

    def of(self, name: str) -> tuple[tuple[str, str], ...]:
        """The metadata of a call with the token of a user."""
        return (("authorization", bearer_header(self.tokens[name].text)),) if name else ()

    async def error(self, call: Awaitable[Any]) -> DuramenError | None:
        try:
            await call
        except grpc.aio.AioRpcError as failure:
            return error_of_call(failure, "the server")
        return None
