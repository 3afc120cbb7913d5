"""A client of HTTP/1.1 that sends exactly what a test says, one request for each connection."""

from __future__ import annotations

import asyncio
import ssl

from kit.deadlines import patience_s, within

__all__ = ["HttpAnswer", "http_get", "http_raw"]

HttpAnswer = tuple[int, dict[str, str], bytes]
"""Status code, headers by their names in small letters, body."""


async def http_raw(port: int, sent: bytes, tls: ssl.SSLContext | None = None) -> bytes:
    """Everything that the server sends until it closes the connection."""
    async with within(patience_s(30)):
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=tls, server_hostname="localhost" if tls else None
        )
        writer.write(sent)
        received = await reader.read()
        writer.close()
    return received


async def http_get(
    port: int,
    path: str,
    *headers: str,
    method: str = "GET",
    tls: ssl.SSLContext | None = None,
    host: str = "localhost",
) -> HttpAnswer:
    """The answer to one request. `headers`: whole lines."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Connection: close", *headers, "", ""]
    head, _, body = (await http_raw(port, "\r\n".join(lines).encode(), tls)).partition(b"\r\n\r\n")
    first, *rest = head.decode().split("\r\n")
    fields = {name.lower(): value for name, _, value in (line.partition(": ") for line in rest)}
    return int(first.split()[1]), fields, body
