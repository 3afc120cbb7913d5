"""The small files of a log: what the next start would go on without, or not look at, is damage all the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from log_tier.embedded.commit.journal_replay import Witness, journal_faults
from log_tier.embedded.recovery.log_summary import LogSummary
from log_tier.embedded.storage import names
from log_tier.embedded.storage.checkpoint import Checkpoint
from log_tier.embedded.storage.disk import Disk
from log_tier.model.errors import DuramenError, UnknownFormat
from log_tier.model.files.finding import FileFinding
from log_tier.model.identifiers import TableId, table_id_to_bytes

__all__ = ["check_checkpoint", "check_log_files"]

_NOTHING_LOST: Final = "Nothing is lost: the log was closed cleanly, and the next start writes the file anew"


def check_log_files(disk: Disk, folder: Path, log_id: TableId) -> Iterator[FileFinding]:
    """The files at the top of a log's folder, before anything looked at them to use them."""
    witness: Witness | None = None
    path = folder / names.JOURNAL_WITNESS
    try:
        witness = Witness.read(disk, folder)
    except DuramenError as error:
        found = FileFinding.of(error, path)
        yield found if isinstance(error, UnknownFormat) else found._replace(remedy="alone")
    else:
        if witness is None and any(disk.exists(folder / name) for name in names.JOURNALS):
            message = f"{path} is missing: the next start replays the journal as after an unclean end"
            yield FileFinding(path, message, remedy="alone")
    if witness is not None and witness.clean:
        for fault in journal_faults(disk, folder, table_id_to_bytes(log_id)):
            found = FileFinding.of(fault, folder)
            what = fault.message.partition(". It may hold acknowledged writes")[0]
            yield found._replace(message=f"{what}. {_NOTHING_LOST}", remedy="alone")
    if disk.exists(folder / names.SUMMARY):
        try:
            LogSummary.read(disk, folder, log_id)
        except DuramenError as error:
            yield FileFinding.of(error, folder / names.SUMMARY)._replace(remedy="alone")


def check_checkpoint(disk: Disk, folder: Path) -> Iterator[FileFinding]:
    """The checkpoint of a partition's folder."""
    path = folder / names.CHECKPOINT
    without = "The log goes on without it and writes a new one; until then a loss at either end of it is not seen"
    try:
        Checkpoint.read(disk, path)
    except UnknownFormat as error:
        yield FileFinding.of(error, path)
        return
    except DuramenError as error:
        yield FileFinding.of(error, path)._replace(message=f"{error.message}. {without}", remedy="copy")
        return
    if not disk.exists(path) and any(names.segment_base(name) is not None for name in disk.list(folder)):
        yield FileFinding(path, f"{path} is missing, and there are segments. {without}", remedy="copy")
