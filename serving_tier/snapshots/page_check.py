"""The structure of a copied LMDB file, looked at page by page before LMDB maps it.

LMDB 0.9 has no page checksums, and follows page numbers and pointers wherever they lead: a damaged file can crash the
process. `serving_tier.index.lmdb.folder.verify_index` walks every key for that, in Python, some 10 µs each: 10 s for a
million keys, where copying their file takes 0.1 to 0.3 s. So the work is divided:

- the checksums always show whether the bytes are those that were copied;
- this file checks whether what was copied was sound: some 2 µs a page, about 0.1 s for a million keys of 100 bytes. It
  finds what a bad disk or a bad write leaves: pages of zeros, of another place, of another file, of the wrong kind,
  pointers that lead out of a page, children that lead out of the file, in circles, or twice to one page.
- what is inside a leaf's entries (an order that is wrong, a length inside a node) is not looked at. LMDB wrote it, and
  nothing that changes less than a page gets past the checksums. `verify_index` remains for an operator who doubts.

A compacting copy has more order than LMDB's files in general, and this check requires it: no free pages, each page in
use once, and every child before its parent, so a walk always ends.

The layout is in `serving_tier.index.lmdb.pages`.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import Final

from log_tier.model.errors import SnapshotDamaged
from serving_tier.index.lmdb.pages import (
    BRANCH,
    FIXED_LEAF,
    HEADER_BYTES,
    LEAF,
    META,
    NO_PAGE,
    NODE_BYTES,
    OVERFLOW,
    PAGE_SIZES,
    NoMetaPage,
    newest_meta,
)
from serving_tier.snapshots.manifest import PIECE_BYTES

__all__ = ["PageCheck"]

# In a branch a node begins with the child's number: 16, 16 and 16 bits, the lowest first.
_CHILD: Final = struct.Struct("=HHH")


@cache
def _pointers(page_bytes: int) -> tuple[struct.Struct, ...]:
    """The pointers of a page, by their number: an index is cheaper than the text of a format, once for each page."""
    return tuple(struct.Struct(f"={count}H") for count in range(page_bytes >> 1))


class PageCheck:
    """Takes a file in pieces of `PIECE_BYTES`, in order, then `finish()`. Both raise `SnapshotDamaged`.

    Memory: a byte a page.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._next = 0
        self._overflow_left = 0
        self._page_bytes = 0
        self._last = 0
        self._root = NO_PAGE
        self._kinds = bytearray()
        """By page: 0 what cannot be a child, 1 what can, 2 what is one."""

    def feed(self, piece: bytes) -> None:
        """Look at the next piece. Some 0.4 ms."""
        if not self._page_bytes:
            self._begin(piece)
        if len(piece) % self._page_bytes:
            raise self._damaged(f"ends inside page {self._next + len(piece) // self._page_bytes}")
        view = memoryview(piece)
        size, number = self._page_bytes, self._next
        unpackers = _pointers(size)
        self._next += len(piece) // size
        for found, flags, lower, upper in struct.iter_unpack(f"=Q2xHHH{size - HEADER_BYTES}x", view):
            place, number = number, number + 1
            if self._overflow_left:
                self._overflow_left -= 1
                self._kinds.append(0)
                continue
            if found != place:
                raise self._damaged(f"page {place} says that it is page {found}")
            if flags in (LEAF, BRANCH):
                begin = (place - self._next) * size + len(piece)
                if not HEADER_BYTES < lower <= upper <= size or lower % 2:
                    raise self._damaged(f"page {place} has its room from {lower} to {upper}")
                pointers = unpackers[(lower - HEADER_BYTES) >> 1].unpack_from(view, begin + HEADER_BYTES)
                if min(pointers) < upper or max(pointers) > size - NODE_BYTES:
                    raise self._damaged(f"page {place} has a pointer outside of its entries, {upper} to {size}")
                if flags == BRANCH:
                    for pointer in pointers:
                        low, middle, high = _CHILD.unpack_from(view, begin + pointer)
                        self._claim(place, low | middle << 16 | high << 32)
                self._kinds.append(1)
            elif flags == OVERFLOW:
                count = lower | upper << 16
                if not 0 < count <= self._last + 1 - place:
                    raise self._damaged(f"page {place} is the first of {count}, and the file ends at {self._last}")
                self._overflow_left = count - 1
                self._kinds.append(0)
            elif flags == FIXED_LEAF:
                self._kinds.append(1)
            elif place < 2 and flags == META:
                self._kinds.append(0)
            else:
                raise self._damaged(f"page {place} has flags {flags:#x}, which no page of a copy has")

    def finish(self) -> None:
        """Check the number of pages and the root, after the last piece."""
        if self._next != self._last + 1:
            raise self._damaged(f"has {self._next} pages, its meta page says {self._last + 1}")
        if self._root != NO_PAGE:
            self._claim(self._next, self._root)

    def _begin(self, piece: bytes) -> None:
        """Read the meta pages."""
        try:
            meta = newest_meta(piece)
        except NoMetaPage as error:
            raise self._damaged(str(error)) from error
        if meta.free_root != NO_PAGE:
            raise self._damaged(f"has a list of free pages, at {meta.free_root}: it is no compact copy")
        self._page_bytes, self._root, self._last = meta.page_bytes, meta.root, meta.last_page

    def _claim(self, parent: int, child: int) -> None:
        """A child is a branch or a leaf that came before its parent, and has no other one."""
        if not 2 <= child < min(parent, len(self._kinds)) or self._kinds[child] != 1:
            raise self._damaged(f"page {parent} names page {child} as its child, which cannot be one")
        self._kinds[child] = 2

    def _damaged(self, what: str) -> SnapshotDamaged:
        return SnapshotDamaged(f"{self._where} {what}: use another snapshot", file=self._where)


assert all(PIECE_BYTES % size == 0 for size in PAGE_SIZES), "a page would lie across two pieces"
