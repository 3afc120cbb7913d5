"""What the rows that a fold changes make of the table's ordered indexes."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Final

from log_tier.model.errors import IndexDamaged
from log_tier.model.record import KEY_BYTES_MAX
from log_tier.rows.avro.row_reader import READER_ERRORS
from log_tier.rows.index_entries import IndexEntries
from serving_tier.fold.entry import value_begin

__all__ = ["KEY_LENGTH_BYTES", "all_of_stored", "entries_of_stored", "index_changes"]

KEY_LENGTH_BYTES: Final = 2
"""An entry is stored with the length of the row's key, which is at its end: so a reader finds the row at once."""


def index_changes(
    entries: Mapping[bytes, bytes | None], stored: Callable[[bytes], bytes | None], rows: IndexEntries
) -> dict[bytes, bytes | None]:
    """The entries that come, with what is stored under them, and those that go (None). One that stays is not named.

    `entries`: the new stored form of each row that changes; None: removed. `stored`: what the index held of it before
    the fold, expired or not: an entry stays as long as its row is stored. One lookup for each row, and some 1 µs for
    each of its fields. Raises `IndexDamaged` for a stored row that is none.
    """
    changes: dict[bytes, bytes | None] = {}
    for key, after in entries.items():
        before = stored(key)
        gone = () if before is None else all_of_stored(key, before, rows)
        come = () if after is None else rows.of(key, after, value_begin(after))
        if gone == come:
            continue
        # A row in front of the barrier of an index, in one fold with it, may be too long for that as well.
        length = len(key).to_bytes(KEY_LENGTH_BYTES)
        # Entries of one index are at one place in both; an empty one is none: the index has other rows.
        for old, new in zip_longest(gone, come):
            if old == new:
                continue
            if old and len(old) <= KEY_BYTES_MAX:
                changes[old] = None
            if new and len(new) <= KEY_BYTES_MAX:
                changes[new] = length
    return changes


def entries_of_stored(key: bytes, stored: bytes, rows: IndexEntries) -> Sequence[bytes]:
    """The entries of a row that an index holds. Raises `IndexDamaged` where that is no row of the table.

    A row that was there before an index may be too long for it: no entry is made then, and the index is not put into
    service while the row is there.
    """
    return [each for each in all_of_stored(key, stored, rows) if 0 < len(each) <= KEY_BYTES_MAX]


def all_of_stored(key: bytes, stored: bytes, rows: IndexEntries) -> Sequence[bytes]:
    """With those that are too long, and an empty one for each index that has other rows."""
    try:
        return rows.of(key, stored, value_begin(stored))
    except (*READER_ERRORS, KeyError, struct.error) as error:
        raise IndexDamaged(
            f"what is stored under the key {key[:40]!r} is no row of the table ({error!r}): discard this replica's "
            "index and fold the log again"
        ) from error
