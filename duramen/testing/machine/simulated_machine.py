"""A machine of a simulation: disk, clocks, threads, a folder in memory, and a log on the disk."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from duramen.testing.machine.fault import FaultKind, MachineFault
from duramen.testing.machine.simulated_clock import SimulatedClock
from duramen.testing.machine.simulated_disk import FaultyDisk
from duramen.testing.machine.simulated_loop import SimulatedLoop, SimulatedWorkers
from duramen.testing.machine.story import RunStory
from log_tier.embedded import EmbeddedLog, EngineSettings

__all__ = ["RESTART_S", "SimulatedMachine"]

RESTART_S: Final = 0.2
"""What it takes to start a process again."""
_HOME: Final = Path("/data/log")


class SimulatedMachine:
    """What everything above the log runs on; `died` is called when the disk's process ends."""

    def __init__(
        self,
        loop: SimulatedLoop,
        seed: int,
        name: str,
        died: Callable[[], None],
        *,
        settings: EngineSettings,
        story: RunStory | None = None,
    ) -> None:
        """`settings`: of the log's engine; what it takes of a machine comes from this one. `story`: None: a new one."""
        self.loop = loop
        self.story = story or RunStory(loop.time)
        self.disk = FaultyDisk(self.story, died)
        self.chance = random.Random(f"{name} {seed}")
        self.clock = SimulatedClock(loop.time)
        """Of the process with the log."""
        self._clocks: dict[str, SimulatedClock] = {}
        self.workers = SimulatedWorkers(loop, quick_s=settings.quick_commit_s)
        memory = Path("/dev/shm")
        self.folder = Path(tempfile.mkdtemp(prefix="duramen-simulation-", dir=memory if memory.is_dir() else None))
        """For LMDB and snapshots, which are real."""
        loop.at_close.append(self.close)
        self.story.folder = str(self.folder)
        self._settings = replace(
            settings, random_bytes=self.chance.randbytes, workers=self.workers, stopwatch_s=loop.time
        )

    def clock_of(self, name: str) -> SimulatedClock:
        """The clock of another process, which can be set by itself; made when it is first asked for."""
        return self._clocks.setdefault(name, SimulatedClock(self.loop.time))

    async def open_log(self) -> EmbeddedLog:
        """The log, on what its last life has left."""
        disk = self.disk.now if self.disk.survivor is None else self.disk.restart()
        return await EmbeddedLog.open(_HOME, disk=disk, clock=self.clock.wall_ms, settings=self._settings)

    def end_of_life(self, *, power: bool = False) -> None:
        """The log's process has ended, by itself where no fault has ended it."""
        if self.disk.survivor is None:
            kind: FaultKind = "power" if power else "kill"
            self.disk.die(MachineFault(0, kind, 0, seed=self.chance.getrandbits(32)), "restart")

    def close(self) -> None:
        """Remove the folder. Idempotent; the end of the loop does it at the latest."""
        shutil.rmtree(self.folder, ignore_errors=True)
