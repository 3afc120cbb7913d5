"""What the rows that a fold changes make of the table's ordered indexes."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from log_tier.model.errors import IndexDamaged
from log_tier.model.record import KEY_BYTES_MAX
from log_tier.rows.avro.row_reader import READER_ERRORS
from log_tier.rows.index_entries import IndexEntries
from serving_tier.fold.entry import value_begin

__all__ = ["KEY_LENGTH_BYTES", "entries_of_stored", "index_changes"]

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
        gone = () if before is None else entries_of_stored(key, before, rows)
        # A row in front of the barrier of an index, in one fold with it, may be too long for that as well.
        come = () if after is None else _possible(rows.of(key, after, value_begin(after)))
        if gone == come:
            continue
        changes.update(dict.fromkeys(gone))
        length = len(key).to_bytes(KEY_LENGTH_BYTES)
        for entry in come:
            if entry in gone:
                del changes[entry]
            else:
                changes[entry] = length
    return changes


def entries_of_stored(key: bytes, stored: bytes, rows: IndexEntries) -> Sequence[bytes]:
    """The entries of a row that an index holds. Raises `IndexDamaged` where that is no row of the table.

    A row that was there before an index may be too long for it: no entry is made then, and the index is not put into
    service while the row is there.
    """
    try:
        return _possible(rows.of(key, stored, value_begin(stored)))
    except (*READER_ERRORS, KeyError, struct.error) as error:
        raise IndexDamaged(
            f"what is stored under the key {key[:40]!r} is no row of the table ({error!r}): discard this replica's "
            "index and fold the log again"
        ) from error


def _possible(entries: list[bytes]) -> list[bytes]:
    """Those that are not too long."""
    return [each for each in entries if len(each) <= KEY_BYTES_MAX]
