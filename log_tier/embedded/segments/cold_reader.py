"""Reading a partition's files, in order, a chunk at a time, in a thread that may block."""

from __future__ import annotations

import threading
from bisect import bisect_right
from typing import Any

from log_tier.concurrency.descriptors import OUT_OF_DESCRIPTORS
from log_tier.embedded.segments.partition_log import PartitionLog
from log_tier.embedded.segments.segment import Run, Segment, damaged, first_in_index, read_run
from log_tier.embedded.segments.sparse_index import SparseIndex
from log_tier.embedded.storage.disk import File
from log_tier.embedded.storage.refusal import refusal_of
from log_tier.model.errors import OffsetTrimmed
from log_tier.model.identifiers import Offset

__all__ = ["ColdReader", "trimmed"]


class ColdReader:
    """A place in a partition's files. One `read` at a time; `close` from any thread, at any time."""

    def __init__(self, partition: PartitionLog, chunk_bytes: int) -> None:
        self._partition, self._chunk_bytes = partition, chunk_bytes
        self._mutex = threading.Lock()
        self._reading = False
        self._closed = False
        self._file: File | None = None
        self._segment: Segment | None = None
        self._position = 0
        self._expected = Offset(0)
        """The offset after the last batch that was read or stepped over."""

    def close(self) -> None:
        """Let go of the file; a read in flight does it when it ends."""
        with self._mutex:
            self._closed = True
            if not self._reading:
                self._close_file()

    def read(self, offset: Offset) -> tuple[bytes, Offset]:
        """The next chunk from the batch that holds `offset`, and the offset after it; no bytes at the end.

        Raises `OffsetTrimmed`, `LogDamaged`, and `DiskFailed` or `FolderReadOnly` where the disk gives nothing. A
        process without descriptors raises the `OSError` itself, because a follower waits where another reader fails.
        """
        with self._mutex:
            if self._closed:
                return b"", offset
            self._reading = True
        try:
            self._partition.wake()
            return self._read(offset)
        except OSError as error:
            if error.errno in OUT_OF_DESCRIPTORS:
                raise
            raise refusal_of(error, self._partition.folder) from error
        finally:
            with self._mutex:
                self._reading = False
                if self._closed:
                    self._close_file()

    def _read(self, offset: Offset) -> tuple[bytes, Offset]:
        if self._file is None or offset != self._expected:
            self._seek(offset)
        while True:
            file, segment = self._file, self._segment
            assert file is not None, "a seek opens a file"
            assert segment is not None, "a seek finds a segment"
            end = segment.bytes
            if self._position < end:
                run = self._run(file, segment, end, size=self._chunk_bytes)
                if not run.batches:
                    raise run.damage or damaged(segment.path, self._position, self._expected, "nothing can be read")
                header = run.batches[-1].header
                self._position += len(run.data)
                self._expected = Offset(header.base_offset + header.span)
                return run.data, self._expected
            with self._partition.lock:
                newest = self._partition.segments[-1]
                is_last = segment.base == newest.base
                at_end = is_last and self._position >= segment.bytes
            if at_end:
                return b"", self._expected
            if is_last:
                continue
            if self._expected != segment.end:
                raise damaged(
                    segment.path,
                    self._position,
                    self._expected,
                    f"the file ends here, and the next segment begins with offset {segment.end}",
                )
            self._seek(segment.end)

    def _seek(self, offset: Offset) -> None:
        """Open the segment that holds `offset` and step to the batch that does."""
        partition = self._partition
        self._close_file()
        with partition.naming:
            with partition.lock:
                segment = self._holding(offset)
                entry = segment.index.at_or_before(offset) if segment.index else None
            try:
                self._file = partition.disk.open(segment.path)
            except FileNotFoundError as error:
                raise partition.refusal or damaged(segment.path, 0, segment.base, "the file is missing") from error
        self._segment, self._position, self._expected = segment, 0, segment.base
        rebuilt: SparseIndex | None = None
        if entry is not None:
            if first_in_index(self._file, segment.path, entry, segment.bytes):
                self._expected, self._position = Offset(entry[0]), entry[1]
            else:
                rebuilt = SparseIndex()
        self._step_to(offset, self._file, segment, rebuilt)
        if rebuilt is not None:
            with partition.lock:
                if segment is not partition.segments[-1]:
                    segment.index = rebuilt

    def _holding(self, offset: Offset) -> Segment:
        """The segment that holds `offset`; under the partition's lock."""
        partition, segments = self._partition, self._partition.segments
        number = bisect_right(segments, offset, key=lambda segment: segment.base) - 1
        if number >= 0:
            return segments[number]
        if partition.damage is not None and offset >= partition.checkpoint.earliest:
            raise partition.damage  # nobody trimmed it: its file is missing
        raise trimmed(partition, offset, segments[0].base if segments else Offset(0))

    def _step_to(self, offset: Offset, file: File, segment: Segment, rebuilt: SparseIndex | None) -> None:
        every_bytes = self._partition.settings.index_every_bytes
        indexed = 0
        while self._position < segment.bytes:
            run = self._run(file, segment, segment.bytes, size=2 * every_bytes)
            for position, header in run.batches:
                if header.base_offset + header.span > offset:
                    self._position = position
                    return
                if rebuilt is not None and position - indexed >= every_bytes:
                    rebuilt.add(header.base_offset, position)
                    indexed = position
                self._expected = Offset(header.base_offset + header.span)
                self._position = position + header.length
            if run.damage is not None:
                raise run.damage

    def _run(self, file: File, segment: Segment, end: int, *, size: int) -> Run:
        """What is read next of a segment whose batches end at the byte `end`."""
        gaps = self._partition.checkpoint.may_lack(self._expected)
        how: dict[str, Any] = {"size": size, "gaps": gaps, "below": segment.end}
        return read_run(file, segment.path, self._position, end, self._expected, **how)

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def trimmed(partition: PartitionLog, offset: Offset, earliest: Offset) -> OffsetTrimmed:
    """The error for an offset that retention removed."""
    return OffsetTrimmed(
        f"{partition.name} begins with offset {earliest}, offset {offset} was requested: "
        "start from a snapshot, or from the beginning",
        partition=partition.id.partition,
        asked=offset,
        earliest=earliest,
    )
