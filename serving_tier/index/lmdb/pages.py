"""The layout of LMDB 0.9's files on 64 bits, for code that reads one without LMDB. Pure.

    page     0 number u64, 8 pad u16, 10 flags u16, 12 lower u16, 14 upper u16, 16 pointers u16 …
    node     0 size or child, low u16, 2 high u16, 4 flags u16 (a child's highest 16 bits), 6 key size u16, 8 key, value
    meta     after the page's 16 bytes: magic u32, version u32, address u64, map size u64, the database of free pages
             and the main one, last page u64, transaction u64
    database page size or pad u32, flags u16, depth u16, branches u64, leaves u64, overflows u64, entries u64, root u64

It is `mdb.c`'s (`MDB_page`, `MDB_node`, `MDB_meta`, `MDB_db`), in the machine's byte order. Pages 0 and 1 are meta
pages; the one of the newer transaction counts.
"""

from __future__ import annotations

import struct
from mmap import MADV_DONTNEED, mmap
from typing import Final, NamedTuple

__all__ = [
    "BRANCH",
    "DATABASE",
    "FIXED_LEAF",
    "HEADER_BYTES",
    "LEAF",
    "META",
    "METAS_BYTES_MAX",
    "NODE_BYTES",
    "NO_PAGE",
    "OVERFLOW",
    "PAGE_SIZES",
    "DamagedPage",
    "Meta",
    "NoMetaPage",
    "check_trees",
    "newest_meta",
]

PAGE_SIZES: Final = (4096, 8192, 16384, 32768)
"""The page sizes that LMDB takes from the operating system."""

HEADER_BYTES: Final = 16
"""Bytes of a page's header."""
NODE_BYTES: Final = 8
"""Bytes of a node's header."""

NO_PAGE: Final = (1 << 64) - 1
"""The root of an empty database."""

BRANCH: Final = 0x01
LEAF: Final = 0x02
OVERFLOW: Final = 0x04
META: Final = 0x08
FIXED_LEAF: Final = 0x22
"""Flags of a page: what it is."""

DATABASE: Final = struct.Struct("=IHHQQQQQ")

_MAGIC: Final = 0xBEEFC0DE
_VERSION: Final = 1

# Page number, flags; magic, version; page size, root of the free pages; depth and root of the rest; last page,
# transaction.
_META: Final = struct.Struct("=Q2xH4x II16x I36xQ 6xH32xQ QQ")

# Of a meta page: where the database of free pages and the main one are.
_FREE_AT, _MAIN_AT = 40, 88

_HEADER: Final = struct.Struct("=Q2xHHH")
_CHILD: Final = struct.Struct("=HHH")
_NODE: Final = struct.Struct("=IHH")

_IS_DATABASE: Final = 0x02
"""A node's flag: its value is a database."""
_SORTED_DUPLICATES: Final = 0x04
"""A database's flag: values of a key may be databases."""
_NUMBERS: Final = 0x08
"""A database's flag: keys are numbers of the machine, whose order is not that of their bytes."""
_FIXED_DUPLICATES: Final = 0x10
"""A database's flag: its leaves have no entries, only keys of one size."""

_FORGET_EVERY: Final = 1024
"""Pages of a mapped file that are looked at before they are given back; the kernel maps up to sixteen for each."""
_DEPTH_MAX: Final = 32
"""LMDB's own limit (`CURSOR_STACK`)."""

METAS_BYTES_MAX: Final = max(PAGE_SIZES) + _META.size
"""Both meta pages lie within this many of a file's first bytes."""


class NoMetaPage(ValueError):
    """A fault of a meta page. The message begins with a verb ("has …"); callers put the file before it."""


class DamagedPage(ValueError):
    """A fault of another page. The message begins with a verb, as that of `NoMetaPage`."""


class Meta(NamedTuple):
    """The content of a meta page."""

    transaction: int
    page_bytes: int
    free_root: int
    root: int
    depth: int
    """The depth of the main database's tree."""
    last_page: int


def newest_meta(data: bytes | mmap) -> Meta:
    """The meta page that counts, of a file's first bytes, or of all. Raises `NoMetaPage`."""
    first = _meta(data, 0, 0)
    second = _meta(data, 1, first.page_bytes)
    if second.page_bytes != first.page_bytes:
        raise NoMetaPage(f"has meta pages of two page sizes, {first.page_bytes} and {second.page_bytes}")
    return max(first, second)


def _meta(data: bytes | mmap, number: int, begin: int) -> Meta:
    if len(data) < begin + _META.size:
        raise NoMetaPage(f"ends inside meta page {number}")
    found, flags, magic, version, size, free, depth, root, last, transaction = _META.unpack_from(data, begin)
    if (found, magic, version) != (number, _MAGIC, _VERSION) or not flags & META or size not in PAGE_SIZES:
        raise NoMetaPage(
            f"has in the place of meta page {number} page {found}, flags {flags:#x}, magic {magic:#x}, version "
            f"{version}, page size {size}: it is no LMDB file of this kind"
        )
    return Meta(transaction, size, free, root, depth, last)


