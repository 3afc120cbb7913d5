"""One partition: its segments, its end, and the writing half. The reading half is `log_tier.embedded.segments.reader`.

Who may do what: only the writer thread writes (`stage`, `settle`, `seal`, `finish`, `abandon`). Other threads read the
fields under `lock`. What readers see moves once per commit, after the sync, in `_publish`.

A reader that opens a segment holds `naming` from the look at `segments` to the end of the open. Compaction holds it
from the rename to the change of `segments`, and trimming for that change. So a file that a reader has found is there,
with the bytes that `segments` says; an open file keeps its bytes, whatever happens to its name.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from log_tier.concurrency.descriptors import OUT_OF_DESCRIPTORS
from log_tier.embedded.segments.growing_file import GrowingFile
from log_tier.embedded.segments.log_resources import LogResources
from log_tier.embedded.segments.partition_state import PartitionState
from log_tier.embedded.segments.segment import Segment
from log_tier.embedded.segments.sparse_index import SparseIndex
from log_tier.embedded.segments.sparse_index_writer import SparseIndexWriter
from log_tier.embedded.segments.staged import Staged
from log_tier.embedded.segments.tail_cache import TailCache
from log_tier.embedded.storage import names
from log_tier.embedded.storage.refusal import no_room, refusal_of
from log_tier.model.batch_header import place_of, stamp_batch
from log_tier.model.errors import DuramenError, LogStopped, UnknownFormat
from log_tier.model.identifiers import NOTHING, Offset, PartitionId
from log_tier.model.log import Appended, Bounds

__all__ = ["CommitWaiter", "PartitionLog"]

# How many files are closed at once where the process is out of descriptors: a commit needs three at a time.
_SHED_FILES: Final = 8

CommitWaiter = asyncio.Future[None]
"""A follower that waits for the next commit."""


class PartitionLog:
    """A partition's files and where they end."""

    def __init__(
        self,
        name: str,
        partition: PartitionId,
        folder: Path,
        resources: LogResources,
        *,
        state: PartitionState,
        look: Callable[[], PartitionState] | None = None,
    ) -> None:
        """`look`: looks at the files, where `state` only says what a clean close left."""
        self.name, self.id, self.folder = name, partition, folder
        disk, settings, memory, files, self._moves, settling, self.traced = resources
        self.disk, self.settings = disk, settings
        self.lock = threading.Lock()
        """Guards what is known of the files. Never held during a call of the disk: appends take it."""
        self.naming = threading.Lock()
        """Held while a segment is opened for reading, and while one is replaced or given up: so an open file and
        its `Segment` belong together. Appends never take it. A thread that takes both locks takes this one first."""
        self.segments = state.segments
        """Oldest first. Only the last one may still grow. Invariant: each one's `end` is the next one's `base`."""
        self.checkpoint = state.checkpoint
        self.damage = state.damage
        self.lost = state.lost
        self._look = look
        """Looks at the files at the first use; None once that has happened."""
        self._waking = threading.Lock()
        """Held while the files are looked at."""
        self.refusal: DuramenError | None = None
        """The error for every caller once the topic was deleted or the log was closed."""
        self.tail = TailCache(memory)
        self.waiters: list[CommitWaiter] = []
        self.woken: list[CommitWaiter] = []
        """Followers that waited for what was published since the committing thread last took them to wake them."""
        self._place = place_of(partition)
        self.files = files
        """The open files of all partitions of this log."""
        self._file = GrowingFile(disk, folder, files, settling, settings.segment_bytes, capacity=state.capacity)
        """The newest segment's file."""
        self._indexed = state.indexed_bytes
        """Position of the newest index entry."""
        self.index_writer = SparseIndexWriter(disk)
        self._newest_ms = state.newest_ms
        self._room = 0
        """Up to here the newest file takes bytes without a look at anything, while the log has used no other since."""
        self.has_written = False
        """Whether the last `stage` has written anything, and not only made room."""
        self._sealed = False
        """Whether the newest segment is full, so that the next append begins another."""

    @property
    def is_at_rest(self) -> bool:
        """Is what is known of the files only what a clean close wrote down? The first use looks at them: `wake`."""
        return self._look is not None

    def wake(self) -> None:
        """Look at the files of a partition at rest; what is wrong with them is found now. Blocks, some 0.3 ms a
        segment. Raises `OSError` and `UnknownFormat`, and then it is still at rest; not for damage, which the partition
        remembers.
        """
        if self._look is None:
            return
        with self._waking:
            if self._look is None:
                return
            state = self._look()
            with self.lock:
                self.segments, self.checkpoint = state.segments, state.checkpoint
                self.damage, self.lost = state.damage, state.lost
                self._file.capacity = state.capacity
                self._indexed, self._newest_ms = state.indexed_bytes, max(self._newest_ms, state.newest_ms)
                self._look = None
                self._moves.note(self.id)
                waiting: list[CommitWaiter] = []
                if self.damage is not None:  # followers meet it
                    waiting, self.waiters = self.waiters, []
        for waiter in waiting:
            with suppress(RuntimeError):  # of a loop that was closed
                waiter.get_loop().call_soon_threadsafe(_release, waiter)

    def _refused_to_wake(self) -> DuramenError | None:
        """Wake, for a write; the error if the files cannot be looked at now. Raises `LogStopped` for a failed sync."""
        try:
            self.wake()
        except OSError as error:
            refusal = refusal_of(error, self.folder)
            if isinstance(refusal, LogStopped):
                raise refusal from error
            return refusal
        except UnknownFormat as error:
            return error
        return None

    @property
    def next_offset(self) -> Offset:
        """The offset that the next record gets. All below it are on stable storage."""
        return self.segments[-1].end if self.segments else Offset(0)

    def bounds(self) -> Bounds:
        """The first and last offsets that can be read."""
        with self.lock:
            earliest = self.segments[0].base if self.segments else Offset(0)
            latest = Offset(self.next_offset - 1)
            return Bounds(earliest, latest, 0, self._newest_ms, self.lost, *self.checkpoint.history)

    def check_writable(self) -> None:
        """Raise what keeps this partition from taking appends."""
        if self.refusal is not None:
            raise self.refusal
        if self.damage is not None:
            raise self.damage

    def check_readable(self) -> None:
        """Raise what keeps this partition from being read or trimmed."""
        if self.refusal is not None:
            raise self.refusal

    def stage(
        self, batches: list[tuple[bytes, int]], now_ms: int, *, alone: bool = False
    ) -> tuple[list[Appended], Staged | None, DuramenError | None]:
        """Write batches (bytes, span) to the newest segment, without a sync; return their places and what to sync.

        What is staged counts only after `settle`, or after `publish_journalled` where a journal made it stable. Where a
        segment is full, its part is settled here; so is everything where these are `alone` in their commit. If disk
        space or a descriptor is missing for one of the batches, this and the later ones get no place and are not
        written; the error (`DiskFull`, `Overloaded`) says why. Raises what `check_writable` does, and `LogStopped`
        where a sync failed; after any other `OSError` what is on the disk is unknown.
        """
        self.has_written = False
        if self._look is not None:
            refused = self._refused_to_wake()
            if refused is not None:
                return [], None, refused
        if self.refusal is not None or self.damage is not None:
            self.check_writable()
        appended: list[Appended] = []
        staged: Staged | None = None
        now = max(now_ms, self._newest_ms)
        done = 0
        while done < len(batches):
            if staged is not None:
                self.settle(staged)
                staged = None
            room = self._room
            if self.files.newest is not self._file or self.segments[-1].bytes + len(batches[done][0]) > room:
                try:
                    room = self._room_for(batches, done)
                except OSError as error:
                    return appended, None, no_room(error, self.folder)
            segment = self.segments[-1]
            staged = Staged(segment, segment.bytes, segment.bytes, segment.end, now)
            base, first = segment.end, segment.end
            while done < len(batches):
                batch, span = batches[done]
                if staged.end_position + len(batch) > room:
                    break
                batch = stamp_batch(batch, base_offset=base, timestamp_ms=now, unsynced=base - first, place=self._place)
                if staged.end_position - self._indexed >= self.settings.index_every_bytes:
                    staged.entries.append((base, staged.end_position))
                    self._indexed = staged.end_position
                staged.data.append(batch)
                staged.placed.append((base, base + span, batch))
                appended.append(Appended(base, now, Offset(base + span - 1)))
                staged.end_position += len(batch)
                staged.end = base = Offset(base + span)
                done += 1
            self.has_written = True
            self._file.write(staged.data, staged.position)
        if alone and staged is not None:
            self.settle(staged)
            staged = None
        return appended, staged, None

    def settle(self, staged: Staged) -> None:
        """Sync the segment, then publish. Raises `LogStopped`."""
        self._file.sync()
        self._publish(staged)

    def publish_journalled(self, staged: Staged) -> None:
        """Let readers see what the journal has brought to stable storage."""
        self._file.journalled()
        self._publish(staged)

    def _publish(self, staged: Staged) -> None:
        segment = staged.segment
        index = segment.index
        assert index is not None, "the newest segment has its index in memory"
        assert segment.bytes == staged.position, f"staged at {staged.position}, the segment ends at {segment.bytes}"
        self._newest_ms = staged.timestamp_ms
        with self.lock:
            for entry in staged.entries:
                index.add(*entry)
            segment.bytes, segment.end, segment.newest_ms = staged.end_position, staged.end, staged.timestamp_ms
            self.woken, self.waiters = self.woken + self.waiters, []
            self._moves.note(self.id)
        self.tail.add(staged.placed)
        if staged.entries:
            self.index_writer.add(segment, staged.entries)

    def wait_past(self, offset: Offset, loop: asyncio.AbstractEventLoop) -> CommitWaiter | None:
        """A future of `loop` that is done once there may be something at `offset`; None where that is so already."""
        with self.lock:
            if self.next_offset > offset or self.refusal is not None:
                return None
            waiter = loop.create_future()
            self.waiters.append(waiter)
            return waiter

    def forget(self, waiter: CommitWaiter) -> None:
        """Stop waiting."""
        with self.lock:
            if waiter in self.waiters:
                self.waiters.remove(waiter)

    def refuse(self, refusal: DuramenError) -> list[CommitWaiter]:
        """Refuse all later calls with this error; return the waiters that the caller must wake."""
        with self.lock:
            self.refusal = self.refusal or refusal
            self._moves.note(self.id)
            waiting, self.waiters = self.waiters, []
        return waiting

    def readmit(self) -> None:
        """Take the refusal back: the topic could not be deleted."""
        with self.lock:
            self.refusal = None

    def lacks_room(self, first: int) -> bool:
        """Would an append of `first` bytes make a file, or let one grow? False where it would be refused, and of a
        partition at rest, whose files are looked at first.
        """
        if self._look is not None or self.refusal is not None or self.damage is not None:
            return False
        return not self.segments or self.segments[-1].bytes + first > self._file.capacity

    def make_room(self, batches: list[tuple[bytes, int]]) -> None:
        """Do what `stage` would do first to make room for these batches (bytes, span). In any thread, while the one
        that has the committer's turn waits. Raises `LogStopped`, and `OSError`; then nothing was written.
        """
        self.has_written = False
        self._room = 0
        self._make_room(len(batches[0][0]), sum(len(batch) for batch, _ in batches))

    def _room_for(self, batches: list[tuple[bytes, int]], done: int) -> int:
        """`_make_room` for the batches from `done` on, again where others' files give it the descriptors it needs."""
        first, total = len(batches[done][0]), sum(len(batch) for batch, _ in batches[done:])
        self._room = 0
        try:
            room = self._make_room(first, total)
        except OSError as error:
            if error.errno not in OUT_OF_DESCRIPTORS or not self.files.shed(_SHED_FILES):
                raise
            room = self._make_room(first, total)
        self._file.used()
        self._room = min(room, self.settings.segment_bytes)
        return room

    def _make_room(self, first: int, total: int) -> int:
        """See that `first` of `total` more bytes fit into the newest file; return up to where it may be written."""
        segment = self.segments[-1] if self.segments else None
        is_full = segment is not None and segment.bytes > 0 and segment.bytes + first > self.settings.segment_bytes
        if segment is not None and is_full and not self._sealed:
            if self.seal() is None:  # it was cut before, and the process ended before its index was written
                self.index_writer.seal(segment)
            self._sealed = True
        if segment is None or self._sealed:
            segment = self._begin_segment(first)
            self._sealed = False
        elif not self._file.is_open:
            self._file.open(segment.path)
            if not self._file.capacity:
                self._file.capacity = segment.bytes
        self._file.make_room(segment.bytes, first, total)
        if self.checkpoint.newest_segment != segment.base or self.checkpoint.reserved_bytes < self._file.capacity:
            self.save_checkpoint()
        return self._file.capacity

    def _begin_segment(self, size: int) -> Segment:
        segment = Segment(self.folder, self.next_offset, self.next_offset, 0, 0, SparseIndex())
        # Its name reaches stable storage with the checkpoint, which is written before anything is written to it.
        self._file.begin(segment.path, size)
        self._indexed = 0
        with self.lock:
            self.segments.append(segment)
        return segment

    def seal(self, *, clean: bool = False) -> Path | None:
        """Cut the newest file to its batches, write its index, and close it; return its path if there was something to
        do. If that fails, the file stays open, so that the next call does it: a sealed segment must end with its last
        batch. Three syncs.

        The checkpoint goes first: from then on the file may be as short as its batches, and not shorter.
        """
        if not self._file.is_open and not self._file.capacity:
            return None
        segment = self.segments[-1]
        if not self._file.is_open:
            self._file.open(segment.path)
        self._room = 0
        self.save_checkpoint(clean=clean, reserved_bytes=segment.bytes)
        self._file.seal(segment.bytes)
        self.index_writer.seal(segment)
        return segment.path

    def release(self) -> None:
        """Close the newest segment's file; the next append opens it again. Raises `LogStopped` where a sync failed."""
        self._file.release()

    def save_checkpoint(self, *, clean: bool = False, reserved_bytes: int | None = None, **changed: Any) -> None:
        """Write down what is known to be on stable storage. Two syncs. `changed`: other fields of the checkpoint."""
        segment = self.segments[-1] if self.segments else None
        checkpoint = replace(
            self.checkpoint,
            end=self.next_offset,
            newest_segment=segment.base if segment else NOTHING,
            clean_bytes=segment.bytes if clean and segment else -1,
            reserved_bytes=self._file.capacity if reserved_bytes is None else reserved_bytes,
            **changed,
        )
        checkpoint.write(self.disk, self.folder / names.CHECKPOINT)
        self.checkpoint = checkpoint

    @property
    def has_open_file(self) -> bool:
        """Is the newest segment open for writing?"""
        return self._file.is_open

    def keep_file(self) -> None:
        """Before the log closes: other partitions that lack a descriptor may not close this one's file any more."""
        self._file.is_in_commit = True

    def finish(self) -> Path | None:
        """A clean end: no space stays reserved, and a checkpoint says where the newest file ends. Returns the path of
        the newest file if this call synced it, and None if it had been synced before.

        Different partitions may be finished in different threads.
        """
        path = self.seal(clean=self.damage is None)
        segment = self.segments[-1] if self.segments else None
        if segment is not None and self.damage is None and self.checkpoint.clean_bytes != segment.bytes:
            self.save_checkpoint(clean=True)
        return path

    def abandon(self) -> None:
        """Close the file as it is: the topic was deleted, or the disk failed."""
        self._file.capacity = 0
        self._file.close()


def _release(waiter: CommitWaiter) -> None:
    if not waiter.done():
        waiter.set_result(None)
