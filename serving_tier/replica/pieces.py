"""Where a run of batches is cut before it is folded: at barriers, and at the offsets of pinned reads. Pure.

    batches of a chunk   ──▶  Piece(batches, stop, rest)
                              stop "end"      nothing is left
                                   "pinned"   the piece ends with the first batch that reaches the lowest pinned offset
                                   "barrier"  what follows begins with `barrier`; the piece may be empty
                                   "definition"  the piece ends with a barrier that brings the table's next definition

A barrier that turned out void is folded like any record: its piece ends behind it ("void barrier").

Each record of a run is folded once per index. Decoded batches are cut by slicing their columns: no bytes are encoded
again. The head of a cut batch ends with an offset; the rest is the whole batch, of which the fold skips what is
applied.

A barrier is looked for in the column of attributes, which plain puts do not have. What is found is a candidate: one
that its producer sent twice is void, and only the fold knows that.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from log_tier.model.barrier import Barrier, LiveVersion, parse_barrier
from log_tier.model.batch import Batch, Columns
from log_tier.model.identifiers import Offset
from log_tier.model.record import GROUPED, OPERATION_MASK, Operation
from serving_tier.fold.effects import Effects

__all__ = ["BarrierAhead", "Piece", "cut_at", "first_piece"]

PieceEnd = Literal["end", "pinned", "barrier", "void barrier", "definition"]

_BARRIER: Final = int(Operation.BARRIER)


class BarrierAhead(NamedTuple):
    """A barrier that may make another version the live one."""

    offset: Offset
    barrier: Barrier
    batches: Sequence[Batch]
    """One batch, which ends with the barrier; what lies before the barrier in it is applied."""
    rest: Sequence[Batch]
    """What follows the barrier."""
    effects: Effects | None = None
    """What the live version says of `batches`, once it was asked."""


class Piece(NamedTuple):
    """Batches that can be folded in one transaction."""

    batches: Sequence[Batch]
    stop: PieceEnd
    rest: Sequence[Batch] = ()
    """What follows; at a barrier it is `barrier.rest`."""
    barrier: BarrierAhead | None = None


def first_piece(
    batches: Sequence[Batch], *, applied: Offset, version: int, live: LiveVersion, pinned: Offset | None = None
) -> Piece:
    """Cut a run for an index of `version` that has applied `applied` and knows `live`.

    `pinned`: the lowest offset at which a pinned read is wanted. One test per batch of plain puts; for others
    O(distinct attributes).
    """
    for at, batch in enumerate(batches):
        if batch.columns.attributes is not None:
            found = _find_barrier(batch, applied, version, live)
            if found is not None:
                offset, named = found
                first, last = batch.header.base_offset, batch.header.last_offset
                if named.version == version:
                    behind = batches[at if offset < last else at + 1 :]
                    return Piece([*batches[:at], _head(batch, offset)], "definition", behind)
                barrier = BarrierAhead(
                    offset, named, [_head(batch, offset)], batches[at if offset < last else at + 1 :]
                )
                before = [] if offset == first else [_head(batch, Offset(offset - 1))]
                return Piece([*batches[:at], *before], "barrier", barrier=barrier)
        if pinned is not None and batch.header.last_offset >= pinned:
            return Piece(batches[: at + 1], "pinned", batches[at + 1 :])
    return Piece(batches, "end")


def cut_at(batches: Sequence[Batch], last: Offset) -> Sequence[Batch]:
    """The batches that end with offset `last`; one that reaches beyond it is cut. An atomic group that reaches beyond
    it is left out whole.
    """
    for at, batch in enumerate(batches):
        if batch.header.last_offset > last:
            return [*batches[:at], *([_head(batch, last)] if batch.header.base_offset <= last else ())]
    return batches


def _find_barrier(batch: Batch, applied: Offset, version: int, live: LiveVersion) -> tuple[Offset, Barrier] | None:
    """The first barrier to another version, or with a definition, and its offset, if there is one."""
    columns = batch.columns
    attributes = columns.attributes
    assert attributes is not None, f"the batch at offset {batch.header.base_offset} has no attributes"
    if not any(attribute & OPERATION_MASK == _BARRIER for attribute in set(attributes)):
        return None
    for index, offset in enumerate(batch.offsets()):
        if offset <= applied or attributes[index] & (OPERATION_MASK | GROUPED) != _BARRIER:
            continue
        if index + 1 < len(attributes) and attributes[index + 1] & GROUPED:
            continue  # in an atomic group it is no barrier
        barrier = parse_barrier(columns.values[index])
        if barrier is None or live.after(barrier, Offset(offset)) is None:
            continue
        if barrier.version != version or barrier.definition:
            return Offset(offset), barrier
    return None


def _head(batch: Batch, last: Offset) -> Batch:
    """The part of a batch that ends with offset `last`, which lies inside of it."""
    header, columns = batch.header, batch.columns
    if last == header.last_offset:
        return batch
    kept = bisect_right(batch.offsets(), last)
    attributes = columns.attributes
    if attributes is not None and kept < header.records:
        while kept and attributes[kept] & GROUPED:
            kept -= 1
    return Batch(
        header._replace(records=kept, span=last - header.base_offset + 1),
        Columns(
            columns.keys[:kept],
            columns.values[:kept],
            None if attributes is None else attributes[:kept],
            None if columns.versions is None else columns.versions[:kept],
            None if columns.expiries is None else columns.expiries[:kept],
            None if columns.deltas is None else columns.deltas[:kept],
        ),
    )
