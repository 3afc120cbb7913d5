"""How much work is done in one turn of an endpoint's event loop, by counting calls and not by a clock."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from types import ModuleType
from typing import Any, Protocol

import pytest

from kit.deadlines import patience_s

__all__ = ["HasLoop", "LoopTurns"]


class HasLoop(Protocol):
    """A server on an event loop in a thread of its own."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...


class LoopTurns:
    """Counts the calls of one method, or of a module's function, by the turn of the loop in which they came.

    A turn ends when callbacks that were scheduled before it have run: a ticker schedules itself again and again. Calls
    after the block are not counted, and those of other threads are counted in `elsewhere` only.
    """

    def __init__(self, server: HasLoop, monkeypatch: pytest.MonkeyPatch, owner: type | ModuleType, method: str) -> None:
        self._server = server
        self._turn = 0
        self._runs = True
        self._by_turn: Counter[int] = Counter()
        self._began = threading.Event()
        self._thread = 0
        """The loop's."""
        self.elsewhere = 0
        """Calls of other threads."""
        original = getattr(owner, method)

        def counted(*args: Any, **named: Any) -> Any:
            if self._thread != threading.get_ident():
                self.elsewhere += 1
            elif self._runs:  # without ticks, all that follows would count as one turn
                self._by_turn[self._turn] += 1
            return original(*args, **named)

        monkeypatch.setattr(owner, method, counted)

    @property
    def calls(self) -> int:
        """In all turns."""
        return self._by_turn.total()

    @property
    def most_in_one_turn(self) -> int:
        return max(self._by_turn.values(), default=0)

    def _tick(self) -> None:
        self._turn += 1
        self._thread = threading.get_ident()
        self._began.set()
        if self._runs:
            self._server.loop.call_soon(self._tick)

    def __enter__(self) -> LoopTurns:
        self._server.loop.call_soon_threadsafe(self._tick)
        assert self._began.wait(patience_s(20))
        return self

    def __exit__(self, *_: object) -> None:
        self._runs = False
