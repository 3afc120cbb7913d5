"""Duramen, etcd and Redis as other people's machines may reach them: certificates, users, rights.

Each is its plain driver with that in addition, so that what differs between two sides is what security costs.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import secrets
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bench.drivers.duramen import PARTITIONS, TABLE, Duramen
from bench.drivers.etcd import Etcd
from bench.drivers.redis import Redis
from bench.drivers.resp_clients import CONNECTIONS, RespClients
from bench.drivers.resp_endpoint import RespEndpoint
from bench.server_process import free_port, program

__all__ = [
    "USER",
    "USER_TOKEN",
    "DuramenLogins",
    "DuramenSecured",
    "EtcdWithUsers",
    "RedisTls",
    "RespSecured",
    "administer",
]

USER: Final = "alice"
_ADMIN_TOKEN: Final = "admin.token"
USER_TOKEN: Final = "alice.token"
_RESP_TABLE: Final = "default"


def _make_certificates(folder: Path) -> Path:
    """A CA and a server's certificate for loopback; returns their folder."""
    certs = folder / "certs"
    for command in (["init"], ["issue", "server", "--server", "localhost,127.0.0.1"]):
        subprocess.run([program("duramen"), "cert", *command, "--dir", str(certs)], check=True, capture_output=True)
    return certs


def _server_options(folder: Path) -> Sequence[str]:
    certs = _make_certificates(folder)
    return ("--certs", str(certs), "--first-user", "admin", "--token-file", str(folder / _ADMIN_TOKEN))


async def _token_is_there(folder: Path) -> None:
    """The port is bound a moment before the first user's token is written."""

    def wait() -> None:
        late = time.monotonic() + 30
        while not (folder / _ADMIN_TOKEN).exists():
            assert time.monotonic() < late, "the server wrote no token"
            time.sleep(0.01)

    await asyncio.to_thread(wait)


async def _add_user(folder: Path, address: str, table: str) -> None:
    """A user who may read and write one table, as an administrator adds it."""
    await administer(folder, address, "user", "add", USER, "--token-file", str(folder / USER_TOKEN))
    await administer(folder, address, "grant", USER, "read,write", table)


