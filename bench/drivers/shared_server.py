"""Duramen with two users: one whose calls are measured, and one who floods, within a quota or without one."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

from bench.drivers.grpc_floods import FLOODED_TABLE
from bench.drivers.resp_clients import RespClients
from bench.drivers.secured import USER, USER_TOKEN, DuramenSecured, administer
from bench.server_process import free_port

__all__ = ["CalledBy", "SharedServer"]

CalledBy = Literal["grpc", "resp"]
"""By which an endpoint is called."""

_FLOODER: Final = "mallory"
_RESP_TABLE: Final = "default"
_RESP_CALLERS: Final = 16
"""Connections of the measured user: more than it has calls under way at once."""


class SharedServer(DuramenSecured):
    """TLS, users, both endpoints; the flooder has a table of its own."""

    def __init__(self, *, quota: Sequence[str]) -> None:
        """`quota`: options of `duramen quota set` for the flooder; none: it has no quota."""
        super().__init__()
        self._quota = quota
        self._resp_port = free_port()
        self.note += f"; the flooder has {' '.join(quota).replace('--', '') or 'no quota'}"

    @property
    def grpc_port(self) -> int:
        """Of the data's gRPC services."""
        return int(self.address.rpartition(":")[2])

    def _options(self, folder: Path) -> Sequence[str]:
        self._folder = folder
        return (*super()._options(folder), "--resp-port", str(self._resp_port))

    async def add_flooder(self) -> None:
        """Add the user who floods, with a grant on a table of its own for each protocol."""
        folder = self._there()
        await administer(folder, self.address, "user", "add", _FLOODER, "--token-file", str(self._token_file))
        await administer(folder, self.address, "table", "create", FLOODED_TABLE)
        for table in (_RESP_TABLE, FLOODED_TABLE):
            await administer(folder, self.address, "grant", _FLOODER, "read,write", table)
        if self._quota:
            await administer(folder, self.address, "quota", "set", "--user", _FLOODER, *self._quota)

    async def start_flood(self, kind: str, *, by: CalledBy = "resp") -> asyncio.subprocess.Process:
        """Another process that floods, as `bench.drivers.floods` and `bench.drivers.grpc_floods` say; it ends when its
        standard input does. Returns when all its connections are there.
        """
        ca = str(self._there() / "certs" / "ca.crt")
        module, port = ("floods", self._resp_port) if by == "resp" else ("grpc_floods", self.grpc_port)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", f"bench.drivers.{module}", kind, "localhost", str(port), _FLOODER, ca),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert process.stdin is not None
        process.stdin.write(self._token_file.read_bytes() + b"\n")
        assert process.stdout is not None
        ready = await process.stdout.readline()
        assert ready == b"ready\n", f"the flood said {ready!r}"
        return process

    async def connect_by_resp(self) -> RespClients:
        """Connections of the Redis protocol of the user whose calls are measured."""
        folder = self._there()
        await administer(folder, self.address, "grant", USER, "read,write", _RESP_TABLE)
        token, ca = (folder / USER_TOKEN).read_text().strip(), str(folder / "certs" / "ca.crt")
        return await RespClients.connect(
            self._resp_port, connections=_RESP_CALLERS, ssl=True, ssl_ca_certs=ca, username=USER, password=token
        )

    @property
    def _token_file(self) -> Path:
        return self._there() / f"{_FLOODER}.token"

    def _there(self) -> Path:
        assert self._folder is not None, "asked before start"
        return self._folder
