"""`duramen log verify`: which files of a data folder are damaged, and what to do about each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from typing import Annotated, Final

import typer

from duramen.cli.terminal.exits import ERROR, OK
from duramen.cli.terminal.options import Json
from duramen.cli.terminal.output import say, say_json
from duramen.cli.terminal.text import counted
from log_tier.model.files.finding import FileFinding, Remedy

__all__ = ["verify"]


def verify(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="A data folder: of `up`, of a log, or of a node.")],
    json: Json = False,
) -> int:
    """Read all files of a data folder that nobody has open; name what is damaged, and what to do. Changes nothing.

    Every batch of the log is checked against its checksums, its place and its order, with the code by which a start
    recovers. So are the small files next to them, the structure of each index, and each snapshot in the folder. With
    each damage comes the command that repairs it. Notes are what a crash leaves and the next start puts right. The exit
    code is 1 if something is damaged, and 6, without a look at anything, while a process has the folder open: stop it,
    or verify a snapshot of the file system. Files that are copied one after the other while a server writes are of
    different times, and look damaged.

    \b
      duramen log verify duramen-data
      duramen log verify /backup/duramen-data --json       # a copy of a stopped server's folder
    """
    from duramen.server.wiring.folder_verification import FolderVerification

    looked = FolderVerification(data)
    damaged = 0
    for finding in looked.findings():
        damaged += finding.is_damage
        _say(finding, _repair_of(finding, data), json)
    seen = looked.log
    if json:
        counts = {"partitions": seen.partitions, "segments": seen.segments, "bytes": seen.bytes}
        say_json(
            {"kind": "summary", **counts, "indexes": looked.indexes, "snapshots": looked.snapshots, "damaged": damaged}
        )
    else:
        whole = f"{damaged} damaged" if damaged else "nothing is damaged"
        say(
            f"{whole}: {counted(seen.partitions, 'partition')}, {counted(seen.segments, 'segment')} with "
            f"{counted(seen.bytes, 'byte')}, {looked.indexes:,} {'index' if looked.indexes == 1 else 'indexes'}, "
            f"{counted(looked.snapshots, 'snapshot')}"
        )
    return ERROR if damaged else OK


_COMMANDS: Final[Mapping[Remedy, str]] = {
    "copy": "duramen log repair {data} --from COPY",
    "alone": "duramen log repair {data}",
    "snapshot": "duramen admin snapshot TABLE",
}


def _repair_of(finding: FileFinding, data: Path) -> str:
    """The command that puts a damaged file right; empty if there is none."""
    command = _COMMANDS.get(finding.remedy, "") if finding.is_damage else ""
    return command.format(data=quote(str(data)))


def _say(finding: FileFinding, repair: str, json: bool) -> None:
    if not json:
        say(f"{'DAMAGED' if finding.is_damage else 'note   '}  {finding.message}")
        if repair:
            say(f"         repair: {repair}")
        return
    kind = "damage" if finding.is_damage else "note"
    place = {"position": finding.position, "offset": finding.offset}
    command = {"repair": repair} if repair else {}
    say_json({"kind": kind, "file": str(finding.file), **place, "message": finding.message, **command})
