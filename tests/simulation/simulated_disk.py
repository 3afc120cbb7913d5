"""A disk that fails as its plan says, and dies with its machine."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable
from pathlib import Path

from kit.log.memory_disk import MemoryDisk

from simulation.plan import Fault
from simulation.story import RunStory

__all__ = ["FaultyDisk"]

_SYNCS = ("sync", "sync_folder")


class FaultyDisk:
    """The disk of a machine through all its lives. Each has a `MemoryDisk`, made of what the last one left."""

    def __init__(self, story: RunStory, died: Callable[[], None]) -> None:
        self._story, self._died = story, died
        self.survivor: MemoryDisk | None = None
        """What the next life finds; None while the machine lives."""
        self.older: MemoryDisk | None = None
        """What the next life finds in place of what this one leaves: an older copy is put back."""
        self._armed: list[tuple[Fault, int]] = []
        """Faults, and how many steps each lets pass."""
        self.now = MemoryDisk()
        self._live(self.now)

    def _live(self, disk: MemoryDisk) -> None:
        disk.on_step = self._on_step
        disk.on_look = self._on_look
        self.now, self.survivor = disk, None

    def restart(self) -> MemoryDisk:
        """Begin the next life."""
        assert self.survivor is not None, "the machine is alive"
        self._live(self.survivor)
        return self.now

    def arm(self, fault: Fault) -> None:
        """Let a fault meet a step to come."""
        self._armed.append((fault, fault.steps))

    def force(self, fault: Fault) -> None:
        """No step came: a power loss or a kill happens all the same, anything else is forgotten."""
        if any(armed is fault for armed, _ in self._armed):
            self._armed = [one for one in self._armed if one[0] is not fault]
            if fault.kind in ("power", "kill"):
                self.die(fault, "idle")

    def copy(self) -> MemoryDisk:
        """A copy of everything, as a snapshot of the volume has it."""
        return self.now.after_process_end()

    def calm(self) -> None:
        """No fault waits any more."""
        self._armed.clear()

    def die(self, fault: Fault, at: str) -> None:
        """The process ends here."""
        if self.survivor is not None:
            return
        chance = random.Random(fault.seed)
        disk = self.now
        self.survivor = disk.after_power_loss(chance) if fault.kind == "power" else disk.after_process_end()
        self.survivor, self.older = self.older or self.survivor, None
        self.survivor.space = disk.space
        self._story.tell("machine", f"{fault.kind} at {at}")
        self._story.met[f"{fault.kind} at {at.partition(' ')[0]}"] += 1
        self._died()

    def _on_look(self, what: str, path: Path) -> None:
        if self.survivor is not None:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def _on_step(self, what: str, path: Path) -> None:
        waiting, self._armed = self._armed, []
        hit: list[Fault] = []
        for fault, steps in waiting:
            fits = fault.kind in ("power", "kill") or (fault.kind == "sync") == (what in _SYNCS)
            if not fits or steps:
                self._armed.append((fault, steps - 1 if fits else steps))
            else:
                hit.append(fault)
        place = f"{what} {path.relative_to('/data')}"
        for fault in hit:
            if fault.kind in ("power", "kill"):
                self.die(fault, place)
        self._on_look(what, path)
        for fault in hit:
            if fault.kind in ("sync", "write"):
                self._story.tell("disk", f"{place} fails")
                self._story.met[f"{fault.kind} fails at {what}"] += 1
                raise OSError(errno.EIO, os.strerror(errno.EIO))
