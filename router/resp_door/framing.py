"""From bytes to commands: arrays of bulk strings, or lines that a person types.

hiredis' parser does the work: a command of two arguments costs it 0.4 µs. It was made for clients, though, which trust
their server: it would build a list of a thousand million entries because eleven bytes ask for it, it knows no inline
commands, and its errors are not a Redis server's. So a careful parser (`take_command`, in Python, 20 times slower)
stands beside it and takes over wherever something is unusual:

- a chunk in which a `*` is followed by five digits: a huge array, or a value that only looks like one;
- a chunk that begins a command with anything but `*`;
- whatever hiredis refuses, and arguments that are no bulk strings.

To be able to take over, the framer knows at every moment which bytes hiredis holds of a command that is not complete:
the canonical length of the commands that came out, subtracted from what went in. Where a client writes lengths in
another form (`$03`), the difference is no valid beginning of a command, which is seen at once.

Pure: bytes in, commands out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import hiredis

from log_tier.record import KEY_BYTES_MAX
from router.resp_door.limits import ARGUMENTS_MAX, BULK_BYTES_MAX, COMMAND_BYTES_MAX, INLINE_BYTES_MAX

__all__ = ["Command", "Framer", "ProtocolError", "lone_get", "split_line", "take_command"]

Command = list[bytes]

_STAR: Final = 0x2A
_DOLLAR: Final = 0x24

# Five digits after the sign of anything that hiredis makes a list of: with four, it takes 80 KB at most.
_SUSPICIOUS: Final = re.compile(rb"[*~>%|][+-]?\d{5}").search

# A header is shorter: `*1048576` and its line end. What is held of a command that has no more than this may be a piece
# of a header, which the search above would not see in either half.
_HEADER_MAX: Final = 64

# The bytes that an argument takes on the wire, by its length.
_COSTS: Final = tuple(length + len(b"$%d\r\n\r\n" % length) for length in range(4096))
_cost_of: Final = _COSTS.__getitem__

_MORE: Final = object()

_NUMBER: Final = re.compile(rb"-?(?:0|[1-9]\d{0,18})").fullmatch


class ProtocolError(Exception):
    """What cannot be a command; the connection is answered with this text, and closed."""

    def __init__(self, text: str, commands: Sequence[Command] = ()) -> None:
        super().__init__(text)
        self.text = text
        self.commands = commands
        """Those that were whole before it."""


class Framer:
    """The commands of one connection, chunk by chunk."""

    __slots__ = ("_careful", "_feed", "_gets", "_held", "held_bytes")

    def __init__(self) -> None:
        self._held: list[bytes] = []
        """The bytes of the command that is not complete yet; hiredis has them too."""
        self.held_bytes = 0
        """How many those are; 0: what comes next begins a command."""
        self._careful = False
        """What is held is a line, which hiredis does not have."""
        self._renew()

    def _renew(self) -> None:
        reader = hiredis.Reader(notEnoughData=_MORE)
        self._feed: Any = reader.feed
        self._gets: Any = reader.gets

    def take(self, data: bytes) -> list[Command]:
        """The commands that `data` completes. Raises `ProtocolError`; the commands before it are in its `commands`."""
        held = self.held_bytes
        if _SUSPICIOUS(data) is not None or (held < _HEADER_MAX if held else data[0] != _STAR) or self._careful:
            return self._take_carefully(b"".join((*self._held, data)))
        commands: list[Command] = []
        gets = self._gets
        self._feed(data)
        taken = 0
        try:
            while (command := gets()) is not _MORE:
                b"".join(command)  # raises for what is no bulk string
                try:
                    taken += sum(map(_cost_of, map(len, command)))
                except IndexError:
                    taken += _long_cost(command)
                taken += 4 if len(command) < 10 else 3 + len(str(len(command)))
                if command:  # an array of nothing asks for nothing
                    commands.append(command)
        except (hiredis.ProtocolError, TypeError, MemoryError):
            return self._take_carefully(b"".join((*self._held, data)))
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
            return self._take_carefully(b"".join((*self._held, data)))
        self.held_bytes = left
        if left > COMMAND_BYTES_MAX:
            raise _too_large(commands)
        if fresh:
            # Refuse early what can never become a command.
            try:
                take_command(self._held[0], 0)
            except ProtocolError as error:
                raise _with(error, commands) from None
        return commands

    def _take_carefully(self, data: bytes) -> list[Command]:
        """The same, by the careful parser, from the beginning of what hiredis holds."""
        commands: list[Command] = []
        at = 0
        try:
            while at < len(data):
                command, after = take_command(data, at)
                if after < 0:
                    break
                at = after
                if command:
                    commands.append(command)
        except ProtocolError as error:
            raise _with(error, commands) from None
        left = data[at:]
        self._renew()
        self._held, self.held_bytes = ([left], len(left)) if left else ([], 0)
        self._careful = bool(left) and left[0] != _STAR
        if left and not self._careful:
            self._feed(left)
            if self._gets() is not _MORE:
                raise _with(ProtocolError("unbalanced command"), commands)
        if len(left) > COMMAND_BYTES_MAX:
            raise _too_large(commands)
        return commands


_LONE_GET: Final = b"*2\r\n$3\r\nGET\r\n$"
_LONE_GET_AT: Final = len(_LONE_GET)
_DIGITS: Final = tuple(b"%d" % length for length in range(KEY_BYTES_MAX + 1))


def lone_get(data: bytes) -> bytes | None:
    """The key, where `data` is `GET key` and nothing else: the most frequent chunk there is. 0.3 µs.

    The key has 1 to 511 bytes, and the lengths are written as every client writes them.

    >>> lone_get(b"*2\\r\\n$3\\r\\nGET\\r\\n$2\\r\\nk1\\r\\n"), lone_get(b"*1\\r\\n$4\\r\\nPING\\r\\n")
    (b'k1', None)
    """
    if not data.startswith(_LONE_GET):
        return None
    end = data.find(b"\r\n", _LONE_GET_AT, _LONE_GET_AT + 5)
    size = len(data) - end - 4
    if end > 0 and 0 < size <= KEY_BYTES_MAX and data[_LONE_GET_AT:end] == _DIGITS[size] and data.endswith(b"\r\n"):
        return data[end + 2 : -2]
    return None


def _with(error: ProtocolError, commands: list[Command]) -> ProtocolError:
    return ProtocolError(error.text, commands)


def _too_large(commands: list[Command]) -> ProtocolError:
    return _with(ProtocolError(f"a command has at most {COMMAND_BYTES_MAX} bytes"), commands)


def _long_cost(command: Command) -> int:
    return sum(len(argument) + len(b"$%d\r\n\r\n" % len(argument)) for argument in command)


def take_command(data: bytes, at: int) -> tuple[Command, int]:
    """The command that begins at `at`, and where it ends; -1 for the end where it is not complete.

    Raises `ProtocolError` with a Redis server's own words.
    """
    if data[at] != _STAR:
        return _take_line(data, at)
    end = data.find(b"\r\n", at)
    if end < 0:
        if len(data) - at > INLINE_BYTES_MAX:
            raise ProtocolError("too big mbulk count string")
        return [], -1
    count = _number(data[at + 1 : end])
    if count is None or count > ARGUMENTS_MAX:
        raise ProtocolError("invalid multibulk length")
    at = end + 2
    command: Command = []
    for _ in range(count):
        end = data.find(b"\r\n", at)
        if end < 0:
            if len(data) - at > INLINE_BYTES_MAX:
                raise ProtocolError("too big bulk count string")
            if at < len(data) and data[at] != _DOLLAR:
                raise _no_bulk(data[at])
            return [], -1
        if data[at] != _DOLLAR:
            raise _no_bulk(data[at])
        size = _number(data[at + 1 : end])
        if size is None or not 0 <= size <= BULK_BYTES_MAX:
            raise ProtocolError("invalid bulk length")
        at = end + 2 + size + 2
        if at > len(data):
            return [], -1
        command.append(data[end + 2 : at - 2])
    return command, at


def _no_bulk(byte: int) -> ProtocolError:
    return ProtocolError(f"expected '$', got '{chr(byte) if 32 <= byte < 127 else '?'}'")


def _number(text: bytes) -> int | None:
    """A length as Redis reads it: no leading zeros, no signs but a minus."""
    return int(text) if _NUMBER(text) else None


def _take_line(data: bytes, at: int) -> tuple[Command, int]:
    end = data.find(b"\n", at)
    if end < 0:
        if len(data) - at > INLINE_BYTES_MAX:
            raise ProtocolError("too big inline request")
        return [], -1
    command = split_line(data[at:end].removesuffix(b"\r"))
    if command is None:
        raise ProtocolError("unbalanced quotes in request")
    return command, end + 1


_ESCAPES: Final = {0x6E: b"\n", 0x72: b"\r", 0x74: b"\t", 0x62: b"\b", 0x61: b"\a"}
_SPACES: Final = b" \n\r\t\v\f\0"


def split_line(line: bytes) -> Command | None:
    """The words of an inline command; None where quotes are not balanced.

    Words in double quotes know the escapes \\n \\r \\t \\b \\a and \\xHH, those in single quotes only \\'.

    >>> split_line(b'set "a b" \\'c\\' "\\\\x41"'), split_line(b'get "a')
    ([b'set', b'a b', b'c', b'A'], None)
    """
    words: Command = []
    at, size = 0, len(line)
    while True:
        while at < size and line[at] in _SPACES:
            at += 1
        if at == size:
            return words
        word = bytearray()
        while at < size and line[at] not in _SPACES:
            quote = line[at]
            at += 1
            if quote not in b"\"'":
                word.append(quote)
                continue
            while True:
                if at == size:
                    return None
                byte = line[at]
                at += 1
                if byte == quote:
                    break
                if byte != 0x5C or at == size:
                    word.append(byte)
                elif quote == 0x27:
                    if line[at] == 0x27:
                        byte = line[at]
                        at += 1
                    word.append(byte)
                elif line[at] == 0x78 and re.fullmatch(rb"[0-9a-fA-F]{2}", line[at + 1 : at + 3]):
                    word.append(int(line[at + 1 : at + 3], 16))
                    at += 3
                else:
                    word += _ESCAPES.get(line[at], line[at : at + 1])
                    at += 1
            if at < size and line[at] not in _SPACES:
                return None  # something follows the closing quote
            break
        words.append(bytes(word))
