"""Python's collector of cycles while a database opens, and what it need not look at afterwards.

What an opening makes stays until the database is closed, some hundred objects a partition. The collector would look
through all of it as it is made: with thousands of tables that is half of the time. It would look again at its end, once
for each of its three generations, and once more whenever the heap has grown by a quarter: each time for half a second
in which no thread runs.

So it rests during an opening; and after a large one, what was made is *frozen* (`gc.freeze`): it is freed as ever when
nothing refers to it, and not searched for cycles until the last database of the process that was opened so is closed.
Where the program has frozen objects itself, before, nothing is frozen here: what is whose could not be seen at the end.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["OpenedObjects"]

# Fewer objects are searched in some 50 ms.
_FROZEN_MIN: Final = 100_000

_lock: Final = threading.Lock()

_holders = 0
"""Openings in this process whose objects are frozen."""


class OpenedObjects:
    """What one opening makes, as the collector sees it. `release()` when it is closed."""

    def __init__(self, *, frozen_min: int = _FROZEN_MIN) -> None:
        """`frozen_min`: an opening that makes fewer objects is left to the collector."""
        self._frozen_min = frozen_min
        self._frozen = False

    @contextmanager
    def making(self) -> Iterator[None]:
        """Keep the collector from looking while the block runs; freeze what it made, if it ends well and made much."""
        enabled = gc.isenabled()
        gc.disable()
        there = gc.get_count()[0]
        try:
            yield
            if enabled and gc.get_count()[0] - there >= self._frozen_min:
                self._freeze()
        finally:
            if enabled:
                gc.enable()

    def _freeze(self) -> None:
        global _holders
        with _lock:
            if _holders or not gc.get_freeze_count():
                _holders += 1
                self._frozen = True
                gc.freeze()

    def release(self) -> None:
        """Leave everything to the collector again, unless another opening's objects are still frozen. Idempotent."""
        global _holders
        with _lock:
            if self._frozen:
                self._frozen = False
                _holders -= 1
                if not _holders:
                    gc.unfreeze()
