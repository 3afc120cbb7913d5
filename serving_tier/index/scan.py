"""Walking over an index in key order: ranges, pages, digests. Pure; the two indexes bring the pairs."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import takewhile
from typing import Any, Final

from log_tier.model.errors import IndexDamaged, LimitExceeded
from log_tier.model.identifiers import Offset
from log_tier.rows.table_index import INDEX_NUMBER_BYTES, TableIndex
from serving_tier.fold.entry import columns_of_live, is_live
from serving_tier.index.index import ScanPage

__all__ = ["digest_of", "index_bounds", "pairs_between", "rows_of_entries", "stored_within", "take_page"]

_LENGTHS: Final = struct.Struct("<HI")

# Pieces between two calls into the hash: enough that the call is cheap, few enough that it stays in the cache.
_DIGEST_PIECES: Final = 3000


def take_page(
    pairs: Iterable[tuple[bytes, bytes]], *, log_time_ms: int, limit: int, bytes_max: int, applied: Offset
) -> ScanPage:
    """The first live entries of `pairs`, keys and stored forms that were applied up to `applied`. About 0.5 µs each.

    The last one is that with which the page has `limit` entries, or `bytes_max` bytes.
    """
    assert limit > 0, f"a page of {limit} entries"
    keys: list[bytes] = []
    live: list[bytes] = []
    more, room = False, bytes_max
    for key, stored in pairs:
        if stored[7] and not is_live(stored, log_time_ms):
            continue
        if room <= 0 or len(keys) == limit:
            more = True
            break
        keys.append(key)
        live.append(stored)
        room -= len(key) + len(stored)
    return ScanPage(keys, *columns_of_live(live), more, applied)


def index_bounds(index: TableIndex, start: bytes, end: bytes | None) -> tuple[bytes, bytes]:
    """Where the entries of an index from `start` to `end` (None: to its last one) are stored."""
    number = index.number.to_bytes(INDEX_NUMBER_BYTES)
    return number + start, (index.number + 1).to_bytes(INDEX_NUMBER_BYTES) if end is None else number + end


def pairs_between(cursor: Any, start: bytes, end: bytes | None, *, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
    """Keys and stored forms with `start` <= key < `end`, in order. `cursor`: of LMDB, over these."""
    if reverse:
        # To the last key below the end: one back from the first at or after it, or LMDB's last.
        placed = cursor.prev() if end is not None and cursor.set_range(end) else cursor.last()
        return takewhile(lambda pair: pair[0] >= start, cursor.iterprev()) if placed else iter(())
    if not (cursor.set_range(start) if start else cursor.first()):
        return iter(())
    pairs: Iterator[tuple[bytes, bytes]] = cursor.iternext()
    return pairs if end is None else takewhile(lambda pair: pair[0] < end, pairs)


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


def stored_within(
    get: Callable[[bytes], bytes | None], keys: Sequence[bytes], bytes_max: int, header_bytes: int = 0
) -> list[bytes | None]:
    """The stored forms of keys. Raises `LimitExceeded` at the first with which they have more than so many bytes.

    `header_bytes`: so many of each are not counted.
    """
    found: list[bytes | None] = []
    room = bytes_max
    add = found.append
    for stored in map(get, keys):
        if stored is not None:
            room -= len(stored) - header_bytes
            if room < 0:
                raise LimitExceeded(
                    f"the values of these {len(keys)} keys have more than {bytes_max} bytes: ask for fewer",
                    limit=bytes_max,
                    size=bytes_max - room,
                )
        add(stored)
    return found


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
