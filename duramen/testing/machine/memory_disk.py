"""A disk in memory that can fail, fill up, and lose power: what the engine's disk seam is for.

Every file keeps what is on stable storage (`durable`), what a process sees (`content`), and the writes since the last
sync in order. A power loss keeps the durable bytes and an arbitrary subset of the unsynced 512-byte sectors; changes of
names survive as a prefix of the order in which they were made, as a journalled file system keeps them.
"""

from __future__ import annotations

import errno
import math
import os
import random
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from zlib import crc32

from duramen.testing.machine.fault import Wound, left_after_write
from log_tier.embedded.storage.disk import FileIdentity, named
from log_tier.model.errors import FolderInUse

SECTOR = 512


def _always() -> bool:
    return True


class Inode:
    def __init__(self, content: bytes = b"", number: int = 0) -> None:
        self.number = number
        self.changed = self.durable_changed = 0
        """When it was changed last, in changes of the disk. The time of a change may be lost with the power, although
        what was changed is there."""
        self.content = bytearray(content)
        """Without the zeros of a preallocation at the end."""
        self.length = len(content)
        self.durable = bytes(content)
        self.durable_length = len(content)
        self.dirty: set[int] = set()
        """Sectors that may differ from what is durable."""
        self.wounds: list[Wound] = []
        """Where it holds something else than was written."""
        self.newest_end = 0
        """Where the newest write ended."""

    def sync(self) -> None:
        for wound in self.wounds:
            wound.stable = True
        self.durable, self.durable_length = bytes(self.content), self.length
        self.durable_changed = self.changed
        self.dirty.clear()

    def resize(self, length: int) -> None:
        del self.content[length:]
        self.length = length
        self.wounds = left_after_write(self.wounds, length, math.inf)

    def write(self, data: bytes, position: int) -> None:
        end = position + len(data)
        self.content.extend(bytes(max(0, position - len(self.content))))
        self.content[position:end] = data
        self.length = max(self.length, end)
        self.newest_end = end
        self.dirty.update(range(position // SECTOR, -(-end // SECTOR)))
        if self.wounds:
            self.wounds = left_after_write(self.wounds, position, end)

    def part(self, position: int, size: int) -> bytes:
        """What is there now, zeros of a preallocation included."""
        return bytes(self.content[position : position + size]).ljust(size, b"\0")

    def is_clean(self, position: int, size: int) -> bool:
        """Is everything there synced and as it was written?"""
        sectors = range(position // SECTOR, -(-(position + size) // SECTOR))
        return self.dirty.isdisjoint(sectors) and not any(
            wound.overlaps(position, position + size) for wound in self.wounds
        )

    def flip(self, position: int, bit: int) -> None:
        """Turn a bit of a clean byte around, on the disk and in the memory of the kernel."""
        good = self.part(position, 1)
        self._put(position, bytes([good[0] ^ 1 << bit]))
        self.wounds.append(Wound(position, good, "flip", stable=True))

    def blank(self, position: int, end: int) -> None:
        """The disk has zeros there: of clean bytes, which are synced."""
        good = self.part(position, end - position)
        self._put(position, bytes(len(good)))
        self.wounds.append(Wound(position, good, "zeros", stable=True))

    def miss(self, data: bytes, position: int) -> None:
        """A write is confirmed, and its bytes go somewhere else."""
        end = position + len(data)
        self.length = max(self.length, end)
        self.wounds = [*left_after_write(self.wounds, position, end), Wound(position, data, "missed")]

    def take_stray(self, data: bytes, position: int) -> None:
        """The bytes of another write come here, over clean ones."""
        good = self.part(position, len(data))
        self.write(data, position)
        self.wounds.append(Wound(position, good, "victim"))

    def heal(self) -> None:
        """Put back what should be there, as from a mirror."""
        wounds, self.wounds = self.wounds, []
        for wound in wounds:
            self._put(wound.position, wound.good)

    def _put(self, position: int, data: bytes) -> None:
        end = position + len(data)
        for content in (self.content, durable := bytearray(self.durable)):
            content.extend(bytes(max(0, end - len(content))))
            content[position:end] = data
        self.durable = bytes(durable)

    def after_power_loss(self, keep: Callable[[], bool]) -> Inode:
        survivor = Inode(self.durable, self.number)
        survivor.length = self.durable_length
        if self.length != self.durable_length and keep():
            survivor.resize(self.length)
        for sector in sorted(self.dirty):
            piece = self.content[sector * SECTOR : (sector + 1) * SECTOR]
            if keep():
                survivor.write(bytes(piece[: max(0, survivor.length - sector * SECTOR)]), sector * SECTOR)
        survivor.newest_end = self.newest_end
        survivor.changed = self.changed if keep() else self.durable_changed
        survivor.wounds = [replace(wound) for wound in self.wounds if wound.stable or wound.kind == "victim"]
        if keep is _always:
            survivor.wounds = [replace(wound) for wound in self.wounds]
        survivor.wounds = [
            each for each in survivor.wounds if survivor.part(each.position, len(each.good)) != each.good
        ]
        survivor.sync()
        return survivor


class MemoryFile:
    def __init__(self, disk: MemoryDisk, inode: Inode, path: Path) -> None:
        self.disk, self.inode, self.path = disk, inode, path
        self.is_open = True
        disk.open_files.add(self)

    def pread(self, size: int, position: int) -> bytes:
        assert self.is_open, f"{self.path} was closed"
        self.disk.look("read", self.path)
        there = max(0, min(size, self.inode.length - position))
        return bytes(self.inode.content[position : position + there]).ljust(there, b"\0")

    def pwrite(self, buffers: Sequence[bytes], position: int) -> None:
        assert self.is_open, f"{self.path} was closed"
        data = b"".join(buffers)
        self.disk.step("write", self.path)
        self.disk.take_space(max(0, position + len(data) - self.inode.length))
        stray = self.disk.misdirect(self.path, data, position)
        if stray is None:
            self.inode.write(data, position)
        else:
            self.inode.miss(data, position)
            stray(data)
        self.inode.changed = self.disk.tick()

    def fdatasync(self) -> None:
        assert self.is_open, f"{self.path} was closed"
        self.disk.step("sync", self.path)
        self.inode.sync()
        self.disk.confirm("sync", self.path)

    def preallocate(self, position: int, size: int) -> None:
        self.disk.step("preallocate", self.path)
        self.disk.take_space(max(0, position + size - self.inode.length))
        self.inode.length = max(self.inode.length, position + size)
        self.inode.changed = self.disk.tick()

    def truncate(self, size: int) -> None:
        self.disk.step("truncate", self.path)
        self.disk.take_space(size - self.inode.length)
        self.inode.resize(size)
        self.inode.changed = self.disk.tick()

    def size(self) -> int:
        return self.inode.length

    def forget_cached(self) -> None:
        assert self.is_open, f"{self.path} was closed"

    def close(self) -> None:
        assert self.is_open, f"{self.path} was closed twice"
        self.is_open = False
        self.disk.open_files.discard(self)


class MemoryDisk:
    """A `Disk`. `on_step` sees every change before it happens and may raise: an `OSError`, or `PowerLoss`."""

    def __init__(self) -> None:
        self.files: dict[Path, Inode] = {}
        self.folders: set[Path] = set()
        self.open_files: set[MemoryFile] = set()
        self.locks: set[Path] = set()
        self.space: int | None = None
        """Bytes that are free; None: enough."""
        self.no_space = errno.ENOSPC
        """What a file that cannot grow is refused with."""
        self.steps = 0
        self.ticks = 0
        """Changes so far, in all lives of the disk: its time."""
        self.on_step: Callable[[str, Path], None] = lambda what, path: None
        self.on_look: Callable[[str, Path], None] = lambda what, path: None
        """Sees every look at the disk that changes nothing: open, read, list."""
        self.on_synced: Callable[[str, Path], None] = lambda what, path: None
        """Sees every sync when it ends, and may raise in place of its confirmation: the process has died meanwhile."""
        self.misdirect: Callable[[Path, bytes, int], Callable[[bytes], None] | None] = lambda path, data, position: None
        """Sees every write to a file; returns what takes its bytes where they go astray."""
        self._durable: tuple[dict[Path, Inode], set[Path]] = ({}, set())
        self._names_since: list[tuple[dict[Path, Inode], set[Path]]] = []
        self._naming = threading.Lock()
        """A change of names and the state that it leaves are one thing: several threads make files, and close them."""

    # --- faults ---

    def step(self, what: str, path: Path) -> None:
        self.steps += 1
        with named(path, sync=what in ("sync", "sync_folder")):
            self.on_step(what, path)

    def look(self, what: str, path: Path) -> None:
        with named(path):
            self.on_look(what, path)

    def confirm(self, what: str, path: Path) -> None:
        with named(path, sync=True):
            self.on_synced(what, path)

    def take_space(self, size: int) -> None:
        """Take space, or give it back where `size` is negative."""
        if self.space is not None:
            if size > self.space:
                raise OSError(self.no_space, os.strerror(self.no_space))
            self.space -= size

    def after_power_loss(self, chance: random.Random, *, keep_everything: bool = False) -> MemoryDisk:
        """What a new process finds."""
        states = [self._durable, *self._names_since]
        files, folders = states[-1] if keep_everything else chance.choice(states)
        disk = MemoryDisk()
        disk.ticks = self.ticks
        disk.folders = set(folders)

        def keep() -> bool:
            return chance.random() < 0.5

        how = _always if keep_everything else keep
        survivors = {id(inode): inode.after_power_loss(how) for inode in files.values()}
        disk.files = {path: survivors[id(inode)] for path, inode in files.items()}
        disk._durable = (dict(disk.files), set(disk.folders))
        return disk

    def after_process_end(self) -> MemoryDisk:
        """What the next process finds after `kill -9`: the kernel keeps everything."""
        return self.after_power_loss(random.Random(0), keep_everything=True)

    def tick(self) -> int:
        """The time of a change."""
        self.ticks += 1
        return self.ticks

    # --- Disk ---

    def _changed(self) -> None:
        self._names_since.append((dict(self.files), set(self.folders)))

    def open(self, path: Path, *, write: bool = False, create: bool = False) -> MemoryFile:
        if path not in self.files:
            if not create:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
            self.step("create", path)
            with self._naming:
                self.files[path] = Inode(number=self.tick())
                self._changed()
        else:
            self.look("open", path)
        inode = self.files.get(path)
        if inode is None:  # removed during the look
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return MemoryFile(self, inode, path)

    def exists(self, path: Path) -> bool:
        return path in self.files or path in self.folders

    def list(self, folder: Path) -> list[str]:
        if folder not in self.folders:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(folder))
        self.look("list", folder)
        return sorted(path.name for path in _inside(folder, (*self.files, *self.folders)))

    def identities(self, folder: Path, names: Sequence[str]) -> Sequence[FileIdentity | None]:
        return [self._identity(folder / name) for name in names]

    def _identity(self, path: Path) -> FileIdentity | None:
        self.look("identity", path)
        inode = self.files.get(path)
        if inode is not None:
            return FileIdentity(inode.number, inode.length, inode.changed, inode.changed)
        if path not in self.folders:
            return None
        inside = sorted((each.name, self.files[each].number) for each in _inside(path, self.files))
        return FileIdentity(0, len(inside), 0, crc32(repr(inside).encode()))

    def make_folder(self, folder: Path) -> None:
        self.step("make_folder", folder)
        self.folders.update((folder, *folder.parents))
        self._changed()

    def remove_folder(self, folder: Path) -> None:
        self.step("remove_folder", folder)
        if self.list(folder):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY))
        self.folders.discard(folder)
        self._changed()

    def rename(self, old: Path, new: Path) -> None:
        self.step("rename", old)
        if old in self.folders:

            def moved(path: Path) -> Path:
                return new / path.relative_to(old) if path.is_relative_to(old) else path

            self.files = {moved(path): inode for path, inode in self.files.items()}
            self.folders = {moved(path) for path in self.folders}
            self._changed()
            return
        with self._naming:
            self.files[new] = self.files.pop(old)
            self._changed()

    def link(self, old: Path, new: Path) -> None:
        self.step("link", new)
        if self.exists(new):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(new))
        with self._naming:
            self.files[new] = self.files[old]
            self._changed()

    def unlink(self, path: Path) -> None:
        self.step("unlink", path)
        if path not in self.files:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        with self._naming:
            self.take_space(-self.files.pop(path).length)
            self._changed()

    def sync_folder(self, folder: Path) -> None:
        # A journalled file system commits all changes of names up to here, whosever they are.
        self.step("sync_folder", folder)
        with self._naming:
            self._durable = (dict(self.files), set(self.folders))
            self._names_since.clear()
        self.confirm("sync_folder", folder)

    def lock(self, path: Path) -> Callable[[], None]:
        if path in self.locks:
            raise FolderInUse(f"{path.parent} is open in another Duramen", pid=1)
        self.locks.add(path)
        if path not in self.files:
            self.files[path] = Inode(number=self.tick())
            self._changed()
        return lambda: self.locks.discard(path)


def _inside(folder: Path, paths: Iterable[Path]) -> Iterator[Path]:
    """Those of a disk's paths that are entries of a folder. By their text, which a path keeps: a path's parent is made
    anew each time.
    """
    start = os.path.join(folder, "") if folder.parts else ""
    at = len(start)
    return (each for each in paths if (text := str(each)).startswith(start) and "/" not in text[at:] and each != folder)
