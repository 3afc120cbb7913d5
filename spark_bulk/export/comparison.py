"""What an export says of a partition, what its files hold and what the table held: equal, or different. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from log_tier.model.identifiers import Offset, Partition
from spark_bulk.export.manifest import ExportManifest
from spark_bulk.export.row_checksum import HashedRows, RowCount, RowTally

__all__ = ["NAMED_MAX", "ExportVerdict", "PartAudit", "RowSource", "compared", "count_rows", "differing_keys"]

NAMED_MAX: Final = 10
"""So many keys are named. An export that differs in more is made again, not studied."""

ExportVerdict = Literal["equal", "different", "not compared", "unverified"]

RowSource = Callable[[], Iterator[HashedRows]]
"""Gives the same rows whenever it is called."""


@dataclass(frozen=True, slots=True)
class PartAudit:
    """One partition of one export, audited."""

    export: ExportManifest
    partition: Partition
    verdict: ExportVerdict
    reason: str
    """Why it is different, or what was not compared with what."""
    said: RowCount
    """By the manifest. The checksum is 0 where `checked` is not."""
    checked: bool
    """Has the manifest checksums?"""
    files: RowCount | None
    """None: they could not be read."""
    held: RowCount | None
    """What the table held at that offset, or its log from offset to offset; None: it cannot be had."""
    source: str = ""
    """Where `held` was read, for people."""
    keys: tuple[bytes, ...] = ()
    """Some of the keys in which files and table differ."""

    @property
    def until(self) -> Offset:
        """The offset with which the export ends."""
        return self.export.until[self.partition]


def compared(said: RowCount, files: RowCount | None, held: RowCount | None, *, checked: bool, until: Offset) -> str:
    """The differences in a sentence; empty where there is none."""
    of_manifest = RowCount(said.rows, said.checksum if checked else -1)
    found: list[str] = []
    if files is not None:
        found.append(_difference("the files hold", files, "the manifest says", of_manifest))
    if held is not None:
        name, other = ("the files hold", files) if files is not None else ("the manifest says", of_manifest)
        found.append(_difference(f"the table had up to offset {until}", held, name, other))
    return "; ".join(filter(None, found))


def _difference(who: str, count: RowCount, whose: str, other: RowCount) -> str:
    """`other` has the checksum -1 where it has none."""
    if count.rows != other.rows:
        return f"{who} {count.rows:,} rows, {whose} {other.rows:,}"
    if other.checksum not in (-1, count.checksum):
        return f"{who} {count.rows:,} rows of checksum {count.checksum:016x}, {whose} {other.checksum:016x}"
    return ""


def count_rows(rows: Iterable[HashedRows]) -> RowCount:
    """Count them all."""
    tally = RowTally()
    for some in rows:
        tally.add(some)
    return tally.count


def differing_keys(one: RowSource, other: RowSource) -> tuple[bytes, ...]:
    """Some of the keys whose rows are in one of them alone, or more often in one. Reads each twice; memory: 8 bytes a
    row and side, and as much for sorting.
    """
    values = [np.unique(_hashes(source()), return_counts=True) for source in (one, other)]
    (mine, mine_counts), (theirs, their_counts) = values
    merged, places = np.unique(np.concatenate([mine, theirs]), return_inverse=True)
    surplus = np.bincount(places, np.concatenate([mine_counts, -their_counts]), len(merged))
    odd = merged[surplus != 0]
    found: dict[bytes, None] = {}
    for source in (one, other):
        for some in source():
            for row in np.flatnonzero(np.isin(some.hashes, odd)).tolist():
                found[some.keys[row]] = None
                if len(found) >= NAMED_MAX:
                    return tuple(sorted(found))
    return tuple(sorted(found))


def _hashes(rows: Iterable[HashedRows]) -> npt.NDArray[np.uint64]:
    return np.concatenate([np.empty(0, np.uint64), *(some.hashes for some in rows)])
