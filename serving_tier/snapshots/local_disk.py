"""What a folder of this machine can do and an object store cannot: sync, link, rename; and what it refuses.

A disk may take a part of a write and report no error, as it does when it becomes full: `write_whole` writes the rest,
or raises what the disk says then.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import RawIOBase
from pathlib import Path
from typing import Final, NamedTuple

from log_tier.concurrency.disk_errors import disk_refusal
from serving_tier.disk import NODE_DISK
from serving_tier.folders import discard

__all__ = [
    "Folders",
    "begin_writing",
    "linked",
    "local_troubles",
    "replace_file",
    "sync_file",
    "sync_folder",
    "write_whole",
]

_PART: Final = ".part"


def sync_folder(path: str | Path) -> None:
    """Put a folder's names on stable storage. One fsync."""
    NODE_DISK.get().sync_folder(Path(path))


def write_whole(file: RawIOBase, data: bytes) -> None:
    """Write all of `data` to an unbuffered file. Raises `OSError` with the file's name."""
    left, disk = memoryview(data), NODE_DISK.get()
    with _naming(file):
        while left:
            written = disk.write(file, left)
            if not written:
                raise OSError(errno.EIO, f"the disk took nothing of {len(left)} bytes")
            left = left[written:]


def sync_file(file: RawIOBase) -> None:
    """Put a file's content on stable storage. Raises `OSError` with the file's name."""
    with _naming(file):
        NODE_DISK.get().sync(file)


@contextmanager
def _naming(file: RawIOBase) -> Iterator[None]:
    """The system's errors about an open file do not name it."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(getattr(file, "name", ""))) from error


def replace_file(path: str, data: bytes, *, below: str) -> None:
    """Write a file so that a crash leaves the old one or the new one; sync its folders up to and with `below`.

    Whatever was written into its folder before is there if this file is.
    """
    disk, part = NODE_DISK.get(), Path(path + _PART)
    with disk.create(part) as file:
        write_whole(file, data)
        sync_file(file)
    folder = os.path.dirname(path)
    sync_folder(folder)
    disk.rename(part, Path(path))
    sync_folder(folder)
    while len(folder) > len(below):
        folder = os.path.dirname(folder)
        sync_folder(folder)


def begin_writing(file: int) -> None:
    """Have the kernel begin to write what is dirty of a file, so that the sync at the end finds less to do.

    That is what Linux does on POSIX_FADV_DONTNEED; it keeps pages that are dirty.
    """
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)


def linked(source: Path, target: str) -> bool:
    """Give a file a second name and sync it; False, with nothing done, if the system refuses the link."""
    try:
        NODE_DISK.get().link(source, Path(target))
    except OSError:
        return False
    NODE_DISK.get().sync_file(Path(target))
    return True


def _rename(old: Path, new: Path) -> None:
    NODE_DISK.get().rename(old, new)


class Folders(NamedTuple):
    """The seam to the file system through which an index folder is put in place; tests let each step fail."""

    rename: Callable[[Path, Path], None] = _rename
    sync: Callable[[Path], None] = sync_folder
    remove: Callable[[Path], None] = discard


@contextmanager
def local_troubles(folder: Path) -> Iterator[None]:
    """Turn the system's errors into ours: `DiskFull`, `FolderReadOnly`, `Overloaded` for want of descriptors, else
    `DiskFailed`.
    """
    try:
        yield
    except OSError as error:
        raise disk_refusal(
            error, f"{folder} cannot be written", path=folder, effect="what was there is untouched"
        ) from error
