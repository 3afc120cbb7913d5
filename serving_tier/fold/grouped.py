"""Records that take effect together or not at all, or one by one behind the live version's decisions. Pure: a part of
the fold (`fold.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from log_tier.model.batch import Batch, Columns
from log_tier.model.identifiers import Offset
from log_tier.model.record import CONDITION_SHIFT, EXPIRY_SHIFT, OPERATION_MASK, Condition, Operation
from log_tier.rows.index_entries import UniqueValues
from serving_tier.fold.decision import KeyChange, Record, Rejection, decide
from serving_tier.fold.effects import Effects
from serving_tier.fold.entry import NEVER, expiry_of, is_live, stored_entry, value_of, version_of
from serving_tier.fold.misfits import UniqueRows, UniqueView, fits
from serving_tier.fold.stretch import STRETCH_MIN, decide_stretch, stretch_end
from serving_tier.fold.verdicts import Judgement, Verdict

__all__ = ["GroupView", "fold_group", "follow", "record_of", "unique_of"]

# Four times as fast as the call `Operation(number)`.
_OPERATIONS: Final = {int(operation): operation for operation in Operation}

_MISFIT: Final = Rejection(Verdict.MISFIT)
_VOID: Final = frozenset({Verdict.UNREADABLE, Verdict.MISFIT})


class GroupView(UniqueView, Protocol):
    """The reads of an index that records need."""

    def stored(self, key: bytes, /) -> bytes | None:
        """The stored form of a key's entry, expired or not."""
        ...


def unique_of(effects: Effects) -> UniqueValues | None:
    """What rows have alone, by the definition that holds now; None: nothing."""
    return None if effects.definition is None else effects.definition.judge.unique


def record_of(columns: Columns, at: int, offset: Offset, attribute: int) -> Record:
    return Record(
        offset,
        _OPERATIONS[attribute & OPERATION_MASK],
        attribute >> CONDITION_SHIFT & 3,
        attribute >> EXPIRY_SHIFT & 3,
        columns.keys[at],
        columns.values[at],
        columns.versions[at] if columns.versions is not None else -1,
        columns.expiries[at] if columns.expiries is not None else 0,
    )


def follow(record: Record, view: GroupView, effects: Effects) -> None:
    """Let a record take effect that the live version accepted. Where this version's value cannot take an update that
    the live one's could, nothing changes here, on every replica alike.
    """
    effects.records += 1
    key = record.key
    stored = effects.entries[key] if key in effects.entries else view.stored(key) if key else None
    live = stored if stored is not None and is_live(stored, effects.log_time_ms) else None
    decision = decide(record._replace(condition=Condition.NONE), live, effects.log_time_ms, effects.definition)
    if isinstance(decision, KeyChange):
        unique = unique_of(effects)
        if unique is not None and decision.stored is not None:
            _make_way(key, decision.stored, unique, view, effects)
        effects.entries[key] = decision.stored
        effects.removes = effects.removes or decision.stored is None
        _note_expiry(effects.hints, key, stored, decision.stored)
        if effects.changed is not None:
            effects.note_changes(((record.offset, key, decision.stored),))


def _make_way(key: bytes, stored: bytes, unique: UniqueValues, view: GroupView, effects: Effects) -> None:
    """Let the rows of this version expire that have values of one which the live version accepted."""

    def present(of: bytes) -> bytes | None:
        return effects.entries[of] if of in effects.entries else view.stored(of)

    rows = UniqueRows(unique, view, (effects.taken,), present, effects.log_time_ms)
    while (holder := rows.take(key, stored, effects.taken)) is not None:
        there = present(holder.key)
        assert there is not None, f"the key {holder.key!r} has a value and no row"
        effects.entries[holder.key] = stored_entry(value_of(there), version_of(there), effects.log_time_ms)
        _note_expiry(effects.hints, holder.key, there, effects.entries[holder.key])


