"""The small files of a damaged log: taken from the copy, or made anew of what the other files say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from log_tier.embedded.commit.journal_format import read_headers
from log_tier.embedded.recovery.data_folder import read_identity
from log_tier.embedded.repair.copy_log import CopyLog
from log_tier.embedded.repair.old_files import bytes_of
from log_tier.embedded.repair.partition_plan import Refusal
from log_tier.embedded.storage import names
from log_tier.embedded.storage.checkpoint import Checkpoint
from log_tier.embedded.storage.disk import Disk
from log_tier.model.errors import DuramenError, ForeignFolder, InvalidRequest, LogDamaged
from log_tier.model.identifiers import NOTHING, Offset, TableId, table_id_to_bytes

__all__ = ["FoundCheckpoint", "NewFile", "find_checkpoint", "mended_marker", "mended_topic"]


class NewFile(NamedTuple):
    """A file that is put in the place of a damaged one, or where one is missing."""

    path: Path
    data: bytes
    what: str
    """What is done, for people."""


class FoundCheckpoint(NamedTuple):
    """What is known of a partition's bounds."""

    checkpoint: Checkpoint
    is_trim_known: bool
    """Does it say where the partition begins?"""
    why: str
    """What is wrong with the file; empty if nothing is."""
    surely_compacted: Offset | None = None
    """Where it is made anew: so far the partition was compacted at least. The checkpoint assumes more."""


def mended_marker(disk: Disk, folder: Path, copy: CopyLog | None) -> NewFile | None:
    """The copy's marker for a log whose own cannot be read; None if it can be.

    Raises `InvalidRequest` where the copy is another log's, or where there is none; `UnknownFormat`.
    """
    path = folder / names.MARKER
    try:
        identity = read_identity(disk, path)
    except (LogDamaged, ForeignFolder, FileNotFoundError) as error:
        why = error.message if isinstance(error, DuramenError) else f"{path} is missing"
    else:
        if copy is not None and copy.identity != identity:
            raise InvalidRequest(
                f"{copy.path} is a copy of the log {copy.identity}, and {folder} is the log {identity}: name a copy of "
                "this log"
            )
        return None
    if copy is None:
        raise InvalidRequest(f"{why}: whose files the others are is not known; name a copy of this log (--from)")
    if not _is_copy_of(disk, folder, copy):
        raise InvalidRequest(
            f"{why}, and nothing in {folder} shows that it is the log {copy.identity}, of which {copy.path} is a copy: "
            "no topic and no journal of that log is there"
        )
    return NewFile(path, bytes_of(copy.raw, copy.path / names.MARKER), f"{why}: taken from the copy")


def _is_copy_of(disk: Disk, folder: Path, copy: CopyLog) -> bool:
    topics = folder / names.TOPICS
    if disk.exists(topics) and any(copy.topic(TableId(name)) is not None for name in disk.list(topics)):
        return True
    for name in names.JOURNALS:
        if disk.exists(folder / name):
            header = read_headers(bytes_of(disk, folder / name))
            if header is not None and header.log_id == table_id_to_bytes(copy.identity):
                return True
    return False


def mended_topic(path: Path, topic: TableId, why: str, copy: CopyLog | None) -> NewFile | Refusal:
    """The copy's file of a topic for one that cannot be read."""
    if copy is None or copy.topic(topic) is None:
        where = "no copy is named (--from)" if copy is None else "the copy has no such topic"
        return Refusal(f"topic {topic}", f"{why}, and {where}")
    return NewFile(path, bytes_of(copy.raw, copy.topic_folder(topic) / names.TOPIC_FILE), f"{why}: taken from the copy")


def find_checkpoint(disk: Disk, folder: Path, theirs: Checkpoint | None) -> FoundCheckpoint:
    """A partition's checkpoint; where it cannot be read, what the copy's (`theirs`) and the names of the files say.

    The copy is older: what its checkpoint says was so. Raises `UnknownFormat`, `OSError`.
    """
    path, bases = folder / names.CHECKPOINT, _bases(disk, folder)
    is_missing = not disk.exists(path)
    try:
        checkpoint = Checkpoint.read(disk, path)
    except (LogDamaged, ForeignFolder) as error:
        why = error.message
    else:
        if not is_missing or (not bases and theirs is None):
            return FoundCheckpoint(checkpoint, True, "")
        why = f"{path} is missing"
    if theirs is not None:
        earliest = min([theirs.earliest, *bases])
        made = replace(_bounds_of(theirs, earliest), compacted=max([theirs.compacted, *bases[-1:]]))
        return FoundCheckpoint(made, True, f"{why}: made anew", theirs.compacted)
    # A file that is missing says nothing of a trim: then offsets from 0 on are expected, as at a start.
    earliest = bases[0] if bases and not is_missing else Offset(0)
    newest = bases[-1] if bases else NOTHING
    made = Checkpoint(earliest=earliest, newest_segment=newest, compacted=max(Offset(0), newest))
    return FoundCheckpoint(made, bases[:1] == [0], f"{why}: made anew", Offset(0))


def _bounds_of(theirs: Checkpoint, earliest: Offset) -> Checkpoint:
    return Checkpoint(
        earliest,
        theirs.end,
        theirs.newest_segment,
        compacted=theirs.compacted,
        given_up=theirs.given_up,
        mended=theirs.mended,
    )


def _bases(disk: Disk, folder: Path) -> Sequence[Offset]:
    found = disk.list(folder) if disk.exists(folder) else []
    return sorted(base for base in map(names.segment_base, found) if base is not None)
