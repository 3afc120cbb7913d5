"""The seam to the disk: everything that the engine does to files goes through these two protocols.

A narrow seam, after LevelDB's `Env`: tests put a disk behind it that fails a sync, is full, or forgets what was not
synced (`duramen/testing/machine/memory_disk.py`). Errors are `OSError`s, as the kernel gives them, and each of them
names its file; a failed sync is a `SyncFailed`. The caller turns them into Duramen's own (`refusal.refusal_of`),
because only the caller knows what was lost.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from log_tier.concurrency.forking import on_fork
from log_tier.model.errors import FolderInUse
from log_tier.privacy.private_files import FILE_MODE, make_private, tighten

__all__ = [
    "Disk",
    "File",
    "FileIdentity",
    "LocalDisk",
    "SyncFailed",
    "hold_lock",
    "named",
    "replace_file",
]

# What writev takes in one call (IOV_MAX of Linux).
_BUFFERS_MAX: Final = 1024


class SyncFailed(OSError):
    """A sync failed, so what is on the disk is unknown: the kernel marks pages clean all the same, and another sync
    that succeeds would prove nothing.
    """


class named:  # noqa: N801  (a context, read as a word)
    """Have an `OSError` name its file; one of a sync becomes `SyncFailed`. Keeps no state of a block, so one object
    serves all blocks of a file, in any thread. A class: some 0.2 µs a call.
    """

    __slots__ = ("_path", "_sync")

    def __init__(self, path: Path, *, sync: bool = False) -> None:
        self._path, self._sync = path, sync

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            if self._sync:
                raise SyncFailed(error.errno, error.strerror, str(self._path)) from error
            error.filename = error.filename or str(self._path)


class FileIdentity(NamedTuple):
    """Equal identities mean that a file was not replaced, written or resized, and that nothing in a folder was made,
    removed or renamed. A program can set back `modified_ns`, and not `changed_ns`.
    """

    inode: int
    size: int
    modified_ns: int
    changed_ns: int


class File(Protocol):
    """An open file. Positions and sizes are bytes."""

    def pread(self, size: int, position: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""
        ...

    def pwrite(self, buffers: Sequence[bytes], position: int) -> None:
        """Write all buffers, end to end."""
        ...

    def fdatasync(self) -> None:
        """Bring the bytes, and the size where it changed, to stable storage. An error is final: never call it again."""
        ...

    def preallocate(self, position: int, size: int) -> None:
        """Reserve space and extend the file with zeros."""
        ...

    def truncate(self, size: int) -> None:
        """Cut or extend the file."""
        ...

    def size(self) -> int:
        """The file's length."""
        ...

    def forget_cached(self) -> None:
        """Ask the kernel to drop its clean pages of this file, so that the next read comes from the device."""
        ...

    def close(self) -> None:
        """Let go of the file."""
        ...


class Disk(Protocol):
    """A place with folders and files."""

    def open(self, path: Path, *, write: bool = False, create: bool = False) -> File:
        """Open a file for reading, or for reading and writing."""
        ...

    def exists(self, path: Path) -> bool:
        """Whether a file or folder is there."""
        ...

    def list(self, folder: Path) -> list[str]:
        """The names in a folder, sorted."""
        ...

    def identities(self, folder: Path, names: Sequence[str]) -> Sequence[FileIdentity | None]:
        """The present identities of files and folders below `folder`, in order; None for a missing one."""
        ...

    def make_folder(self, folder: Path) -> None:
        """Make a folder and its missing parents; does nothing if the folder exists."""
        ...

    def remove_folder(self, folder: Path) -> None:
        """Remove a folder that is empty."""
        ...

    def rename(self, old: Path, new: Path) -> None:
        """Rename, replacing a file that is there."""
        ...

    def link(self, old: Path, new: Path) -> None:
        """Give a file a second name. Raises `FileExistsError`."""
        ...

    def unlink(self, path: Path) -> None:
        """Remove a file."""
        ...

    def sync_folder(self, folder: Path) -> None:
        """Bring a folder's names to stable storage."""
        ...

    def lock(self, path: Path) -> Callable[[], None]:
        """Lock the file `path`; return what releases the lock. Raises `FolderInUse`."""
        ...


