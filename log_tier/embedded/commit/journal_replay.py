"""Replaying the journal: which of its files are needed, whether they are whole, and putting back what segments lost.

Nothing is written before both files were looked at. Where something that may have been acknowledged cannot be read,
`LogDamaged` names the file, the byte and the way out, and nothing is changed.

    needed          the newest file; and the other one, unless a chain begins in the newest
    a tear          the newest file's chain ends in a frame that is not whole, and no whole frame of its generation is
                    behind it: at most this one commit was under way. It is cut and reported with its offsets
    damage          everything else: a whole frame behind a broken one; zeros where the chain ends, which nothing has
                    written (`journal_room.py`); a file that ends before the other one goes on;
                    a file that is missing, of another log, shorter than its header says, without a readable header, or
                    of an older generation than `journal.json` names

`journal.json` is the **witness**: it names the newest generation of the last open, and whether the log was closed
cleanly since. After a clean close no frame is needed, and whatever happened to the files costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from log_tier.embedded.commit.journal_format import (
    FRAMES_AT,
    FileHeader,
    JournalEntry,
    Walk,
    fit_room,
    has_frame,
    read_headers,
    walk,
)
from log_tier.embedded.storage import names
from log_tier.embedded.storage.disk import Disk, File
from log_tier.embedded.storage.documents import read_document, write_document
from log_tier.model.errors import ForeignFolder, LogDamaged
from log_tier.model.identifiers import Offset, PartitionId

__all__ = ["JournalCut", "Replayed", "Witness", "journal_faults", "load_journal", "replay"]

_KIND = "duramen-log-journal"

# A journal may name thousands of segments: so many of them are open at a time while it is replayed.
_REPLAY_FILES_MAX: Final = 32


@dataclass(frozen=True, slots=True)
class JournalCut:
    """The newest frame of the journal, which is not whole: a commit that was under way, or damage to the last one."""

    file: str
    position: int
    bytes: int
    offsets: tuple[str, ...]
    """Which offsets it held, as far as they can be read: `table id/partition offsets first to last`."""

    def __str__(self) -> str:
        held = ", ".join(self.offsets) or "offsets that cannot be read"
        return (
            f"cut a torn frame of {self.bytes} bytes at byte {self.position} of {self.file}: a commit that was under "
            f"way and was not acknowledged, unless this file was damaged since. It held {held}"
        )


@dataclass(slots=True)
class Replayed:
    """The result of replaying the journal."""

    frames: int = 0
    restored: int = 0
    """Entries whose bytes a segment had lost."""
    bytes: int = 0
    ends: dict[PartitionId, Offset] = field(default_factory=dict)
    """The offset after the last one that frames prove to have been on stable storage, by partition."""
    cut: JournalCut | None = None
    notes: list[str] = field(default_factory=list)
    generation: int = 0
    """The newest one that was ever used, as far as is known."""
    fit: tuple[int, ...] = (FRAMES_AT, FRAMES_AT)
    """How much of each file's room is fit for frames."""
    clean: bool = False
    """Whether the log was closed cleanly with that generation, so that no frame is needed."""


class Witness(NamedTuple):
    """The content of `journal.json`."""

    generation: int
    clean: bool

    def write(self, disk: Disk, folder: Path) -> None:
        """Two syncs."""
        fields = {"generation": self.generation, "clean": int(self.clean)}
        write_document(disk, folder / names.JOURNAL_WITNESS, _KIND, fields)

    @classmethod
    def read(cls, disk: Disk, folder: Path) -> Witness | None:
        """Read it; None where there is none. Raises as `read_document` does."""
        path = folder / names.JOURNAL_WITNESS
        if not disk.exists(path):
            return None
        return read_document(
            disk, path, _KIND, lambda fields: cls(int(fields["generation"]), bool(int(fields["clean"])))
        )


class _JournalFile(NamedTuple):
    path: Path
    data: bytes
    header: FileHeader | None


