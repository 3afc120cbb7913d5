"""What a disk does to a file: bits that flip in each field, pages of zeros, ends that are missing, other files."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import Final

__all__ = ["ENTRY_FIELDS", "damages_of"]

_PAGE: Final = 4096
_META: Final = {
    "number": 0,
    "flags": 10,
    "magic": 16,
    "version": 20,
    "map size": 32,
    "page size": 40,
    "free root": 80,
    "main flags": 92,
    "main depth": 94,
    "main entries": 120,
    "main root": 128,
    "last page": 136,
    "transaction": 144,
}
_HEADER: Final = {"number": 0, "flags": 10, "lower": 12, "upper": 14, "pointer": 16}

ENTRY_FIELDS: Final = ("node size", "node flags", "key size", "key", "value")
"""What is inside the entries of LMDB's pages."""

Damages = Iterator[tuple[str, bytes | None]]


def damages_of(name: str, data: bytes, *, older: bytes, other: bytes) -> Damages:
    """Each damage of the file `name` with what the file is then; None: it is gone. `older`: what it was before;
    `other`: that of another partition.
    """
    yield "gone", None
    yield "empty", b""
    yield "half", data[: len(data) // 2]
    if older != data:
        yield "an older copy", older
    if other != data:
        yield "another partition's", other
    if name.endswith(".json"):
        yield from _of_json(data)
    elif name == "data.mdb":
        yield from _of_pages(data)
    else:
        yield "zeroed", bytes(len(data))
        yield "all ones", b"\xff" * len(data)


def _of_json(data: bytes) -> Damages:
    yield "the last brace", data.rstrip()[:-1]
    yield "zeroed", bytes(len(data))
    for found in re.finditer(rb'"(\w+)": *"?', data):
        yield f"bit of {found[1].decode()}", _flipped(data, found.end(), 1)


def _of_pages(data: bytes) -> Damages:
    for begin in range(0, len(data), _PAGE):
        number = begin // _PAGE
        yield f"page {number}: zeroed", data[:begin] + bytes(_PAGE) + data[begin + _PAGE :]
        yield f"page {number}: missing from here", data[:begin]
        if number < 2:
            for field, at in _META.items():
                yield f"page {number}: meta {field}", _flipped(data, begin + at, 1)
            continue
        found, flags, lower = struct.unpack_from("=Q2xHH", data, begin)
        if found != number or flags not in (1, 2):
            continue
        for field, at in _HEADER.items():
            yield f"page {number}: {field}", _flipped(data, begin + at, 2)
        (pointer,) = struct.unpack_from("=H", data, begin + 16)
        if lower > 16 and pointer < _PAGE - 8:
            (key_bytes,) = struct.unpack_from("=H", data, begin + pointer + 6)
            fields = {"node size": 0, "node flags": 4, "key size": 6, "key": 8, "value": 20 + key_bytes}
            for field, at in fields.items():
                if pointer + at < _PAGE:
                    yield f"page {number}: {field}", _flipped(data, begin + pointer + at, 2)


def _flipped(data: bytes, at: int, bit: int) -> bytes:
    return data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :]
