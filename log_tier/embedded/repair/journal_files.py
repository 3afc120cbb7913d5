"""A damaged journal that is needed, taken from the copy.

A journal holds acknowledged writes that no segment may have. So the copy's is taken only if it holds all that is known
of the damaged one:

- both are of the same generation, which begins with each open of the log;
- every whole frame of the damaged files is in the copy's;
- no partition of the damaged log ends behind the copy's.

So the copy was made after the last commit, or the log has held nothing since that shows. A commit after it that only
the damaged frames held leaves no trace: with `kill -9` alone the segments have all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from log_tier.embedded.commit.journal_format import FileHeader, read_headers, whole_frames
from log_tier.embedded.commit.journal_replay import Witness, journal_faults, load_journal
from log_tier.embedded.repair.copy_log import CopyLog
from log_tier.embedded.repair.documents import NewFile
from log_tier.embedded.repair.old_files import bytes_of
from log_tier.embedded.storage import names
from log_tier.embedded.storage.disk import Disk
from log_tier.model.errors import DuramenError, ForeignFolder, LogDamaged
from log_tier.model.identifiers import TableId, table_id_to_bytes

__all__ = ["JournalState", "look_at_journal", "mended_journal"]

_FILES: Final = (*names.JOURNALS, names.JOURNAL_WITNESS)


class JournalState:
    """A log's journal as it lies there."""

    def __init__(self, *, is_clean: bool, damage: LogDamaged | None, faults: Sequence[str]) -> None:
        self.is_clean = is_clean
        """Was the log closed cleanly, so that no frame is needed?"""
        self.damage = damage
        """Why the log stays closed."""
        self.faults = faults
        """What is wrong with files that are not needed, or made anew by a replay."""


def look_at_journal(disk: Disk, folder: Path, identity: TableId) -> JournalState:
    """Read a log's journal. Raises `UnknownFormat`, `OSError`."""
    log_id = table_id_to_bytes(identity)
    faults: list[str] = []
    try:
        if Witness.read(disk, folder) is None and any(disk.exists(folder / name) for name in names.JOURNALS):
            faults.append(f"{folder / names.JOURNAL_WITNESS} is missing")
    except (LogDamaged, ForeignFolder) as error:
        faults.append(error.message)
    try:
        _, found = load_journal(disk, folder, log_id)
    except LogDamaged as error:
        return JournalState(is_clean=False, damage=error, faults=faults)
    if found.clean:
        faults += [each.message.partition(". It may hold")[0] for each in journal_faults(disk, folder, log_id)]
    return JournalState(is_clean=found.clean, damage=None, faults=faults)


def mended_journal(
    disk: Disk, folder: Path, identity: TableId, copy: CopyLog | None, *, is_behind: Callable[[], str]
) -> list[NewFile] | str:
    """The copy's journal for one that is damaged and needed; or why it cannot be taken.

    `is_behind`: which partition of the copy ends before the damaged log's does, if one does. Raises `OSError`.
    """
    if copy is None:
        return "no copy is named (--from)"
    log_id = table_id_to_bytes(identity)
    try:
        _, theirs = load_journal(copy.raw, copy.path, log_id)
    except DuramenError as error:
        return f"the copy's is damaged as well: {error.message}"
    if theirs.clean:
        return "the copy was closed cleanly, so its journal holds nothing that this one has lost"
    for name in names.JOURNALS:
        ours = bytes_of(disk, folder / name) if disk.exists(folder / name) else b""
        copied = bytes_of(copy.raw, copy.path / name) if copy.raw.exists(copy.path / name) else b""
        trouble = _lack(name, read_headers(ours), ours, read_headers(copied), copied)
        if trouble:
            return trouble
    behind = is_behind()
    if behind:
        return f"the copy is older: {behind}"
    what = "it is damaged and needed, and taken from the copy"
    return [
        NewFile(folder / name, bytes_of(copy.raw, copy.path / name), f"{folder / name}: {what}")
        for name in _FILES
        if copy.raw.exists(copy.path / name)
    ]


def _lack(name: str, ours: FileHeader | None, data: bytes, theirs: FileHeader | None, copied: bytes) -> str:
    """What a journal file of the copy lacks; empty: nothing that is known."""
    if theirs is None or theirs.version == 1:
        return f"the copy's {name} has no header of this version"
    if ours is not None and ours.generation != theirs.generation:
        return f"{name} is of generation {ours.generation}, and the copy's of generation {theirs.generation}"
    known, there = whole_frames(data, theirs), whole_frames(copied, theirs)
    lacking = sorted(number for number, check in known.items() if there.get(number) != check)
    return f"the copy's {name} lacks frame {lacking[0]}, which can be read here" if lacking else ""
