"""The machine under a database of one process: a disk that fails, a folder, and what was on them in the last life."""

from __future__ import annotations

import random
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Final

from duramen.server.wiring.single_machine import MachineParts
from duramen.testing.machine.disk_faults import DiskFaults
from duramen.testing.machine.simulated_disk import FaultyDisk
from duramen.testing.machine.story import RunStory
from log_tier.concurrency.clocks import SYSTEM_CLOCK, Clock
from log_tier.concurrency.workers import THREADS, Workers
from log_tier.embedded import EmbeddedLog, EngineSettings
from log_tier.model.log import Log
from serving_tier.names import INDEX_FOLDER

__all__ = ["DatabaseMachine"]

_HOME: Final = Path("/data/log")
_SETTINGS: Final = EngineSettings(segment_bytes=1 << 20, journal_bytes=1 << 20)
"""A test writes little, and a small disk is copied quickly at each death."""


class DatabaseMachine:
    """Disk and folder of one database, through all lives of its process."""

    def __init__(self, seed: int, *, clock: Clock = SYSTEM_CLOCK, workers: Workers = THREADS) -> None:
        self.story = RunStory(clock.monotonic_s)
        self.chance = random.Random(f"database machine {seed}")
        self.disk = FaultyDisk(self.story, lambda: None)
        self.faults = DiskFaults(self.disk, self.story, self.chance)
        memory = Path("/dev/shm")
        self.folder = Path(tempfile.mkdtemp(prefix="duramen-testing-", dir=memory if memory.is_dir() else None))
        self.story.folder = str(self.folder)
        self.parts = MachineParts(self._open_log, clock, workers)
        self._settings = _SETTINGS
        if workers is not THREADS:
            self._settings = replace(
                _SETTINGS, workers=workers, stopwatch_s=clock.monotonic_s, random_bytes=self.chance.randbytes
            )

    async def _open_log(self, _url: str) -> Log:
        return await EmbeddedLog.open(
            _HOME, disk=self.disk.now, clock=self.parts.clock.wall_ms, settings=self._settings
        )

    def die(self) -> None:
        """The process ends here, as `kill -9` ends it, where no fault has ended it before."""
        if not self.faults.is_dead:
            self.faults.end_process()

    def begin_again(self, *, keep_indexes: bool) -> None:
        """The next process finds what the disk kept. Nothing of the last one is open any more."""
        self.disk.calm()
        self.disk.restart()
        if self.disk.ended_by == "power" or not keep_indexes:
            shutil.rmtree(self.folder / INDEX_FOLDER, ignore_errors=True)
            self.story.tell("machine", "the indexes are gone")

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
