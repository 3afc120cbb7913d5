"""A reader of `GET /events`, as a browser is one: it reads the stream of one connection, piece by piece."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from kit.deadlines import patience_s, within

__all__ = ["EventReader", "ServerEvent", "event_stream"]


class ServerEvent(NamedTuple):
    """One event."""

    kind: str
    number: int
    data: dict[str, Any]
    size: int
    """Bytes of the data."""


class EventReader:
    """The answer to one request for events."""

    def __init__(self, reader: asyncio.StreamReader, status: int, headers: dict[str, str]) -> None:
        self._reader = reader
        self.status = status
        self.headers = headers
        self._text = b""

    async def next(self) -> ServerEvent:
        """The next event. Raises `EOFError` at the end of the stream."""
        async with within(patience_s(30)):
            while b"\n\n" not in self._text:
                self._text += await self._chunk()
        event, _, self._text = self._text.partition(b"\n\n")
        fields = dict(line.partition(b": ")[::2] for line in event.split(b"\n"))
        data = fields[b"data"]
        return ServerEvent(fields[b"event"].decode(), int(fields[b"id"]), json.loads(data), len(data))

    async def rest(self) -> bytes:
        """What is left of an answer that is no stream."""
        return await self._reader.read()

    async def _chunk(self) -> bytes:
        line = await self._reader.readline()
        if not line or not (size := int(line, 16)):
            raise EOFError
        data = await self._reader.readexactly(size + 2)
        return data[:-2]


@asynccontextmanager
async def event_stream(
    port: int, *headers: str, method: str = "GET", limit: int = 1 << 22
) -> AsyncIterator[EventReader]:
    """A stream that is open while the block runs. `headers`: whole lines; `limit`: how much is read ahead."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=limit)
    try:
        lines = [f"{method} /events HTTP/1.1", "Host: localhost", *headers, "", ""]
        writer.write("\r\n".join(lines).encode())
        async with within(patience_s(30)):
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        fields = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
        yield EventReader(reader, int(head[0].split()[1]), fields)
    finally:
        writer.transport.abort()
