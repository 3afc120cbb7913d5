"""The fold's two sides in LMDB: the view that it reads, and its effects carried out, in one write transaction. And the
pieces in which ordered indexes are built and removed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from log_tier.model.errors import LimitExceeded
from log_tier.model.identifiers import Offset
from log_tier.model.record import KEY_BYTES_MAX
from log_tier.rows.definition import TableDefinition
from log_tier.rows.index_entries import IndexEntries
from log_tier.rows.table_index import ENTRY_BYTES_MAX, INDEX_NUMBER_BYTES
from log_tier.tally.keep import Kept
from serving_tier.fold.effects import Effects
from serving_tier.fold.entry import expiry_of
from serving_tier.fold.index_builds import NO_BUILDS, IndexBuilds
from serving_tier.fold.index_changes import KEY_LENGTH_BYTES, all_of_stored, entries_of_stored
from serving_tier.fold.producers import ProducerState
from serving_tier.index.index import IndexLimits
from serving_tier.index.lmdb.environment import Databases
from serving_tier.index.lmdb.format import (
    BUILDS,
    DEFINITION,
    LIVE,
    STATE,
    TALLY,
    VOID,
    State,
    new_state,
    pack_definition,
    pack_judgement,
    pack_live,
    pack_producer,
    pack_void,
    unpack_judgement,
    unpack_producer,
    unpack_void,
)
from serving_tier.index.number_keys import number_key, number_of
from serving_tier.index.past.past_reading import kept_entry
from serving_tier.index.past.past_writing import changed_last, lay_aside, write_past

__all__ = ["LmdbView", "build_entries", "carry_out", "put_builds", "tend_entries"]

# Expired entries that one apply removes in addition to its own work: removing keeps up with any mix of records, because
# at most one entry expires for each that was written, and an apply after a long idle time is not held up by a backlog.
_SWEEP_MIN: Final = 256

# Entries of a dropped index that one apply removes: some 200 µs.
_DROPPED_AT_ONCE: Final = 200

# Rows that go at once into an index that is put into service, where they were not in before.
_OWED_AT_ONCE: Final = 10_000


class LmdbView:
    """What the fold reads, inside the write transaction that will carry out its effects. The transaction's own database
    is that of the entries.
    """

    def __init__(self, txn: Any, databases: Databases) -> None:
        self._txn, self._databases = txn, databases
        self.stored: Callable[[bytes], bytes | None] = txn.get
        """`FoldView.stored`. Not a method: each record of a fold calls it once, and this costs half as much."""

    def kept(self, key: bytes) -> bytes | None:
        return kept_entry(self._txn, self._databases, key)

    def changed_last(self, key: bytes) -> Offset:
        return changed_last(self._txn, self._databases, key)

    def with_value(self, value: bytes) -> Iterator[bytes]:
        assert self._databases.ordered is not None, "the file of a table with a unique index has entries"
        cursor, size = self._txn.cursor(self._databases.ordered), len(value)
        found = bool(cursor.set_range(value))
        while found and cursor.key()[:size] == value:
            yield cursor.key()[size:]
            found = bool(cursor.next())

    def producer(self, producer_id: int) -> ProducerState | None:
        row = self._txn.get(number_key(producer_id), db=self._databases.producers)
        return None if row is None else unpack_producer(row)

    def producer_count(self) -> int:
        return int(self._txn.stat(self._databases.producers)["entries"])

    def producers_by_age(self) -> Iterator[int]:
        return map(number_of, self._txn.cursor(self._databases.producer_order).iternext(keys=False, values=True))


def carry_out(
    effects: Effects,
    txn: Any,
    databases: Databases,
    *,
    before: State,
    limits: IndexLimits,
    builds: IndexBuilds = NO_BUILDS,
) -> State:
    """Write what a fold decided into a write transaction that the caller commits; return the state it ends with.
    `builds`: what is to be done behind it to the entries of ordered indexes.
    """
    entries = effects.entries
    if effects.removes:
        cursor = txn.cursor(databases.data)
        place, delete = cursor.set_key, cursor.delete  # two thirds of what `txn.delete` costs
        for key, stored in entries.items():
            if stored is None and place(key):
                delete()
        kept = [(key, stored) for key, stored in entries.items() if stored is not None]
        if kept:
            cursor.putmulti(kept)
    elif entries:
        txn.cursor(databases.data).putmulti(entries.items())
    if effects.changed is not None:
        write_past(effects, txn, databases, applied=before.applied, log_time_ms=before.log_time_ms)
    if effects.index_changes:
        _change_entries(effects.index_changes, txn.cursor(databases.ordered))
    if effects.hints:
        _note_hints(effects.hints, txn, databases)
    for producer_id, state in effects.producers.items():
        _put_producer(txn, databases, number_key(producer_id), state)
    verdicts_from = before.verdicts_from
    if effects.judgements:
        txn.cursor(databases.verdicts).putmulti(map(pack_judgement, effects.judgements))
        verdicts_from = _trim_verdicts(txn, databases, verdicts_from, limits.verdicts)
    if effects.results:
        rows = ((number_key(offset), result) for offset, result in effects.results)
        txn.cursor(databases.results).putmulti(rows)
    _trim_results(txn, databases, effects.applied - limits.results)
    _sweep(txn, databases, effects.log_time_ms, max(_SWEEP_MIN, 2 * effects.records), effects.definition)
    if effects.void:
        count = unpack_void(txn.get(VOID, db=databases.meta)) + effects.void
        txn.put(VOID, pack_void(count), db=databases.meta)
    if effects.live is not None:
        txn.put(LIVE, pack_live(effects.live), db=databases.meta)
    if effects.defined and effects.definition is not None:
        txn.put(DEFINITION, pack_definition(effects.definition), db=databases.meta)
        put_builds(txn, databases, builds)
    if effects.counted or before.counting is None:
        _keep_counted(effects, txn, databases, before)
    after = new_state((effects.applied, effects.log_time_ms, verdicts_from, effects.last, effects.counting))
    txn.put(STATE, after.pack(), db=databases.meta)
    return after


def _change_entries(changes: Mapping[bytes, bytes | None], cursor: Any) -> None:
    # In the order of the pages, which counts where there are many. Two short sorts cost less than a long one, and bytes
    # are compared faster than pairs.
    place, delete = cursor.set_key, cursor.delete
    for entry in sorted([entry for entry, stored in changes.items() if stored is None]):
        if place(entry):
            delete()
    come = sorted([entry for entry, stored in changes.items() if stored is not None])
    if come:
        cursor.putmulti(zip(come, map(changes.__getitem__, come), strict=True))


def _keep_counted(effects: Effects, txn: Any, databases: Databases, before: State) -> None:
    """Write the minutes of the tally that came to their end: once a minute of the log, and with the first fold."""
    row = txn.get(TALLY, db=databases.meta)
    if row is None or before.counting is None:
        kept = Kept(Offset(before.applied + 1))
    else:
        kept = Kept.unpack(row)
    if effects.counting is not None:
        kept = kept.with_closed(effects.counted, newest=effects.counting.minute)
    txn.put(TALLY, kept.pack(), db=databases.meta)


def _note_hints(hints: Mapping[tuple[int, bytes], bool], txn: Any, databases: Databases) -> None:
    noted = [(number_key(expires_at_ms), key) for (expires_at_ms, key), is_noted in hints.items() if is_noted]
    if noted:
        txn.cursor(databases.expiries).putmulti(noted)
    if len(noted) < len(hints):
        for (expires_at_ms, key), is_noted in hints.items():
            if not is_noted:
                txn.delete(number_key(expires_at_ms), key, db=databases.expiries)


def _put_producer(txn: Any, databases: Databases, producer: bytes, state: ProducerState | None) -> None:
    old = txn.get(producer, db=databases.producers)
    if old is not None:
        txn.delete(number_key(unpack_producer(old).base_offset), db=databases.producer_order)
    if state is None:
        txn.delete(producer, db=databases.producers)
    else:
        txn.put(producer, pack_producer(state), db=databases.producers)
        txn.put(number_key(state.base_offset), producer, db=databases.producer_order)


def _trim_verdicts(txn: Any, databases: Databases, verdicts_from: Offset, verdicts_max: int) -> Offset:
    surplus = txn.stat(databases.verdicts)["entries"] - verdicts_max
    cursor = txn.cursor(databases.verdicts)
    for _ in range(surplus):
        cursor.first()
        oldest = unpack_judgement(*cursor.item())
        verdicts_from = Offset(oldest.offset + oldest.span)
        cursor.delete()
    return verdicts_from


def _trim_results(txn: Any, databases: Databases, up_to: int) -> None:
    cursor = txn.cursor(databases.results)
    while cursor.first() and number_of(cursor.key()) <= up_to:
        cursor.delete()


def _sweep(txn: Any, databases: Databases, log_time_ms: int, at_most: int, definition: TableDefinition | None) -> None:
    """Remove up to `at_most` expired entries, and what the ordered indexes have of them. Readers do not see them since
    they expired, so it may happen late. A history keeps them.
    """
    rows = None if definition is None else definition.judge.entries
    keeps = None if definition is None else definition.keeps
    cursor = txn.cursor(databases.expiries)
    for _ in range(at_most):
        if not cursor.first():
            return
        due, key = cursor.item()
        if number_of(due) > log_time_ms:
            return
        stored = txn.get(key, db=databases.data)
        if stored is not None and expiry_of(stored) == number_of(due):
            txn.delete(key, db=databases.data)
            if keeps is not None:
                lay_aside(txn, databases, key, stored, keeps)
            for entry in () if rows is None else entries_of_stored(key, stored, rows):
                txn.delete(entry, db=databases.ordered)
        cursor.delete()


def build_entries(
    txn: Any, databases: Databases, definition: TableDefinition, number: int, behind: bytes, rows_max: int
) -> bytes | None:
    """Look at up to `rows_max` rows, the first ones behind the key `behind`, and put those that an ordered index has
    into it; return the last one's key, None where there is no row behind it. Some 8 µs a row.

    Raises `LimitExceeded`, with nothing to be committed, for a row that is too long for the index; `IndexDamaged`.
    """
    index = next(each for each in definition.indexes if each.number == number)
    rows = IndexEntries((index,), definition.schemas)
    cursor = txn.cursor(databases.data)
    if not (cursor.set_range(behind) if behind else cursor.first()):
        return None
    if behind and cursor.key() == behind and not cursor.next():
        return None
    come: list[tuple[bytes, bytes]] = []
    last: bytes | None = None
    for number_of_row, (key, stored) in enumerate(islice(cursor.iternext(), rows_max + 1)):
        if number_of_row == rows_max:
            break
        (entry,) = all_of_stored(key, stored, rows)
        if len(entry) > KEY_BYTES_MAX:
            raise LimitExceeded(
                f"the row with the key {key[:60]!r} is too long for the index {index.name}: an entry and its key have "
                f"at most {ENTRY_BYTES_MAX} bytes. Change the row, and ask again; or drop the index",
                limit=ENTRY_BYTES_MAX,
            )
        if entry:
            come.append((entry, len(key).to_bytes(KEY_LENGTH_BYTES)))
        last = key
    else:
        last = None
    txn.cursor(databases.ordered).putmulti(sorted(come))
    return last


def tend_entries(
    builds: IndexBuilds, txn: Any, databases: Databases, definition: TableDefinition | None
) -> IndexBuilds:
    """Complete the indexes that the definition has in service, and remove a piece of those that were dropped."""
    known = builds
    for number in builds.owed(definition):
        behind: bytes | None = builds.building[number]
        while behind is not None:
            assert definition is not None, f"the index {number} is of a table without a definition"
            behind = build_entries(txn, databases, definition, number, behind, _OWED_AT_ONCE)
        builds = builds.at(number, None)
    for number in builds.dropped[:1]:
        if not _drop_entries(txn, databases, number):
            builds = builds.without(number)
    if builds is not known:
        put_builds(txn, databases, builds)
    return builds


def put_builds(txn: Any, databases: Databases, builds: IndexBuilds) -> None:
    """Write down what is to be done to the entries of ordered indexes."""
    if builds:
        txn.put(BUILDS, builds.pack(), db=databases.meta)
    else:
        txn.delete(BUILDS, db=databases.meta)


def _drop_entries(txn: Any, databases: Databases, number: int) -> bool:
    """Remove a piece of the entries of a dropped index; False: none is left."""
    cursor = txn.cursor(databases.ordered)
    prefix = number.to_bytes(INDEX_NUMBER_BYTES)
    for _ in range(_DROPPED_AT_ONCE):
        if not cursor.set_range(prefix) or not cursor.key().startswith(prefix):
            return False
        cursor.delete()
    return True
