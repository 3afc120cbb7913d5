"""The functions that a loaded ELF library imports from others, and how to put another function in the place of one.

A library calls what it imports through a table of addresses, which the loader fills (its global offset table). The
relocations of the library name the entry of each function. Linux on x86-64 and ARM64.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from collections.abc import Iterator
from typing import Final

__all__ = ["entries_of", "libraries", "replace_entry"]

_TYPE_DYNAMIC: Final = 2
_STRINGS, _SYMBOLS, _RELOCATIONS, _RELOCATIONS_BYTES, _JUMPS_BYTES, _JUMPS = 5, 6, 7, 8, 2, 23
_RELOCATION: Final = struct.Struct("=QQq")
_ENTRIES: Final = frozenset({6, 7, 1025, 1026})
"""The relocations of functions: GLOB_DAT and JUMP_SLOT, of x86-64 and of ARM64."""


def libraries(*beginnings: str) -> list[int]:
    """Where the loaded files whose names begin with one of `beginnings` begin in memory."""
    found = []
    with open("/proc/self/maps", encoding="ascii") as maps:
        for line in maps:
            range_, _, position, _, _, *name = line.split()
            if name and position == "00000000" and name[0].rpartition("/")[2].startswith(beginnings):
                found.append(int(range_.partition("-")[0], 16))
    return found


def entries_of(base: int) -> Iterator[tuple[str, int]]:
    """The names of the functions that a library imports, and the addresses of their entries."""
    (moved,) = struct.unpack("=H", _memory(base + 16, 2))  # 2: a program at fixed addresses
    offset = 0 if moved == 2 else base
    program, size, count = *struct.unpack("=Q", _memory(base + 32, 8)), *struct.unpack("=HH", _memory(base + 54, 4))
    tags: dict[int, int] = {}
    for number in range(count):
        kind, _, _, address, *_ = struct.unpack("=IIQQQQQQ", _memory(base + program + number * size, 56))
        if kind == _TYPE_DYNAMIC:
            at = offset + address
            while (tag := struct.unpack("=qQ", _memory(at, 16)))[0]:
                tags.setdefault(*tag)
                at += 16

    def place(tag: int) -> int:
        return tags[tag] if tags[tag] >= offset else tags[tag] + offset

    for table, length in ((_RELOCATIONS, _RELOCATIONS_BYTES), (_JUMPS, _JUMPS_BYTES)):
        if table in tags:
            for entry, info, _ in _RELOCATION.iter_unpack(_memory(place(table), tags[length])):
                if info & 0xFFFFFFFF in _ENTRIES:
                    (name,) = struct.unpack("=I", _memory(place(_SYMBOLS) + (info >> 32) * 24, 4))
                    yield ctypes.string_at(place(_STRINGS) + name).decode("ascii", "replace"), offset + entry


def replace_entry(entry: int, address: int) -> None:
    """From now on a library calls what is at `address` through this entry."""
    page = entry - entry % mmap.PAGESIZE
    if ctypes.CDLL(None, use_errno=True).mprotect(ctypes.c_void_p(page), mmap.PAGESIZE, 1 | 2):
        raise OSError(ctypes.get_errno(), "mprotect")
    ctypes.c_uint64.from_address(entry).value = address


def _memory(address: int, size: int) -> bytes:
    return ctypes.string_at(address, size)
