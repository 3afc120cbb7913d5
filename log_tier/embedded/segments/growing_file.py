"""The file of a partition's newest segment: opened for a commit, preallocated ahead of it, closed when others need it.

Only the writer thread uses one. It belongs to one partition for its whole life and holds one segment's file after
another.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

from log_tier.concurrency.disk_errors import NO_SPACE
from log_tier.embedded.segments.open_files import OpenFiles
from log_tier.embedded.segments.settling import Settling
from log_tier.embedded.storage.disk import Disk, File, SyncFailed
from log_tier.embedded.storage.settings import PREALLOCATION_BYTES_MIN, PREALLOCATION_FACTOR
from log_tier.model.errors import LogStopped

__all__ = ["GrowingFile"]

# From here on a file doubles: a partition that has written so much will go on.
_DOUBLING_BYTES: Final = 1 << 20


class GrowingFile:
    """An open file that grows, or the knowledge of how far it is preallocated while it is closed."""

    __slots__ = (
        "_disk",
        "_file",
        "_files",
        "_folder",
        "_segment_bytes",
        "_settling",
        "_unsynced",
        "capacity",
        "is_in_commit",
    )

    def __init__(
        self, disk: Disk, folder: Path, files: OpenFiles, settling: Settling, segment_bytes: int, *, capacity: int
    ) -> None:
        self._disk, self._folder, self._files, self._settling = disk, folder, files, settling
        self._segment_bytes = segment_bytes
        self._file: File | None = None
        """None until the first append, between two segments, and while other partitions need the descriptor more."""
        self._unsynced = False
        """Whether the file holds bytes that only the journal has made stable."""
        self.capacity = capacity
        """How much of the file is preallocated, whether it is open or not; 0: nothing, or unknown."""
        self.is_in_commit = False
        """Whether something was written to the file that is not on stable storage yet."""

    @property
    def is_open(self) -> bool:
        return self._file is not None

    def open(self, path: Path, *, create: bool = False) -> None:
        """Open the newest segment's file, and close others' where that needs a descriptor. Raises `OSError`."""
        assert self._file is None, f"{path} is opened while another file is open"
        self._files.make_room()
        self._file = self._disk.open(path, write=True, create=create)
        self._files.used(self)

    def used(self) -> None:
        """Count as the most recently used file."""
        if self._files.newest is not self:
            self._files.used(self)

    def begin(self, path: Path, size: int) -> None:
        """Create a segment's file with `size` bytes or more allocated. If that fails, no file is left. One sync."""
        self.open(path, create=True)
        self.capacity = 0
        try:
            self._preallocate(max(min(PREALLOCATION_BYTES_MIN, self._segment_bytes), size))
        except OSError:
            self.close()
            with suppress(OSError):  # an empty file that is left is found, and taken, by the next try
                self._disk.unlink(path)
            raise

    def make_room(self, used: int, first: int, total: int) -> None:
        """See that `first` of `total` more bytes fit behind the `used` ones. Raises `OSError`. One sync if it grows."""
        needed = used + first
        if needed <= self.capacity:
            return
        factor = PREALLOCATION_FACTOR if self.capacity < _DOUBLING_BYTES else 2
        wanted = max(self.capacity * factor, PREALLOCATION_BYTES_MIN, used + total)
        try:
            self._preallocate(max(min(wanted, self._segment_bytes), needed))
        except OSError as error:
            if error.errno not in NO_SPACE or isinstance(error, SyncFailed) or wanted <= needed:
                raise
            self._preallocate(needed)  # the disk cannot hold more than this batch

    def _preallocate(self, size: int) -> None:
        file, capacity = self._file, self.capacity
        assert file is not None, "only an open segment grows"
        try:
            file.preallocate(capacity, size - capacity)
        except OSError:
            file.truncate(capacity)
            raise
        self.sync()
        self.capacity = size

    def write(self, data: list[bytes], position: int) -> None:
        """Write into the allocated space. The bytes are not on stable storage yet."""
        assert self._file is not None, "room was made in a file"
        self.is_in_commit = True
        self._file.pwrite(data, position)

    def journalled(self) -> None:
        """The journal has made stable what was written; the file itself was not synced."""
        self.is_in_commit = False
        self._unsynced = True

    def sync(self) -> None:
        """Bring everything to stable storage. Raises `LogStopped`."""
        assert self._file is not None, "what is staged lies in an open file"
        try:
            self._file.fdatasync()
        except OSError as error:
            raise LogStopped(
                f"a sync of {error.filename or self._folder} failed ({error.strerror}), so what is on the disk is "
                "unknown: this log acknowledges nothing more. Reads go on; look at the disk, then restart to recover "
                "what it really holds"
            ) from error
        self.is_in_commit = self._unsynced = False

    def seal(self, size: int) -> None:
        """Cut the file to its batches and close it. Where that fails, it stays open. One sync."""
        assert self._file is not None, "only an open file is cut"
        self._settling.wait()
        self._file.truncate(size)
        self.sync()
        self.capacity = 0
        self.close()

    def release(self) -> None:
        """Close the file, because another partition needs the descriptor. The next append opens it again.

        Bytes that only the journal made stable are synced first: what the kernel would have to say about them later
        may be forgotten together with the file. Raises `LogStopped` where that fails.
        """
        try:
            if self._file is not None and self._unsynced:
                self.sync()
        finally:
            self.close()

    def close(self) -> None:
        """Close the file as it is. Idempotent."""
        file, self._file = self._file, None
        self._files.closed(self)
        if file is not None:
            file.close()
