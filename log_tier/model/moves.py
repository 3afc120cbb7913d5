"""Which partitions of a log in this process have moved: writers note them, followers take them. Pure."""

from __future__ import annotations

from log_tier.model.identifiers import PartitionId

__all__ = ["MoveFeed", "Moves"]


class Moves:
    """The partitions that have moved since they were last taken. Each is held once, however often it moves.

    Any thread may note and take.
    """

    __slots__ = ("_moved",)

    def __init__(self) -> None:
        self._moved: set[PartitionId] = set()

    def note(self, partition: PartitionId) -> None:
        """Note that `partition` has moved. Some 0.1 µs."""
        self._moved.add(partition)

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

    __slots__ = ("_followers",)

    def __init__(self) -> None:
        self._followers: dict[Moves, None] = {}
        """Each step on it is atomic: two threads that follow and leave at once lose no follower."""

    def note(self, partition: PartitionId) -> None:
        """A partition has moved."""
        for moves in tuple(self._followers):
            moves.note(partition)

    def follow(self) -> Moves:
        """A new follower: it holds the partitions that move from now on."""
        moves = Moves()
        self._followers[moves] = None
        return moves

    def leave(self, moves: Moves) -> None:
        """End a follower: `moves` gets nothing more. Idempotent."""
        self._followers.pop(moves, None)
