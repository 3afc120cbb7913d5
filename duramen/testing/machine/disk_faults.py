"""The faults of a log's disk as a test asks for them: each happens at once, or at a change of the disk to come."""

from __future__ import annotations

import random

from duramen.testing.machine.fault import FaultKind, MachineFault
from duramen.testing.machine.simulated_disk import FaultyDisk
from duramen.testing.machine.story import RunStory

__all__ = ["DiskFaults"]


class DiskFaults:
    """A full disk, writes and syncs that fail, a loss of power, the end of the process. No call waits."""

    def __init__(self, disk: FaultyDisk, story: RunStory, chance: random.Random) -> None:
        self._disk, self._story, self._chance = disk, story, chance

    @property
    def is_dead(self) -> bool:
        """Has the machine lost its power, or its process ended? Nothing is read or written until it is started."""
        return self._disk.survivor is not None

    @property
    def is_full(self) -> bool:
        """Has `disk_full` been called, and `disk_has_room` not yet?"""
        return self._disk.now.space is not None

    def disk_full(self, free_bytes: int = 0) -> None:
        """The log's disk has no more room than this, until `disk_has_room`."""
        if free_bytes < 0:
            raise ValueError(f"a disk has 0 bytes left, or more, and not {free_bytes}")
        self._story.tell("fault", f"the log's disk has {free_bytes} bytes left")
        self._disk.now.space = free_bytes

    def disk_has_room(self) -> None:
        """Undo `disk_full`."""
        self._story.tell("fault", "the log's disk has room")
        self._disk.now.space = None

    def fail_next_sync(self) -> None:
        """The next sync of the log's disk fails; the log takes no writes after that until it is started again."""
        self._arm("sync", 0)

    def fail_next_write(self) -> None:
        """The next change of the log's disk but a sync fails: a write, a new file, a rename."""
        self._arm("write", 0)

    def lose_power(self, *, after_changes: int | None = None) -> None:
        """The log's machine loses power: what was not synced is lost, sector by sector.

        `after_changes`: in the middle of a change of its disk, after so many; None: now.
        """
        self._end("power", after_changes)

    def end_process(self, *, after_changes: int | None = None) -> None:
        """The log's process is killed; what it has written stays. `after_changes` as for `lose_power`."""
        self._end("kill", after_changes)

    def _end(self, kind: FaultKind, after_changes: int | None) -> None:
        if after_changes is None:
            self._disk.die(self._fault(kind, 0), "a test's word")
        elif after_changes < 0:
            raise ValueError(f"changes are counted from now on: 0 or more, and not {after_changes}")
        else:
            self._arm(kind, after_changes)

    def _arm(self, kind: FaultKind, steps: int) -> None:
        self._story.tell("fault", f"{kind} after {steps} changes of the disk")
        self._disk.arm(self._fault(kind, steps))

    def _fault(self, kind: FaultKind, steps: int) -> MachineFault:
        return MachineFault(0.0, kind, steps, seed=self._chance.getrandbits(32))
