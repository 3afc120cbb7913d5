"""The fallback parser: commands from bytes, in Python, with a Redis server's own limits and errors.

It reads arrays of bulk strings and inline commands, lines that a person types. It is 20 times slower than hiredis and
does what that was not made for; `framing.py` says when it is used. It takes bytes as they come and looks at each once.

Pure: bytes in, commands out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from router.endpoints.resp.wire.limits import ARGUMENTS_MAX, BULK_BYTES_MAX, COMMAND_BYTES_MAX, INLINE_BYTES_MAX

# Lines, heads and arguments that are taken at once, some 5 ms; the rest waits for its turn.
_STEPS_MAX: Final = 2000

__all__ = ["Command", "FallbackParser", "ProtocolError", "split_line"]

Command = list[bytes]

_STAR: Final = 0x2A
_DOLLAR: Final = 0x24

_NUMBER: Final = re.compile(rb"-?(?:0|[1-9]\d{0,18})").fullmatch


class ProtocolError(Exception):
    """What cannot be a command; the connection is answered with this text, and closed."""

    def __init__(self, text: str, commands: Sequence[Command] = ()) -> None:
        super().__init__(text)
        self.text = text
        self.commands = commands
        """The whole commands before the error."""


class FallbackParser:
    """The commands of one connection, chunk by chunk."""

    __slots__ = ("_at", "_command", "_data", "_missing", "_taken", "more")

    def __init__(self) -> None:
        self._data = bytearray()
        """What is not looked at yet, from `_at` on."""
        self._at = 0
        self._command: Command = []
        """The arguments so far of an array that is not complete."""
        self._missing = 0
        """How many arguments it still needs; 0: a command begins here."""
        self._taken = 0
        """Their bytes."""
        self.more = False
        """Did `take` end because there was so much? The next one goes on, with more data or without."""

    @property
    def idle(self) -> bool:
        """Does whatever comes next begin a command?"""
        return not self._missing and self._at == len(self._data)

    def take(self, data: bytes) -> list[Command]:
        """The commands that `data` completes. Raises `ProtocolError`, with the commands before it."""
        del self._data[: self._at]
        self._data += data
        self._at = 0
        self.more = False
        commands: list[Command] = []
        left = _STEPS_MAX
        try:
            while self._at < len(self._data) and self._step(commands):
                left -= 1
                if not left:
                    self.more = True
                    return commands
            if self._taken + len(self._data) - self._at > COMMAND_BYTES_MAX:
                raise ProtocolError(f"a command has at most {COMMAND_BYTES_MAX} bytes")
        except ProtocolError as error:
            raise ProtocolError(error.text, commands) from None
        return commands

    def _step(self, commands: list[Command]) -> bool:
        """Take a line, the head of an array or one argument; False where it is not all here."""
        if self._missing:
            if not self._take_argument():
                return False
            self._missing -= 1
            if not self._missing:
                commands.append(self._command)
                self._command, self._taken = [], 0
            return True
        return self._take_head() if self._data[self._at] == _STAR else self._take_line(commands)

    def _take_head(self) -> bool:
        end = self._data.find(b"\r\n", self._at)
        if end < 0:
            self._check_room("too big mbulk count string")
            return False
        count = _number(self._data[self._at + 1 : end])
        if count is None or count > ARGUMENTS_MAX:
            raise ProtocolError("invalid multibulk length")
        self._at = end + 2
        self._missing = max(0, count)  # an array of nothing, or of less, asks for nothing
        return True

    def _take_argument(self) -> bool:
        data, at = self._data, self._at
        if data[at] != _DOLLAR:
            raise ProtocolError(f"expected '$', got '{chr(data[at]) if 32 <= data[at] < 127 else '?'}'")
        end = data.find(b"\r\n", at)
        if end < 0:
            self._check_room("too big bulk count string")
            return False
        size = _number(data[at + 1 : end])
        if size is None or not 0 <= size <= BULK_BYTES_MAX:
            raise ProtocolError("invalid bulk length")
        after = end + 2 + size + 2
        if after > len(data):
            return False
        self._command.append(bytes(memoryview(data)[end + 2 : after - 2]))
        self._taken += after - at
        self._at = after
        return True

    def _take_line(self, commands: list[Command]) -> bool:
        end = self._data.find(b"\n", self._at)
        if end < 0:
            self._check_room("too big inline request")
            return False
        words = split_line(bytes(self._data[self._at : end]).removesuffix(b"\r"))
        if words is None:
            raise ProtocolError("unbalanced quotes in request")
        self._at = end + 1
        if words:
            commands.append(words)
        return True

    def _check_room(self, text: str) -> None:
        """Raises where a line is longer than any may be."""
        if len(self._data) - self._at > INLINE_BYTES_MAX:
            raise ProtocolError(text)


def _number(text: bytes | bytearray) -> int | None:
    """A length as Redis reads it: no leading zeros, no signs but a minus."""
    return int(text) if _NUMBER(text) else None


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