def check_trees(data: bytes | mmap) -> None:
    """Walk the pages that are in use, from the roots: number, kind, room, pointers and first key of each, the entries
    of branches, and how many entries there are. Some 3 µs a page.

    Raises `NoMetaPage` and `DamagedPage`. LMDB follows what it finds: with a damaged page it may end the process. Not
    looked at: large values, free pages, and what is inside the entries of a leaf.
    """
    meta = newest_meta(data)
    size = meta.page_bytes
    if (meta.last_page + 1) * size > len(data):
        raise DamagedPage(f"has {len(data)} bytes, its pages end at {(meta.last_page + 1) * size}")
    seen = bytearray(meta.last_page + 1)
    begin = (meta.transaction & 1) * size
    roots = [_Tree(data, begin + at, holds=at == _MAIN_AT) for at in (_FREE_AT, _MAIN_AT)]
    while roots:
        roots += roots.pop().check(data, size, seen)


class _Tree:
    """One database of a file."""

    def __init__(self, data: bytes | mmap, at: int, *, holds: bool = False) -> None:
        """`at`: where its description is; `holds`: its values may be databases."""
        _, self._flags, self._depth, *_, self._entries, self._root = DATABASE.unpack_from(data, at)
        self._holds = holds or bool(self._flags & _SORTED_DUPLICATES)

    def check(self, data: bytes | mmap, size: int, seen: bytearray) -> list[_Tree]:
        """Walk its pages; the databases that are its values."""
        found: list[_Tree] = []
        entries, level = 0, [(self._root, b"")] if self._root != NO_PAGE else []
        if level and not 0 < self._depth < _DEPTH_MAX:
            raise DamagedPage(f"has a database with the depth {self._depth}, whose root is page {self._root}")
        for left in reversed(range(self._depth)):
            below: list[tuple[int, bytes]] = []
            for place, (number, least) in enumerate(level, 1):
                if not place % _FORGET_EVERY:
                    _forget(data)
                pointers = _page(data, size, number, seen, BRANCH if left else LEAF)
                begin = number * size
                if left:
                    below += self._children(data, begin, size, pointers)
                    continue
                entries += len(pointers)
                if least and pointers and not self._flags & _NUMBERS and _key(data, begin + pointers[0]) < least:
                    raise DamagedPage(f"has a page {number} whose first key is less than its parent says")
                if self._holds:
                    found += _databases_in(data, begin, size, pointers)
            level = below
        if entries != self._entries and not self._flags & (_SORTED_DUPLICATES | _FIXED_DUPLICATES):
            raise DamagedPage(f"has {entries} entries in a database that says {self._entries}")
        return found

    def _children(
        self, data: bytes | mmap, begin: int, size: int, pointers: tuple[int, ...]
    ) -> list[tuple[int, bytes]]:
        """The pages below a branch, each with the least key that it may have."""
        found: list[tuple[int, bytes]] = []
        filled = 0
        for pointer in pointers:
            low, middle, high = _CHILD.unpack_from(data, begin + pointer)
            key = _key(data, begin + pointer)
            filled += (NODE_BYTES + len(key) + 1) & ~1
            if len(found) > 1 and key <= found[-1][1] and not self._flags & _NUMBERS:
                raise DamagedPage(f"has a page {begin // size} whose keys are not in order")
            found.append((low | middle << 16 | high << 32, key if found else b""))
        (upper,) = struct.unpack_from("=H", data, begin + 14)
        if filled != size - upper:
            raise DamagedPage(f"has a page {begin // size} of {filled} bytes of entries, with room up to {upper}")
        return found


def _forget(data: bytes | mmap) -> None:
    """Give back the pages of a mapped file: the walk of a large one would fill the memory of a process with them."""
    if isinstance(data, mmap):
        data.madvise(MADV_DONTNEED)


def _page(data: bytes | mmap, size: int, number: int, seen: bytearray, kind: int) -> tuple[int, ...]:
    """The pointers of a page, which must be of a kind, and be met once."""
    if not 2 <= number < len(seen) or seen[number]:
        raise DamagedPage(f"names page {number} as one in use, which cannot be one")
    seen[number] = 1
    begin = number * size
    found, flags, lower, upper = _HEADER.unpack_from(data, begin)
    if found != number or flags not in ((LEAF, FIXED_LEAF) if kind == LEAF else (BRANCH,)):
        raise DamagedPage(f"has in the place of page {number} page {found} with flags {flags:#x}")
    if not HEADER_BYTES <= lower <= size or lower % 2:
        raise DamagedPage(f"has a page {number} with its room from {lower} to {upper}")
    if flags == FIXED_LEAF:
        return ()
    pointers = struct.unpack_from(f"={(lower - HEADER_BYTES) >> 1}H", data, begin + HEADER_BYTES)
    if not lower <= upper <= size or (pointers and not upper <= min(pointers) <= max(pointers) <= size - NODE_BYTES):
        raise DamagedPage(f"has a page {number} with a pointer outside of its entries, {upper} to {size}")
    return pointers


def _key(data: bytes | mmap, at: int) -> bytes:
    """The key of the node at a place."""
    _, _, size = _NODE.unpack_from(data, at)
    return data[at + NODE_BYTES : at + NODE_BYTES + size]


def _databases_in(data: bytes | mmap, begin: int, size: int, pointers: tuple[int, ...]) -> list[_Tree]:
    """The databases that are values of a leaf."""
    found = []
    for pointer in pointers:
        _, flags, key_bytes = _NODE.unpack_from(data, begin + pointer)
        if flags & _IS_DATABASE:
            at = pointer + NODE_BYTES + key_bytes
            if at + DATABASE.size > size:
                raise DamagedPage(f"has a database that leads out of its page, at {begin + pointer}")
            found.append(_Tree(data, begin + at))
    return found
