"""What came from a client: parsed some at a time, and kept as bytes while its commands cannot run.

A chunk from the kernel may hold twenty thousand commands. So many are parsed at once that others get their turn within
some milliseconds; the rest waits here, as do the bytes of a client that sends on without reading its replies. Bytes are
the cheapest form in which commands can wait: a reply to each of them may be a million times as long.

Pure: bytes in, commands out.
"""

from __future__ import annotations

from typing import Final

from router.endpoints.resp.wire.fallback_parser import Command, ProtocolError
from router.endpoints.resp.wire.framing import Framer

__all__ = ["Intake"]

# Parsed at once; of the shortest commands these are some 5,000, in 4 ms.
_SLICE_BYTES: Final = 64 * 1024

# A longer chunk with fewer lines than this is one of long values, which is parsed as it is.
_SLICE_LINES: Final = 8192


class Intake:
    """The incoming half of a connection.

    Invariant: bytes are parsed in the order in which they came; `more` says whether some are not parsed.
    """

    __slots__ = ("_framer", "_rest", "taken")

    def __init__(self) -> None:
        self._framer = Framer()
        self._rest = bytearray()
        """What was not parsed yet."""
        self.taken = b""
        """The bytes that the last `take` parsed."""

    @property
    def waiting_bytes(self) -> int:
        """Of commands that were not parsed yet."""
        return len(self._rest)

    @property
    def more(self) -> bool:
        """May `take` find commands without new data?"""
        return bool(self._rest) or self._framer.more

    @property
    def held(self) -> int:
        """Bytes of a command that has begun and is not complete (or any number above 0); 0: there is none."""
        return self._framer.held_bytes

    @property
    def idle(self) -> bool:
        """Does whatever comes next begin a command?"""
        return not self._rest and not self._framer.held_bytes

    def put(self, data: bytes) -> None:
        """Keep what came for a later `take`. O(len(data)), amortized."""
        self._rest += data

    def take(self, data: bytes = b"") -> list[Command]:
        """Parse what waits, then `data`, as far as one turn goes. Raises `ProtocolError`; nothing waits then."""
        if self._framer.more:
            self._rest += data
            self.taken = b""
        else:
            if self._rest or (len(data) > _SLICE_BYTES and data.count(b"\n") > _SLICE_LINES):
                self._rest += data
                data = self._cut()
            self.taken = data
        try:
            return self._framer.take(self.taken)
        except ProtocolError:
            self.clear()
            raise

    def _cut(self) -> bytes:
        data = bytes(self._rest[:_SLICE_BYTES])
        del self._rest[:_SLICE_BYTES]
        return data

    def clear(self) -> None:
        """Forget what waits."""
        self._rest.clear()