class _LocalFile:
    __slots__ = ("_fd", "_named", "_named_sync", "_path")

    def __init__(self, fd: int, path: Path) -> None:
        self._fd, self._path = fd, path
        self._named, self._named_sync = named(path), named(path, sync=True)

    def pread(self, size: int, position: int) -> bytes:
        with self._named:
            return self._pread(size, position)

    def _pread(self, size: int, position: int) -> bytes:
        data = os.pread(self._fd, size, position)
        if len(data) == size or not data:
            return data
        parts = [data]
        got = len(data)
        while got < size:
            data = os.pread(self._fd, size - got, position + got)
            if not data:
                break
            parts.append(data)
            got += len(data)
        return b"".join(parts)

    # Each commit writes and syncs: a `try` costs nothing there, a context two calls.

    def pwrite(self, buffers: Sequence[bytes], position: int) -> None:
        if len(buffers) > _BUFFERS_MAX:
            buffers = (b"".join(buffers),)
        left = sum(map(len, buffers))
        try:
            written = os.pwritev(self._fd, buffers, position)
            if written == left:
                return
            rest = memoryview(b"".join(buffers))
            while written < left:
                written += os.pwrite(self._fd, rest[written:], position + written)
        except OSError as error:
            with self._named:
                raise error

    def fdatasync(self) -> None:
        try:
            os.fdatasync(self._fd)
        except OSError as error:
            with self._named_sync:
                raise error

    def preallocate(self, position: int, size: int) -> None:
        with self._named:
            os.posix_fallocate(self._fd, position, size)

    def truncate(self, size: int) -> None:
        with self._named:
            os.ftruncate(self._fd, size)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def forget_cached(self) -> None:
        os.posix_fadvise(self._fd, 0, 0, os.POSIX_FADV_DONTNEED)

    def close(self) -> None:
        os.close(self._fd)


class LocalDisk:
    """The machine's own file system."""

    def open(self, path: Path, *, write: bool = False, create: bool = False) -> File:
        flags = (os.O_RDWR if write else os.O_RDONLY) | (os.O_CREAT if create else 0) | os.O_CLOEXEC
        return _LocalFile(os.open(path, flags, FILE_MODE), path)

    def exists(self, path: Path) -> bool:
        return os.path.lexists(path)

    def list(self, folder: Path) -> list[str]:
        return sorted(os.listdir(folder))

    def identities(self, folder: Path, names: Sequence[str]) -> Sequence[FileIdentity | None]:
        found: list[FileIdentity | None] = []
        for name in names:
            try:
                stat = os.lstat(f"{folder}/{name}")
            except (FileNotFoundError, NotADirectoryError):
                found.append(None)
            else:
                found.append(FileIdentity(stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns))
        return found

    def make_folder(self, folder: Path) -> None:
        make_private(folder)

    def remove_folder(self, folder: Path) -> None:
        os.rmdir(folder)

    def rename(self, old: Path, new: Path) -> None:
        os.rename(old, new)

    def link(self, old: Path, new: Path) -> None:
        os.link(old, new, follow_symlinks=False)

    def unlink(self, path: Path) -> None:
        os.unlink(path)

    def sync_folder(self, folder: Path) -> None:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with named(folder, sync=True):
                os.fsync(fd)
        finally:
            os.close(fd)

    def lock(self, path: Path) -> Callable[[], None]:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            _take_lock(fd, path)
            # Only now is the folder known to be a log's, and this process's.
            tighten(path.parent)
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()}\n".encode("ascii"), 0)
        except BaseException:
            os.close(fd)  # and with it the lock
            raise
        return _Lock(fd).release


def hold_lock(path: Path) -> Callable[[], None]:
    """Lock the file `path` without changing it, also on a read-only file system; return what releases the lock. A
    missing file is not locked, and not made. Raises `FolderInUse`.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return lambda: None
    try:
        _take_lock(fd, path)
    except BaseException:
        os.close(fd)
        raise
    return _Lock(fd).release


def _take_lock(fd: int, path: Path) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        owner = os.pread(fd, 32, 0).decode("ascii", "replace").strip()
        where = f", process {owner}" if owner else ""
        advice = "connect to that one, stop it, or choose another folder"
        if owner == str(os.getpid()):
            where += " (this one, or one of another container)"
            advice = "use the database that is open, or close it first"
        raise FolderInUse(
            f"{path.parent} is open in another Duramen{where}: {advice}",
            **({"pid": int(owner)} if owner.isdigit() else {}),
        ) from error


class _Lock:
    """A lock that is held while its descriptor is open, in whatever process."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        on_fork(self)

    def after_fork(self) -> None:
        """The parent's stays open; this copy would keep the folder locked after the parent's end."""
        self.release()

    def release(self) -> None:
        """Close the descriptor. Idempotent."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def replace_file(disk: Disk, path: Path, data: bytes, *, part: Path) -> None:
    """Put `data` at `path`, whole or not at all, whatever happens in between: write, sync, rename, sync the folder."""
    file = disk.open(part, write=True, create=True)
    try:
        file.truncate(0)
        file.pwrite((data,), 0)
        file.fdatasync()
    finally:
        file.close()
    disk.rename(part, path)
    disk.sync_folder(path.parent)
