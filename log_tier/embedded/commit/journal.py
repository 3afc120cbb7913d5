"""The commit journal: one sync for a commit that touches many partitions.

A partition's segments are its own files, and syncing each of them would make a commit as slow as it has partitions:
eight syncs, one after the other, where the device and the scheduler make a caller wait for each. So a commit that
touches several partitions writes their batches to their segments *without* a sync, writes the same bytes once more,
together, as one **frame** to the journal, and syncs that. Now they are on stable storage, and the segments may follow
when the kernel likes.

    commit over one partition    segment ── sync                           as if there were no journal
    commit over several          segments, journal frame ── one sync       small commits only: large ones sync each
                                                                           segment, which costs less than writing twice

There are two journal files of fixed size, used in turn. A file is **settled** when every segment whose bytes it covers
has been synced since; only then is it overwritten. Settling runs in a thread of its own as soon as the other file is in
use, so that the writer nearly never waits for it.

At open, `replay` walks the frames of both files, older generation first, and puts back what a segment has lost. It
does so before recovery looks at any segment, so recovery sees what had been acknowledged. A frame whose checksum does
not hold ends its file's walk: it was being written when the machine stopped, and nobody had been told.

    J1  A batch is acknowledged only when its segment, or a frame that holds it, has been synced.
    J2  A journal file is overwritten only when the segments of all its frames have been synced.
    J3  Frames name a place in a segment. Only a partition's newest segment is written to by a replay: older ones were
        synced when they were sealed.

This is the write-ahead journal of BookKeeper's bookies, used only where it saves syncs.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import google_crc32c

from log_tier.embedded.storage import names
from log_tier.embedded.storage.disk import Disk, File
from log_tier.model.identifiers import Offset, Partition, TableId, table_id_from_bytes, table_id_to_bytes

__all__ = ["JOURNAL_COMMIT_BYTES_MAX", "Journal", "JournalEntry", "Replayed"]

# A commit with more than this goes to its segments directly. Writing 256 KiB twice costs about as much as one sync.
JOURNAL_COMMIT_BYTES_MAX: Final = 256 << 10

_FILE_MAGIC: Final = b"DuJl"
_FRAME_MAGIC: Final = b"DuJf"
_VERSION: Final = 1
_FILE_HEADER: Final = struct.Struct("<4sHHQ")
"""Magic, version, zero, generation; then a CRC-32C of these."""
_FRAME_HEADER: Final = struct.Struct("<4sIQI")
"""Magic, bytes of the payload, generation, entries; then a CRC-32C of these and the payload."""
_ENTRY: Final = struct.Struct("<16sIQQI")
"""Table id, partition, base of the segment, position in it, bytes."""
_CRC: Final = struct.Struct("<I")
_HEADER_BYTES: Final = _FILE_HEADER.size + _CRC.size
_FRAME_BYTES: Final = _FRAME_HEADER.size + _CRC.size

_crc = google_crc32c.value
_crc_extend = google_crc32c.extend


class JournalEntry(NamedTuple):
    """Bytes and where they belong."""

    topic: TableId
    partition: Partition
    segment: Offset
    """Base of the segment."""
    position: int
    data: bytes


@dataclass(slots=True)
class Replayed:
    """What a replay did."""

    frames: int = 0
    restored: int = 0
    """Entries whose bytes a segment had lost."""
    bytes: int = 0


class Journal:
    """The writing half; belongs to the writer thread. `open` replays and begins."""

    def __init__(self, disk: Disk, files: tuple[File, File], generation: int, size: int) -> None:
        self._disk = disk
        self._files = files
        self._generation = generation
        self._size = size
        self._position = _HEADER_BYTES
        self._header = b""
        """Written together with the first frame of a generation."""
        self._uncovered: set[Path] = set()
        """Segments with bytes that only this generation's frames made stable."""
        self._settling: Future[None] | None = None
        self._settler = ThreadPoolExecutor(1, thread_name_prefix="duramen-log-settler")

    @classmethod
    def open(
        cls,
        disk: Disk,
        folder: Path,
        *,
        size: int,
        segment_of: Callable[[TableId, Partition, Offset], Path | None],
    ) -> tuple[Journal, Replayed]:
        """Replay what is there, then begin with both files empty.

        `segment_of` names the file of a segment if it is its partition's newest, else None. Raises `OSError`. Reads
        both files; two syncs, and one for each segment that had lost something.
        """
        paths = [folder / name for name in names.JOURNALS]
        found = sorted((generation, path) for path in paths if (generation := _generation_of(disk, path)) is not None)
        replayed = Replayed()
        for generation, path in found:
            _replay(disk, path, generation, segment_of, replayed)
        # Even generations lie in the first file, odd ones in the second.
        generation = (found[-1][0] // 2 + 1) * 2 if found else 0
        files: list[File] = []
        try:
            for path in paths:
                file = disk.open(path, write=True, create=True)
                files.append(file)
                if file.size() < size:
                    file.preallocate(file.size(), size - file.size())
                # Generation by generation, so that no frame of an earlier run counts any more.
                file.pwrite((_file_header(generation), bytes(_FRAME_BYTES)), 0)
                file.fdatasync()
                generation += 1
            disk.sync_folder(folder)
        except OSError:
            for file in files:
                file.close()
            raise
        return cls(disk, (files[0], files[1]), generation - 1, size), replayed

    def has_room_for(self, size: int, entries: int) -> bool:
        """Whether a commit of so many bytes over so many partitions is one for the journal."""
        frame = _FRAME_BYTES + entries * _ENTRY.size + size
        return size <= JOURNAL_COMMIT_BYTES_MAX and _HEADER_BYTES + frame <= self._size

    def write(self, entries: Sequence[JournalEntry], paths: Sequence[Path]) -> None:
        """Write one frame and sync: afterwards the entries are on stable storage.

        `paths` are the segments' files, by entry. Raises `OSError`; then what is on the disk is unknown.
        """
        payload = b"".join(
            part
            for entry in entries
            for part in (
                _ENTRY.pack(
                    table_id_to_bytes(entry.topic), entry.partition, entry.segment, entry.position, len(entry.data)
                ),
                entry.data,
            )
        )
        if self._position + _FRAME_BYTES + len(payload) > self._size:
            self._turn()
        head = _FRAME_HEADER.pack(_FRAME_MAGIC, len(payload), self._generation, len(entries))
        check = _CRC.pack(_crc_extend(_crc(head), payload))
        file = self._files[self._generation & 1]
        if self._header:
            file.pwrite((self._header, head, check, payload), 0)
            self._header = b""
        else:
            file.pwrite((head, check, payload), self._position)
        file.fdatasync()
        self._position += _FRAME_BYTES + len(payload)
        self._uncovered.update(paths)

    def _turn(self) -> None:
        """Go on in the other file, which must be settled; settle this one meanwhile."""
        self._wait_settled()
        self._settling = self._settler.submit(_sync_all, self._disk, self._uncovered)
        self._uncovered = set()
        self._generation += 1
        self._header = _file_header(self._generation)
        self._position = _HEADER_BYTES

    def _wait_settled(self) -> None:
        if self._settling is not None:
            self._settling.result()
            self._settling = None

    def close(self, *, settle: bool) -> None:
        """Let go of the files. With `settle`, sync what only frames cover, so that the next replay restores nothing."""
        try:
            if settle:
                self._wait_settled()
                _sync_all(self._disk, self._uncovered)
        finally:
            self._settler.shutdown(wait=True)
            for file in self._files:
                file.close()


def _file_header(generation: int) -> bytes:
    head = _FILE_HEADER.pack(_FILE_MAGIC, _VERSION, 0, generation)
    return head + _CRC.pack(_crc(head))


def _sync_all(disk: Disk, paths: set[Path]) -> None:
    for path in sorted(paths):
        # A segment that is gone was trimmed or dropped: nothing of it is needed.
        with suppress(FileNotFoundError):
            file = disk.open(path, write=True)
            try:
                file.fdatasync()
            finally:
                file.close()


def _generation_of(disk: Disk, path: Path) -> int | None:
    """The generation of a journal file; None where there is no valid header: nothing was acknowledged through it."""
    if not disk.exists(path):
        return None
    file = disk.open(path)
    try:
        head = file.pread(_HEADER_BYTES, 0)
    finally:
        file.close()
    if len(head) < _HEADER_BYTES or _CRC.unpack_from(head, _FILE_HEADER.size)[0] != _crc(head[: _FILE_HEADER.size]):
        return None
    magic, version, _, generation = _FILE_HEADER.unpack_from(head)
    return int(generation) if magic == _FILE_MAGIC and version == _VERSION else None


def _frames(data: bytes, generation: int) -> Iterator[list[JournalEntry]]:
    """The valid frames of one generation, in order."""
    at = _HEADER_BYTES
    while at + _FRAME_BYTES <= len(data):
        magic, size, its_generation, count = _FRAME_HEADER.unpack_from(data, at)
        start, end = at + _FRAME_BYTES, at + _FRAME_BYTES + size
        if magic != _FRAME_MAGIC or its_generation != generation or end > len(data):
            return
        head = data[at : at + _FRAME_HEADER.size]
        if _CRC.unpack_from(data, at + _FRAME_HEADER.size)[0] != _crc_extend(_crc(head), data[start:end]):
            return
        yield list(_entries(data, start, count))
        at = end


def _entries(data: bytes, at: int, count: int) -> Iterator[JournalEntry]:
    for _ in range(count):
        topic, partition, segment, position, size = _ENTRY.unpack_from(data, at)
        at += _ENTRY.size
        yield JournalEntry(
            table_id_from_bytes(topic), Partition(partition), Offset(segment), position, data[at : at + size]
        )
        at += size


def _replay(
    disk: Disk,
    path: Path,
    generation: int,
    segment_of: Callable[[TableId, Partition, Offset], Path | None],
    replayed: Replayed,
) -> None:
    file = disk.open(path)
    try:
        data = file.pread(file.size(), 0)
    finally:
        file.close()
    changed: dict[Path, File] = {}
    opened: dict[Path, File] = {}
    try:
        for frame in _frames(data, generation):
            replayed.frames += 1
            for entry in frame:
                segment = segment_of(entry.topic, entry.partition, entry.segment)
                if segment is None:
                    continue
                if segment not in opened:
                    opened[segment] = disk.open(segment, write=True)
                target = opened[segment]
                if target.pread(len(entry.data), entry.position) == entry.data:
                    continue
                target.pwrite((entry.data,), entry.position)
                changed[segment] = target
                replayed.restored += 1
                replayed.bytes += len(entry.data)
        for target in changed.values():
            target.fdatasync()
    finally:
        for target in opened.values():
            target.close()
