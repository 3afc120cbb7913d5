"""Looking into segment files from outside: for an operator, without a server, without the folder's lock.

It shows what is there and judges as little as it can. A file that a server is writing may end in the middle of a
batch; that is reported as a tail, and not as damage.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from log_tier.embedded.segments.segment import SCAN_BYTES, read_run
from log_tier.embedded.storage import names
from log_tier.embedded.storage.disk import Disk, File, LocalDisk
from log_tier.model.batch import Batch, decode_batch
from log_tier.model.batch_header import BATCH_BYTES_MAX, HEADER_BYTES, MAGIC, read_header
from log_tier.model.errors import BatchRefused, LogDamaged, UnknownFormat
from log_tier.model.identifiers import Offset
from log_tier.model.record import (
    CONDITION_SHIFT,
    EXPIRY_SHIFT,
    GROUPED,
    OPERATION_MASK,
    PLAIN_PUT,
    Condition,
    Expiry,
    Operation,
)

__all__ = [
    "Damage",
    "SegmentFinding",
    "SegmentStart",
    "StoredBatch",
    "StoredRecord",
    "Tail",
    "inspect_segment",
    "next_batch",
    "segment_files",
]

_START: Final = Offset(0)
_ZERO_SCAN_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class SegmentStart:
    """A file begins here."""

    path: Path
    table: str | None
    """The table's name, if its description lies next to the partition's folder."""
    partition: str
    base: Offset


class StoredRecord(NamedTuple):
    """One record, for showing."""

    offset: Offset
    operation: str
    key: bytes
    value: bytes | None
    """None for a delete and a no-op."""
    notes: tuple[str, ...]
    """Condition, expiry, membership in a group."""


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """A whole batch whose checksums hold."""

    position: int
    batch: Batch

    def records(self) -> Iterator[StoredRecord]:
        """The batch's records, in the order of their offsets."""
        columns = self.batch.columns
        for number, offset in enumerate(self.batch.offsets()):
            attribute = PLAIN_PUT if columns.attributes is None else columns.attributes[number]
            operation = Operation(attribute & OPERATION_MASK)
            is_bare = operation in (Operation.DELETE, Operation.NOOP)
            version = columns.versions[number] if columns.versions is not None else 0
            expiry = columns.expiries[number] if columns.expiries is not None else 0
            yield StoredRecord(
                Offset(offset),
                operation.name,
                columns.keys[number],
                None if is_bare else columns.values[number],
                tuple(_notes(attribute, version, expiry)),
            )


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes that should be a batch and are none."""

    path: Path
    position: int
    offset: Offset
    """The offset that should be there."""
    why: str


@dataclass(frozen=True, slots=True)
class Tail:
    """The position in a segment file at which its readable batches end."""

    path: Path
    position: int
    what: str


SegmentFinding = SegmentStart | StoredBatch | Damage | Tail


def _notes(attribute: int, version: int, expiry: int) -> Iterator[str]:
    condition = Condition(attribute >> CONDITION_SHIFT & 3)
    if condition is Condition.VERSION:
        yield f"if version {version}"
    elif condition is not Condition.NONE:
        yield f"if {condition.name.lower()}"
    kind = Expiry(attribute >> EXPIRY_SHIFT & 3)
    if kind is Expiry.TTL:
        yield f"expires after {expiry} ms"
    elif kind is Expiry.AT:
        yield f"expires at {expiry} ms"
    elif kind is Expiry.KEEP:
        yield "keeps its expiry"
    if attribute & GROUPED:
        yield "with the one before"


def segment_files(path: Path) -> list[Path]:
    """The segments at a path: itself, or all below a folder, in the order of their partitions and offsets. Those that a
    repair replaced are not among them, unless they are named.
    """
    if path.is_file():
        return [path] if names.segment_base(path.name) is not None else []
    found = [
        file
        for file in path.rglob("*.log")
        if names.segment_base(file.name) is not None
        and not any(map(names.is_repair_folder, file.relative_to(path).parts))
    ]
    return sorted(found, key=lambda file: (str(file.parent.parent), _partition_order(file.parent.name), file.name))


def _partition_order(name: str) -> tuple[int, str]:
    return (int(name), "") if name.isdigit() else (0, name)


def inspect_segment(path: Path, *, disk: Disk | None = None) -> Iterator[SegmentFinding]:
    """Read one segment from its beginning, batch by batch; go on behind damage where a later batch can be found."""
    base = names.segment_base(path.name)
    assert base is not None, f"{path} is no segment's name"
    yield SegmentStart(path, _table_name(path), path.parent.name, base)
    is_newest = not any(
        other > base for other in map(names.segment_base, (entry.name for entry in path.parent.iterdir())) if other
    )
    file = (disk or LocalDisk()).open(path)
    try:
        yield from _inspect(file, path, base, is_newest)
    finally:
        file.close()


def _inspect(file: File, path: Path, base: Offset, is_newest: bool) -> Iterator[SegmentFinding]:
    size, position, expected = file.size(), 0, base
    while position < size:
        run = read_run(file, path, position, size, expected, size=SCAN_BYTES)
        for place, header in run.batches:
            data = file.pread(header.length, place)
            try:
                yield StoredBatch(place, decode_batch(data, names.folder_place(path.parent)))
            except (BatchRefused, UnknownFormat) as error:
                yield Damage(path, place, header.base_offset, error.message)
            expected = Offset(header.base_offset + header.span)
            position = place + header.length
        if run.damage is None:
            continue
        unused = _zeros_from(file, position, size)
        if unused == position:
            yield Tail(path, position, f"{size - position} bytes are reserved and not yet used")
            return
        following = next_batch(file, path, position, size)
        if following is None and is_newest:
            what = f"{unused - position} bytes are no whole batch: a write that was cut short, or one under way"
            yield Tail(path, position, what)
            return
        yield Damage(path, position, expected, _why(run.damage))
        if following is None:
            return
        position = following
        expected = max(expected, Offset(read_header(file.pread(HEADER_BYTES, position)).base_offset))
    yield Tail(path, position, "the file ends here")


def _why(damage: LogDamaged) -> str:
    return damage.message.partition(" should be: ")[2].partition(". Nothing was cut")[0] or damage.message


def _table_name(path: Path) -> str | None:
    try:
        name = json.loads((path.parent.parent / names.TOPIC_FILE).read_bytes()).get("name")
    except (OSError, ValueError, AttributeError, RecursionError):
        return None
    return name if isinstance(name, str) else None


def _zeros_from(file: File, position: int, size: int) -> int:
    """Where the zeros at the end of the file begin; `position` where there is nothing else."""
    end = size
    while end > position:
        start = max(position, end - _ZERO_SCAN_BYTES)
        kept = file.pread(end - start, start).rstrip(b"\0")
        if kept:
            return start + len(kept)
        end = start
    return position


def next_batch(file: File, path: Path, position: int, size: int, *, first: Offset = _START) -> int | None:
    """The next place behind `position` where a whole batch begins, with offset `first` or a later one. O(what lies
    between).
    """
    at, whose = position + 1, names.folder_place(path.parent)
    while at < size:
        data = file.pread(min(BATCH_BYTES_MAX, size - at), at)
        found = data.find(MAGIC)
        if found < 0:
            at += max(1, len(data) - len(MAGIC) + 1)
            continue
        try:
            header = read_header(file.pread(HEADER_BYTES, at + found))
            is_there = header.base_offset >= first and at + found + header.length <= size
            if is_there and decode_batch(file.pread(header.length, at + found), whose):
                return at + found
        except (BatchRefused, UnknownFormat):
            pass
        at += found + 1
    return None
