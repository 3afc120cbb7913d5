"""Pins: a count of the transactions that use an index now.

A file at rest has no environment, and an environment must not be closed while a transaction runs in it: that ends the
process. So a transaction takes a pin before it touches the file and gives it back after its end. A thread that closes
the file first replaces the function that begins transactions, and then looks at the pins:

    a read    acquire ──▶ begin (LMDB's own, or "open the file first") ──▶ … ──▶ end ──▶ release
    a rest    "open the file first" in the place of LMDB's begin ──▶ pins held: leave it open; none: close it

A read that takes its pin after the look finds the new function, which waits until the file is at rest.

An index has two counts. `pins` are held for one transaction each, a microsecond or so; a busy index is hardly ever seen
without one. `readers` are held by long reads, which span transactions: the index's owner waits until none is held, and
then closes it, which refuses new transactions and waits for those that run.

A lock would cost a read as much as the read itself (2 x 0.2 µs). Appending to a deque and popping from it are atomic in
every thread (the documentation of `collections.deque` promises it), and 40 ns each; its length is the count.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

__all__ = ["PIN", "Pins"]

PIN: Final = None
"""The deque's entry for each pin. All pins are alike."""


class Pins:
    """The pins of one index. `len()` says how many are held; safe from any thread.

    Invariant: each `acquire` has its one `release`, in whichever thread.
    """

    __slots__ = ("_block", "_held", "acquire", "release")

    def __init__(self) -> None:
        self._held: Final[deque[None]] = deque()
        self.acquire: Final[Callable[[None], None]] = self._held.append
        """Take one pin: `acquire(PIN)`. The deque's own method, because a call in between costs as much again."""
        self.release: Final[Callable[[], None]] = self._held.pop
        """Give one pin back. Raises `IndexError` where none is held, which is a bug of the caller."""

        self._block: Final = _Block(self.acquire, self.release)

    def __len__(self) -> int:
        return len(self._held)

    def held(self) -> _Block:
        """One pin for as long as the block runs. 0.3 µs; the shortest reads call `acquire(PIN)` and `release()`."""
        return self._block


class _Block:
    """A context that keeps no state of a block: one object serves all blocks, in any thread."""

    __slots__ = ("_acquire", "_release")

    def __init__(self, acquire: Callable[[None], None], release: Callable[[], None]) -> None:
        self._acquire, self._release = acquire, release

    def __enter__(self) -> None:
        self._acquire(PIN)

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._release()
