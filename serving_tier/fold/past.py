"""What keys had before: the past of a table that keeps a history. Pure.

Each change of a key leaves a **past entry** under its offset: what the key had until then. So the state of a key at an
offset is what the first later change replaced, and where there is none, the present. One value is stored once: as the
present, or as what a change replaced.

An entry that expires leaves none, since nothing in the log says so. It is put aside when it is removed, and is what the
next change replaced; whether it counts at an offset is judged by the log's time of that offset.

What a bound removes is decided by offsets and the log's time, so what can be read of the past is the same on every
replica; that the rows of it are gone from a file may happen a little later.

- By number: the newest changes of each key stay.
- By age: every state stays that was the present one within that time. Older past entries are of no use to any of these.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from log_tier.model.identifiers import NOTHING, Offset
from log_tier.model.kept_history import KeptHistory
from serving_tier.fold.entry import is_live, version_of

__all__ = ["KeyChanged", "PastEntry", "PastView", "pack_past", "past_entries", "unpack_past"]

_ROW: Final = struct.Struct("<qH")


class KeyChanged(NamedTuple):
    """A change of one key, as the fold decided it."""

    offset: Offset
    """Of the record that changed it; of a group, of its last record on this key."""
    key: bytes
    stored: bytes | None
    """What the key has from then on; None: nothing."""
    log_time_ms: int


class PastEntry(NamedTuple):
    """What a key had until an offset."""

    offset: Offset
    """Of the change that replaced it."""
    key: bytes
    since: Offset
    """The key had it from this offset on. Of a key that had nothing, known where the history is bounded by number: when
    it was deleted; else `NOTHING`."""
    stored: bytes | None
    """None: nothing."""


class PastView(Protocol):
    """What is read of an index to make past entries."""

    def kept(self, key: bytes, /) -> bytes | None:
        """What a key has, or had when it expired."""
        ...

    def changed_last(self, key: bytes, /) -> Offset:
        """The offset of the newest past entry of a key; `NOTHING`: it has none."""
        ...


def past_entries(changes: Sequence[KeyChanged], view: PastView, keeps: KeptHistory) -> list[PastEntry]:
    """The past entries that these changes leave, in their order. Two lookups for each key, some 3 µs.

    Whether an expired entry is there may depend on how far a file is swept: what no state within the kept time shows is
    left out.
    """
    entries: list[PastEntry] = []
    now: dict[bytes, bytes | None] = {}
    changed: dict[bytes, Offset] = {}
    for offset, key, stored, log_time_ms in changes:
        before = now[key] if key in now else view.kept(key)
        if before is not None and keeps.age_ms and not is_live(before, log_time_ms - keeps.age_ms):
            before = None
        if before is not None:
            since = version_of(before)
        elif not keeps.versions:
            since = NOTHING
        else:
            since = changed[key] if key in changed else view.changed_last(key)
        entries.append(PastEntry(offset, key, since, before))
        now[key] = stored
        changed[key] = offset
    return entries


def pack_past(entry: PastEntry) -> bytes:
    """The stored form of a past entry, but for its offset: since i64, key length u16, key, what was stored; nothing
    where the key had nothing.
    """
    return _ROW.pack(entry.since, len(entry.key)) + entry.key + (entry.stored or b"")


def unpack_past(offset: int, row: bytes) -> PastEntry:
    """Read it. Raises `struct.error` for a row that is too short."""
    since, length = _ROW.unpack_from(row)
    at = _ROW.size + length
    return PastEntry(Offset(offset), row[_ROW.size : at], Offset(since), row[at:] or None)
