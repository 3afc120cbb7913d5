"""Which indexes have their LMDB environment open: the most recently used ones, up to a bound.

An environment costs three descriptors and some memory, and most partitions of a thousand are neither read nor written
for hours. An index that nobody uses is put to rest: its file is closed, and the next read or write opens it again (some
0.3 ms). Reads must not pay for that, so they leave no trace but one: the first read after an index was `watched` says
that it was used. That is the clock algorithm, with the second chance (Corbató, 1968).

Safe from any thread.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Protocol

from serving_tier.index.lmdb.environment import ENVIRONMENTS_MAX

__all__ = ["OpenEnvironments"]


class Restable(Protocol):
    """An index whose environment may be closed while nobody uses it."""

    def watch_use(self) -> bool:
        """Whether it was used since the last call."""
        ...

    def rest(self) -> bool:
        """Close the environment; False if it is in use now."""
        ...


class OpenEnvironments:
    """The open environments of a process."""

    def __init__(self, environments_max: int) -> None:
        self.environments_max = min(environments_max, ENVIRONMENTS_MAX)
        self._open: OrderedDict[Restable, None] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._open)

    def opened(self, index: Restable) -> None:
        """`index` has opened its environment."""
        with self._lock:
            self._open[index] = None

    def closed(self, index: Restable) -> None:
        """`index` has closed its environment for good."""
        with self._lock:
            self._open.pop(index, None)

    def make_room(self) -> None:
        """Put indexes to rest until one more may be opened. If all are in use now, more will be open than the bound:
        the limit of the process is above it.
        """
        with self._lock:
            self._shed(len(self._open) - self.environments_max + 1)

    def shed(self, count: int) -> int:
        """Put up to so many indexes to rest, those first that were not used lately; return how many that were."""
        with self._lock:
            return self._shed(count)

    def _shed(self, count: int) -> int:
        """`_lock` is held."""
        done = 0
        # Each gets its second chance, and one more look.
        for _ in range(2 * len(self._open)):
            if done >= count or not self._open:
                break
            index = next(iter(self._open))
            if not index.watch_use() and index.rest():
                del self._open[index]
                done += 1
            else:
                self._open.move_to_end(index)
        return done
