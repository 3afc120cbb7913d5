"""Changes of a sample: bits, bytes, numbers, pieces, other samples. Pure; the generator decides."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Final

__all__ = ["changed_sample"]

_CHANGES_MAX: Final = 4
"""More of them seldom get past the first check of a format."""
_PIECE_BYTES_MAX: Final = 64
_REPEATS_MAX: Final = 200
_GROWN_BYTES_MAX: Final = 64 * 1024
"""Longer inputs cost time and say little: what grows with its input shows it by here."""
_NUMBERS: Final = (0, 1, -1, 2, 7, 8, 127, 128, 255, 256, 32767, 32768, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1)
_LARGE: Final = (2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 1)
_WORDS: Final = (
    *(b"-1", b"0", b"00", b"+1", b"1e999", b"9" * 19, b"9" * 40, b"NaN", b"null", b"true", b'""', b"{}", b"[]", b"*"),
    *(b"\r\n", b"\n", b"\0", b"\xff\xfe", b"\xed\xa0\x80", b"\\u0000", b"\\ud800", b"../..", b"%s", b"*a" * 20),
    *(b"[" * 2000, b'{"a":' * 2000, b"$-1\r\n", b"*1048576\r\n", b"$536870912\r\n"),
)


def _flip(data: bytearray, chance: random.Random, _: Sequence[bytes]) -> None:
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def _set(data: bytearray, chance: random.Random, _: Sequence[bytes]) -> None:
    data[chance.randrange(len(data))] = chance.randrange(256)


def _number(data: bytearray, chance: random.Random, _: Sequence[bytes]) -> None:
    size = chance.choice((1, 2, 4, 4, 8, 8))
    number = chance.choice(_NUMBERS + _LARGE) & (1 << 8 * size) - 1
    at = chance.randrange(len(data))
    data[at : at + size] = number.to_bytes(size, chance.choice(("little", "big")))


def _remove(data: bytearray, chance: random.Random, _: Sequence[bytes]) -> None:
    at = chance.randrange(len(data))
    del data[at : at + chance.randint(1, _PIECE_BYTES_MAX)]


def _repeat(data: bytearray, chance: random.Random, _: Sequence[bytes]) -> None:
    at = chance.randrange(len(data))
    piece = bytes(data[at : at + chance.randint(1, _PIECE_BYTES_MAX)])
    data[at:at] = (piece * chance.choice((1, 1, 2, chance.randint(1, _REPEATS_MAX))))[:_GROWN_BYTES_MAX]


def _insert(data: bytearray, chance: random.Random, _: Sequence[bytes]) -> None:
    at = chance.randint(0, len(data))
    data[at:at] = chance.choice(_WORDS) if chance.random() < 0.6 else chance.randbytes(chance.randint(1, 16))


def _cut(data: bytearray, chance: random.Random, _: Sequence[bytes]) -> None:
    del data[chance.randint(0, len(data)) :]


def _swap(data: bytearray, chance: random.Random, _: Sequence[bytes]) -> None:
    size = chance.randint(1, _PIECE_BYTES_MAX)
    one, other = sorted(chance.randint(0, len(data)) for _ in range(2))
    data[one : one + size], data[other : other + size] = data[other : other + size], data[one : one + size]


def _splice(data: bytearray, chance: random.Random, samples: Sequence[bytes]) -> None:
    other = chance.choice(samples)
    at = chance.randint(0, len(data))
    data[at:] = other[chance.randint(0, len(other)) :]


_CHANGES: Final[tuple[Callable[[bytearray, random.Random, Sequence[bytes]], None], ...]] = (
    *(_flip, _set, _number, _number, _remove, _repeat, _insert, _cut, _swap, _splice),
)


def changed_sample(samples: Sequence[bytes], chance: random.Random) -> bytes:
    """One of the samples with one to four changes."""
    data = bytearray(chance.choice(samples))
    for _ in range(chance.randint(1, _CHANGES_MAX)):
        if not data:
            data += chance.randbytes(chance.randint(1, 16))
        chance.choice(_CHANGES)(data, chance, samples)
    return bytes(data[:_GROWN_BYTES_MAX]) if len(data) > _GROWN_BYTES_MAX else bytes(data)
