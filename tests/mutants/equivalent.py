"""Mutants that no test can tell from the product, and why."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from .changes import Mutant

__all__ = ["EQUIVALENT", "EquivalentMutant", "reason_for", "stale_entries"]


class EquivalentMutant(NamedTuple):
    """One entry. It goes stale when its line, or what the mutant does to it, is no longer there."""

    path: str
    line: str
    """The text of the line, without the blanks around it."""
    change: str
    """As `Mutant` prints it, without its place."""
    reason: str


EQUIVALENT: Final[tuple[EquivalentMutant, ...]] = (
    EquivalentMutant(
        "router/data/gather/batch_progress.py",
        'return error.fields.get("sent", 1) != 0',
        "1 -> 2",
        "Any number but 0 means that the request may have been sent.",
    ),
    EquivalentMutant(
        "log_tier/embedded/commit/journal_format.py",
        'return FileHeader(1, generation, b"", 0, 0, 0) if magic == _FILE_MAGIC and version == 1 else None',
        "0 -> 1",
        "A header of a journal of version 1 has no number and no sizes: they are looked at in later versions alone.",
    ),
    EquivalentMutant(
        "log_tier/embedded/storage/disk.py",
        'owner = os.pread(fd, 32, 0).decode("ascii", "replace").strip()',
        "32 -> 33",
        "A process id has fewer digits than either number.",
    ),
    EquivalentMutant(
        "serving_tier/replica/replica.py",
        "self.versions.check()",
        "self.versions.check() -> pass",
        "It asserts invariants for tests; where they hold it changes nothing.",
    ),
    EquivalentMutant(
        "serving_tier/replica/replica_progress.py",
        "self.changes += 1",
        "1 -> 2",
        "The number of changes is compared with an earlier one, and either step makes it differ.",
    ),
    EquivalentMutant(
        "router/data/gather/read_coalescer.py",
        "parts, timeout=remaining - min(_MARGIN_S, remaining / 10), patience=patience",
        "10 -> 11",
        "How much of a caller's time is kept for the way back is a choice; either share ends before the deadline.",
    ),
    EquivalentMutant(
        "log_tier/embedded/recovery/segment_end.py",
        "if position - indexed >= every_bytes:",
        "position - indexed >= every_bytes -> (position - indexed > every_bytes)",
        "How far apart entries of a sparse index are changes what a read scans, and not what it finds.",
    ),
    EquivalentMutant(
        "serving_tier/fold/fold.py",
        "return bool(decided) and not decided.isdisjoint(range(header.base_offset, header.last_offset + 1))",
        "1 -> 2",
        "A plain batch that is folded one by one gives the entries that it gives as a whole.",
    ),
    EquivalentMutant(
        "log_tier/embedded/segments/partition_log.py",
        "if self.files.newest is not self._file or self.segments[-1].bytes + len(batches[done][0]) > room:",
        "self.segments[-1].bytes + len(batches[done][0]) > room -> "
        "(self.segments[-1].bytes + len(batches[done][0]) >= room)",
        "Room is asked for that is there already: the file stays as it is.",
    ),
    EquivalentMutant(
        "serving_tier/fold/fold.py",
        "stop = end if size < STRETCH_MIN else stretch_end(attributes, at, end)",
        "size < STRETCH_MIN -> (size <= STRETCH_MIN)",
        "A group of as many records as a stretch needs is decided on one by one, with the same outcome.",
    ),
)


def reason_for(mutant: Mutant, source: str) -> str:
    """Why a mutant makes no difference; empty if it is not listed."""
    line = source.splitlines()[mutant.line - 1].strip()
    for each in EQUIVALENT:
        if (each.path, each.line, each.change) == (str(mutant.path), line, mutant.change):
            return each.reason
    return ""


def stale_entries(root: Path, mutants: Iterable[Mutant]) -> list[EquivalentMutant]:
    """The entries that no mutant of the product answers to."""
    listed = {each.path for each in EQUIVALENT}
    there = {
        (str(each.path), (root / each.path).read_text().splitlines()[each.line - 1].strip(), each.change)
        for each in mutants
        if str(each.path) in listed
    }
    return [each for each in EQUIVALENT if (each.path, each.line, each.change) not in there]