def load_journal(disk: Disk, folder: Path, log_id: bytes) -> tuple[list[Walk], Replayed]:
    """The frames that segments may need, older file first. Raises `LogDamaged`, `UnknownFormat`."""
    found = Replayed()
    try:
        witness = Witness.read(disk, folder)
    except (LogDamaged, ForeignFolder) as error:
        found.notes.append(f"went on without {names.JOURNAL_WITNESS}, as after an unclean end: {error.message}")
        witness = Witness(0, False)
    files = [_load(disk, folder / name) for name in names.JOURNALS]
    headers = [file.header for file in files if file.header is not None]
    found.fit = tuple(fit_room(file.data, file.header) for file in files)
    found.generation = max([witness.generation if witness else 0, *(header.generation for header in headers)])
    if witness is not None and witness.clean and found.generation == witness.generation:
        found.clean = True
        return [], found
    walks = _needed(files, witness, log_id)
    if walks:
        path, last = walks[-1]
        if last.torn:
            found.cut = JournalCut(str(path), last.end, last.torn, tuple(last.claims))
    return [found for _, found in walks], found


def journal_faults(disk: Disk, folder: Path, log_id: bytes) -> list[LogDamaged]:
    """What is wrong with each journal file by itself, needed or not. After a clean close nothing is lost by it.

    Raises `OSError`, `UnknownFormat`.
    """
    faults: list[LogDamaged] = []
    for file in (_load(disk, folder / name) for name in names.JOURNALS):
        try:
            if file.header is None:
                raise _damaged(file.path, 0, "its header cannot be read" if file.data else "it is missing or empty")
            _check_header(file, log_id)
            _check_walk(file.path, walk(file.data, file.header))
        except LogDamaged as error:
            faults.append(error)
    return faults


def _load(disk: Disk, path: Path) -> _JournalFile:
    if not disk.exists(path):
        return _JournalFile(path, b"", None)
    file = disk.open(path)
    try:
        data = file.pread(file.size(), 0)
    finally:
        file.close()
    return _JournalFile(path, data, read_headers(data))


def _needed(files: list[_JournalFile], witness: Witness | None, log_id: bytes) -> list[tuple[Path, Walk]]:
    """The files whose frames count, each walked, older first."""
    newest = max(files, key=lambda file: file.header.generation if file.header else -1)
    other = files[0] if newest is files[1] else files[1]
    if newest.header is None:
        if witness is None and not any(has_frame(file.data) for file in files):
            return []  # a new log, or a journal that was moved away
        raise _damaged(newest.path, 0, "its header cannot be read, and neither can the other file's")
    for file in files:
        _check_header(file, log_id)
    if witness is not None and newest.header.generation < witness.generation:
        path = files[witness.generation & 1].path
        why = f"generation {witness.generation} was in use, generation {newest.header.generation} is the newest there"
        raise _damaged(path, 0, f"{why}: it is an older copy")
    if newest.header.version == 1:
        return _needed_v1(newest, other)
    last = walk(newest.data, newest.header)
    if other.header is None and (witness is not None or last.frames):
        raise _damaged(other.path, 0, "its header cannot be read")
    _check_walk(newest.path, last)
    if newest.header.number == 0:
        return [(newest.path, last)]
    assert other.header is not None, "a chain that goes on was begun in the other file"
    if other.header.generation != newest.header.generation - 1:
        why = f"generation {newest.header.generation - 1} should be there, generation {other.header.generation} is"
        raise _damaged(other.path, 0, why)
    first = walk(other.data, other.header)
    _check_walk(other.path, first)
    if (first.number, first.previous) != (newest.header.number, newest.header.previous):
        why = f"its frames end with number {first.number - 1}, and {newest.path.name} goes on with number "
        raise _damaged(other.path, first.end, f"{why}{newest.header.number}")
    return [(other.path, first), (newest.path, last)]


