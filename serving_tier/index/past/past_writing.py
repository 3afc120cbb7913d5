"""Past entries are written, and removed when a bound says so, inside the write transaction of the fold that made them.

What is too old by age goes in pieces, each no larger than what was written: so no apply is held up, and what is left
over is read by nobody (`past_reading.py` decides by offsets and times, not by which rows are there).
"""

from __future__ import annotations

from typing import Any, Final

from log_tier.model.identifiers import NOTHING, Offset
from log_tier.model.kept_history import KeptHistory
from serving_tier.fold.effects import Effects
from serving_tier.fold.entry import expiry_of
from serving_tier.fold.past import pack_past, unpack_past
from serving_tier.index.number_keys import number_key, number_of
from serving_tier.index.past.past_rows import (
    HISTORY,
    PastDatabases,
    pack_history_start,
    pack_time,
    unpack_time,
)

__all__ = ["begin_past", "changed_last", "lay_aside", "write_past"]

_REMOVED_MIN: Final = 256
"""Rows of each kind that one apply removes at least, where so many are too old."""


def changed_last(txn: Any, databases: PastDatabases, key: bytes) -> Offset:
    """The offset of the newest past entry of a key; `NOTHING`: it has none. One lookup."""
    cursor = txn.cursor(databases.past)
    return Offset(number_of(cursor.value())) if cursor.set_key(key) and cursor.last_dup() else NOTHING


def begin_past(txn: Any, databases: PastDatabases, offset: Offset) -> None:
    """The past begins here: another version of the table was live before, and it alone knows what was shown then."""
    txn.put(HISTORY, pack_history_start(offset), db=databases.meta)


def write_past(effects: Effects, txn: Any, databases: PastDatabases, *, applied: Offset, log_time_ms: int) -> None:
    """Write what a fold has of the past, and remove what its bounds no longer keep. `applied`, `log_time_ms`: before
    it.
    """
    definition = effects.definition
    keeps = None if definition is None else definition.keeps
    if keeps is None:
        return
    if txn.get(HISTORY, db=databases.meta) is None:
        txn.put(HISTORY, pack_history_start(applied), db=databases.meta)
    _write_times(effects, txn, databases, applied, log_time_ms)
    if effects.past:
        txn.cursor(databases.history).putmulti((number_key(each.offset), pack_past(each)) for each in effects.past)
        txn.cursor(databases.past).putmulti((each.key, number_key(each.offset)) for each in effects.past)
        if txn.stat(databases.lapsed)["entries"]:
            for key in dict.fromkeys(each.key for each in effects.past):
                txn.delete(key, db=databases.lapsed)
    if keeps.versions:
        for key in dict.fromkeys(each.key for each in effects.past):
            _keep_newest(txn, databases, key, keeps.versions)
    elif keeps.age_ms:
        least_ms, at_most = effects.log_time_ms - keeps.age_ms, max(_REMOVED_MIN, 2 * effects.records)
        _remove_older(txn, databases, least_ms, at_most)
        _remove_lapsed(txn, databases, least_ms, at_most)


def lay_aside(txn: Any, databases: PastDatabases, key: bytes, stored: bytes, keeps: KeptHistory) -> None:
    """Keep an expired entry that is being removed: its key had it until the next change."""
    txn.put(key, stored, db=databases.lapsed)
    if keeps.age_ms:
        txn.put(number_key(expiry_of(stored)), key, db=databases.lapses)


def _write_times(effects: Effects, txn: Any, databases: PastDatabases, applied: Offset, log_time_ms: int) -> None:
    cursor = txn.cursor(databases.times)
    known = unpack_time(cursor.value()) if cursor.last() else 0
    if applied > NOTHING and known < log_time_ms:  # it came from the version that was live
        cursor.put(number_key(applied), pack_time(log_time_ms))
    for offset, time_ms in effects.times:
        cursor.put(number_key(offset), pack_time(time_ms))


def _keep_newest(txn: Any, databases: PastDatabases, key: bytes, versions: int) -> None:
    cursor = txn.cursor(databases.past)
    if not cursor.set_key(key):
        return
    for _ in range(cursor.count() - versions):
        txn.delete(cursor.value(), db=databases.history)
        cursor.delete()  # the next one takes its place


def _remove_older(txn: Any, databases: PastDatabases, least_ms: int, at_most: int) -> None:
    """Remove past entries of states that were over before a time: those up to the last offset that is not later."""
    times = txn.cursor(databases.times)
    behind = -1
    for _ in range(at_most):
        if not times.first() or not times.next() or unpack_time(times.value()) > least_ms:
            break
        behind = number_of(times.key())
        times.prev()
        times.delete()
    if not times.first() or unpack_time(times.value()) > least_ms:
        return
    if times.next():
        behind = number_of(times.key())
    history = txn.cursor(databases.history)
    for _ in range(at_most):
        if not history.first() or number_of(history.key()) >= behind:
            return
        entry = unpack_past(number_of(history.key()), history.value())
        txn.delete(entry.key, number_key(entry.offset), db=databases.past)
        history.delete()


def _remove_lapsed(txn: Any, databases: PastDatabases, least_ms: int, at_most: int) -> None:
    """Remove entries that had expired before a time."""
    cursor = txn.cursor(databases.lapses)
    for _ in range(at_most):
        if not cursor.first() or number_of(cursor.key()) > least_ms:
            return
        due, key = cursor.item()
        stored = txn.get(key, db=databases.lapsed)
        if stored is not None and expiry_of(stored) == number_of(due):
            txn.delete(key, db=databases.lapsed)
        cursor.delete()
