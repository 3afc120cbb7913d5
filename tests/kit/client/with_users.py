"""A server in this process whose catalog has users, each with a token."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from duramen.server.roles.all_in_one import SingleServer
from log_tier.access.passwords import hash_password
from log_tier.access.tokens import mint_token
from log_tier.catalog.commands import Command
from log_tier.trust.trust_commands import AddToken, AddUser

__all__ = ["WithUsers"]


class WithUsers:
    """Makes users by commands of the catalog. Its methods run in the server's loop."""

    def __init__(self, server: SingleServer) -> None:
        self.server = server
        self.catalog = server.data_plane.catalog
        self.tokens: dict[str, str] = {}
        """The newest token of each user."""
        self.token_ids: dict[str, str] = {}

    @property
    def target(self) -> str:
        return f"127.0.0.1:{self.server.port}"

    async def submit(self, command: Callable[[Any], Command]) -> None:
        await self.catalog.submit(command(self.catalog.map.version))

    async def add_user(self, name: str, *grants: str, password: str = "") -> str:
        """A user with a token, which is returned."""
        hashed = await asyncio.to_thread(hash_password, password) if password else ""
        await self.submit(lambda seen: AddUser(name, seen, hashed, grants))
        return await self.add_token(name)

    async def add_token(self, name: str, *, expires_ms: int = 0) -> str:
        token = mint_token(name)
        await self.submit(lambda seen: AddToken(name, seen, token.id, token.sha256, expires_ms))
        self.tokens[name], self.token_ids[name] = token.text, token.id
        return token.text
