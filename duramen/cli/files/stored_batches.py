"""What `duramen log dump` finds in the files of a log, for people and for programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from duramen.cli.terminal.output import say, say_json
from duramen.cli.terminal.text import counted, json_text, shown_key
from log_tier.embedded.segments.inspection import (
    Damage,
    SegmentFinding,
    SegmentStart,
    StoredBatch,
    inspect_segment,
    segment_files,
)
from log_tier.model.errors import InvalidRequest

__all__ = ["KeyText", "findings", "say_batch", "say_finding_json"]


def findings(path: Path) -> Iterator[SegmentFinding]:
    """What the segments at `path` hold, one after another. Raises `InvalidRequest` where there is none."""
    files = segment_files(path)
    if not files:
        raise InvalidRequest(
            f"there is no segment of a log at {path}: name a file ….log, or a folder that `duramen up --data` made"
        )
    for file in files:
        yield from inspect_segment(file)


def _time(timestamp_ms: int) -> str:
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


KeyText = Callable[[bytes], str]
"""A key as its fields; empty: it has none."""


def say_batch(found: StoredBatch, records: bool, key_text: KeyText) -> None:
    """A batch for people, with its records if `records`."""
    header = found.batch.header
    producer = f"producer {header.producer_id:016x} from {header.sequence}" if header.producer_id else "no producer"
    last = f"-{header.last_offset}" if header.span > 1 else ""
    say(
        f"  offset {header.base_offset}{last}  {_time(header.timestamp_ms)}  {counted(header.records, 'record')}  "
        f"{counted(header.length, 'byte')} at {found.position}  {producer}  "
        f"crc {header.checksum:08x} {header.stamp_checksum:08x}"
    )
    if records:
        for record in found.records():
            value = "" if record.value is None else "\t" + shown_key(record.value)
            key = key_text(record.key) or shown_key(record.key)
            extra = f"  [{', '.join(record.notes)}]" if record.notes else ""
            say(f"    {record.offset:<10} {record.operation.lower():<9}{key}{value}{extra}")


def say_finding_json(finding: SegmentFinding, records: bool, key_text: KeyText) -> None:
    """A finding for programs, a batch with its records if `records`."""
    fields: dict[str, Any]
    if isinstance(finding, SegmentStart):
        fields = {
            "kind": "segment",
            "file": str(finding.path),
            "table": finding.table,
            "partition": finding.partition,
            "base_offset": finding.base,
        }
    elif isinstance(finding, StoredBatch):
        header = finding.batch.header
        fields = {
            "kind": "batch",
            "position": finding.position,
            "bytes": header.length,
            "base_offset": header.base_offset,
            "last_offset": header.last_offset,
            "timestamp_ms": header.timestamp_ms,
            "producer_id": header.producer_id,
            "sequence": header.sequence,
            "records": header.records,
            "checksum": f"{header.checksum:08x}",
            "stamp_checksum": f"{header.stamp_checksum:08x}",
        }
        if records:
            fields["contents"] = [
                {
                    "offset": record.offset,
                    "operation": record.operation.lower(),
                    "key": json_text(record.key),
                    "key_text": key_text(record.key),
                    "value": None if record.value is None else json_text(record.value),
                    "notes": list(record.notes),
                }
                for record in finding.records()
            ]
    elif isinstance(finding, Damage):
        fields = {"kind": "damage", "position": finding.position, "offset": finding.offset, "message": finding.why}
    else:
        fields = {"kind": "end", "position": finding.position, "message": finding.what}
    say_json(fields)
