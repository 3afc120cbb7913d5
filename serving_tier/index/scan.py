"""Walking over an index in key order: ranges, pages, digests. Pure; the two indexes bring the pairs."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from typing import Final

from log_tier.model.errors import IndexDamaged
from log_tier.rows.table_index import INDEX_NUMBER_BYTES, TableIndex
from serving_tier.fold.entry import LiveEntry, entry_of, is_live

__all__ = ["digest_of", "index_bounds", "rows_of_entries", "take_page"]

_LENGTHS: Final = struct.Struct("<HI")

# Pieces between two calls into the hash: enough that the call is cheap, few enough that it stays in the cache.
_DIGEST_PIECES: Final = 3000


def take_page(
    pairs: Iterable[tuple[bytes, bytes]], *, log_time_ms: int, limit: int, bytes_max: int
) -> tuple[list[tuple[bytes, LiveEntry]], bool]:
    """The first live entries of `pairs` (keys and stored forms), and whether another one follows."""
    assert limit > 0, f"a page of {limit} entries"
    page: list[tuple[bytes, LiveEntry]] = []
    left, room = limit, bytes_max
    for key, stored in pairs:
        if stored[7] and not is_live(stored, log_time_ms):
            continue
        if left == 0 or room <= 0:
            return page, True
        page.append((key, entry_of(stored)))
        left -= 1
        room -= len(key) + len(stored)
    return page, False


def index_bounds(index: TableIndex, start: bytes, end: bytes | None) -> tuple[bytes, bytes]:
    """Where the entries of an index from `start` to `end` (None: to its last one) are stored."""
    number = index.number.to_bytes(INDEX_NUMBER_BYTES)
    return number + start, (index.number + 1).to_bytes(INDEX_NUMBER_BYTES) if end is None else number + end


def rows_of_entries(
    pairs: Iterable[tuple[bytes, bytes]], stored: Callable[[bytes], bytes | None]
) -> Iterator[tuple[bytes, bytes]]:
    """Entries without the index's number, and the stored forms of their rows. Raises `IndexDamaged` for an entry whose
    row is not there: both are written in one transaction.
    """
    for entry, length in pairs:
        row = stored(entry[len(entry) - int.from_bytes(length) :])
        if row is None:
            raise IndexDamaged(
                f"the entry {entry[:40]!r} of an ordered index has no row: discard this replica's index and fold the "
                "log again"
            )
        yield entry[INDEX_NUMBER_BYTES:], row


def digest_of(pairs: Iterable[tuple[bytes, bytes]], *, log_time_ms: int) -> str:
    """BLAKE2b-128 over all live entries in key order: lengths, key, stored form of each."""
    digest = blake2b(digest_size=16)
    pieces: list[bytes] = []
    for key, stored in pairs:
        if stored[7] and not is_live(stored, log_time_ms):
            continue
        pieces += (_LENGTHS.pack(len(key), len(stored)), key, stored)
        if len(pieces) >= _DIGEST_PIECES:
            digest.update(b"".join(pieces))
            pieces.clear()
    digest.update(b"".join(pieces))
    return digest.hexdigest()
