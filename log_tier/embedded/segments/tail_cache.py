"""The newest batches of all partitions in memory, so that followers read without the disk.

One bound for all of them, and the oldest batch leaves first, whosever it is: the followers of a quiet partition have
long read what it holds when a busy one pushes it out.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import deque
from typing import Final

from log_tier.model.identifiers import Offset

__all__ = ["TailCache", "TailMemory"]

# A batch costs this much beyond its bytes (two objects and their places in two queues), so that a bound on bytes also
# bounds what a million tiny batches take.
_OVERHEAD_BYTES: Final = 200

# Forgotten places at the head of the lists are given back in runs of at least this many.
_FORGOTTEN_MAX: Final = 256


class TailMemory:
    """The bound that all tails share, and the order in which batches leave."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.lock = threading.Lock()
        self._bytes = 0
        self._order: deque[tuple[TailCache, int]] = deque()

    @property
    def bytes(self) -> int:
        """Bytes that the cache holds now."""
        return self._bytes

    def charge(self, tail: TailCache, size: int) -> None:
        """Count a batch that `tail` took, and let the oldest batches go until all fit. The lock is held."""
        self._order.append((tail, size + _OVERHEAD_BYTES))
        self._bytes += size + _OVERHEAD_BYTES
        while self._bytes > self.bytes_max:
            oldest, freed = self._order.popleft()
            self._bytes -= freed
            oldest.forget_oldest()


class TailCache:
    """The newest batches of one partition, in order and without a gap. Takes and gives under the memory's lock."""

    __slots__ = ("_batches", "_ends", "_first", "_head", "_memory")

    def __init__(self, memory: TailMemory) -> None:
        self._memory = memory
        # Two lists and the place of their first live entry: a lookup bisects, which a deque cannot.
        self._ends: list[int] = []
        self._batches: list[bytes] = []
        self._head = 0
        self._first = 0
        """Offset at which the oldest batch that it gives begins."""

    def add(self, batches: list[tuple[int, int, bytes]]) -> None:
        """Add batches (base offset, offset after them, stored bytes) that were just committed."""
        memory = self._memory
        with memory.lock:
            if self._head == len(self._ends):
                self._first = batches[0][0]
            for _, end, batch in batches:
                self._ends.append(end)
                self._batches.append(batch)
                memory.charge(self, len(batch))

    def forget_oldest(self) -> None:
        """Let go of the oldest batch."""
        self._first = max(self._first, self._ends[self._head])
        self._batches[self._head] = b""
        self._head += 1
        if self._head >= _FORGOTTEN_MAX and self._head * 2 > len(self._ends):
            del self._ends[: self._head], self._batches[: self._head]
            self._head = 0

    def hide_below(self, offset: Offset) -> None:
        """Give nothing below the start of a batch any more: compaction changed what is in the files."""
        with self._memory.lock:
            self._first = max(self._first, offset)

    def holds(self, offset: Offset) -> bool:
        """Whether a batch from `offset` on would come from memory."""
        with self._memory.lock:
            return self._head < len(self._ends) and self._first <= offset < self._ends[-1]

    def read(self, start: Offset, size: int) -> tuple[bytes, Offset] | None:
        """About `size` bytes of batches from the one that holds `start`, and the offset after them.

        None where `start` is not held (any more). O(log n) and the batches it gives.
        """
        with self._memory.lock:
            if self._first > start or self._head == len(self._ends):
                return None
            batches, taken = self._batches, 0
            first = bisect_right(self._ends, start, self._head)
            if first == len(batches):
                return None
            for last in range(first, len(batches)):
                taken += len(batches[last])
                if taken >= size:
                    break
            wanted, end = batches[first : last + 1], Offset(self._ends[last])
        return (wanted[0] if len(wanted) == 1 else b"".join(wanted)), end
