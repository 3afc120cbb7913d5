"""A disk in memory with a kernel in front of it: what a kill leaves unsynced, what a failed sync hides, and folders
whose names are synced one by one.

`MemoryDisk` says what a process sees. This one is as hard on it as a machine can be:

- A killed process leaves its bytes in the kernel's memory. They are still not on the device: a power loss in a later
  life takes them, unless that life syncs the file.
- A sync that fails marks pages clean. The kernel goes on showing them, a later sync leaves them out, and they are gone
  after `forget_cached` or a power loss. With `forgets_failures` the same happens to what was not synced when its file
  is closed: the kernel writes it back, fails, and nobody hears of it.
- `sync_folder` syncs the names of that folder. Of what was not synced a prefix survives: with `is_journalled` of all
  changes of names, as a journalled file system keeps them, else of each folder's by themselves.
"""

from __future__ import annotations

import errno
import os
import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from duramen.testing.machine.memory_disk import SECTOR, Inode, MemoryDisk, MemoryFile

__all__ = ["KernelDisk", "KernelFile"]

_Names = tuple[dict[Path, Inode], set[Path]]


class _KernelInode(Inode):
    """A file of which some sectors may be clean and not on the device."""

    def __init__(self, content: bytes = b"", number: int = 0) -> None:
        super().__init__(content, number)
        self.lost: set[int] = set()
        """Sectors that the kernel shows and takes for clean, and that the device does not have."""

    def write(self, data: bytes, position: int) -> None:
        super().write(data, position)
        self.lost -= self.dirty

    def sync(self) -> None:
        before = self.durable
        super().sync()
        if self.lost:
            durable = bytearray(self.durable)
            for sector in sorted(self.lost):
                _put(durable, before, sector)
            self.durable = bytes(durable)

    def lose(self, chance: random.Random) -> None:
        """The kernel has tried to write what is dirty, and has failed for some of it."""
        self.lost |= {sector for sector in sorted(self.dirty) if chance.random() < 0.5}
        self.sync()

    def forget(self) -> None:
        """The kernel drops clean pages: the next read comes from the device."""
        for sector in sorted(self.lost):
            _put(self.content, self.durable, sector)
        self.lost.clear()

    def as_left(self) -> _KernelInode:
        """The same after the end of its process."""
        left = _KernelInode(b"", self.number)
        left.content, left.length = bytearray(self.content), self.length
        left.durable, left.durable_length = self.durable, self.durable_length
        left.dirty, left.lost = set(self.dirty), set(self.lost)
        left.changed, left.durable_changed = self.changed, self.durable_changed
        return left

    def after_power_loss(self, keep: Callable[[], bool]) -> _KernelInode:
        found = super().after_power_loss(keep)
        left = _KernelInode(found.durable, self.number)
        left.length = left.durable_length = found.durable_length
        left.changed = left.durable_changed = found.changed
        return left


def _put(target: bytearray, source: bytes | bytearray, sector: int) -> None:
    """One sector of `source` in the place of that of `target`, as far as that has it."""
    start, end = sector * SECTOR, min((sector + 1) * SECTOR, len(target))
    if start < end:
        target[start:end] = bytes(source[start:end]).ljust(end - start, b"\0")


class KernelFile(MemoryFile):
    """An open file of a `KernelDisk`."""

    disk: KernelDisk
    inode: _KernelInode

    def fdatasync(self) -> None:
        try:
            super().fdatasync()
        except OSError:
            self.inode.lose(self.disk.chance)
            raise

    def forget_cached(self) -> None:
        super().forget_cached()
        self.inode.forget()

    def close(self) -> None:
        super().close()
        if self.disk.forgets_failures and not any(file.inode is self.inode for file in self.disk.open_files):
            self.inode.lose(self.disk.chance)


@dataclass(frozen=True)
class _Naming:
    """A change of the names in a folder."""

    folder: Path
    kind: Literal["create", "make", "remove", "rename", "unlink"]
    path: Path
    new: Path | None = None
    """Of a rename."""
    inode: Inode | None = None
    """Of a new file."""
    is_synced: bool = False

    def apply(self, names: _Names) -> None:
        """Change the names. What is not there, because an earlier change did not survive, is left out."""
        files, folders = names
        if self.kind == "create" and self.inode is not None and self.folder in folders:
            files[self.path] = self.inode
        elif self.kind == "make" and (self.folder in folders or self.folder == self.path):
            folders.add(self.path)
        elif self.kind == "remove":
            folders.discard(self.path)
        elif self.kind == "unlink":
            files.pop(self.path, None)
        elif self.kind == "rename" and self.new is not None:
            if self.path in folders:
                self._move(names, self.new)
            elif self.path in files:
                files[self.new] = files.pop(self.path)

    def _move(self, names: _Names, new: Path) -> None:
        files, folders = names
        for path in [path for path in files if path.is_relative_to(self.path)]:
            files[new / path.relative_to(self.path)] = files.pop(path)
        for path in [path for path in folders if path.is_relative_to(self.path)]:
            folders.discard(path)
            folders.add(new / path.relative_to(self.path))


