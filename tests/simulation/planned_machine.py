"""The machine of a plan, which every world above the log has: its log is as the plan says, and so are its faults."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from duramen.testing.machine.simulated_clock import SimulatedClock
from duramen.testing.machine.simulated_loop import SimulatedLoop
from duramen.testing.machine.simulated_machine import SimulatedMachine
from duramen.testing.machine.story import RunStory
from log_tier.embedded import EmbeddedLog, EngineSettings
from log_tier.model.errors import DuramenError
from simulation.book import Broken
from simulation.plan import Plan

__all__ = ["cannot_start", "faults", "machine_of", "set_clocks", "undamaged_log"]

_STEP_COMES_S: Final = 0.2
"""A fault that no step of the disk has met by then happens all the same, or is forgotten."""
_DAMAGE: Final = ("log_damaged", "index_damaged", "foreign_folder", "unknown_format")


def machine_of(plan: Plan, loop: SimulatedLoop, name: str, died: Callable[[], None]) -> SimulatedMachine:
    """What a world runs on; `died` is called when the disk's process ends."""
    settings = EngineSettings(
        segment_bytes=max(4096, plan.segment_bytes) if plan.trims is None else 1024,
        index_every_bytes=300,
        journal_bytes=max(4096, plan.journal_bytes),
        tail_bytes_max=plan.tail_bytes,
        quick_commit_s=10.0 if plan.quick else 0.0,
    )
    return SimulatedMachine(loop, plan.seed, name, died, settings=settings)


async def undamaged_log(machine: SimulatedMachine) -> EmbeddedLog:
    """The log, on what its last life has left. Raises `Broken` where recovery finds damage."""
    log = await machine.open_log()
    if log.recovery.damages:
        raise Broken("damage", f"recovery says {log.recovery}")
    return log


def cannot_start(machine: SimulatedMachine, who: str, error: DuramenError) -> None:
    """Told where a process does not open. Raises `Broken` for what no fault of a plan does to a disk."""
    machine.story.tell(who, f"cannot start: {type(error).__name__}: {error.message}")
    if error.code in _DAMAGE:
        raise Broken("damage", f"{who} does not start: {error.message}") from error


async def faults(machine: SimulatedMachine, plan: Plan, pace: float) -> None:
    """Let the plan's faults happen, with their times multiplied by `pace`."""
    began_s = machine.loop.time()
    for fault in plan.faults:
        await asyncio.sleep(max(0.0, began_s + fault.at_s * pace - machine.loop.time()))
        machine.story.tell("fault", f"{fault.kind}, after {fault.steps} steps")
        if fault.kind == "slow":
            machine.loop.slow_threads(fault.seconds)
        elif fault.kind != "full":
            machine.disk.arm(fault)
            await asyncio.sleep(_STEP_COMES_S)
            machine.disk.force(fault)


async def set_clocks(plan: Plan, story: RunStory, pace: float, clock_of: Callable[[str], SimulatedClock]) -> None:
    """Set the clocks of processes as the plan says, with its times multiplied by `pace`."""
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    for step in plan.clock_steps:
        await asyncio.sleep(max(0.0, began_s + step.at_s * pace - loop.time()))
        story.tell("fault", f"the clock of {step.process} is set by {step.seconds:+.3f} s")
        story.met[f"a clock is set {'back' if step.seconds < 0 else 'forward'}"] += 1
        clock_of(step.process).step(step.seconds)
