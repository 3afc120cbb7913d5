"""Floods of connections to the HTTP port by who has proved nothing: probes are answered meanwhile."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import pytest
from kit.deadlines import patience_s, within
from kit.http import http_get

from duramen.certificates.folder import CertificateFolder
from duramen.certificates.identity import CertificateIdentity
from duramen.server.roles.all_in_one import SingleServer
from duramen.server.sight.http_limits import HttpLimits
from duramen.server.wiring.server_certificates import ServerCertificates

FLOOD: Final = 140
"""More connections than there are places."""


@asynccontextmanager
async def served(folder: Path, by: str) -> AsyncIterator[tuple[int, ssl.SSLContext | None]]:
    """A server that gives clients a minute, at this port; its certificates, where it has some."""
    certificates, tls = None, None
    if by == "https":
        made = CertificateFolder(folder / "certs")
        made.make_authority()
        made.issue(CertificateIdentity("server", "server"), ["localhost"])
        certificates = ServerCertificates.open(folder / "certs")
        tls = ssl.create_default_context(cafile=str(folder / "certs" / "ca.crt"))
    server = await SingleServer.open(folder / "data", port=0)
    try:
        await server.serve_http(0, certificates, limits=HttpLimits(timeout_s=60.0))
        yield server.http_port, tls
    finally:
        await server.close()


@asynccontextmanager
async def flood(port: int, sent: bytes, address: str) -> AsyncIterator[None]:
    """As many connections from an address, each of which has sent that."""
    opened: list[asyncio.StreamWriter] = []
    try:
        for _ in range(FLOOD):
            _, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
            opened.append(writer)
            writer.write(sent)
        yield
    finally:
        for writer in opened:
            writer.transport.abort()
            with suppress(ConnectionError):
                await writer.wait_closed()


@pytest.mark.parametrize("by", ["http", "https"])
async def test_probes_are_answered_while_two_flood(tmp_path: Path, by: str) -> None:
    """Both took all 128 places for ten seconds: Kubernetes ended a healthy server."""
    started = b"GET /livez HT" if by == "http" else b"\x16"
    async with (
        served(tmp_path, by) as (port, tls),
        within(patience_s(30)),
        flood(port, b"", "127.0.0.2"),
        flood(port, started, "127.0.0.3"),
    ):
        for _ in range(20):
            for path in ("/livez", "/readyz"):
                assert (await http_get(port, path, tls=tls))[0] == 200


async def test_a_probe_is_answered_at_the_address_of_the_flood(tmp_path: Path) -> None:
    async with served(tmp_path, "http") as (port, _), within(patience_s(30)), flood(port, b"", "127.0.0.1"):
        assert (await http_get(port, "/readyz"))[0] == 200
