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

# Lines, heads and arguments that one call takes, some 2 ms; the rest waits for its turn.
_STEPS_MAX: Final = 1000

__all__ = ["FallbackParser", "ProtocolError", "RespCommand", "split_line"]

RespCommand = list[bytes]

_STAR: Final = 0x2A
_DOLLAR: Final = 0x24

_NUMBER: Final = re.compile(rb"-?(?:0|[1-9]\d{0,18})").fullmatch


class ProtocolError(Exception):
    """What cannot be a command; the connection is answered with this text, and closed."""

    def __init__(self, text: str, commands: Sequence[RespCommand] = ()) -> None:
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
        self._command: RespCommand = []
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

    @property
    def held_bytes(self) -> int:
        """Bytes of a command that is not complete, and of what was not looked at yet."""
        return self._taken + len(self._data) - self._at

    def take(self, data: bytes) -> list[RespCommand]:
        """The commands that `data` completes. Raises `ProtocolError`, with the commands before it."""
        del self._data[: self._at]
        self._data += data
        self._at = 0
        self.more = False
        commands: list[RespCommand] = []
        left = _STEPS_MAX
        try:
            while self._at < len(self._data) and self._step(commands):
                left -= 1
                if not left:
                    self.more = self._at < len(self._data)
                    return commands
            if self._taken + len(self._data) - self._at > COMMAND_BYTES_MAX:
                raise ProtocolError(f"a command has at most {COMMAND_BYTES_MAX} bytes")
        except ProtocolError as error:
            raise ProtocolError(error.text, commands) from None
        return commands

    def _step(self, commands: list[RespCommand]) -> bool:
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

    def _take_line(self, commands: list[RespCommand]) -> bool:
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


_ESCAPES: Final = {b"\\n": b"\n", b"\\r": b"\r", b"\\t": b"\t", b"\\b": b"\b", b"\\a": b"\a"}

# A word: what stands without quotes, then perhaps something in quotes, behind which the word ends. The repetitions are
# possessive: none of them is tried a second time, so a line takes time in proportion to its length.
_WORD: Final = (
    rb"""[^ \n\r\t\v\f\0"']*+"""
    rb"""(?:"(?:[^"\\]++|\\.)*+"|'(?:[^'\\]++|\\'|\\(?!'))*+')?+"""
    rb"""(?=[ \n\r\t\v\f\0]|\Z)"""
)
_QUOTES: Final = b"\"'"
_is_word: Final = re.compile(_WORD, re.DOTALL).fullmatch
# The words of a line. Where one is wrong, the rest of the line is the last of them.
_words: Final = re.compile(rb"(?![ \n\r\t\v\f\0])(?!\Z)(?:" + _WORD + rb"|.++)", re.DOTALL).findall
_parts: Final = re.compile(rb"[^\\]++|\\x[0-9a-fA-F]{2}|\\.", re.DOTALL).findall


class _Meanings(dict[bytes, bytes]):
    """What the parts of a text in double quotes mean. Each is found once, and then looked up in C."""

    def __missing__(self, part: bytes) -> bytes:
        if part[0] != 0x5C:
            meaning = part
        elif part[1] == 0x78 and len(part) == 4:
            meaning = bytes.fromhex(part[2:].decode())
        else:
            meaning = _ESCAPES.get(part, part[1:])
        self[part] = meaning
        return meaning


def _meaning(word: bytes) -> bytes:
    """A word without its quotes."""
    quote = word[-1:]
    if quote not in (b'"', b"'"):
        return word
    bare, text = word[:-1].split(quote, 1)
    if b"\\" not in text:
        return bare + text
    if quote == b"'":
        return bare + text.replace(b"\\'", b"'")
    return bare + b"".join(map(_Meanings().__getitem__, _parts(text)))


def split_line(line: bytes) -> RespCommand | None:
    """The words of an inline command; None where quotes are not balanced. A line of 64 KiB takes some 5 ms.

    Words in double quotes know the escapes \\n \\r \\t \\b \\a and \\xHH, those in single quotes only \\'.

    >>> split_line(b'set "a b" \\'c\\' "\\\\x41"'), split_line(b'get "a')
    ([b'set', b'a b', b'c', b'A'], None)
    """
    if b'"' not in line and b"'" not in line:
        return line.replace(b"\0", b" ").split()
    words = _words(line)
    if not _is_word(words[-1]):
        return None
    if b"\\" in line:
        return list(map(_meaning, words))
    return [word[1:-1] if word[0] in _QUOTES else _meaning(word) for word in words]