def _needed_v1(newest: _JournalFile, other: _JournalFile) -> list[tuple[Path, Walk]]:
    """`_needed` for two files of version 1, where the older one may be torn: its header and its first frame were
    overwritten with one write, after all its segments had been synced.
    """
    assert newest.header is not None, "the newest file has a header"
    last = walk(newest.data, newest.header)
    _check_walk(newest.path, last)
    if other.header is None:
        if last.frames:
            raise _damaged(other.path, 0, "its header cannot be read")
        return [(newest.path, last)]
    return [(other.path, walk(other.data, other.header)), (newest.path, last)]


def _check_header(file: _JournalFile, log_id: bytes) -> None:
    header = file.header
    if header is None:
        return
    number = names.JOURNALS.index(file.path.name)
    if header.generation & 1 != number:
        raise _damaged(file.path, 0, f"it holds generation {header.generation}, which belongs into the other file")
    if header.version > 1 and header.log_id != log_id:
        raise _damaged(file.path, 0, "it is another log's")
    if len(file.data) < header.size:
        raise _damaged(file.path, len(file.data), f"it ends here, and its header says {header.size} bytes")


def _check_walk(path: Path, found: Walk) -> None:
    if found.later is not None:
        why = f"frame {found.number} should be there, and a frame at byte {found.later} was written after it was synced"
        raise _damaged(path, found.end, why)
    if found.zeros is not None:
        why = (
            f"frame {found.number} or unused room should be there, and from byte {found.zeros} on there are zeros, as "
            f"nothing writes them: the disk has lost what was there, which may be frame {found.number} and later ones"
        )
        raise _damaged(path, found.end, why)


def _damaged(path: Path, position: int, why: str) -> LogDamaged:
    return LogDamaged(
        f"{path} is damaged at byte {position}: {why}. It may hold acknowledged writes that no segment has, so nothing "
        f"was changed and the log stays closed. Restore the file from a copy of this folder (`duramen log repair "
        f"{path.parent} --from COPY`), or use a replica; to give up what only it holds, move "
        f"{', '.join((*names.JOURNALS, names.JOURNAL_WITNESS))} away and open again",
        file=str(path),
        position=position,
    )


def replay(
    disk: Disk,
    walks: list[Walk],
    segment_of: Callable[[PartitionId, Offset], Path | None],
    replayed: Replayed,
) -> None:
    """Put back what segments lost; afterwards they hold every entry on stable storage.

    Two syncs each time a segment is opened: once, or again where more than `_REPLAY_FILES_MAX` take turns.
    """
    opened: dict[Path, File] = {}
    try:
        for entry in (entry for found in walks for frame in found.frames for entry in frame.entries):
            end = entry.end()
            if end is not None:
                replayed.ends[entry.partition] = max(replayed.ends.get(entry.partition, Offset(0)), end)
            segment = segment_of(entry.partition, entry.segment)
            if segment is None:
                continue
            file = opened.pop(segment, None)
            if file is None:
                if len(opened) >= _REPLAY_FILES_MAX:
                    _let_go(opened)
                file = disk.open(segment, write=True)
                # What a killed process wrote may be in the kernel's memory only, and after a failed sync the kernel
                # may show bytes that never reached the device. The journal is overwritten after this.
                file.fdatasync()
                file.forget_cached()
            opened[segment] = file
            _put_back(entry, file, replayed)
        replayed.frames += sum(len(found.frames) for found in walks)
        for file in opened.values():
            file.fdatasync()
        if replayed.restored:
            replayed.notes.append(
                f"brought {replayed.restored} acknowledged writes ({replayed.bytes} bytes) back from the journal"
            )
    finally:
        for file in opened.values():
            file.close()


def _let_go(opened: dict[Path, File]) -> None:
    """Sync and close the segment that was needed least recently: `opened` is in the order of use."""
    file = opened.pop(next(iter(opened)))
    try:
        file.fdatasync()
    finally:
        file.close()


def _put_back(entry: JournalEntry, target: File, replayed: Replayed) -> None:
    if target.pread(len(entry.data), entry.position) != entry.data:
        target.pwrite((entry.data,), entry.position)
        replayed.restored += 1
        replayed.bytes += len(entry.data)
