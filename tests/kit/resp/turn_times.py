"""The processor time of each turn of an endpoint's event loop.

It is the thread's own processor time and not a clock's: what other programs do on the machine counts little. What is
left of their influence (caches, frequency) goes away where a test takes the best of several tries: `shortest_of`.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable

from duramen.server.roles.grpc_server import GC_THRESHOLDS
from kit.deadlines import patience_s
from kit.resp.loop_turns import HasLoop

__all__ = ["TURN_MAX_S", "TurnTimes", "shortest_of"]

TURN_MAX_S = 0.010
"""What a turn may have, whatever a client sends."""


class TurnTimes:
    """Measures the turns of the block. A turn ends when the callbacks that were scheduled before it have run: a ticker
    schedules itself again and again."""

    def __init__(self, server: HasLoop) -> None:
        self._server = server
        self._runs = True
        self._began = threading.Event()
        self._ended = threading.Event()
        self._last_s = 0.0
        self.longest_s = 0.0

    def _tick(self) -> None:
        now_s = time.thread_time()
        if self._last_s:
            self.longest_s = max(self.longest_s, now_s - self._last_s)
        self._last_s = now_s
        self._began.set()
        if self._runs:
            self._server.loop.call_soon(self._tick)
        else:
            self._ended.set()

    def __enter__(self) -> TurnTimes:
        self._server.loop.call_soon_threadsafe(self._tick)
        assert self._began.wait(patience_s(20))
        return self

    def __exit__(self, *_: object) -> None:
        self._runs = False
        assert self._ended.wait(patience_s(20))


def shortest_of(tries: int, server: HasLoop, work: Callable[[], object]) -> float:
    """The longest turn of the best of so many tries, in seconds; a try that stays below `TURN_MAX_S` is the last."""
    longest: list[float] = []
    gc.collect()
    usual = gc.get_threshold()
    # As the server program does: what the tests hold in memory is not collected in one of its turns.
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        for _ in range(tries):
            with TurnTimes(server) as turns:
                work()
            longest.append(turns.longest_s)
            if turns.longest_s <= TURN_MAX_S:
                break
    finally:
        gc.set_threshold(*usual)
        gc.unfreeze()
    return min(longest)
