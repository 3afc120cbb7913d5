"""An event loop whose clock is frozen while there is work, and jumps to the next timer when there is none."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["run_virtually"]

T = TypeVar("T")


class _JumpingSelector(selectors.DefaultSelector):
    """Never sleeps: the time that it should is added to the loop's clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> Any:
        assert timeout is not None, "everybody waits, and no timer will wake anybody"
        self.now_s += max(0.0, timeout)
        return super().select(0)


class _VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now_s


def run_virtually(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` from second 0 of a virtual clock: `asyncio.sleep` and timeouts cost no time."""
    with asyncio.Runner(loop_factory=_VirtualLoop) as runner:
        return runner.run(work)
