"""Which records a compaction drops: pure, over decoded batches.

A record may go only if a **later, unconditional** put or delete of its key stays, below the same limit: then nothing
that stays shows that it was ever there. So the state at every offset from the limit on, versions included, is what it
was, for a replica that folds from the beginning and for one that starts at a snapshot. Kept records keep their bytes
and offsets.

The first pass, oldest to newest, looks at headers only: which records are **void** because their producer had used
their sequence before (the rule of the fold), and which batch is each producer's newest. The second pass, newest to
oldest, carries the set of **covered** keys, those that a later kept record overwrites whatever was there:

    a put or delete without a condition    covered: dropped    else kept, and its key is covered from here on
    a conditional record, an update,       covered: dropped    else kept; it covers nothing, because what it leaves
    a put that keeps the old expiry                            depends on what is there
    a no-op                                dropped
    a barrier between two versions         kept; it covers nothing
    an atomic group                        all covered: dropped, whole
                                           else kept, whole; if it reads (a condition, an update), none of its keys is
                                           covered any more: whether it takes effect depends on what is older

A delete that is old enough goes too, if nothing older of its key stays; that is known only further down, so the choice
is taken back where an older record has to stay.

A producer's newest batch stays at least as an empty shell, so that a late duplicate of it is still known as one. While
void records are still there, all batches of their producer stay so: a crash between two segments must not leave a
duplicate without its original. And the last batch of each segment stays, so that every segment ends where the next
begins.

In a trimmed log it is not known which sequences the removed part had used. There a producer's record may be a duplicate
of a removed one, and void: it covers nothing. And where so many producers wrote between a record and its duplicate that
the fold has forgotten the first (`serving_tier.fold.producers`), the outcome of that duplicate may change.

Nothing here judges rows. In a table with a definition a put that does not fit is void and covers nothing, so a job
compacts no log of such a table (`serving_tier.jobs`).

Memory: a set entry for every distinct key below the limit, some 100 bytes each.
"""

from __future__ import annotations

from collections.abc import Sequence

from log_tier.model.batch import Batch, Columns, encode_batch
from log_tier.model.batch_header import COMPRESSION_MASK, NOWHERE, BatchHeader, Place, stamp_batch
from log_tier.model.identifiers import NOTHING, Offset
from log_tier.model.record import (
    CONDITION_SHIFT,
    EXPIRY_SHIFT,
    GROUPED,
    OPERATION_MASK,
    PLAIN_PUT,
    READ_CHANGES,
    Expiry,
    Operation,
)

__all__ = ["CompactionPlan", "shrink_batch"]

_CONDITION_BITS = 3 << CONDITION_SHIFT


