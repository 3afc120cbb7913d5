"""Jobs: commands on keys of one partition that wait for a round, and the groups in which a round writes them. Pure.

A **group** holds the commands of one round that share keys or a connection, in the order in which they came. It is
written as one atomic group of records, so it takes effect as a whole, where every key that one of its commands has read
is still what was read, or not at all. The first record of each such key carries that condition; keys that were read and
not written are guarded by a no-op with the condition.

Why a connection's commands are one group although they share no keys: were one of them rejected and a later one of the
same connection accepted, the later one would have taken effect before it.

A group of which nobody has read a key (SET, MSET, and GET of what they wrote) needs no condition. Nothing can reject
it, so its commands are written as they are, each one by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from copy import copy
from operator import or_
from typing import Any, Final, NamedTuple, Protocol, cast

from log_tier.model.batch import Columns
from log_tier.model.errors import DeadlineExceeded, DuramenError
from log_tier.model.identifiers import NOTHING, Offset
from log_tier.model.record import CONDITION_SHIFT, EXPIRY_SHIFT, GROUPED, PLAIN_PUT, Condition, Expiry, Operation
from router.endpoints.resp.data.key_views import (
    APPENDED,
    MAY_BE_PENDING,
    DataCommand,
    Overlay,
    Undecided,
    with_versions,
)
from router.endpoints.resp.data.rounds.refusals import Judge, refusing
from router.endpoints.resp.wire.limits import REQUEST_TIMEOUT_S
from router.endpoints.resp.wire.replies import NULL_ARRAY, Problem, size_of
from serving_tier.fold.entry import NEVER, LiveEntry

__all__ = [
    "EXECUTION_S",
    "Group",
    "Owner",
    "QueuedCommand",
    "Ran",
    "Receiver",
    "Work",
    "execute",
    "fail_all",
    "give_up_late",
    "groups_of",
]

_NOOP: Final = int(Operation.NOOP)
_DELETE: Final = int(Operation.DELETE)
_APPEND: Final = int(Operation.APPEND)
_ABSENT: Final = int(Condition.ABSENT) << CONDITION_SHIFT
_VERSION: Final = int(Condition.VERSION) << CONDITION_SHIFT
_PUT_AT: Final = PLAIN_PUT | int(Expiry.AT) << EXPIRY_SHIFT

# By what an overlay has in the place of an expiry; every other one is a time.
_KINDS: Final = {NEVER: PLAIN_PUT, APPENDED: _APPEND}

# What a round may write and answer before the rest of it waits for the next one: half of a batch of the log, and what a
# connection may have unread before its commands wait.
_ROUND_BYTES_MAX: Final = 4 << 20

EXECUTION_S: Final = 0.004
"""Commands differ a thousandfold in what they cost: the commands of a round that have not begun by then wait for the
next one, as those do that did not fit."""

# In the place of a version: the record puts no condition on its key.
_FREE: Final = Offset(-2)


class Owner(Hashable, Protocol):
    """Who sends commands: they run in its order. A connection's `ReplyQueue`."""

    @property
    def stalled(self) -> bool:
        """Has it left too many replies unread? Then its commands wait."""
        ...


class Receiver(Protocol):
    """The caller that waits for a command's reply."""

    def finish(self, reply: Any) -> None:
        """The reply, or the error; called once, when the changes are on stable storage and have taken effect."""
        ...


