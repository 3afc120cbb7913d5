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
    above: str = ""
    """The text of the line above, where the file has the line several times and one of them is meant."""
    places: int = 1
    """How many lines of the file are meant."""

    def lines_in(self, source: str) -> list[int]:
        """The numbers of the lines that it names, from 1 on."""
        lines = [each.strip() for each in source.splitlines()]
        pairs = zip(["", *lines], lines, strict=False)
        return [
            number
            for number, (above, line) in enumerate(pairs, 1)
            if line == self.line and (not self.above or above == self.above)
        ]


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
        places=3,
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
        "serving_tier/fold/grouped.py",
        "in_columns = size >= STRETCH_MIN and effects.definition is None",
        "size >= STRETCH_MIN -> (size > STRETCH_MIN)",
        "A group of as many records as a stretch needs is decided on one by one, with the same outcome.",
    ),
    EquivalentMutant(
        "serving_tier/replica/replica.py",
        "self._changes = 0",
        "0 -> 1",
        "The number of changes is compared with an earlier one: where it begins does not matter.",
    ),
    EquivalentMutant(
        "log_tier/embedded/commit/journal_replay.py",
        "file.fdatasync()",
        "file.fdatasync() -> pass",
        "The sync at the end of the replay covers the same files, and fails where pages were lost in between "
        "(`docs/RELIABILITY.md`, of the syncs that are left out).",
        above="# may show bytes that never reached the device. The journal is overwritten after this.",
    ),
    EquivalentMutant(
        "log_tier/embedded/storage/disk.py",
        "while got < size:",
        "got < size -> (got <= size)",
        "One read more, of no byte, ends the loop.",
    ),
    EquivalentMutant(
        "serving_tier/replica/replica.py",
        "self._pinned_reads.check()",
        "self._pinned_reads.check() -> pass",
        "It asserts invariants for tests; where they hold it changes nothing.",
    ),
    EquivalentMutant(
        "log_tier/embedded/segments/inspection.py",
        'return (int(name), "") if name.isdigit() else (0, name)',
        "0 -> 1",
        "It decides in which order findings are printed about folders that are no partition's.",
    ),
    EquivalentMutant(
        "log_tier/embedded/segments/partition_log.py",
        "is_full = segment is not None and segment.bytes > 0 and segment.bytes + first > self.settings.segment_bytes",
        "0 -> 1",
        "No segment has one byte: the header of a batch is longer.",
    ),
    EquivalentMutant(
        "serving_tier/fold/stretch.py",
        "if max(sizes.values()) > VALUE_BYTES_MAX:",
        "max(sizes.values()) > VALUE_BYTES_MAX -> (max(sizes.values()) >= VALUE_BYTES_MAX)",
        "What is no stretch is decided on one by one, with the same outcome.",
    ),
    EquivalentMutant(
        "serving_tier/fold/fold.py",
        "begin = -1",
        "1 -> 2",
        "It stands for no group, as every negative number does.",
        places=2,
    ),
    EquivalentMutant(
        "serving_tier/fold/stretch.py",
        "return _append_again(keys, values, dict(zip(distinct, before, strict=True)), offset)",
        "True -> False",
        "There is one entry before for each distinct key.",
    ),
    EquivalentMutant(
        "log_tier/embedded/commit/batch_checks.py",
        "return size <= AT_ONCE_BYTES_MAX and "
        "(not large.pending or large.is_free(partition for partition, _ in parts))",
        "size <= AT_ONCE_BYTES_MAX -> (size < AT_ONCE_BYTES_MAX)",
        "Batches of exactly this size are checked in a thread in place of the loop, with the same outcome.",
    ),
    EquivalentMutant(
        "log_tier/embedded/recovery/segment_end.py",
        "at = data.find(MAGIC, at + 1)",
        "1 -> 2",
        "No magic begins one byte behind another one: it has no byte twice.",
    ),
    EquivalentMutant(
        "serving_tier/fold/fold.py",
        "following = (*attributes[1:], 0)",
        "0 -> 1",
        "Only the highest bit of what follows is looked at.",
    ),
    EquivalentMutant(
        "serving_tier/fold/grouped.py",
        "if in_columns and stop - at >= STRETCH_MIN:",
        "stop - at >= STRETCH_MIN -> (stop - at > STRETCH_MIN)",
        "A run of as many records as a stretch needs is decided on one by one, with the same outcome.",
    ),
)


def reason_for(mutant: Mutant, source: str) -> str:
    """Why a mutant makes no difference; empty if it is not listed."""
    for each in EQUIVALENT:
        if (each.path, each.change) == (str(mutant.path), mutant.change) and mutant.line in each.lines_in(source):
            return each.reason
    return ""


def stale_entries(root: Path, mutants: Iterable[Mutant]) -> list[EquivalentMutant]:
    """The entries that no mutant of the product answers to."""
    listed = {each.path for each in EQUIVALENT}
    sources = {path: (root / path).read_text() for path in listed if (root / path).is_file()}
    there = {(str(each.path), each.line, each.change) for each in mutants if str(each.path) in listed}
    return [
        each
        for each in EQUIVALENT
        if not any((each.path, line, each.change) in there for line in each.lines_in(sources.get(each.path, "")))
    ]
