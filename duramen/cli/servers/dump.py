"""`duramen log dump`: what the files of a log say, read from the files themselves."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duramen.cli.terminal.exits import ERROR, OK
from duramen.cli.terminal.options import Json
from duramen.cli.terminal.output import say, say_json
from duramen.cli.terminal.text import counted, json_text, shown_key
from log_tier.model.errors import InvalidRequest

if TYPE_CHECKING:
    from log_tier.embedded.segments.inspection import SegmentFinding, StoredBatch

__all__ = ["app"]

app = typer.Typer(help="Look into the files of a log.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _log() -> None:
    pass


@app.command()
def dump(
    path: Annotated[
        Path,
        typer.Argument(metavar="FILE_OR_FOLDER", help="A segment (….log), or a data, log, table or partition folder."),
    ],
    records: Annotated[bool, typer.Option("--records", help="Show each batch's records as well.")] = False,
    json: Json = False,
) -> int:
    """Show the batches in a log's files: offset, time, producer, counts, checksums. Reads only; needs no server.

    Every checksum is checked. Damage is reported with file and byte, and what lies behind it is shown where it can be
    found; the exit code is then 1. A torn tail at the end of a partition's newest file is no damage: the next start
    cuts it, and nothing in it had been acknowledged.

    \b
      duramen log dump duramen-data
      duramen log dump duramen-data/log/topics/*/0 --records
      duramen log dump 00000000000000000000.log --json
    """
    from log_tier.embedded.segments.inspection import Damage, SegmentStart, StoredBatch, Tail

    code = OK
    for finding in _findings(path):
        if json:
            _say_json(finding, records)
        elif isinstance(finding, SegmentStart):
            say(f"{finding.path}  ({finding.table or 'unknown table'}/{finding.partition}, from offset {finding.base})")
        elif isinstance(finding, StoredBatch):
            _say_batch(finding, records)
        elif isinstance(finding, Damage):
            say(f"  DAMAGED   byte {finding.position}: {finding.why}")
        elif isinstance(finding, Tail):
            say(f"  end       byte {finding.position}: {finding.what}")
        if isinstance(finding, Damage):
            code = ERROR
    return code


def _findings(path: Path) -> Iterator[SegmentFinding]:
    from log_tier.embedded.segments.inspection import inspect_segment, segment_files

    files = segment_files(path)
    if not files:
        raise InvalidRequest(
            f"there is no segment of a log at {path}: name a file ….log, or a folder that `duramen up --data` made"
        )
    for file in files:
        yield from inspect_segment(file)


def _time(timestamp_ms: int) -> str:
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _say_batch(found: StoredBatch, records: bool) -> None:
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
            extra = f"  [{', '.join(record.notes)}]" if record.notes else ""
            say(f"    {record.offset:<10} {record.operation.lower():<9}{shown_key(record.key)}{value}{extra}")


def _say_json(finding: SegmentFinding, records: bool) -> None:
    from log_tier.embedded.segments.inspection import Damage, SegmentStart, StoredBatch

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