class QueuedCommand:
    """One command, or one EXEC. `step` may run several times; it changes nothing but its view."""

    __slots__ = (
        *("args", "asked", "blind", "deadline", "keys", "owner", "receiver", "reply", "step", "tries", "watched"),
        *("weight", "wrote"),
    )

    cost: Final = 1
    """What it costs of a round: the unit."""

    def __init__(
        self,
        owner: Owner,
        keys: Sequence[bytes],
        step: DataCommand,
        args: Sequence[bytes],
        receiver: Receiver,
        *,
        reads: bool = True,
        watched: Mapping[bytes, Offset] | None = None,
    ) -> None:
        """`reads`: it looks at what its keys hold. `watched`: the versions that keys must still have; where one has
        not, the reply is `NULL_ARRAY`.
        """
        self.owner = owner
        self.keys = keys if not watched else (*keys, *watched)
        self.weight = len(self.keys)
        """What its keys cost of a turn of the event loop, in keys."""
        self.step = step
        self.args = args
        self.receiver = receiver
        self.asked: Sequence[bytes] = self.keys if reads else ()
        """Keys whose stored state it looks at."""
        self.blind: Sequence[bytes] = () if reads else self.keys
        """Keys that it writes without looking: who comes behind it sees what it wrote."""
        self.watched = watched
        self.reply: Any = None
        """Of its last run."""
        self.wrote = False
        """In its last run."""
        self.tries = 0
        """How often its group was rejected."""
        self.deadline = 0.0
        """When it is given up; set by the first rejection."""

    def run(self, overlay: Overlay, room: int) -> int:
        """Run on what the commands before it have left; about how many bytes its reply has. It runs whatever `room` is:
        one command's reply is bounded.
        """
        before = len(overlay.keys)
        watched = self.watched
        if watched and not all(overlay.is_still(key, version) for key, version in watched.items()):
            self.reply = NULL_ARRAY
        else:
            try:
                self.reply = self.step(overlay, self.args)
            except Problem as problem:
                assert len(overlay.keys) == before, f"{self.args!r} fails and has written {overlay.keys[before:]}"
                self.reply = problem
        self.wrote = len(overlay.keys) > before
        return size_of(self.reply) if isinstance(self.reply, (bytes, list)) else 0

    def starts(self, before: int, after: int) -> Sequence[int]:
        """Its writes lie at these places of an overlay: where those of one command begin."""
        return (before,)

    def alone(self) -> Sequence[QueuedCommand]:
        return (self,)

    def pieces(self, cost: int) -> Sequence[QueuedCommand]:
        return (self,)

    def parts(self) -> Sequence[QueuedCommand]:
        return (self,)

    def answer(self, first: int) -> None:
        """Give the reply to the receiver. `first`: the offset of the group's first write."""
        reply = self.reply
        self.receiver.finish(with_versions(reply, first) if type(reply) in MAY_BE_PENDING else reply)

    def fail(self, error: DuramenError) -> None:
        """Give the receiver an error of its own."""
        self.receiver.finish(copy(error))

    def judge(self, judge: Judge) -> None:
        """Have it refused if `judge` says why. Before a round has taken it: its reply keeps its place, and it neither
        reads nor writes.
        """
        problem = judge(self.step, self.args)
        if problem is not None:
            self.step, self.asked, self.blind, self.watched = refusing(problem), (), (), None


class Work(Protocol):
    """What an executor queues and runs: a `QueuedCommand` or a `CommandRun`. Each says there what these are."""

    @property
    def owner(self) -> Owner: ...
    @property
    def keys(self) -> Sequence[bytes]: ...
    @property
    def asked(self) -> Sequence[bytes]: ...
    @property
    def blind(self) -> Iterable[bytes]: ...
    @property
    def cost(self) -> int: ...
    @property
    def weight(self) -> int: ...
    def run(self, overlay: Overlay, room: int) -> int: ...
    def starts(self, before: int, after: int) -> Sequence[int]: ...
    def alone(self) -> Sequence[QueuedCommand]: ...
    def pieces(self, cost: int) -> Sequence[Work]: ...
    def parts(self) -> Sequence[Work]: ...
    def answer(self, first: int) -> None: ...
    def fail(self, error: DuramenError) -> None: ...
    def judge(self, judge: Judge) -> None: ...


class Group:
    """Commands of one round that take effect together; see the module's text."""

    __slots__ = ("jobs",)

    def __init__(self) -> None:
        self.jobs: list[Work] = []

    def alone(self) -> list[QueuedCommand]:
        """Each of its commands as a job by itself: from here on that is what they are."""
        return [job for work in self.jobs for job in work.alone()]


def groups_of(jobs: Sequence[Work]) -> list[Group]:
    """Jobs that share an owner or a key, together; in their order. O(keys), and the merging of groups."""
    if len(jobs) == 1:
        group = Group()
        group.jobs.append(jobs[0])
        return [group]
    parents: dict[Group, Group] = {}
    by_owner: dict[Owner, Group] = {}
    by_key: dict[bytes, Group] = {}

    def root(group: Group) -> Group:
        while (parent := parents[group]) is not group:
            parents[group] = group = parents[parent]
        return group

    for job in jobs:
        if job.owner not in by_owner:
            group = by_owner[job.owner] = Group()
            parents[group] = group
    if len(by_owner) > 1:
        for job in jobs:
            group = by_owner[job.owner]
            for key in job.keys:
                other = by_key.setdefault(key, group)
                if other is not group and root(other) is not root(group):
                    parents[root(group)] = root(other)
    for job in jobs:
        root(by_owner[job.owner]).jobs.append(job)
    return [group for group in parents if group.jobs]


class Ran(NamedTuple):
    """A group that has run."""

    group: Group
    overlay: Overlay
    records: Columns | None
    """None where nothing is changed."""
    left: list[Work]
    """Commands of a run that did not fit in the round."""


