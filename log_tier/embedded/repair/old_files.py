"""Putting files in the place of others: the new one is whole and on stable storage before it has the old one's name,
and the old one stays under another name until somebody removes it.

    repair-1/topics/<topic id>/0/00000000000000000042.log        what was there before the first repair

The old file gets its second name by a link, so nothing is copied, and at no time is there no file of its name.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path

from log_tier.embedded.storage import names
from log_tier.embedded.storage.disk import Disk, File

__all__ = ["OldFiles", "bytes_of"]


class OldFiles:
    """The files that one repair replaces, in a folder of their own next to the log's."""

    def __init__(self, disk: Disk, log: Path) -> None:
        self._disk, self._log = disk, log
        self._folder: Path | None = None
        self._made: set[Path] = set()

    @property
    def folder(self) -> Path | None:
        """Where they are; None: nothing was replaced."""
        return self._folder

    def keep(self, path: Path) -> None:
        """Give a file a second name among the old files; does nothing if there is no such file. Two syncs.

        Raises `OSError`.
        """
        if not self._disk.exists(path):
            return
        place = self.place_of(path)
        folder = place.parent
        if folder not in self._made:
            self._disk.make_folder(folder)
            self._made.add(folder)
        if self._disk.exists(place):
            return  # kept when the first of two changes was made
        self._disk.link(path, place)
        self._disk.sync_folder(folder)
        for above in folder.parents:
            if not above.is_relative_to(self._log):
                break
            self._disk.sync_folder(above)

    def place_of(self, path: Path) -> Path:
        """The path of a file's old version."""
        if self._folder is None:
            folders = (self._log / names.repair_folder(number) for number in count(1))
            self._folder = next(folder for folder in folders if not self._disk.exists(folder))
        return self._folder / path.relative_to(self._log)

    def replace(self, path: Path, write: Callable[[File], None]) -> None:
        """Have `write` fill a new file, then put it at `path`. Raises `OSError`; then the old one is there."""
        part = path.with_name(path.name + names.PART)
        file = self._disk.open(part, write=True, create=True)
        try:
            file.truncate(0)
            write(file)
            file.fdatasync()
        finally:
            file.close()
        self.keep(path)
        self._disk.rename(part, path)
        self._disk.sync_folder(path.parent)

    def put(self, path: Path, data: bytes) -> None:
        """Put `data` at `path`. Raises as `replace` does."""
        self.replace(path, lambda file: file.pwrite((data,), 0))

    def remove(self, path: Path) -> None:
        """Take a file away. Raises `OSError`."""
        self.keep(path)
        self._disk.unlink(path)
        self._disk.sync_folder(path.parent)


def bytes_of(disk: Disk, path: Path) -> bytes:
    """A small file, whole. Raises `OSError`."""
    file = disk.open(path)
    try:
        return file.pread(file.size(), 0)
    finally:
        file.close()