class KernelDisk(MemoryDisk):
    """A `MemoryDisk` under a kernel, of which `chance` decides what a failed sync has written."""

    def __init__(self, chance: random.Random, *, is_journalled: bool = False, forgets_failures: bool = False) -> None:
        super().__init__()
        self.folders = {Path("/")}
        self.chance, self.is_journalled, self.forgets_failures = chance, is_journalled, forgets_failures
        self._synced: _Names = ({}, {Path("/")})
        """The names on the device."""
        self._namings: list[_Naming] = []
        """What was changed since, from the first change on that is not synced."""

    @classmethod
    def of(cls, seed: int) -> KernelDisk:
        """An empty disk under the kernel that a seed draws."""
        chance = random.Random(f"kernel {seed}")
        return cls(chance, is_journalled=chance.random() < 0.3, forgets_failures=chance.random() < 0.5)

    # --- faults ---

    def _next(self, names: _Names, inodes: dict[int, Inode]) -> KernelDisk:
        """A disk with these names for its next life. `inodes`: by the identity of each what became of it."""
        disk = KernelDisk(self.chance, is_journalled=self.is_journalled, forgets_failures=self.forgets_failures)
        disk.ticks = self.ticks
        disk.files = {path: inodes[id(inode)] for path, inode in names[0].items()}
        disk.folders = set(names[1])
        return disk

    def _inodes(self) -> dict[int, Inode]:
        named = [*self.files.values(), *self._synced[0].values(), *(each.inode for each in self._namings)]
        return {id(inode): inode for inode in named if inode is not None}

    def after_process_end(self) -> KernelDisk:
        """What the next process finds after `kill -9`: the kernel keeps everything, and has not synced it."""
        left = self._inodes()
        # One that has no name any more can only come back by a loss of power, as it is: nobody writes to it.
        for inode in self.files.values():
            assert isinstance(inode, _KernelInode), "every file of this disk is its own"
            left[id(inode)] = inode.as_left()
        disk = self._next((self.files, self.folders), left)
        files, folders = self._synced
        disk._synced = {path: left[id(inode)] for path, inode in files.items()}, set(folders)
        disk._namings = [
            each if each.inode is None else replace(each, inode=left[id(each.inode)]) for each in self._namings
        ]
        return disk

    def after_power_loss(self, chance: random.Random, *, keep_everything: bool = False) -> KernelDisk:
        """What a new process finds."""
        if keep_everything:
            return self.after_process_end()
        names: _Names = (dict(self._synced[0]), set(self._synced[1]))
        kept: dict[Path, int] = {}
        counts: dict[Path, int] = defaultdict(int)
        for each in self._namings:
            if not each.is_synced:
                counts[self._scope(each.folder)] += 1
        for scope, count in counts.items():
            kept[scope] = chance.randrange(count + 1)
        for each in self._namings:
            scope = self._scope(each.folder)
            if each.is_synced:
                each.apply(names)
            elif kept[scope]:
                kept[scope] -= 1
                each.apply(names)
        inodes = {id(inode): inode.after_power_loss(lambda: chance.random() < 0.5) for inode in list(names[0].values())}
        disk = self._next(names, inodes)
        disk._synced = dict(disk.files), set(disk.folders)
        return disk

    def _scope(self, folder: Path) -> Path:
        """The folder whose changes of names survive together with those of this one."""
        return Path("/") if self.is_journalled else folder

    # --- Disk ---

    def _name(self, naming: _Naming) -> None:
        self._namings.append(naming)

    def _changed(self) -> None:
        """What survives is decided by `_namings`."""

    def open(self, path: Path, *, write: bool = False, create: bool = False) -> MemoryFile:
        if path not in self.files:
            if not create:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
            self.step("create", path)
            inode = self.files[path] = _KernelInode(number=self.tick())
            self._name(_Naming(path.parent, "create", path, inode=inode))
        else:
            self.look("open", path)
        found = self.files.get(path)
        if found is None:  # removed during the look
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return KernelFile(self, found, path)

    def make_folder(self, folder: Path) -> None:
        made = [each for each in (*reversed(folder.parents), folder) if each not in self.folders]
        super().make_folder(folder)
        for each in made:
            self._name(_Naming(each.parent, "make", each))

    def remove_folder(self, folder: Path) -> None:
        super().remove_folder(folder)
        self._name(_Naming(folder.parent, "remove", folder))

    def rename(self, old: Path, new: Path) -> None:
        assert old.parent == new.parent, f"{old} leaves its folder: the order of two folders is nobody's promise"
        super().rename(old, new)
        self._name(_Naming(old.parent, "rename", old, new=new))

    def unlink(self, path: Path) -> None:
        super().unlink(path)
        self._name(_Naming(path.parent, "unlink", path))

    def sync_folder(self, folder: Path) -> None:
        self.step("sync_folder", folder)
        scope = self._scope(folder)
        self._namings = [
            replace(each, is_synced=True) if self._scope(each.folder) == scope else each for each in self._namings
        ]
        # A folder is synced before its own name is: in the order in which they were made, both are there in the end.
        while self._namings and self._namings[0].is_synced:
            self._namings.pop(0).apply(self._synced)

    def lock(self, path: Path) -> Callable[[], None]:
        is_new = path not in self.files
        release = super().lock(path)
        if is_new:
            inode = self.files[path] = _KernelInode(number=self.files[path].number)
            self._name(_Naming(path.parent, "create", path, inode=inode))
        return release
