"""Long inputs: a changed sample that grows to some kilobytes, the way its format may grow. Pure; the generator decides.

What is quadratic, recursive or copied too often shows in long inputs alone, and a megabyte of them takes a parser less
time than a megabyte of small ones.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Sequence
from typing import Final, Literal

__all__ = ["GROWN_BYTES", "filler", "grown", "grown_goal", "varint"]

GROWN_BYTES: Final = (1024, 60 * 1024)
"""The goal of a long input is between these, each size class as often as the others."""
_PARTS_MAX: Final = 8
_COUNTED_MAX: Final = 4000
_DEEPEST: Final = 5000
_DEEPEST_LENGTHS: Final = 150
"""Each level of a nested length copies what is inside."""
_LENGTH_WITHIN: Final = 24
"""Bytes before a place in which a length that covers it is looked for."""
_DELIMITERS: Final = b'",\n{}[]: \0\r&=.'
_ORDERS: Final[tuple[Literal["little", "big"], ...]] = ("little", "big")
_DIGITS: Final = re.compile(rb"\d{1,9}")
_WORD: Final = re.compile(rb"[A-Za-z0-9]+")
_LIST: Final = re.compile(rb"\[([^\[\]]*)\]")
_FILLERS: Final = (
    *(b"\0", b"\xff", b"x", b"0", b"9", b" ", b"-", b"\\", b'"', b"*", b"\n", b"\r\n", b"/", b"\x80", b"a*"),
    *(
        "é".encode(),
        "𝄞".encode(),
        b"\\u0041",
        b"\\ud834\\udd1e",
        b"&amp;",
        b"%41",
        b"1,",
        b'"a":1,',
        b"{},",
        b"\x08\x01",
    ),
)
_NESTS: Final = (
    *((b"[", b"]"), (b"{", b"}"), (b"(", b")"), (b'{"a":', b"}"), (b'[{"a":', b"}]"), (b'"', b'"')),
    *((b'{"type":"array","items":', b"}"), (b'{"type":"map","values":', b"}"), (b'["null",', b"]")),
)

Way = Callable[[bytearray, int, Sequence[bytes], random.Random], None]


def varint(number: int) -> bytes:
    """A number as protobuf and Avro write lengths."""
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    found.append(number)
    return bytes(found)


def grown_goal(chance: random.Random, most: int) -> int:
    """How long an input becomes."""
    return int(math.exp(chance.uniform(math.log(GROWN_BYTES[0]), math.log(most))))


def filler(size: int, chance: random.Random) -> bytes:
    """Some bytes: one word again and again, or noise."""
    if chance.random() < 0.2:
        return chance.randbytes(size)
    word = chance.choice(_FILLERS)
    return word * (size // len(word) + 1)


def _again(data: bytearray, goal: int, samples: Sequence[bytes], chance: random.Random) -> None:
    """The whole of it as often as it fits: pipelines, runs, lines."""
    data *= max(1, goal // len(data))


def _others(data: bytearray, goal: int, samples: Sequence[bytes], chance: random.Random) -> None:
    """Other samples behind it, and itself among them."""
    parts = [bytes(data), *(chance.choice(samples) for _ in range(_PARTS_MAX))]
    mean = max(1, sum(map(len, parts)) // len(parts))
    data += b"".join(chance.choices(parts, k=goal // mean))


def _piece(data: bytearray, chance: random.Random) -> tuple[int, bytes]:
    """Where a piece begins, and the piece: between two of the same delimiter, where there are."""
    places = [at for at, byte in enumerate(data) if byte in _DELIMITERS]
    if places and chance.random() < 0.8:
        start = chance.choice(places)
        end = data.find(data[start], start + 1)
        for _ in range(chance.choice((0, 0, 1, 3))):
            end = data.find(data[start], end + 1) if end > 0 else end
        if end > 0:
            return start, bytes(data[start:end])
    start = chance.randrange(len(data))
    return start, bytes(data[start : start + chance.randint(1, 64)])


def _elements(data: bytearray, goal: int, samples: Sequence[bytes], chance: random.Random) -> None:
    """One of its elements many times."""
    at, piece = _piece(data, chance)
    _put_in(data, at, piece * max(1, goal // len(piece)), chance)


def _counted(data: bytearray, goal: int, samples: Sequence[bytes], chance: random.Random) -> None:
    """One of its elements many times, each with another number in it."""
    at, piece = _piece(data, chance)
    cut = chance.randint(0, len(piece))
    count = min(_COUNTED_MAX, goal // (len(piece) + 3) + 1)
    _put_in(data, at, b"".join(piece[:cut] + b"%d" % number + piece[cut:] for number in range(count)), chance)


def _filled(data: bytearray, goal: int, samples: Sequence[bytes], chance: random.Random) -> None:
    """A long value somewhere."""
    _put_in(data, chance.randint(0, len(data)), filler(goal, chance), chance)


def _worded(data: bytearray, goal: int, samples: Sequence[bytes], chance: random.Random) -> None:
    """A long word: what is a text of a name, a value or a number stays one."""
    words = list(_WORD.finditer(data))
    if not words:
        return _filled(data, goal, samples, chance)
    at = chance.choice(words).end()
    letter = bytes(data[at - 1 : at])
    _put_in(data, at, chance.choice((letter, letter, b"0", "é".encode())) * goal, chance)
    return None


def _listed(data: bytearray, goal: int, samples: Sequence[bytes], chance: random.Random) -> None:
    """A list of JSON with its items again and again."""
    lists = list(_LIST.finditer(data))
    if not lists:
        return _elements(data, goal, samples, chance)
    found = chance.choice(lists)
    items = found[1] or b"1"
    data[found.start(1) : found.end(1)] = b",".join([items] * max(1, goal // (len(items) + 1)))
    return None


def _nested(data: bytearray, goal: int, samples: Sequence[bytes], chance: random.Random) -> None:
    """A deep value in place of a piece."""
    start, end = chance.choice(_NESTS)
    at, piece = _piece(data, chance)
    depth = chance.choice((30, 60, 100, 300, 1000, _DEEPEST))
    depth = min(depth, goal // (len(start) + len(end)) + 1)
    before = chance.choice((0, 1))
    _put_in(data, at + before, start * depth + chance.choice((b"", b"1", piece)) + end * depth, chance)


def _lengths(data: bytearray, goal: int, samples: Sequence[bytes], chance: random.Random) -> None:
    """A value within lengths: a message in itself, in itself, in itself."""
    tag = bytes((chance.randrange(1, 16) << 3 | 2,))
    inside = bytes(data[:64])
    for _ in range(chance.randint(2, _DEEPEST_LENGTHS)):
        inside = tag + varint(len(inside)) + inside
    data += inside * max(1, goal // len(inside))


def _put_in(data: bytearray, at: int, more: bytes, chance: random.Random) -> None:
    before = len(data)
    data[at:at] = more
    if chance.random() < 0.7:
        _lengthen(data, at, len(more), before, chance)


def _lengthen(data: bytearray, at: int, more: int, before: int, chance: random.Random) -> None:
    """A length before the place, if one seems to be there, covers what was put there."""
    found: list[tuple[int, int, bytes]] = []
    for start in range(max(0, at - _LENGTH_WITHIN), at):
        for size in (1, 2, 4, 8):
            if start + size > at:
                break
            part = bytes(data[start : start + size])
            for order in _ORDERS[: 1 if size == 1 else 2]:
                length = int.from_bytes(part, order)
                if at <= start + size + length <= before and length + more < 1 << 8 * size:
                    found.append((start, size, (length + more).to_bytes(size, order)))
        byte = data[start]
        if byte < 128 and at <= start + 1 + byte <= before:
            found.append((start, 1, varint(byte + more)))
        if byte < 128 and not byte & 1 and at <= start + 1 + byte // 2 <= before:
            found.append((start, 1, varint(byte + 2 * more)))
    for digits in _DIGITS.finditer(data, max(0, at - _LENGTH_WITHIN), at):
        length = int(digits[0])
        if at <= digits.end() + length + 2 and digits.end() + length <= before:
            found.append((digits.start(), len(digits[0]), b"%d" % (length + more)))
    if found:
        start, size, replaced = chance.choice(found)
        data[start : start + size] = replaced


_WAYS: Final[tuple[Way, ...]] = (
    *(_again, _others, _elements, _elements, _counted, _filled, _filled, _worded, _worded, _listed, _nested, _lengths),
)


def grown(
    change: Callable[[Sequence[bytes], random.Random], bytes],
    samples: Sequence[bytes],
    chance: random.Random,
    most: int = GROWN_BYTES[1],
) -> bytes:
    """A changed sample, or one that is as it was, grown in one of the ways to a goal of at most `most` bytes."""
    data = bytearray(change(samples, chance) if chance.random() < 0.5 else chance.choice(samples))
    if not data:
        data += chance.randbytes(8)
    chance.choice(_WAYS)(data, grown_goal(chance, most), samples, chance)
    if data and chance.random() < 0.2:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(data[: most + GROWN_BYTES[0]])
