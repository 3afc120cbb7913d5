"""Inline commands: the regular expressions split a line as a reader does that looks at each byte."""

from __future__ import annotations

import re
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.endpoints.resp.wire.fallback_parser import split_line

SPACES: Final = b" \n\r\t\v\f\0"
ESCAPES: Final = {0x6E: b"\n", 0x72: b"\r", 0x74: b"\t", 0x62: b"\b", 0x61: b"\a"}
PARTS: Final = [
    *(b'"', b"'", b"\\", b" ", b"a", b"x", b"4", b"n", b"\0", b"\t", b"\n", b"\x0b", b"\x1c", b"\xff"),
    *(b"\\x41", b"\\\\", b'" "', b"' '", b"\\'", b'\\"'),
]


def quoted(line: bytes, at: int, word: bytearray) -> int | None:
    """Read on from behind a quote; where the text in quotes ends."""
    quote = line[at - 1]
    while at < len(line):
        byte = line[at]
        at += 1
        if byte == quote:
            return at
        if byte != 0x5C or at == len(line):
            word.append(byte)
        elif quote == 0x27:
            if line[at] == 0x27:
                byte, at = 0x27, at + 1
            word.append(byte)
        elif line[at] == 0x78 and re.fullmatch(rb"[0-9a-fA-F]{2}", line[at + 1 : at + 3]):
            word.append(int(line[at + 1 : at + 3], 16))
            at += 3
        else:
            word += ESCAPES.get(line[at], line[at : at + 1])
            at += 1
    return None


def words_of(line: bytes) -> list[bytes] | None:
    """Byte by byte."""
    words: list[bytes] = []
    at = 0
    while True:
        while at < len(line) and line[at] in SPACES:
            at += 1
        if at == len(line):
            return words
        word = bytearray()
        while at < len(line) and line[at] not in SPACES:
            at += 1
            if line[at - 1] not in b"\"'":
                word.append(line[at - 1])
                continue
            end = quoted(line, at, word)
            if end is None or (end < len(line) and line[end] not in SPACES):
                return None
            at = end
        words.append(bytes(word))


@given(st.lists(st.sampled_from(PARTS), max_size=14).map(b"".join))
@settings(max_examples=1000)
def test_a_line_is_split_as_byte_by_byte(line: bytes) -> None:
    assert split_line(line) == words_of(line)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (rb'a"b c"', [b"ab c"]),
        (rb"""'a"b' x'y\z'""", [b'a"b', rb"xy\z"]),
        (rb'"\x4" "\x5cn\\n"', [b"x4", rb"\n\n"]),
        (b"a\0b", [b"a", b"b"]),
        (b'a "b" "c', None),
        (b'"a" "b"c', None),
    ],
)
def test_words_in_quotes(line: bytes, words: list[bytes] | None) -> None:
    assert split_line(line) == words == words_of(line)


@pytest.mark.parametrize("end", [b"", b"'"])
def test_a_long_line_takes_no_steps_back(end: bytes) -> None:
    """With expressions that try again, this would take longer than anybody waits."""
    line = b"'" + b"\\\\'" * 10_000 + b"\\" * 20_000 + end
    assert split_line(line) == words_of(line)
