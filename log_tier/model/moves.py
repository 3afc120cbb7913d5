"""Which partitions of a log in this process have moved: writers note them, followers take them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from log_tier.model.identifiers import PartitionId

__all__ = ["MoveFeed", "Moves"]


class Moves:
    """The partitions that have moved since they were last taken. Each is held once, however often it moves.

    Any thread may note and take.
    """

    __slots__ = ("_moved", "note")

    def __init__(self) -> None:
        self._moved: set[PartitionId] = set()
        self.note: Callable[[PartitionId], None] = self._moved.add
        """Note that a partition has moved. Some 30 ns."""

    def take(self) -> list[PartitionId]:
        """The partitions that were noted since the last call, in no order. O(noted)."""
        taken: list[PartitionId] = []
        # One by one: each step is atomic, and what is noted meanwhile is taken now or the next time. Another taker may
        # have the last one at any step.
        try:
            while True:
                taken.append(self._moved.pop())
        except KeyError:
            return taken


class MoveFeed:
    """Tells its followers which partitions of one log move. Any thread may use it."""

    __slots__ = ("_followers", "note")

    def __init__(self) -> None:
        self._followers: dict[Moves, None] = {}
        """Each step on it is atomic: two threads that follow and leave at once lose no follower."""
        self.note: Callable[[PartitionId], None] = partial(_note_all, ())
        """A partition has moved. It is called behind each commit, and there is one follower in most processes."""

    def follow(self) -> Moves:
        """A new follower: it holds the partitions that move from now on."""
        moves = Moves()
        self._followers[moves] = None
        self._tell_followers()
        return moves

    def leave(self, moves: Moves) -> None:
        """End a follower: `moves` gets nothing more. Idempotent."""
        self._followers.pop(moves, None)
        self._tell_followers()

    def _tell_followers(self) -> None:
        """From now on `note` reaches the followers, also where another thread changes them at this moment: the thread
        that sets `note` last looks at them after it.
        """
        followers: tuple[Moves, ...] | None = None
        while followers != (now := self._now()):
            followers = now
            self.note = now[0].note if len(now) == 1 else partial(_note_all, now)

    def _now(self) -> tuple[Moves, ...]:
        while True:
            try:
                return tuple(self._followers)
            except RuntimeError:
                continue  # another thread came between: the collector may run at any allocation, and others with it


def _note_all(followers: Sequence[Moves], partition: PartitionId) -> None:
    for moves in followers:
        moves.note(partition)
