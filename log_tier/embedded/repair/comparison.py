"""Is a copy of the history of a log? Pure.

A copy is not believed for its name: the batches around a hole must be the copy's batches as well. Two histories of one
log differ from one offset on, so the batch behind the hole decides, and where nothing is behind it, the batch before
it.

    another batch at a neighbour              another history
    a batch that reaches over the hole's edge another history
    times that would fall                     another history
    a hole in a part that is compacted        of use only if both are compacted in the same way: a delete that one of
                                              them dropped would revive a key that the other one kept

Producers' sequences are not compared: a log holds second copies of batches, and the fold drops them.

What it cannot see: a copy that was started by itself and written on, from exactly the offset on that the log lost.
"""

from __future__ import annotations

from log_tier.embedded.repair.facts import BatchRun, CopyFacts, Hole, PartitionFacts, digest_of, end_of
from log_tier.model.batch_header import BatchHeader
from log_tier.model.identifiers import Offset

__all__ = ["CopyComparison"]


class CopyComparison:
    """Is a copy of the history of a partition, as far as can be seen around one hole?"""

    def __init__(self, facts: PartitionFacts, copy: CopyFacts) -> None:
        self._facts, self._copy = facts, copy
        self._compacted = max(facts.known.compacted, copy.known.compacted)
        """Batches below it may have been shrunk in one of the two."""

    def trouble(self, hole: Hole, left: BatchRun | None, right: BatchRun | None) -> str:
        """Why nothing of the copy can be taken for the hole; empty if it can be."""
        batches = [batch.header for _, batch in self._copy.batches(hole.first, hole.end)]
        if not batches:
            return ""
        neighbours = [each for each in (left and left.last, right and right.first) if each is not None]
        return (
            self._of_neighbours(neighbours)
            or self._of_edges(hole, batches)
            or self._of_times(batches, left, right)
            or self._of_compaction(hole)
        )

    def _of_neighbours(self, neighbours: list[BatchHeader]) -> str:
        compared = 0
        for ours in neighbours:
            theirs = self._copy.at(ours.base_offset)
            if theirs is None:
                continue
            compared += 1
            if not self._same(ours, theirs):
                return (
                    f"the copy is of another history of this log: at offset {ours.base_offset} it holds "
                    f"{_described(theirs)}, and the log holds {_described(ours)}"
                )
        if neighbours and not compared:
            where = " and ".join(str(each.base_offset) for each in neighbours)
            return f"the copy cannot be compared with the log: it has no batch that begins with offset {where}"
        return ""

    def _same(self, ours: BatchHeader, theirs: BatchHeader) -> bool:
        if ours.base_offset >= self._compacted:
            return (ours.checksum, ours.stamp_checksum) == (theirs.checksum, theirs.stamp_checksum)
        return _identity(ours) == _identity(theirs)

    def _of_edges(self, hole: Hole, batches: list[BatchHeader]) -> str:
        for header in batches:
            if header.base_offset < hole.first or end_of(header) > hole.end:
                return (
                    f"the copy is of another history of this log: its batch of offsets {header.base_offset} to "
                    f"{header.last_offset} does not fit between offset {hole.first} and offset {hole.end}"
                )
        return ""

    def _of_times(self, batches: list[BatchHeader], left: BatchRun | None, right: BatchRun | None) -> str:
        before, after = left and left.last, right and right.first
        if before is not None and batches[0].timestamp_ms < before.timestamp_ms:
            return _falling(before, batches[0])
        if after is not None and after.timestamp_ms < batches[-1].timestamp_ms:
            return _falling(batches[-1], after)
        return ""

    def _of_compaction(self, hole: Hole) -> str:
        if hole.first >= self._compacted:
            return ""
        ours, theirs = self._facts.known.compacted, self._copy.known.compacted
        if ours == theirs and self._is_equal_below(self._compacted):
            return ""
        return (
            f"the log is compacted below offset {ours}, and the copy, in another way, below {theirs}: records of one "
            "would bring back keys that the other has deleted. Use a copy that was made after the same compaction"
        )

    def _is_equal_below(self, offset: Offset) -> bool:
        for item in self._facts.items:
            if isinstance(item, BatchRun) and item.first.base_offset < offset:
                batches = self._copy.batches(item.first.base_offset, end_of(item.last))
                if digest_of(batch.header for _, batch in batches) != item.digest:
                    return False
        return True


def _identity(header: BatchHeader) -> tuple[int, ...]:
    return header.base_offset, header.span, header.timestamp_ms, header.producer_id, header.sequence


def _described(header: BatchHeader) -> str:
    return (
        f"a batch of {header.span} offsets and {header.timestamp_ms} ms, of producer {header.producer_id:x} at "
        f"sequence {header.sequence}, with checksum {header.checksum:08x}"
    )


def _falling(older: BatchHeader, newer: BatchHeader) -> str:
    return (
        f"the copy is of another history of this log: offset {older.base_offset} is of {older.timestamp_ms} ms, and "
        f"offset {newer.base_offset} behind it of {newer.timestamp_ms} ms"
    )
