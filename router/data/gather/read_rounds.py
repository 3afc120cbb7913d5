"""Which reads leave in which request, and what an answer means for them. Pure: no task, no future, no clock.

`ReadRounds` is the state of one gatherer of reads: the groups that wait, by what they ask for, and how many requests
are under way. The shell around it (`read_coalescer.py`) sends, waits and answers callers.

    a call joins          group_for()   the waiting group that asks for the same, or a new one
    the way is free       leave()       groups for one request, the oldest first
    a request is back     landed()      the next one may leave
    an answer came        next_step()   what becomes of one group

A group that asks for an offset of its own, or for the log's end, may well wait at its replica. It travels by itself
(`leave_alone`), counts as pending until it ends, and holds up no other group.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from enum import Enum
from typing import Final, Generic, NamedTuple, NoReturn, Protocol, TypeVar

from log_tier.model.errors import DeadlineExceeded, DuramenError, LimitExceeded, Overloaded, ReplicaBehind
from log_tier.model.identifiers import Offset, PartitionId

__all__ = ["READS_PENDING_MAX", "NextStep", "ReadRounds", "ReadRules", "ReadTerms", "next_step"]

READS_PENDING_MAX: Final = 1_000_000
"""Keys that wait in one gatherer. Beyond it the program asks faster than it is answered."""


class ReadRules(NamedTuple):
    """The limits of one gatherer of reads."""

    in_flight_max: int = 2
    """Requests with shared groups under way at once: while the server works on one, the client fills the other."""
    request_keys_max: int = 4_000
    """From this many keys on a request is full; a server answers on its event loop, some 2 µs a key."""
    pending_keys_max: int = READS_PENDING_MAX


ReadTerms = tuple[PartitionId, Offset | None, int, bool]
"""What the calls of one group have in common: the partition, the offset that its replica must have applied (None: what
the session has seen when the request leaves), the largest lag in milliseconds (0: no bound), and whether the session
remembers what was read. Every call makes one, and a named tuple costs six times as much."""


class NextStep(Enum):
    """What becomes of a group that was not answered."""

    ALONE = "alone"
    """The group is sent again at once, by itself, and waits at its replica."""
    HALVES = "halves"
    """Its reply would be too large: it is sent again as two."""
    LATER = "later"
    """The group is sent again after a pause."""
    FAILED = "failed"
    """Its callers get the error."""


def next_step(error: DuramenError, *, patient: bool, alone: bool, keys: int) -> NextStep:
    """What becomes of a group of so many keys that got `error`.

    `patient`: its replica has waited as long as the callers do. `alone`: it was the only group of its request.
    """
    if isinstance(error, ReplicaBehind) and not patient:
        return NextStep.ALONE
    if isinstance(error, LimitExceeded) and not alone:
        return NextStep.ALONE  # the reply was too small for it and the others
    if isinstance(error, LimitExceeded) and keys > 1:
        return NextStep.HALVES
    if error.retryable and not isinstance(error, DeadlineExceeded):
        return NextStep.LATER
    return NextStep.FAILED


class GatheredKeys(Protocol):
    """A group of keys as `ReadRounds` sees it."""

    count: int
    """Its keys."""


G = TypeVar("G", bound=GatheredKeys)
T = TypeVar("T")


class ReadRounds(Generic[T, G]):
    """The groups of one gatherer of reads. `T` is what a new group is made for.

    Invariants: groups leave in the order in which they were begun. A group that has left takes no more calls.
    """

    __slots__ = ("_closed", "_new", "_rules", "_waiting", "in_flight", "pending_keys")

    def __init__(self, rules: ReadRules, new: Callable[[ReadTerms, T], G]) -> None:
        """`new`: makes an empty group, which waits to leave from then on."""
        self._rules = rules
        self._new = new
        self._closed: DuramenError | None = None
        """Why no call may join any more."""
        self._waiting: dict[ReadTerms, G] = {}
        self.in_flight = 0
        """Requests with shared groups under way."""
        self.pending_keys = 0
        """Keys of the groups that wait, and of those that travel by themselves."""

    @property
    def is_free(self) -> bool:
        """May another request leave?"""
        return self.in_flight < self._rules.in_flight_max and self._closed is None

    @property
    def may_leave(self) -> bool:
        """Does a group wait, and may another request leave?"""
        return bool(self._waiting) and self.is_free

    def group_for(self, wanted: ReadTerms, table: T, keys: int) -> G:
        """The waiting group that a call of so many keys joins, counted. O(1). Raises as `leave_alone`."""
        if self._closed is not None or self.pending_keys + keys > self._rules.pending_keys_max:
            self._refuse()
        group = self._waiting.get(wanted)
        if group is None:
            group = self._waiting[wanted] = self._new(wanted, table)
        group.count += keys
        self.pending_keys += keys
        return group

    def leave_alone(self, keys: int) -> None:
        """A call of so many keys travels by itself; `ended` takes it off. O(1).

        Raises `Overloaded` where too many keys wait, and the error given to `close`.
        """
        if self._closed is not None or self.pending_keys + keys > self._rules.pending_keys_max:
            self._refuse()
        self.pending_keys += keys

    def _refuse(self) -> NoReturn:
        if self._closed is not None:
            raise copy(self._closed)
        raise Overloaded(
            f"{self.pending_keys} keys wait to be read in this client; ask later",
            limit=self._rules.pending_keys_max,
        )

    def ended(self, keys: int) -> None:
        """A call that travelled by itself has ended. O(1)."""
        self.pending_keys -= keys

    def leave(self) -> list[G]:
        """The groups of the next request, the oldest first; empty where none may leave. O(groups that leave)."""
        groups: list[G] = []
        if not self.may_leave:
            return groups
        keys = 0
        while self._waiting and keys < self._rules.request_keys_max:
            group = self._waiting.pop(next(iter(self._waiting)))
            groups.append(group)
            keys += group.count
        self.pending_keys -= keys
        self.in_flight += 1
        return groups

    def landed(self) -> bool:
        """A request is back: may the next one leave? O(1)."""
        self.in_flight -= 1
        return self.may_leave

    def close(self, error: DuramenError) -> list[G]:
        """No call joins any more: each gets a copy of `error`. Returns the groups that will not leave."""
        self._closed = error
        left = list(self._waiting.values())
        self._waiting.clear()
        self.pending_keys -= sum(group.count for group in left)
        return left

    def check(self) -> None:
        """Assert what must hold. O(groups)."""
        waiting = sum(group.count for group in self._waiting.values())
        assert waiting <= self.pending_keys <= self._rules.pending_keys_max, f"{self.pending_keys} keys are counted"
        assert 0 <= self.in_flight <= self._rules.in_flight_max, f"{self.in_flight} requests are under way"
