"""A disk over another one: changes are kept in memory, and the disk below is only read.

So code that repairs what it finds can say what it would do. Memory grows with what is written, in pages; what is merely
reserved costs nothing. Files are renamed and removed, and folders are made and removed; recovery renames no folder.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from log_tier.embedded.storage.disk import Disk, File, FileIdentity

__all__ = ["OverlayDisk"]

_PAGE_BYTES: Final = 4096


class _Changed:
    """A file that may differ from the one below."""

    def __init__(self, below: Path | None, length: int) -> None:
        self.below = below
        """The file of the disk below whose bytes show; None: a new file."""
        self.shown = length
        """How many bytes of that file show."""
        self.length = length
        self.pages: dict[int, bytearray] = {}
        """What was written, whole pages."""


class _OverlayFile:
    """An open file of the overlay. Each has a file of the other disk of its own."""

    def __init__(self, changed: _Changed, below: File | None) -> None:
        self._changed, self._below = changed, below

    def pread(self, size: int, position: int) -> bytes:
        end = min(position + size, self._changed.length)
        if end <= position:
            return b""
        data = bytearray(self._original(position, end - position))
        for number in range(position // _PAGE_BYTES, (end - 1) // _PAGE_BYTES + 1):
            page = self._changed.pages.get(number)
            if page is not None:
                first, last = max(position, number * _PAGE_BYTES), min(end, (number + 1) * _PAGE_BYTES)
                data[first - position : last - position] = page[first % _PAGE_BYTES :][: last - first]
        return bytes(data)

    def _original(self, position: int, size: int) -> bytes:
        """What shows of the file below, with zeros behind it."""
        there = max(0, min(size, self._changed.shown - position))
        data = self._below.pread(there, position) if there and self._below is not None else b""
        return data.ljust(size, b"\0")

    def pwrite(self, buffers: Sequence[bytes], position: int) -> None:
        for data in buffers:
            at = 0
            while at < len(data):
                number, start = divmod(position + at, _PAGE_BYTES)
                page = self._changed.pages.get(number)
                if page is None:
                    page = bytearray(self._original(number * _PAGE_BYTES, _PAGE_BYTES))
                    self._changed.pages[number] = page
                piece = data[at : at + _PAGE_BYTES - start]
                page[start : start + len(piece)] = piece
                at += len(piece)
            position += len(data)
        self._changed.length = max(self._changed.length, position)

    def fdatasync(self) -> None:
        """There is nothing to bring to a disk."""

    def preallocate(self, position: int, size: int) -> None:
        self._changed.length = max(self._changed.length, position + size)

    def truncate(self, size: int) -> None:
        changed = self._changed
        number, start = divmod(size, _PAGE_BYTES)
        if number in changed.pages:
            changed.pages[number][start:] = bytes(_PAGE_BYTES - start)
        for behind in [page for page in changed.pages if page * _PAGE_BYTES >= size]:
            del changed.pages[behind]
        changed.shown = min(changed.shown, size)
        changed.length = size

    def size(self) -> int:
        return self._changed.length

    def forget_cached(self) -> None:
        if self._below is not None:
            self._below.forget_cached()

    def close(self) -> None:
        if self._below is not None:
            self._below.close()


class OverlayDisk:
    """A `Disk` whose changes are in memory. `hold` takes a folder's lock without changing it."""

    def __init__(self, below: Disk, *, hold: Callable[[Path], Callable[[], None]]) -> None:
        self._below, self._hold = below, hold
        self._changed: dict[Path, _Changed] = {}
        self._made: set[Path] = set()
        """Folders."""
        self._gone: set[Path] = set()
        """Files and folders of the other disk that were removed."""

    def open(self, path: Path, *, write: bool = False, create: bool = False) -> File:
        if path not in self._changed:
            if not write:
                if path in self._gone:
                    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
                return self._below.open(path)
            self._changed[path] = self._change(path, create=create)
        changed = self._changed[path]
        return _OverlayFile(changed, None if changed.below is None else self._below.open(changed.below))

    def _change(self, path: Path, *, create: bool) -> _Changed:
        if self.exists(path):
            file = self._below.open(path)
            try:
                return _Changed(path, file.size())
            finally:
                file.close()
        if not create:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return _Changed(None, 0)

    def exists(self, path: Path) -> bool:
        if path in self._changed or path in self._made:
            return True
        return path not in self._gone and self._below.exists(path)

    def list(self, folder: Path) -> list[str]:
        found = {path.name for path in (*self._changed, *self._made) if path.parent == folder}
        if folder not in self._gone and (folder not in self._made or self._below.exists(folder)):
            found.update(name for name in self._below.list(folder) if folder / name not in self._gone)
        return sorted(found)

    def identities(self, folder: Path, names: Sequence[str]) -> Sequence[FileIdentity | None]:
        """None for each: a verification trusts no file by its times."""
        return [None] * len(names)

    def make_folder(self, folder: Path) -> None:
        if not self.exists(folder):
            self._made.add(folder)

    def remove_folder(self, folder: Path) -> None:
        self._made.discard(folder)
        self._gone.add(folder)

    def rename(self, old: Path, new: Path) -> None:
        changed = self._changed.get(old) or self._change(old, create=False)
        self.unlink(old)
        self._changed[new] = changed

    def link(self, old: Path, new: Path) -> None:
        if self.exists(new):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(new))
        changed = self._changed.get(old) or self._change(old, create=False)
        self._changed[old] = self._changed[new] = changed

    def unlink(self, path: Path) -> None:
        if not self.exists(path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        self._changed.pop(path, None)
        self._gone.add(path)

    def sync_folder(self, folder: Path) -> None:
        """There is nothing to bring to a disk."""

    def lock(self, path: Path) -> Callable[[], None]:
        return self._hold(path)
