"""A disk in memory that stands still at one step until the test lets it go on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

from duramen.testing.machine.memory_disk import MemoryDisk
from kit.deadlines import patience_s

_DEADLINE_S = 30.0


class HeldStep:
    """Holds the first step, or look, of one kind, in whatever thread it comes. A test that waits for what the held
    thread keeps from it fails after a while: the thread gives up.
    """

    def __init__(self, disk: MemoryDisk, what: str, where: Callable[[Path], bool] = lambda path: True) -> None:
        self._what, self._where = what, where
        self._begun, self._may_go = threading.Event(), threading.Event()
        disk.on_step = disk.on_look = self._hold

    def _hold(self, what: str, path: Path) -> None:
        if what == self._what and self._where(path) and not self._begun.is_set():
            self.hold()

    def hold(self) -> None:
        """Hold the calling thread."""
        self._begun.set()
        assert self._may_go.wait(patience_s(_DEADLINE_S)), "the test waits for what this thread keeps from it"

    async def reached(self) -> None:
        """Return once the step is held."""
        assert await asyncio.to_thread(self._begun.wait, patience_s(_DEADLINE_S))

    def let_go(self) -> None:
        """Let the step happen."""
        self._may_go.set()
