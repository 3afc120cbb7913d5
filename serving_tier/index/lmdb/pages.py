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
from mmap import mmap
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
    "Meta",
    "NoMetaPage",
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

METAS_BYTES_MAX: Final = max(PAGE_SIZES) + _META.size
"""Both meta pages lie within this many of a file's first bytes."""


class NoMetaPage(ValueError):
    """A fault of a meta page. The message begins with a verb ("has …"); callers put the file before it."""


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