async def administer(folder: Path, address: str, *command: str, typed: str = "") -> None:
    """Run a command of the first user's. `typed`: what it reads from its standard input."""
    done = await asyncio.create_subprocess_exec(
        *(program("duramen"), "--token-file", str(folder / _ADMIN_TOKEN), *command),
        env={**os.environ, "DURAMEN_AT": address, "DURAMEN_CA": str(folder / "certs" / "ca.crt")},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    await done.communicate(typed.encode())
    assert done.returncode == 0, f"duramen {' '.join(command)} ended with {done.returncode}"


class DuramenSecured(Duramen):
    """TLS, and a user whose token and grant are checked in every call."""

    def __init__(self) -> None:
        super().__init__()
        self.note += "; TLS, a user with a token and the grant 'read,write' on the table"
        self._folder: Path | None = None

    @property
    def address(self) -> str:
        return f"duramens://{super().address}"

    def _options(self, folder: Path) -> Sequence[str]:
        return _server_options(folder)

    async def _connect(self, folder: Path) -> Any:
        self._folder = folder
        await _token_is_there(folder)
        connect = importlib.import_module("duramen.aio").connect
        ca = str(folder / "certs" / "ca.crt")
        async with await connect(self.address, token_file=str(folder / _ADMIN_TOKEN), ca=ca) as admin:
            await admin.create_table(TABLE, partitions=PARTITIONS)
        await _add_user(folder, self.address, TABLE)
        return await connect(self.address, token_file=str(folder / USER_TOKEN), ca=ca)


class DuramenLogins(DuramenSecured):
    """The same with an endpoint of the Redis protocol, at which others log in with a password meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self._password = secrets.token_hex(16)
        self._resp_port = free_port()

    def _options(self, folder: Path) -> Sequence[str]:
        return (*super()._options(folder), "--resp-port", str(self._resp_port))

    async def give_password(self) -> None:
        """Give the user a password."""
        assert self._folder is not None, "asked before start"
        await administer(self._folder, self.address, "user", "password", USER, typed=f"{self._password}\n")

    async def start_logins(self) -> asyncio.subprocess.Process:
        """Another process in which clients log in, as `bench.drivers.logins` says."""
        assert self._folder is not None, "asked before start"
        ca = str(self._folder / "certs" / "ca.crt")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bench.drivers.logins", "localhost", str(self._resp_port), USER, ca),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert process.stdin is not None
        process.stdin.write(f"{self._password}\n".encode())
        return process


class RespSecured(RespEndpoint):
    """TLS, and a user whose grant is checked for every command."""

    def __init__(self) -> None:
        super().__init__()
        self._access: tuple[str, ...] = ()
        self.note += f"; TLS, a user with a token and the grant 'read,write {_RESP_TABLE}'"

    @property
    def access(self) -> tuple[str, ...]:
        return self._access

    def _options(self, folder: Path) -> Sequence[str]:
        return _server_options(folder)

    async def _connect(self, folder: Path) -> RespClients:
        await _token_is_there(folder)
        await _add_user(folder, f"duramens://127.0.0.1:{self.grpc_port}", _RESP_TABLE)
        token, ca = (folder / USER_TOKEN).read_text().strip(), str(folder / "certs" / "ca.crt")
        self._access = ("--tls", "--cacert", ca, "--user", USER, "-a", token)
        return await RespClients.connect(
            self.port, connections=CONNECTIONS, ssl=True, ssl_ca_certs=ca, username=USER, password=token
        )


class RedisTls(Redis):
    """Redis with TLS and a user of its own."""

    def __init__(self) -> None:
        super().__init__()
        self._password = secrets.token_hex(16)
        self._ca = ""
        self.note += "; TLS, a user with a password and all rights"

    @property
    def access(self) -> tuple[str, ...]:
        return ("--tls", "--cacert", self._ca, "--user", USER, "-a", self._password)

    def _options(self, folder: Path, port: int) -> Sequence[str]:
        certs = _make_certificates(folder)
        self._ca = str(certs / "ca.crt")
        return (
            *("--port", "0", "--tls-port", str(port), "--tls-auth-clients", "no", "--tls-ca-cert-file", self._ca),
            *("--tls-cert-file", str(certs / "server.crt"), "--tls-key-file", str(certs / "server.key")),
            *("--user", USER, "on", f">{self._password}", "~*", "+@all"),
        )

    async def _connect(self, port: int) -> RespClients:
        return await RespClients.connect(
            port,
            connections=self._connections,
            ssl=True,
            ssl_ca_certs=self._ca,
            username=USER,
            password=self._password,
        )


class EtcdWithUsers(Etcd):
    """etcd with its authentication on: a token in every call, a role with all keys."""

    def __init__(self) -> None:
        super().__init__()
        self._password = secrets.token_hex(16)
        self._has_users = False
        self.note += "; authentication on, a user with a token and a role with all keys; no TLS"

    async def _log_in(self, client: str) -> tuple[tuple[str, str], ...]:
        def call(method: str, **fields: object) -> Any:
            request = urllib.request.Request(f"{client}/v3/auth/{method}", json.dumps(fields).encode())
            with urllib.request.urlopen(request, timeout=10) as answer:
                return json.load(answer)

        def log_in() -> str:
            if not self._has_users:
                every_key = {"permType": "READWRITE", "key": "AA==", "range_end": "AA=="}
                for user, role in (("root", "root"), (USER, "all")):
                    call("user/add", name=user, password=self._password)
                    call("role/add", name=role)
                    call("user/grant", user=user, role=role)
                call("role/grant", name="all", perm=every_key)
                call("enable")
                self._has_users = True
            return str(call("authenticate", name=USER, password=self._password)["token"])

        return (("token", await asyncio.to_thread(log_in)),)