class CompactionPlan:
    """Which records stay. Call `survey` with all headers, oldest first, then `judge` with all batches, newest first;
    then `kept`, `needs_shell` and `changed` answer.
    """

    def __init__(self, *, now_ms: int, tombstone_ms: int, from_start: bool) -> None:
        self._deletes_before_ms = now_ms - tombstone_ms
        self._from_start = from_start
        """Whether the survey begins with the partition's first record ever."""
        self._sequences: dict[int, int] = {}
        """The last sequence that each producer used."""
        self._newest: dict[int, Offset] = {}
        """The batch that used it."""
        self._voids: dict[Offset, int] = {}
        """How many offsets at the start of a batch are void, where any are."""
        self._repeating: set[int] = set()
        """Producers with void records that are still there."""
        self._covered: set[bytes] = set()
        self._masks: dict[Offset, bytearray] = {}
        """For each batch that loses records, one byte per record: 1 stays."""
        self._deletes: dict[bytes, tuple[bytearray, int]] = {}
        """Deletes that go unless something older of their key stays."""

    def survey(self, header: BatchHeader) -> None:
        """Take note of a batch's producer."""
        producer = header.producer_id
        if not producer:
            return
        used = self._sequences.get(producer, -1)
        if header.sequence <= used:
            if header.records:
                self._repeating.add(producer)
            self._voids[header.base_offset] = min(used - header.sequence + 1, header.span)
        if header.sequence + header.span - 1 > used:
            self._sequences[producer] = header.sequence + header.span - 1
            self._newest[producer] = header.base_offset

    def judge(self, batch: Batch) -> None:
        """Decide about a batch's records."""
        header, columns = batch.header, batch.columns
        mask = bytearray(b"\1" * header.records)
        void = self._voids.get(header.base_offset, 0)
        is_certain = self._from_start or not header.producer_id
        # A batch is judged with its mask in place: a delete in it may be taken back by an older record in it.
        self._masks[header.base_offset] = mask
        if columns.attributes is None and not void and is_certain:
            self._judge_puts(columns.keys, mask)
        else:
            deltas = columns.deltas or range(header.records)
            attributes = columns.attributes or (PLAIN_PUT,) * header.records
            end = header.records
            for start in range(end - 1, -1, -1):
                if attributes[start] & GROUPED:
                    continue
                if deltas[end - 1] < void:
                    mask[start:end] = bytes(end - start)
                elif end - start == 1:
                    self._judge_one(
                        columns.keys[start], attributes[start], header.timestamp_ms, mask, start, is_certain
                    )
                else:
                    reads = not is_certain or deltas[start] < void or any(map(_reads, attributes[start:end]))
                    self._judge_group(columns.keys[start:end], attributes[start:end], mask, start, reads)
                end = start
        if 0 not in mask:
            del self._masks[header.base_offset]

    def _judge_puts(self, keys: Sequence[bytes], mask: bytearray) -> None:
        covered = self._covered
        for at in range(len(keys) - 1, -1, -1):
            key = keys[at]
            if key in covered:
                mask[at] = 0
            else:
                covered.add(key)

    def _judge_one(
        self, key: bytes, attribute: int, timestamp_ms: int, mask: bytearray, at: int, is_certain: bool
    ) -> None:
        operation = attribute & OPERATION_MASK
        if operation == Operation.BARRIER:
            return
        if operation == Operation.NOOP or key in self._covered:
            mask[at] = 0
            return
        if not is_certain or _reads(attribute):
            return
        self._covered.add(key)
        if operation == Operation.DELETE and timestamp_ms < self._deletes_before_ms:
            mask[at] = 0
            self._deletes[key] = mask, at

    def _judge_group(
        self, keys: Sequence[bytes], attributes: Sequence[int], mask: bytearray, start: int, reads: bool
    ) -> None:
        covered = self._covered
        writes = [key for key, attribute in zip(keys, attributes, strict=True) if attribute & OPERATION_MASK]
        if covered.issuperset(writes):
            mask[start : start + len(keys)] = bytes(len(keys))
            return
        for key in keys:
            self._take_back(key)
        if reads:
            covered.difference_update(keys)
        else:
            covered.update(writes)

    def _take_back(self, key: bytes) -> None:
        """Keep the delete of `key` after all: something older stays."""
        choice = self._deletes.pop(key, None)
        if choice is not None:
            mask, at = choice
            mask[at] = 1

    def kept(self, header: BatchHeader) -> bytearray | None:
        """Which records of a batch stay, a byte each; None: all of them. Call it after all batches were judged."""
        mask = self._masks.get(header.base_offset)
        return mask if mask is not None and 0 in mask else None

    def needs_shell(self, header: BatchHeader) -> bool:
        """Whether a batch has to stay even without a record."""
        if self._newest.get(header.producer_id, NOTHING) == header.base_offset:
            return True
        return header.producer_id in self._repeating and self._voids.get(header.base_offset, 0) < header.span

    def changed(self) -> list[Offset]:
        """The batches that lose records."""
        return [base for base, mask in self._masks.items() if 0 in mask]


def _reads(attribute: int) -> bool:
    """Whether what a record leaves depends on what is there."""
    operation = attribute & OPERATION_MASK
    return (
        attribute & _CONDITION_BITS != 0
        or operation in READ_CHANGES
        or (operation == Operation.PUT and attribute >> EXPIRY_SHIFT & 3 == Expiry.KEEP)
    )


def shrink_batch(batch: Batch, mask: bytearray, place: Place = NOWHERE) -> bytes:
    """The stored form of a batch with only the records that stay: same place, same span, same producer."""
    header, columns = batch.header, batch.columns
    places = [at for at, stays in enumerate(mask) if stays]
    base = header.base_offset

    def only(column: Sequence[int] | None) -> list[int] | None:
        return None if column is None or not places else [column[at] for at in places]

    encoded = encode_batch(
        Columns(
            [columns.keys[at] for at in places],
            [columns.values[at] for at in places],
            only(columns.attributes),
            only(columns.versions),
            only(columns.expiries),
            [offset - base for offset in map(batch.offsets().__getitem__, places)] if places else None,
        ),
        producer_id=header.producer_id,
        sequence=header.sequence,
        span=header.span,
        compress=header.flags & COMPRESSION_MASK != 0,
    )
    return stamp_batch(
        encoded, base_offset=base, timestamp_ms=header.timestamp_ms, unsynced=header.unsynced, place=place
    )
