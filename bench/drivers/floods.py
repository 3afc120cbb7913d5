"""A user who floods a server and never waits, in a process of its own: its work is not that of whom it disturbs.

`python -m bench.drivers.floods KIND HOST PORT USER CA`, with the user's token as a line of standard input. It ends when
its standard input does, and prints how many calls were answered, and how many refused.

It prints `ready` when all its connections have had an answer.

    puts         32 connections of the Redis protocol, each with 64 SET of 100 bytes under way; no answer is waited for
    large        8 of them, with 4 SET of 256 KiB
    scans        16 of them, with 4 KEYS * of a thousand keys, which each writes first

What is refused by a quota is sent again at once, without the wait that the answer asks for.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
from typing import Final, NamedTuple

__all__ = ["FLOODS"]

_READ_BYTES: Final = 1 << 18


class _Flood(NamedTuple):
    connections: int
    pipeline: int
    command: bytes
    first: bytes
    """What each connection begins with, and is answered with one line."""


def _command(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


_PING: Final = _command(b"PING")
_THOUSAND: Final = _command(b"MSET", *(word for number in range(1000) for word in (b"key:%04d" % number, b"v")))

FLOODS: Final = {
    "puts": _Flood(32, 64, _command(b"SET", b"flood", bytes(100)), _PING),
    "large": _Flood(8, 4, _command(b"SET", b"flood", bytes(256 << 10)), _PING),
    "scans": _Flood(16, 4, _command(b"KEYS", b"*"), _THOUSAND),
}


class _Replies:
    """Counts replies in what comes: every reply of a flood is one line, or an array of strings."""

    def __init__(self) -> None:
        self._left = b""
        self._skipped = 0
        """Bytes of a string that are still to come."""
        self._items = 0
        """Strings of an array that are still to come."""
        self.answered = self.refused = 0

    def feed(self, data: bytes) -> int:
        """How many replies have ended with these bytes."""
        data = self._left + data
        at, ended = 0, 0
        while True:
            if self._skipped:
                step = min(self._skipped, len(data) - at)
                at, self._skipped = at + step, self._skipped - step
                if self._skipped:
                    break
            end = data.find(b"\r\n", at)
            if end < 0:
                break
            kind, number = data[at : at + 1], data[at + 1 : end]
            at = end + 2
            if kind == b"*":
                self._items = int(number)
            elif kind == b"$":
                self._skipped, self._items = int(number) + 2, self._items - 1
            if self._items:
                continue
            ended += 1
            self.refused += kind == b"-"
            self.answered += kind != b"-"
        self._left = data[at:]
        return ended


async def _connection(
    host: str, port: int, user: str, token: str, ca: str, flood: _Flood, replies: _Replies, ready: asyncio.Event
) -> None:
    reader, writer = await asyncio.open_connection(host, port, ssl=ssl.create_default_context(cafile=ca))
    writer.write(_command(b"AUTH", user.encode(), token.encode()))
    answer = await reader.readline()
    assert answer == b"+OK\r\n", f"the login was answered with {answer!r}"
    while True:
        writer.write(flood.first)
        if (await reader.readline())[:1] == b"+":
            break
    writer.write(flood.command * flood.pipeline)
    while data := await reader.read(_READ_BYTES):
        if ended := replies.feed(data):
            ready.set()
            writer.write(flood.command * ended)


async def _flood(kind: str, host: str, port: int, user: str, ca: str) -> None:
    token = sys.stdin.readline().strip()
    all_replies = [_Replies() for _ in range(FLOODS[kind].connections)]
    heard = [asyncio.Event() for _ in all_replies]
    work = [
        asyncio.create_task(_connection(host, port, user, token, ca, FLOODS[kind], replies, ready))
        for replies, ready in zip(all_replies, heard, strict=True)
    ]
    for ready in heard:
        await ready.wait()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    ended = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    done, _ = await asyncio.wait([*work, ended], return_when=asyncio.FIRST_COMPLETED)
    for task in work:
        task.cancel()
    for task in done - {ended}:
        task.result()
    answered, refused = (sum(getattr(each, name) for each in all_replies) for name in ("answered", "refused"))
    sys.stdout.write(f"{answered} {refused}\n")


if __name__ == "__main__":
    kind, host, port, user, ca = sys.argv[1:]
    asyncio.run(_flood(kind, host, int(port), user, ca))
