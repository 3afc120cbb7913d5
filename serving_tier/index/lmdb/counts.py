"""How much an LMDB index holds: live keys, the next expiry, rows and bytes.

Expired entries are nowhere to be seen (X4), and some still lie in the file until an apply removes them: the row under
each expiry names them. The functions read inside a transaction of the caller, and raise what LMDB raises.
"""

from __future__ import annotations

from typing import Any

from serving_tier.fold.entry import expiry_of
from serving_tier.index.index import IndexStatistics
from serving_tier.index.lmdb.environment import Databases
from serving_tier.index.lmdb.format import STATE, VOID, State, unpack_void
from serving_tier.index.number_keys import number_key, number_of

__all__ = ["count_live", "first_expiry_ms", "statistics_of"]


def count_live(txn: Any, databases: Databases, *, log_time_ms: int) -> int:
    """The number of live keys. O(1), and O(expired entries that are not yet removed)."""
    expired = 0
    for due, key in txn.cursor(databases.expiries).iternext():
        if number_of(due) > log_time_ms:
            break
        stored = txn.get(key, db=databases.data)
        expired += stored is not None and expiry_of(stored) == number_of(due)
    return int(txn.stat(databases.data)["entries"]) - expired


def first_expiry_ms(txn: Any, databases: Databases, *, log_time_ms: int) -> int | None:
    """The first expiry after a log time; its entry may have been overwritten since. O(log n)."""
    cursor = txn.cursor(databases.expiries)
    return number_of(cursor.key()) if cursor.set_range(number_key(log_time_ms + 1)) else None


def statistics_of(env: Any, txn: Any, databases: Databases) -> IndexStatistics:
    """Sizes. O(1)."""
    state = State.unpack(txn.get(STATE, db=databases.meta))
    rows = {name: int(txn.stat(database)["entries"]) for name, database in databases._asdict().items() if database}
    return IndexStatistics(
        applied=state.applied,
        log_time_ms=state.log_time_ms,
        entries=rows["data"],
        producers=rows["producers"],
        verdicts=rows["verdicts"],
        results=rows["results"],
        expiries=rows["expiries"],
        bytes_used=(env.info()["last_pgno"] + 1) * env.stat()["psize"],
        void=unpack_void(txn.get(VOID, db=databases.meta)),
    )
