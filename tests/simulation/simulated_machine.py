"""The machine of a plan, which every world above the log has: disk, clock, threads, a folder in memory, a log on it."""

from __future__ import annotations

import asyncio
import random
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from log_tier.embedded import EmbeddedLog, EngineSettings
from log_tier.model.errors import DuramenError
from simulation.book import Broken
from simulation.plan import Fault, FaultKind, Plan
from simulation.simulated_clock import SimulatedClock
from simulation.simulated_disk import FaultyDisk
from simulation.simulated_loop import SimulatedLoop, SimulatedWorkers
from simulation.story import RunStory

__all__ = ["RESTART_S", "SimulatedMachine"]

RESTART_S: Final = 0.2
"""What it takes to start a process again."""
_HOME: Final = Path("/data/log")
_STEP_COMES_S: Final = 0.2
"""A fault that no step of the disk has met by then happens all the same, or is forgotten."""
_DAMAGE: Final = ("log_damaged", "index_damaged", "foreign_folder", "unknown_format")


class SimulatedMachine:
    """What a world runs on; `died` is called when the disk's process ends."""

    def __init__(self, plan: Plan, loop: SimulatedLoop, name: str, died: Callable[[], None]) -> None:
        self.plan, self.loop = plan, loop
        self.story = RunStory(loop.time)
        self.disk = FaultyDisk(self.story, died)
        self.chance = random.Random(f"{name} {plan.seed}")
        self.clock = SimulatedClock(loop.time)
        self.workers = SimulatedWorkers(loop)
        memory = Path("/dev/shm")
        self.folder = Path(tempfile.mkdtemp(prefix="duramen-simulation-", dir=memory if memory.is_dir() else None))
        """For LMDB and snapshots, which are real."""
        self.story.folder = str(self.folder)
        self._settings = EngineSettings(
            segment_bytes=max(4096, plan.segment_bytes) if plan.trims is None else 1024,
            index_every_bytes=300,
            journal_bytes=max(4096, plan.journal_bytes),
            tail_bytes_max=plan.tail_bytes,
            quick_commit_s=10.0 if plan.quick else 0.0,
            random_bytes=self.chance.randbytes,
            workers=self.workers,
            stopwatch_s=loop.time,
        )

    async def open_log(self) -> EmbeddedLog:
        """The log, on what its last life has left. Raises `Broken` where recovery finds damage."""
        disk = self.disk.now if self.disk.survivor is None else self.disk.restart()
        log = await EmbeddedLog.open(_HOME, disk=disk, clock=self.clock.wall_ms, settings=self._settings)
        if log.recovery.damages:
            raise Broken("damage", f"recovery says {log.recovery}")
        return log

    def cannot_start(self, who: str, error: DuramenError) -> None:
        """Told where a process does not open. Raises `Broken` for what no fault of a plan does to a disk."""
        self.story.tell(who, f"cannot start: {type(error).__name__}: {error.message}")
        if error.code in _DAMAGE:
            raise Broken("damage", f"{who} does not start: {error.message}") from error

    def end_of_life(self, *, power: bool = False) -> None:
        """The log's process has ended, by itself where no fault has ended it."""
        if self.disk.survivor is None:
            kind: FaultKind = "power" if power else "kill"
            self.disk.die(Fault(0, kind, 0, seed=self.chance.getrandbits(32)), "restart")

    async def faults(self, pace: float) -> None:
        """Let the plan's faults happen, with their times multiplied by `pace`."""
        began_s = self.loop.time()
        for fault in self.plan.faults:
            await asyncio.sleep(max(0.0, began_s + fault.at_s * pace - self.loop.time()))
            self.story.tell("fault", f"{fault.kind}, after {fault.steps} steps")
            if fault.kind == "slow":
                self.loop.slow_threads(fault.seconds)
            elif fault.kind != "full":
                self.disk.arm(fault)
                await asyncio.sleep(_STEP_COMES_S)
                self.disk.force(fault)

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
