"""A client of HTTP/1.1 that sends exactly what a test says, one request for each connection."""

from __future__ import annotations

import asyncio
import json
import ssl
from typing import Any

from kit.deadlines import patience_s, within

__all__ = ["CALL_HEADERS", "HttpAnswer", "http_call", "http_get", "http_post", "http_raw"]

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
    return _answer(await http_raw(port, "\r\n".join(lines).encode(), tls))


CALL_HEADERS = ("Content-Type: application/json",)


async def http_post(port: int, path: str, body: bytes, *headers: str, host: str = "localhost") -> HttpAnswer:
    """The answer to one request with a body."""
    lines = [f"POST {path} HTTP/1.1", f"Host: {host}", "Connection: close", f"Content-Length: {len(body)}", *headers]
    return _answer(await http_raw(port, "\r\n".join([*lines, "", ""]).encode() + body))


def _answer(received: bytes) -> HttpAnswer:
    head, _, body = received.partition(b"\r\n\r\n")
    first, *rest = head.decode().split("\r\n")
    fields = {name.lower(): value for name, _, value in (line.partition(": ") for line in rest)}
    return int(first.split()[1]), fields, body


async def http_call(port: int, document: Any, token: str = "") -> tuple[int, Any]:
    """The answer to a call of the console: its status, and its document."""
    proof = (f"Authorization: Bearer {token}",) if token else ()
    status, _, body = await http_post(port, "/console/call", json.dumps(document).encode(), *CALL_HEADERS, *proof)
    return status, json.loads(body)
