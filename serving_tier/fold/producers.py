"""What an index remembers of producers, so that a write which was sent twice is applied once (I2).

Of each producer it knows the last batch that took effect: where it began in the producer's numbering and in the log. A
batch whose sequences were already seen is void, and if they lie in that last batch, its offsets are known too: the
retry gets the reply that the first try would have got.

The table is bounded. What falls out is the producer whose last batch lies deepest in the log: an order that the log
alone decides, so every replica forgets the same one (I4), and one that compaction does not disturb, because a log keeps
every producer's newest batch, if only as an empty shell.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

from log_tier.model.identifiers import NOTHING, Offset

__all__ = ["PRODUCERS_MAX", "ProducerOverlay", "ProducerState", "ProducerView"]

# A producer is one client process for as long as it lives. 65,536 of them cost 4 MiB of index, and a retry older than
# the 65,536 processes that wrote since has no waiting caller any more.
PRODUCERS_MAX: Final = 65_536


class ProducerState(NamedTuple):
    """The last batch of one producer that took effect."""

    base_sequence: int
    base_offset: Offset
    span: int

    @property
    def last_sequence(self) -> int:
        """The highest sequence seen: this one and all below are duplicates when they come again."""
        return self.base_sequence + self.span - 1

    def original_of(self, sequence: int) -> Offset:
        """The offset that `sequence` has, or `NOTHING` where it lies before the last batch and is forgotten."""
        return Offset(self.base_offset + sequence - self.base_sequence) if sequence >= self.base_sequence else NOTHING


class ProducerView(Protocol):
    """What an index knows of the producers it holds."""

    def producer(self, producer_id: int) -> ProducerState | None:
        """One producer's last batch."""
        ...

    def producer_count(self) -> int:
        """The number of producers that the index holds."""
        ...

    def producers_by_age(self) -> Iterator[int]:
        """Their ids, the one whose last batch lies deepest in the log first."""
        ...


class ProducerOverlay:
    """The changes that a fold makes to the producers of a view, which stays as it is."""

    def __init__(self, view: ProducerView, *, producers_max: int) -> None:
        self._view = view
        self._max = producers_max
        self._count: int | None = None
        self._ages: Iterator[int] | None = None
        self.changed: dict[int, ProducerState | None] = {}
        """The new states in the order of their offsets; None: forgotten."""

    def get(self, producer_id: int) -> ProducerState | None:
        """The state after all that was folded."""
        if producer_id in self.changed:
            return self.changed[producer_id]
        return self._view.producer(producer_id)

    def set(self, producer_id: int, state: ProducerState, *, before: ProducerState | None) -> None:
        """Note a batch that took effect. It lies above all before it, so its producer becomes the youngest. `before`:
        the result of `get`."""
        if self._count is None:
            self._count = self._view.producer_count()
        if before is None:
            self._count += 1
        self.changed.pop(producer_id, None)
        self.changed[producer_id] = state
        if self._count > self._max:
            self.changed[self._oldest()] = None
            self._count -= 1

    def _oldest(self) -> int:
        # Whatever this fold touched is younger than everything it did not touch, and stays touched: so the walk over
        # the view goes on where it stopped.
        if self._ages is None:
            self._ages = self._view.producers_by_age()
        for producer_id in self._ages:
            if producer_id not in self.changed:
                return producer_id
        return next(producer_id for producer_id, state in self.changed.items() if state is not None)