def execute(
    jobs: Sequence[Work],
    found: Mapping[bytes, LiveEntry | None],
    now_ms: int,
    stopwatch_s: Callable[[], float],
    *,
    in_turn: bool = False,
    read_at: Offset = NOTHING,
    together: bool = False,
) -> list[Ran]:
    """Group a round's jobs and run the groups, as far as the round's bytes and its time go.

    `found` holds `read_at`, or more. `stopwatch_s` measures `EXECUTION_S`. With `in_turn`, and not in a thread, raises
    `TooLongForATurn` where an EXEC takes longer; what has run then is done again.
    """
    groups = groups_of(jobs)
    # A round has its time behind the grouping, else a slow machine would group them all to run one.
    ends_s = stopwatch_s() + EXECUTION_S

    def late() -> bool:
        return stopwatch_s() > ends_s

    ran: list[Ran] = []
    room = _ROUND_BYTES_MAX
    for group in groups:
        overlay = Overlay(found, now_ms, late, in_turn=in_turn, read_at=read_at, together=together)
        starts: list[int] = []
        left: list[Work] = []
        for number, job in enumerate(group.jobs):
            if room - overlay.bytes <= 0 or ((number or ran) and late()):
                left = group.jobs[number:]
                del group.jobs[number:]
                break
            before = len(overlay.keys)
            try:
                room -= job.run(overlay, room - overlay.bytes)
            except Undecided:
                assert number, f"{job!r} waits for an offset, and nothing was written before it"
                left = group.jobs[number:]
                del group.jobs[number:]
                break
            starts += job.starts(before, len(overlay.keys))
            if cut := job.parts()[1:]:
                left = [*cut, *group.jobs[number + 1 :]]
                del group.jobs[number + 1 :]
                break
        room -= overlay.bytes
        records = records_of(overlay, starts) if overlay.keys or overlay.guarded else None
        ran.append(Ran(group, overlay, records, left))
    return ran


def records_of(overlay: Overlay, starts: Sequence[int]) -> Columns:
    """The records that make an overlay's changes, if every key that was looked at is still what it was. First come the
    guards: the keys that were looked at and not written. 0.3 µs a record.

    `starts`: the places in the overlay's columns at which the writes of a command begin.
    """
    keys, values = overlay.keys, _bytes_of(overlay.values)
    kinds, expiries = _kinds_of(overlay), overlay.expiries
    unseen = dict(overlay.conditions)
    if list(unseen) == keys:
        versions, unseen = list(unseen.values()), {}  # each key was looked at, then written once: the usual pipeline
    else:
        versions = [unseen.pop(key, _FREE) for key in keys]
    if unseen:
        guards = len(unseen)
        keys, values, versions = [*unseen, *keys], [b""] * guards + values, [*unseen.values(), *versions]
        kinds, expiries = [_NOOP | GROUPED] * guards + kinds, [NEVER] * guards + expiries
    if min(versions) >= 0:
        attributes = [kind | _VERSION for kind in kinds]
    else:
        asked = [_ABSENT if version == NOTHING else _VERSION if version >= 0 else 0 for version in versions]
        attributes = list(map(or_, kinds, asked))
    for place in (0,) if overlay.is_judged else starts:
        if place < len(attributes):
            attributes[place] &= ~GROUPED
    return Columns(keys, values, attributes, _unless_below(0, versions), _unless_below(NEVER + 1, expiries))


def _bytes_of(values: Sequence[bytes | None]) -> list[bytes]:
    """The values of records: a delete has an empty one."""
    if None not in values:
        return cast("list[bytes]", list(values))
    if values.count(None) == len(values):
        return [b""] * len(values)
    return [b"" if value is None else value for value in values]


def _kinds_of(overlay: Overlay) -> list[int]:
    """The attribute of each write, as one that continues a group and asks for nothing."""
    values, expiries = overlay.values, overlay.expiries
    if not values:
        return []
    if expiries.count(NEVER) == len(expiries) and values.count(None) in (0, len(values)):
        return [(_DELETE if values[0] is None else PLAIN_PUT) | GROUPED] * len(values)
    return [
        (_DELETE if value is None else _KINDS.get(expires_at_ms, _PUT_AT)) | GROUPED
        for value, expires_at_ms in zip(values, expiries, strict=True)
    ]


def _unless_below(least: int, column: Sequence[int]) -> Sequence[int] | None:
    """A column with 0 in the place of what is negative; None where everything is less than `least`."""
    if max(column) < least:
        return None
    return column if min(column) >= 0 else [max(0, number) for number in column]


def give_up_late(jobs: Sequence[QueuedCommand], now: float, table: str) -> list[QueuedCommand]:
    """Count one more try of each; those that have tried for too long get an error, the others are returned."""
    for job in jobs:
        job.tries += 1
        job.deadline = job.deadline or now + REQUEST_TIMEOUT_S
    fail_all(
        [job for job in jobs if job.deadline <= now],
        DeadlineExceeded(
            f"others wrote the same keys of {table} between every read and write for {REQUEST_TIMEOUT_S:g} s; nothing "
            "was done"
        ),
    )
    return [job for job in jobs if job.deadline > now]


def fail_all(jobs: Iterable[Work], error: DuramenError) -> None:
    """Give each command the error."""
    for job in jobs:
        job.fail(error)
