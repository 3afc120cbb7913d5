"""The seam to a node's own disk: what the serving side does to files, but for what only reads.

The counterpart of the log's seam (`log_tier.embedded.storage.disk`), which writes at positions and locks. Here files
are written once, from their beginning, and get their place by a rename. Errors are `OSError`s as the kernel gives
them; the callers turn them into Duramen's own, because only they know what was kept.

The disk belongs to the context (`contextvars`), as the transport does (`log_tier.rpc.transport`): several simulated
nodes share an event loop, each with a disk of its own. A real process never sets it, and has the kernel's.
"""

from __future__ import annotations

import os
import shutil
from contextvars import ContextVar
from io import FileIO, RawIOBase
from pathlib import Path
from typing import Any, Final, Protocol

import lmdb

from log_tier.privacy.private_files import FOLDER_MODE, make_private, private_opener

__all__ = ["NODE_DISK", "KernelCalls", "NodeDisk", "OpenFile"]


class OpenFile(Protocol):
    """A file with a descriptor."""

    def fileno(self) -> int:
        """The descriptor."""
        ...


class NodeDisk(Protocol):
    """A file system as a node uses it. Everything raises `OSError`; positions and sizes are bytes."""

    def create(self, path: Path) -> FileIO:
        """Open a file for writing, unbuffered and empty; one of that name loses its content."""
        ...

    def write(self, file: RawIOBase, data: bytes | memoryview) -> int:
        """Write at the end of what was written; how many bytes the disk took, which may be fewer."""
        ...

    def sync(self, file: OpenFile) -> None:
        """Bring an open file to stable storage."""
        ...

    def sync_file(self, path: Path) -> None:
        """Bring a file that nobody writes to stable storage."""
        ...

    def sync_folder(self, path: Path) -> None:
        """Bring a folder's names to stable storage."""
        ...

    def rename(self, old: Path, new: Path) -> None:
        """Rename a file or a folder; replaces a file that is there."""
        ...

    def link(self, old: Path, new: Path) -> None:
        """Give a file a second name."""
        ...

    def unlink(self, path: Path) -> None:
        """Remove a file or a link; does nothing if there is none."""
        ...

    def make_folder(self, path: Path, *, exist_ok: bool = True) -> None:
        """Make a folder and its missing parents."""
        ...

    def remove_folder(self, path: Path) -> None:
        """Remove a folder that is empty."""
        ...

    def remove_tree(self, path: Path) -> None:
        """Remove a folder and all that is in it; after an error some of it may be left."""
        ...

    def open_environment(self, path: Path, **options: Any) -> Any:
        """Open or make the LMDB environment in a folder, with `lmdb.open`'s options. It writes by itself, and raises
        `lmdb.Error`.
        """
        ...


class KernelCalls:
    """The machine's own file system. What it makes is for this user alone."""

    def create(self, path: Path) -> FileIO:
        return open(path, "wb", buffering=0, opener=private_opener)

    def write(self, file: RawIOBase, data: bytes | memoryview) -> int:
        return file.write(data) or 0

    def sync(self, file: OpenFile) -> None:
        os.fsync(file.fileno())

    def sync_file(self, path: Path) -> None:
        _sync(path, os.O_RDONLY)

    def sync_folder(self, path: Path) -> None:
        _sync(path, os.O_RDONLY | os.O_DIRECTORY)

    def rename(self, old: Path, new: Path) -> None:
        os.rename(old, new)

    def link(self, old: Path, new: Path) -> None:
        os.link(old, new)

    def unlink(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def make_folder(self, path: Path, *, exist_ok: bool = True) -> None:
        if exist_ok:
            make_private(path)
        else:
            make_private(path.parent)
            path.mkdir(FOLDER_MODE)

    def remove_folder(self, path: Path) -> None:
        path.rmdir()

    def remove_tree(self, path: Path) -> None:
        shutil.rmtree(path)

    def open_environment(self, path: Path, **options: Any) -> Any:
        return lmdb.open(str(path), **options)


def _sync(path: Path, flags: int) -> None:
    opened = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


NODE_DISK: Final[ContextVar[NodeDisk]] = ContextVar("node disk", default=KernelCalls())  # noqa: B039 (no state)
"""The disk of the present context."""
