"""A disk that fails as its plan says, and dies with its machine."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from duramen.testing.machine.fault import LOST_END, FaultKind, MachineFault
from duramen.testing.machine.memory_disk import SECTOR, MemoryDisk
from duramen.testing.machine.story import RunStory

__all__ = ["FaultyDisk"]

_ENDS = ("power", "kill", LOST_END)
_SYNCS = ("sync", "sync_folder")
_SEGMENT_CHANCE = 2 / 3
_JOURNALS = (".0", ".1")
_HEADERS_END = 8192
_LOST_MIN = 200
_TRIES = 20
"""To find bytes that nobody is writing."""


class FaultyDisk:
    """The disk of a machine through all its lives. Each has a `MemoryDisk`, made of what the last one left."""

    def __init__(self, story: RunStory, died: Callable[[], None], first: MemoryDisk | None = None) -> None:
        """`first`: what the first life finds; None: an empty `MemoryDisk`."""
        self._story, self._died = story, died
        self.survivor: MemoryDisk | None = None
        """What the next life finds; None while the machine lives."""
        self.ended_by: FaultKind | None = None
        """What has ended the last life."""
        self._is_over = False
        """Set before the survivor is copied: what other threads do meanwhile fails, and nothing of it is confirmed."""
        self.older: MemoryDisk | None = None
        """What the next life finds in place of what this one leaves: an older copy is put back."""
        self._armed: list[tuple[MachineFault, int]] = []
        """Faults, and how many steps each lets pass."""
        self.now = first or MemoryDisk()
        self._live(self.now)
        self.damaged: Callable[[Path], None] = lambda path: None
        """Called with each file that a damage was done to."""
        self._astray: list[MachineFault] = []
        """Faults whose writes have begun."""

    def _live(self, disk: MemoryDisk) -> None:
        disk.on_step = self._on_step
        disk.on_look = disk.on_synced = self._on_look
        disk.misdirect = self._misdirect
        self.now, self.survivor, self._is_over = disk, None, False

    def restart(self) -> MemoryDisk:
        """Begin the next life."""
        assert self.survivor is not None, "the machine is alive"
        self._live(self.survivor)
        return self.now

    def arm(self, fault: MachineFault) -> None:
        """Let a fault meet a step to come."""
        self._armed.append((fault, fault.steps))

    def disarm(self, fault: MachineFault) -> None:
        """Forget a fault that no step has met."""
        self._armed = [one for one in self._armed if one[0] is not fault]

    @contextmanager
    def armed(self, faults: Iterable[MachineFault]) -> Iterator[None]:
        """Let faults meet steps of the block, and forget those that did not."""
        meant = list(faults)
        for fault in meant:
            self.arm(fault)
        try:
            yield
        finally:
            for fault in meant:
                self.disarm(fault)

    def force(self, fault: MachineFault) -> None:
        """No step came: a power loss or a kill happens all the same, anything else is forgotten."""
        if fault.kind == "flip" and self.survivor is None:
            self._flip(random.Random(fault.seed))
        if any(armed is fault for armed, _ in self._armed):
            self.disarm(fault)
            if fault.kind in _ENDS:
                self.die(fault, "idle")

    def copy(self) -> MemoryDisk:
        """A copy of everything, as a snapshot of the volume has it."""
        return self.now.after_process_end()

    def calm(self) -> None:
        """No fault waits any more."""
        self._armed.clear()

    def die(self, fault: MachineFault, at: str) -> None:
        """The process ends here."""
        if self._is_over:
            return
        self._is_over = True
        chance = random.Random(fault.seed)
        disk = self.now
        self.ended_by = fault.kind
        self.survivor = disk.after_power_loss(chance) if fault.kind in ("power", LOST_END) else disk.after_process_end()
        self.survivor, self.older = self.older or self.survivor, None
        self.survivor.space = disk.space
        if fault.kind == LOST_END:
            self._lose_end(self.survivor, chance)
        self._story.tell("machine", f"{fault.kind} at {at}")
        self._story.met[f"{fault.kind} at {at.partition(' ')[0]}"] += 1
        self._died()

    def _on_look(self, what: str, path: Path) -> None:
        if self._is_over:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def _on_step(self, what: str, path: Path) -> None:
        waiting, self._armed = self._armed, []
        hit: list[MachineFault] = []
        for fault, steps in waiting:
            fits = fault.kind in _ENDS or (fault.kind == "sync") == (what in _SYNCS)
            if fault.kind == "misdirect":
                fits = what == "write"
            if not fits or steps:
                self._armed.append((fault, steps - 1 if fits else steps))
            else:
                hit.append(fault)
        place = f"{what} {str(path).removeprefix('/data/')}"
        for fault in hit:
            if fault.kind in _ENDS:
                self.die(fault, place)
        self._on_look(what, path)
        self._astray += [fault for fault in hit if fault.kind == "misdirect"]
        for fault in hit:
            if fault.kind in ("sync", "write"):
                self._story.tell("disk", f"{place} fails")
                self._story.met[f"{fault.kind} fails at {what}"] += 1
                raise OSError(errno.EIO, os.strerror(errno.EIO))

    # --- a disk that lies

    def _flip(self, chance: random.Random) -> None:
        """A bit of a file flips where nothing is being written: of a segment, in two of three."""
        wanted = chance.random() < _SEGMENT_CHANCE
        found = sorted(path for path, inode in self.now.files.items() if inode.content and path.name != "lock")
        files = [path for path in found if (path.suffix == ".log") == wanted] or found
        for _ in range(_TRIES):
            if files:
                path = chance.choice(files)
                inode = self.now.files[path]
                position, bit = chance.randrange(len(inode.content)), chance.randrange(8)
                if inode.is_clean(position, 1):
                    inode.flip(position, bit)
                    self.damaged(path)
                    self._tell_damage("flip", path, f"bit {bit} of byte {position} flips")
                    return

    def _lose_end(self, disk: MemoryDisk, chance: random.Random) -> None:
        """The journal that was written last has zeros from somewhere among its last writes on, up to 4 KiB before the
        end of the newest.
        """
        files = [path for path in disk.files if path.stem == "journal" and path.suffix in _JOURNALS]
        path = max(files, key=lambda each: disk.files[each].changed, default=None)
        if path is None:
            return
        inode = disk.files[path]
        end = inode.newest_end
        begin = max(_HEADERS_END, end - chance.randrange(200, 4096))
        if begin + _LOST_MIN <= end and inode.is_clean(begin, end - begin):
            inode.blank(begin, end)
            self._tell_damage("zeros", path, f"{end - begin} bytes at byte {begin} are zeros")
            self.damaged(path)

    def _misdirect(self, path: Path, data: bytes, meant: int) -> Callable[[bytes], None] | None:
        """Where a write goes whose turn it is to go astray: over clean bytes of any file, or nowhere."""
        if not self._astray:
            return None
        chance = random.Random(self._astray.pop().seed)
        files = sorted(each for each, inode in self.now.files.items() if inode.length >= len(data))
        self._tell_damage("misdirect", path, f"{len(data)} bytes are not written, and confirmed")
        for _ in range(_TRIES):
            near = [each for each in files if each.parent == path.parent and each.suffix == path.suffix]
            victim = chance.choice(chance.choice((files, near)) or [path])
            inode = self.now.files[victim]
            position = chance.randrange(max(1, inode.length - len(data)) // SECTOR + 1) * SECTOR
            position *= chance.randrange(2)  # where a batch begins
            if victim == path and abs(position - meant) < len(data):
                continue
            if victim.name != "lock" and position + len(data) <= inode.length and inode.is_clean(position, len(data)):
                self._tell_damage("misdirect", victim, f"they are written at byte {position} instead")
                return partial(self._stray, path, victim, position)
        return lambda written: self.damaged(path)

    def _stray(self, path: Path, victim: Path, position: int, data: bytes) -> None:
        self.now.files[victim].take_stray(data, position)
        self.damaged(path)
        self.damaged(victim)

    def _tell_damage(self, kind: str, path: Path, what: str) -> None:
        self._story.tell("disk", f"{path.relative_to('/data')}: {what}")
        self._story.met[f"{kind} in {path.suffix.removeprefix('.') if 'topics' in path.parts else path.name}"] += 1

    def heal(self, path: Path | None = None) -> None:
        """An operator puts back what should be in a file, or in all of them, from a copy of the disk."""
        for disk in (self.now, self.survivor):
            for each, inode in [] if disk is None else disk.files.items():
                if path in (None, each) and inode.wounds:
                    inode.heal()
                    self._story.tell("operator", f"puts {each.relative_to('/data')} right")
