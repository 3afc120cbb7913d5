"""A database with its RESP endpoint, on an event loop in a thread of its own: for clients that block."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TypeVar

from duramen.server.roles.readers import Readers
from kit.cluster.one_machine import one_machine
from kit.deadlines import patience_s, within
from kit.resp.raw_client import Raw, Status
from kit.served_thread import ServedThread
from log_tier.access.authenticator import Authenticator
from log_tier.access.gate import Gate
from log_tier.access.passwords import hash_password
from log_tier.access.tokens import MintedToken, mint_token
from log_tier.audit.audit_trail import AuditTrail
from log_tier.catalog.catalog import Catalog
from log_tier.catalog.commands import Command
from log_tier.catalog.map_follower import MapFollower
from log_tier.model.identifiers import Offset
from log_tier.trust.trust_commands import AddToken, AddUser
from router.data.local_data import LocalData
from router.endpoints.resp.server.resp_server import RespServer
from router.endpoints.resp.server.sockets import RespSettings, RespSockets

__all__ = ["ServerThread", "open_resp"]

T = TypeVar("T")


async def open_resp(data_plane: LocalData, settings: RespSettings, **how: Any) -> RespServer:
    """An endpoint without reader processes."""
    return await RespServer.open(
        data_plane, MapFollower(data_plane.catalog), settings, RespSockets.take(settings), node=data_plane.node, **how
    )


class ServerThread(ServedThread):
    """The endpoint, with its reader processes."""

    def __init__(self, folder: Path, settings: RespSettings | None = None, audit: AuditTrail | None = None) -> None:
        """`audit`: takes what is noted; nobody writes it."""
        super().__init__("RESP endpoint")
        self._audit = audit
        self._folder = folder
        self._settings = settings or RespSettings(port=0)
        self.tokens: dict[str, MintedToken] = {}
        """The newest token of each user that was made."""
        self.server: RespServer
        self.data_plane: LocalData
        self.catalog: Catalog
        self.readers: Readers
        """None of them where the settings want none."""

    async def open(self, opened: AsyncExitStack) -> None:
        self.data_plane = await opened.enter_async_context(one_machine(self._folder))
        sockets = RespSockets.take(self._settings)
        self.catalog = self.data_plane.catalog
        maps = MapFollower(self.catalog)
        gate = Gate(lambda: self.catalog.map)
        opened.push_async_callback(await maps.follow(gate.follow, name="users and grants"))
        self.server = await RespServer.open(
            self.data_plane,
            maps,
            self._settings,
            sockets,
            node=self.data_plane.node,
            gate=gate,
            authenticator=Authenticator(gate),
            audit=self._audit,
        )
        opened.push_async_callback(self.server.close)
        self.readers = await Readers.start(self.server, self._settings, sockets)
        opened.push_async_callback(self.readers.close)

    def submit(self, *commands: Callable[[Offset], Command]) -> None:
        """Give commands to the catalog, each with the version that was seen; in its log and folded at the return."""

        async def submit() -> None:
            for command in commands:
                await self.catalog.submit(command(self.catalog.map.version))

        self.run(submit)

    def add_user(self, name: str, *grants: str, password: str = "", expires_ms: int = 0) -> str:
        """Make a user; its token, which is also in `tokens`."""
        token = self.tokens[name] = mint_token(name)
        hashed = hash_password(password) if password else ""
        self.submit(
            lambda seen: AddUser(name, seen, hashed, grants),
            lambda seen: AddToken(name, seen, token.id, token.sha256, expires_ms),
        )
        return token.text

    def connect_as(self, user: str) -> Raw:
        """A connection that has proved who it is by its user's token."""
        raw = self.connect()
        assert raw.call("AUTH", user, self.tokens[user].text) == Status("OK")
        return raw

    @property
    def address(self) -> tuple[str, int]:
        return ("127.0.0.1", self.server.port)

    async def watched(self) -> None:
        """Return when the watch of the default table is at the log's end, so that nothing is missed."""
        async with within(20):
            while not self.server.notifications.watching(0):  # noqa: ASYNC110
                await asyncio.sleep(0.001)

    def connect(self) -> Raw:
        return Raw(self.address)

    def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine in the endpoint's loop."""
        return asyncio.run_coroutine_threadsafe(work(), self.loop).result(patience_s(30.0))
