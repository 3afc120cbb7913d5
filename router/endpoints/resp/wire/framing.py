"""From bytes to commands: arrays of bulk strings, or lines that a person types.

hiredis' parser does the work: a command of two arguments costs it 0.4 µs. It was made for clients, though, which trust
their server: it would build a list of a thousand million entries because eleven bytes ask for it, it knows no inline
commands, and its errors are not a Redis server's. So a second parser (`fallback_parser.py`) takes over wherever
something is unusual, until a command ends together with a chunk:

- a chunk in which a `*` is followed by five digits: a huge array, or a value that only looks like one;
- a chunk that begins a command with anything but `*`;
- whatever hiredis refuses, and arguments that are no bulk strings.

To be able to take over, the framer always knows which bytes hiredis holds of a command that is not complete: the
canonical length of the commands that came out, subtracted from what went in. Where a client writes lengths in another
form (`$03`), the difference is no valid beginning of a command, which is seen at once.

`RequestStream` parses some of what came at a time. A chunk from the kernel may hold twenty thousand commands. So many
are parsed at once that others get their turn within some milliseconds; the rest waits there, as do the bytes of a
client that sends on without reading its replies. Bytes are the cheapest form in which commands can wait: a reply to
each of them may be a million times as long.

Pure: bytes in, commands out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain
from typing import Any, Final

import hiredis

from log_tier.model.record import KEY_BYTES_MAX
from router.endpoints.resp.wire.fallback_parser import FallbackParser, ProtocolError, RespCommand
from router.endpoints.resp.wire.limits import COMMAND_BYTES_MAX

__all__ = ["Framer", "RequestStream", "lone_command", "lone_get", "lone_set"]

# Parsed at once; of the shortest commands these are some 5,000, in 4 ms.
_SLICE_BYTES: Final = 64 * 1024

# A longer chunk with fewer lines than this is one of long values, which is parsed as it is.
_SLICE_LINES: Final = 8192

_STAR: Final = 0x2A

# Five digits after the sign of anything that hiredis makes a list of: with four, it takes 80 KB at most. The search for
# the sign of an array begins with a literal, which is three times as fast; the other signs are rare, and are looked for
# first.
_HUGE_ARRAY: Final = re.compile(rb"\*[+-]?\d{5}").search
_HUGE_OTHER: Final = re.compile(rb"[~>%|][+-]?\d{5}").search

# A header is shorter: `*1048576` and its line end. What is held of a command that has no more than this may be a piece
# of a header, which the search above would not see in either half; so it is parsed once more with what follows it.
_HEADER_MAX: Final = 64

# The bytes that an argument takes on the wire, by its length.
_COSTS: Final = tuple(length + len(b"$%d\r\n\r\n" % length) for length in range(4096))
_cost_of: Final = _COSTS.__getitem__

_MORE: Final = object()


class Framer:
    """The commands of one connection, chunk by chunk."""

    __slots__ = ("_fallback", "_feed", "_gets", "_held", "held_bytes", "more")

    def __init__(self) -> None:
        self._held: list[bytes] = []
        """The bytes of the command that is not complete yet; hiredis has them too."""
        self.held_bytes = 0
        """How many those are; 0: what comes next begins a command."""
        self._fallback: FallbackParser | None = None
        """The fallback parser, until a command ends with a chunk; hiredis holds nothing meanwhile."""
        self.more = False
        """Were there so many commands that some of what came is not parsed yet? `take` goes on with it."""
        self._renew()

    def _renew(self) -> None:
        reader = hiredis.Reader(notEnoughData=_MORE)
        self._feed: Any = reader.feed
        self._gets: Any = reader.gets

    def take(self, data: bytes) -> list[RespCommand]:
        """The commands that `data` completes. Raises `ProtocolError`; the commands before it are in its `commands`."""
        held = self.held_bytes
        if not data and not self.more:
            return []
        if 0 < held < _HEADER_MAX and self._fallback is None:
            data, held = self._with_held(data), 0
        if self._fallback is not None or _is_suspicious(data) or (not held and data[0] != _STAR):
            return self._take_fallback(data)
        self._feed(data)
        try:
            commands: list[RespCommand] = list(iter(self._gets, _MORE))
            taken = _wire_bytes(commands)
        except (hiredis.ProtocolError, TypeError, MemoryError):
            return self._take_fallback(data)
        if not all(commands):
            commands = [command for command in commands if command]  # an array of nothing asks for nothing
        left = held + len(data) - taken
        if left == 0:
            if held:
                self._held, self.held_bytes = [], 0
            return commands
        fresh = bool(taken) or not held
        if not taken:
            self._held.append(data)
        elif 0 < left <= len(data) and data[-left] == _STAR:
            self._held = [data[-left:]]
        else:
            return self._take_fallback(data)
        self.held_bytes = left
        if left > COMMAND_BYTES_MAX:
            raise ProtocolError(f"a command has at most {COMMAND_BYTES_MAX} bytes", commands)
        if fresh:
            # Refuse early what can never become a command.
            try:
                FallbackParser().take(self._held[0])
            except ProtocolError as error:
                raise ProtocolError(error.text, commands) from None
        return commands

    def _with_held(self, data: bytes) -> bytes:
        """A short piece of a command together with what follows it; hiredis begins anew. O(len(data))."""
        data = b"".join((*self._held, data))
        self._held, self.held_bytes = [], 0
        self._renew()
        return data

    def _take_fallback(self, data: bytes) -> list[RespCommand]:
        """The commands of a chunk by the fallback parser, which begins with what hiredis holds."""
        fallback = self._fallback
        if fallback is None:
            fallback = self._fallback = FallbackParser()
            data = b"".join((*self._held, data))
            self._held = []
            self._renew()
        self.more = False
        commands = fallback.take(data)
        self.more = fallback.more
        if fallback.idle:
            self._fallback, self.held_bytes = None, 0
        else:
            self.held_bytes = fallback.held_bytes or 1  # what counts is that there is something
        return commands


class RequestStream:
    """The incoming half of a connection.

    Invariant: bytes are parsed in the order in which they came.
    """

    __slots__ = ("_framer", "_rest", "idle", "more", "taken")

    def __init__(self) -> None:
        self._framer = Framer()
        self._rest = bytearray()
        """What was not parsed yet."""
        self.taken = b""
        """The bytes that the last `take` parsed."""
        self.more = False
        """May `take` find commands without new data?"""
        self.idle = True
        """Does whatever comes next begin a command?"""

    @property
    def waiting_bytes(self) -> int:
        """Bytes received and not parsed yet."""
        return len(self._rest)

    @property
    def held(self) -> int:
        """Bytes of a command that has begun and is not complete; 0: there is none."""
        return self._framer.held_bytes

    def put(self, data: bytes) -> None:
        """Keep what came for a later `take`. O(len(data)), amortized."""
        self._rest += data
        self.more, self.idle = True, False

    def take(self, data: bytes = b"") -> list[RespCommand]:
        """Parse what waits, then `data`, as far as one turn goes. Raises `ProtocolError`; nothing waits then."""
        framer = self._framer
        if framer.more:
            self._rest += data
            self.taken = b""
        else:
            if self._rest or (len(data) > _SLICE_BYTES and data.count(b"\n") > _SLICE_LINES):
                self._rest += data
                data = self._cut()
            self.taken = data
        try:
            commands = framer.take(self.taken)
        except ProtocolError:
            self.clear()
            raise
        self.more = framer.more or bool(self._rest)
        self.idle = not framer.held_bytes and not self._rest
        return commands

    def _cut(self) -> bytes:
        data = bytes(self._rest[:_SLICE_BYTES])
        del self._rest[:_SLICE_BYTES]
        return data

    def clear(self) -> None:
        """Forget what waits."""
        self._rest.clear()
        self.more, self.idle = self._framer.more, not self._framer.held_bytes


_LONE_GETS: Final = {
    len(head) + length + 2: head
    for length in range(1, KEY_BYTES_MAX + 1)
    for head in [b"*2\r\n$3\r\nGET\r\n$%d\r\n" % length]
}
"""What comes before the key, by the length of the whole command: no two lengths of keys give the same."""


def lone_get(data: bytes) -> bytes | None:
    """The key, where `data` is `GET key` and nothing else: the most frequent chunk there is. 0.2 µs.

    The key has 1 to 511 bytes, and the lengths are written as every client writes them.

    >>> lone_get(b"*2\\r\\n$3\\r\\nGET\\r\\n$2\\r\\nk1\\r\\n"), lone_get(b"*1\\r\\n$4\\r\\nPING\\r\\n")
    (b'k1', None)
    """
    head = _LONE_GETS.get(len(data))
    if head is not None and data.startswith(head) and data.endswith(b"\r\n"):
        return data[len(head) : -2]
    return None


# A chunk is read from a socket at once; what is longer comes in pieces, or costs more elsewhere.
_LONE_BYTES_MAX: Final = 4095
_LONE_WORDS_MAX: Final = 5
_COUNTS: Final = tuple(b"*%d" % count for count in range(_LONE_WORDS_MAX + 1))
_length_of: Final = tuple(b"$%d" % length for length in range(_LONE_BYTES_MAX + 1)).__getitem__


_LONE_SETS: Final = tuple(b"*3\r\n$3\r\n%b\r\n$" % word for word in (b"SET", b"set", b"Set"))


def lone_set(data: bytes) -> tuple[bytes, bytes] | None:
    """Key and value, where `data` is one short `SET key value` and nothing else. Half of what `lone_command` takes.

    None also where the value holds a line end.

    >>> lone_set(b"*3\\r\\n$3\\r\\nSET\\r\\n$1\\r\\nk\\r\\n$2\\r\\nv1\\r\\n"), lone_set(b"PING\\r\\n")
    ((b'k', b'v1'), None)
    """
    if not data.startswith(_LONE_SETS) or len(data) > _LONE_BYTES_MAX:
        return None
    lines = data.split(b"\r\n", 7)
    if len(lines) != 8:
        return None
    _, _, _, key_length, key, value_length, value, rest = lines
    is_one = not rest and key_length == _length_of(len(key)) and value_length == _length_of(len(value))
    return (key, value) if is_one else None


def lone_command(data: bytes) -> RespCommand | None:
    """The words, where `data` is one short command and nothing else: what a client sends that waits for each reply. A
    fifth of what `Framer` takes.

    None also where a word holds a line end, or a length is written as no client writes it.

    >>> lone_command(b"*2\\r\\n$4\\r\\nINCR\\r\\n$2\\r\\nk1\\r\\n"), lone_command(b"PING\\r\\n")
    ([b'INCR', b'k1'], None)
    """
    if len(data) > _LONE_BYTES_MAX:
        return None
    # count, then length and word of each, and nothing behind the last line end
    lines = data.split(b"\r\n", 2 * _LONE_WORDS_MAX + 1)
    words = lines[2:-1:2]
    is_one = (
        len(lines) == 2 * len(words) + 2
        and lines[0] == _COUNTS[len(words)]
        and lines[1::2] == [*map(_length_of, map(len, words)), b""]
    )
    return words if is_one and words else None


def _is_suspicious(data: bytes) -> bool:
    """May it ask hiredis for a huge list? 3 ns a byte."""
    if _HUGE_ARRAY(data) is not None:
        return True
    # Four times as fast as a loop over the signs.
    return (b"~" in data or b">" in data or b"%" in data or b"|" in data) and _HUGE_OTHER(data) is not None


def _wire_bytes(commands: Sequence[RespCommand]) -> int:
    """The bytes that commands take on the wire. 0.15 µs a command. Raises `TypeError` for what is no array of bulk
    strings.
    """
    words = list(chain.from_iterable(commands))
    b"".join(words)  # raises for what is no bulk string
    if not words:
        return 4 * len(commands)
    counts, lengths = list(map(len, commands)), list(map(len, words))
    heads = 4 * len(counts) if max(counts) < 10 else sum([3 + len(str(count)) for count in counts])
    if max(lengths) < len(_COSTS):
        return heads + sum(map(_cost_of, lengths))
    return heads + sum([length + len(b"$%d\r\n\r\n" % length) for length in lengths])
