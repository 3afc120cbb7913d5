"""Logs on a disk in memory whose threads take turns on one thread.

A log that is opened starts some threads, and each commit through one wakes two of them: for a log of some small batches
that costs more than everything else. A test that opens hundreds of logs, and is not about real threads, runs them in
turns. A seed is one interleaving, so a disk sees the same calls in the same order again.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, TypeVar

from duramen.testing.machine.simulated_loop import SimulatedLoop, SimulatedWorkers
from log_tier.embedded import EngineSettings

__all__ = ["in_turns", "settings_here"]

T = TypeVar("T")


class _TurnsLoop(SimulatedLoop):
    def __init__(self, seed: int) -> None:
        super().__init__(random.Random(seed))
        self.entropy = random.Random(f"entropy {seed}")


def in_turns(main: Callable[[], Coroutine[Any, Any, T]], seed: int = 0) -> T:
    """Run `await main()` in virtual time; the logs that it opens by `open_log` start no thread.

    The logs have ended when `main` returns: what it leaves open is never closed, as after a kill.
    """
    with asyncio.Runner(loop_factory=lambda: _TurnsLoop(seed)) as runner:
        return runner.run(main())


def settings_here(settings: EngineSettings) -> EngineSettings:
    """The same settings; within `in_turns` with its threads, its clock and its randomness."""
    loop = asyncio.get_running_loop()
    if not isinstance(loop, _TurnsLoop):
        return settings
    return replace(
        settings,
        random_bytes=loop.entropy.randbytes,
        workers=SimulatedWorkers(loop, quick_s=settings.quick_commit_s),
        stopwatch_s=loop.time,
    )
