"""Messages of HTTP/1.1 as values, and how they come and go through h11."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Final, NamedTuple

import h11

from log_tier.trust.caller import Caller

__all__ = [
    "HttpReply",
    "HttpRequest",
    "HttpRoute",
    "header_of",
    "host_of",
    "peer_of",
    "problem",
    "read_request",
    "send_reply",
    "send_stream",
]

_JSON: Final = "application/json; charset=utf-8"
_ALWAYS: Final = (("cache-control", "no-store"), ("x-content-type-options", "nosniff"))


class HttpReply(NamedTuple):
    """What a request is answered with."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    content_type: str = _JSON
    stream: AsyncGenerator[bytes, None] | None = None
    """What follows the body, for as long as it lasts; who sends the reply closes it."""


class HttpRequest(NamedTuple):
    """One request, whole."""

    head: h11.Request
    peer: str
    """host:port of the client."""
    body: bytes = b""

    @property
    def path(self) -> str:
        """The target without what follows `?`."""
        return self.head.target.partition(b"?")[0].decode("ascii", "replace")

    @property
    def query(self) -> str:
        """What follows `?`."""
        return self.head.target.partition(b"?")[2].decode("ascii", "replace")


class HttpRoute(NamedTuple):
    """What answers one path."""

    answer: Callable[[Caller, HttpRequest], Awaitable[HttpReply]]
    shows_status: bool
    """Is it for users alone, and without users for callers alone that name the server as no web page can?"""
    takes_calls: bool = False
    """Is it called by POST, by pages of this server alone? Who calls is then looked at where the call is decided."""
    is_tree: bool = False
    """Does it answer all paths with this first segment?"""
    methods: tuple[bytes, ...] = (b"GET", b"HEAD")
    """By which it is asked, where it takes no calls."""
    refused: Callable[[int, str, tuple[tuple[str, str], ...]], HttpReply] | None = None
    """How it says what is wrong, by status, message and headers; None: as `problem` does."""


async def read_request(
    connection: h11.Connection,
    reader: asyncio.StreamReader,
    bytes_max: int,
    body_bytes_max: Callable[[bytes], int],
) -> tuple[h11.Request, bytes] | None:
    """The next request and its body; None where the client has closed. `body_bytes_max`: of a body, by the target.
    Raises `h11.RemoteProtocolError`.
    """
    request: h11.Request | None = None
    body, most = bytearray(), 0
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(bytes_max))
        elif isinstance(event, h11.Request):
            request, most = event, body_bytes_max(event.target)
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > most:
                raise h11.RemoteProtocolError("a body", error_status_hint=413)
        elif isinstance(event, h11.EndOfMessage):
            assert request is not None, "a message has ended that has no head"
            return request, bytes(body)
        else:
            return None


async def send_reply(
    connection: h11.Connection,
    writer: asyncio.StreamWriter,
    reply: HttpReply,
    *,
    is_head: bool = False,
    close: bool = False,
) -> None:
    """Send a reply without a stream, whole; `close`: the last one of its connection."""
    headers = _headers(reply, ("content-length", str(len(reply.body))), *([("connection", "close")] if close else []))
    if connection.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
        return
    head = connection.send(h11.Response(status_code=reply.status, headers=headers))
    body = None if is_head else connection.send(h11.Data(data=reply.body))
    parts = (head, body, connection.send(h11.EndOfMessage()))
    writer.write(b"".join(part for part in parts if part))
    await writer.drain()


async def send_stream(
    connection: h11.Connection,
    writer: asyncio.StreamWriter,
    reply: HttpReply,
    *,
    timeout_s: float,
    is_head: bool = False,
) -> None:
    """Send a reply with a stream until that ends, piece by piece. Raises `TimeoutError` when the client has not taken
    a piece `timeout_s` seconds later; at most that piece and 64 KiB are held for it.
    """
    assert reply.stream is not None, "a reply without a stream is sent whole"
    async with aclosing(reply.stream) as pieces:
        sent = connection.send(h11.Response(status_code=reply.status, headers=_headers(reply, ("connection", "close"))))
        if not is_head:
            await _put(writer, (sent or b"") + (connection.send(h11.Data(data=reply.body)) or b""), timeout_s)
            async for piece in pieces:
                await _put(writer, connection.send(h11.Data(data=piece)) or b"", timeout_s)
            sent = b""
        await _put(writer, (sent or b"") + (connection.send(h11.EndOfMessage()) or b""), timeout_s)


async def _put(writer: asyncio.StreamWriter, data: bytes, timeout_s: float) -> None:
    writer.write(data)
    async with asyncio.timeout(timeout_s):
        await writer.drain()


def _headers(reply: HttpReply, *more: tuple[str, str]) -> list[tuple[str, str]]:
    return [("content-type", reply.content_type), *_ALWAYS, *reply.headers, *more]


def problem(status: int, message: str, headers: tuple[tuple[str, str], ...] = ()) -> HttpReply:
    """An error, as the JSON of all errors here."""
    return HttpReply(status, json.dumps({"error": message}, ensure_ascii=False).encode() + b"\n", headers)


def host_of(request: h11.Request) -> str:
    """The name by which the server is called, without its port."""
    header = header_of(request, b"host").lower()
    name, bracket, _ = header.partition("]")
    return name.removeprefix("[") if bracket else header.rpartition(":")[0] or header


def header_of(request: h11.Request, name: bytes) -> str:
    """The first header of that name; empty: there is none."""
    return next((value for each, value in request.headers if each == name), b"").decode("latin-1")


def peer_of(writer: asyncio.StreamWriter) -> str:
    """host:port of the client."""
    found = writer.get_extra_info("peername")
    return f"{found[0]}:{found[1]}" if found else ""