def fold_group(
    batch: Batch, attributes: Sequence[int], begin: int, end: int, view: GroupView, effects: Effects
) -> None:
    """Fold records that take effect together or not at all; a record by itself is a group of one."""
    columns, offsets, size = batch.columns, batch.offsets(), end - begin
    staged: dict[bytes, bytes | None] = {}
    hints: dict[tuple[int, bytes], bool] = {}
    results: list[tuple[Offset, bytes]] = []
    taken: dict[bytes, bytes] = {}
    # Each record of a table with a definition is judged by itself.
    in_columns = size >= STRETCH_MIN and effects.definition is None
    at = begin
    while at < end:
        stop = stretch_end(attributes, at, end) if in_columns else end
        if in_columns and stop - at >= STRETCH_MIN:
            changed = (staged, effects.entries)
            like = decide_stretch(columns, at, stop, offsets[at], changed, view.stored, effects.log_time_ms)
            if like is not None:
                staged.update(like.entries)
                hints.update(like.hints)
                results += like.results
                at = stop
                continue
        while at < stop:
            record = record_of(columns, at, Offset(offsets[at]), attributes[at])
            refusal = _stage(record, view, effects, staged, hints, results, taken)
            if refusal is not None:
                effects.judgements += (
                    Judgement(Offset(offset), 1, refusal.verdict, refusal.actual, record.offset)
                    for offset in offsets[begin:end]
                )
                effects.rejected += size
                effects.void += size if refusal.verdict in _VOID else 0
                effects.records += size
                if refusal.verdict is Verdict.MISFIT:
                    effects.note_misfit(record, size)
                if refusal.holder:
                    effects.results.append((record.offset, refusal.holder))
                return
            at += 1
    effects.records += size
    effects.entries.update(staged)
    effects.taken.update(taken)
    if effects.changed is not None:
        placed = {columns.keys[at]: Offset(offsets[at]) for at in range(begin, end)}
        effects.note_changes(
            sorted(
                (placed[key] if stored is None else version_of(stored), key, stored) for key, stored in staged.items()
            )
        )
    effects.removes = effects.removes or None in staged.values()
    effects.hints.update(hints)
    effects.results += results


def _stage(
    record: Record,
    view: GroupView,
    effects: Effects,
    staged: dict[bytes, bytes | None],
    hints: dict[tuple[int, bytes], bool],
    results: list[tuple[Offset, bytes]],
    taken: dict[bytes, bytes],
) -> Rejection | None:
    """Decide on one record of a group, and note its changes. Return the rejection, if it is rejected."""
    key = record.key
    defined = effects.definition
    if defined is not None and not fits(defined, record.operation, key, record.value):
        return _MISFIT
    if key in staged:
        stored = staged[key]
    elif key in effects.entries:
        stored = effects.entries[key]
    else:
        stored = view.stored(key) if key else None
    live = stored if stored is not None and is_live(stored, effects.log_time_ms) else None
    decision = decide(record, live, effects.log_time_ms, defined)
    if isinstance(decision, Rejection):
        return decision
    if decision is not None:
        unique = unique_of(effects)
        if unique is not None and decision.stored is not None:

            def present(of: bytes) -> bytes | None:
                for earlier in (staged, effects.entries):
                    if of in earlier:
                        return earlier[of]
                return view.stored(of)

            rows = UniqueRows(unique, view, (taken, effects.taken), present, effects.log_time_ms)
            holder = rows.take(key, decision.stored, taken)
            if holder is not None:
                return Rejection(Verdict.VALUE_TAKEN, holder.number, holder.key)
        staged[key] = decision.stored
        _note_expiry(hints, key, stored, decision.stored)
        if decision.result is not None:
            results.append((record.offset, decision.result))
    return None


def _note_expiry(hints: dict[tuple[int, bytes], bool], key: bytes, old: bytes | None, new: bytes | None) -> None:
    before = NEVER if old is None else expiry_of(old)
    after = NEVER if new is None else expiry_of(new)
    if before not in (NEVER, after):
        hints[before, key] = False
    if after != NEVER:
        hints[after, key] = True
