"""The commit journal: one sync for a commit that touches many partitions.

A partition's segments are its own files, and syncing each of them would make a commit as slow as it has partitions:
eight syncs, one after the other, where the device and the scheduler make a caller wait for each. So a commit that
touches several partitions writes their batches to their segments *without* a sync, writes the same bytes once more,
together, as one **frame** to the journal, and syncs that. Now they are on stable storage, and the segments may follow
when the kernel likes.

    commit over one partition    segment ── sync                           as if there were no journal
    commit over several          segments, journal frame ── one sync       small commits only: large ones sync each
                                                                           segment, which costs less than writing twice

There are two journal files of fixed size, used in turn. Their room is made fit for frames in a few steps the first time
that it is used, each with two syncs. A file is **settled** when every segment whose bytes it covers
has been synced since; only then is it overwritten. Settling runs in a thread of its own as soon as the other file is in
use, so that the writer nearly never waits for it.

At open, `journal_replay` checks the chain of frames in both files, older generation first, and puts back what a segment
has lost. It does so before recovery looks at any segment, so recovery sees what had been acknowledged. What cannot be
read and may have been acknowledged is damage: the log stays closed, and the error names the byte.

    J1  A batch is acknowledged only when its segment, or a frame that holds it, has been synced.
    J2  A journal file is overwritten only when the segments of all its frames have been synced.
    J3  A file's new header is synced before its first frame is overwritten, so old frames under an old header are
        whole, and under a new one they do not count.
    J4  Frames are written only where a synced header says that the room is fit: without zeros in a row, on stable
        storage (`journal_room.py`). So where frames should be and zeros are, the disk has lost something.
    J5  Frames name a place in a segment. Only a partition's newest segment is written to by a replay: older ones were
        synced when they were sealed.

This is the write-ahead journal of BookKeeper's bookies, used only where it saves syncs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence, Set
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Final

from log_tier.concurrency.descriptors import OUT_OF_DESCRIPTORS
from log_tier.concurrency.workers import THREADS, Workers
from log_tier.embedded.commit.journal_format import (
    FRAME_BYTES,
    FRAMES_AT,
    HEADERS_AT,
    JournalEntry,
    encode_entries,
    encode_frame,
    encode_header,
    entry_bytes,
)
from log_tier.embedded.commit.journal_replay import Replayed, Witness, load_journal, replay
from log_tier.embedded.commit.journal_room import unused_room, without_zeros
from log_tier.embedded.storage import names
from log_tier.embedded.storage.disk import Disk, File
from log_tier.model.identifiers import Offset, PartitionId

__all__ = ["JOURNAL_COMMIT_BYTES_MAX", "Journal", "JournalEntry", "Replayed"]

# A commit with more than this goes to its segments directly. Writing 256 KiB twice costs about as much as one sync.
JOURNAL_COMMIT_BYTES_MAX: Final = 256 << 10

# Room is made fit fourfold from here, by at most this: seven times in the life of a file of 16 MiB, and a log with few
# commits writes few bytes for it.
_FIT_BYTES_MIN: Final = 64 << 10
_FIT_BYTES_MAX: Final = 4 << 20


class Journal:
    """The writing half; belongs to the writer thread. `open` replays and begins."""

    def __init__(
        self,
        disk: Disk,
        folder: Path,
        files: tuple[File, File],
        *,
        log_id: bytes,
        generation: int,
        size: int,
        fit: Sequence[int] = (FRAMES_AT, FRAMES_AT),
        workers: Workers = THREADS,
    ) -> None:
        self._disk, self._folder = disk, folder
        self._files = files
        self._log_id = log_id
        self._generation = generation
        self._size = size
        self._position = FRAMES_AT
        self._number = 0
        """The number of the next frame."""
        self._previous = 0
        """Checksum of the last frame."""
        self._first = (0, 0)
        """Number of this file's first frame, and the checksum of the one before it."""
        self._fit = list(fit)
        """How far each file's room is fit for frames."""
        self._uncovered: set[Path] = set()
        """Segments with bytes that only this generation's frames made stable."""
        self._settling: Future[None] | None = None
        self._being_settled: set[Path] = set()
        self._settler = workers.pool(1, name="duramen-log-settler")
        self._waiting = threading.Lock()
        """Held by a thread that waits for them: several may seal segments at once."""

    @classmethod
    def open(
        cls,
        disk: Disk,
        folder: Path,
        *,
        size: int,
        log_id: bytes,
        segment_of: Callable[[PartitionId, Offset], Path | None],
        workers: Workers = THREADS,
    ) -> tuple[Journal, Replayed]:
        """Replay what is there, then begin anew with two files of `size` bytes for frames.

        `segment_of` gives the file of a partition's newest segment if it begins at that offset, else None. Raises
        `LogDamaged` where acknowledged writes may be lost, and `OSError`.
        """
        walks, replayed = load_journal(disk, folder, log_id)
        replay(disk, walks, segment_of, replayed)
        # Even generations lie in the first file, odd ones in the second; the first file begins, with an even one. Both
        # are new: a header over frames of its own generation that it does not count would look like damage.
        generation = (replayed.generation + 3) // 2 * 2
        files: list[File] = []
        try:
            for name in names.JOURNALS:
                file = disk.open(folder / name, write=True, create=True)
                files.append(file)
                if file.size() < FRAMES_AT + size:
                    file.preallocate(file.size(), FRAMES_AT + size - file.size())
            journal = cls(
                disk,
                folder,
                (files[0], files[1]),
                log_id=log_id,
                generation=generation,
                size=size,
                fit=replayed.fit,
                workers=workers,
            )
            # The older one first: as long as it is the newest, a chain begins in it, and the other is not needed.
            journal._begin_file(generation - 1)
            journal._begin_file(generation)
            disk.sync_folder(folder)
            Witness(generation, clean=False).write(disk, folder)
        except OSError:
            for file in files:
                file.close()
            raise
        return journal, replayed

    def _begin_file(self, generation: int) -> None:
        """Write a file's header and sync: from here on, frames of its older generation do not count."""
        self._first = self._number, self._previous
        self._write_header(generation)

    def _write_header(self, generation: int) -> None:
        """Write both copies of a file's header and sync."""
        file, fit = self._files[generation & 1], self._fit[generation & 1]
        number, previous = self._first
        header = encode_header(generation, self._log_id, size=file.size(), number=number, previous=previous, fit=fit)
        for at in HEADERS_AT:
            file.pwrite((header,), at)
        file.fdatasync()

    def _make_fit(self, end: int) -> None:
        """Make room fit for frames, up to `end` at least: under a header that says so, zeros there are damage."""
        which = self._generation & 1
        file, fit = self._files[which], self._fit[which]
        some = min(max(_FIT_BYTES_MIN, 3 * (fit - FRAMES_AT)), _FIT_BYTES_MAX)
        until = max(end, min(fit + some, FRAMES_AT + self._size))
        file.pwrite((unused_room(until - fit),), fit)
        file.fdatasync()
        self._fit[which] = until
        self._write_header(self._generation)

    @property
    def generation(self) -> int:
        """The generation in use."""
        return self._generation

    def has_room_for(self, size: int, entries: int) -> bool:
        """Whether a commit of so many bytes over so many partitions is one for the journal."""
        return size <= JOURNAL_COMMIT_BYTES_MAX and FRAME_BYTES + entry_bytes(entries) + size <= self._size

    def write(self, entries: Sequence[JournalEntry], paths: Sequence[Path]) -> None:
        """Write one frame and sync: afterwards the entries are on stable storage.

        `paths` are the segments' files, by entry. Raises `OSError`; then what is on the disk is unknown, but for the
        errors `OUT_OF_DESCRIPTORS`: then nothing was written here.
        """
        key, payload = without_zeros(encode_entries(entries))
        if self._position + FRAME_BYTES + len(payload) > FRAMES_AT + self._size:
            self._turn()
        end = self._position + FRAME_BYTES + len(payload)
        if end > self._fit[self._generation & 1]:
            self._make_fit(end)
        head, check = encode_frame(
            payload,
            generation=self._generation,
            number=self._number,
            previous=self._previous,
            entries=len(entries),
            key=key,
        )
        file = self._files[self._generation & 1]
        file.pwrite((head, payload), self._position)
        file.fdatasync()
        self._position = end
        self._number, self._previous = self._number + 1, check
        self._uncovered.update(paths)

    def _turn(self) -> None:
        """Go on in the other file, which must be settled; settle this one meanwhile. One sync more than a frame's."""
        self.wait_settled()
        self._being_settled, self._uncovered = self._uncovered, set()
        self._settling = self._settler.submit(_sync_all, self._disk, self._being_settled)
        self._generation += 1
        self._begin_file(self._generation)
        self._position = FRAMES_AT

    def wait_settled(self) -> None:
        """Wait until segments have on stable storage what the older file's frames hold. In any thread.

        Raises `OSError`: what the disk holds is unknown, but for the errors `OUT_OF_DESCRIPTORS`, after which the next
        call may succeed.
        """
        with self._waiting:
            if self._settling is None:
                return
            try:
                self._settling.result()
            except OSError as error:
                if error.errno in OUT_OF_DESCRIPTORS:
                    # No sync failed: a segment could not be opened.
                    self._settling = self._settler.submit(_sync_all, self._disk, self._being_settled)
                raise
            self._settling = None

    def close(self, *, settle: bool, synced: Set[Path] = frozenset()) -> None:
        """Let go of the files. With `settle`, sync what only frames cover and say so, so that no replay is needed.

        `synced`: segments that were synced after their last frame was written.
        """
        try:
            if settle:
                self.wait_settled()
                _sync_all(self._disk, self._uncovered - synced)
                Witness(self._generation, clean=True).write(self._disk, self._folder)
        finally:
            self._settler.shutdown(wait=True)
            for file in self._files:
                file.close()


def _sync_all(disk: Disk, paths: set[Path]) -> None:
    for path in sorted(paths):
        # A segment that is gone was trimmed or dropped: nothing of it is needed.
        with suppress(FileNotFoundError):
            file = disk.open(path, write=True)
            try:
                file.fdatasync()
            finally:
                file.close()
