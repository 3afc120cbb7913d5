"""`duramen log dump`: what the files of a log say, read from the files themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from duramen.cli.terminal.exits import ERROR, OK
from duramen.cli.terminal.options import Json
from duramen.cli.terminal.output import say

__all__ = ["dump"]


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
    from duramen.cli.files.stored_batches import findings, say_batch, say_finding_json
    from duramen.cli.files.stored_keys import StoredKeys
    from log_tier.embedded.segments.inspection import Damage, SegmentStart, StoredBatch, Tail

    code, keys, segment = OK, StoredKeys(), path

    def key_text(key: bytes) -> str:
        return keys.text(segment, key)

    for finding in findings(path):
        if isinstance(finding, SegmentStart):
            segment = finding.path
        if json:
            say_finding_json(finding, records, key_text)
        elif isinstance(finding, SegmentStart):
            say(f"{finding.path}  ({finding.table or 'unknown table'}/{finding.partition}, from offset {finding.base})")
        elif isinstance(finding, StoredBatch):
            say_batch(finding, records, key_text)
        elif isinstance(finding, Damage):
            say(f"  DAMAGED   byte {finding.position}: {finding.why}")
        elif isinstance(finding, Tail):
            say(f"  end       byte {finding.position}: {finding.what}")
        if isinstance(finding, Damage):
            code = ERROR
    return code
