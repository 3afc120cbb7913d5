"""Runs: commands of one connection that came together, on one key each, as one job of a round. Pure.

A command by itself costs some 8 µs: a job, a place for its reply, a dozen calls. A pipeline of thousands of commands
is handed over as **runs** instead. The commands of a run are executed one after the other on the round's overlay, as
jobs are. Where all of them are of one kind, they are executed in columns (`Each`), which makes the same of them. A run
is a way of executing commands, and has no meaning of its own.

Where a round has no time or no room for all of a run, the rest of it goes on as a run of its own.

A run is tried once as a whole. Where the log rejects its group, where nobody knows what became of it, or where it is
too large, its commands are **taken out**: each goes on as a job by itself, by the rules for those
(`queued_commands.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, Final, Protocol

from log_tier.model.errors import DuramenError
from router.endpoints.resp.data.key_views import MAY_BE_PENDING, DataCommand, Each, Overlay, Undecided, with_versions
from router.endpoints.resp.data.rounds.queued_commands import Owner, QueuedCommand, Receiver, Work
from router.endpoints.resp.data.rounds.refusals import Judge, refusing
from router.endpoints.resp.wire.replies import Problem

__all__ = ["CommandRun", "Commands", "RunReceiver"]

# A shorter run costs no less than its commands do as jobs.
_RUN_MIN: Final = 16


class Commands:
    """Commands on one key each, in their order: row by row, or in columns where one function executes all of them.

    Invariant: `steps` and `keys` have one entry for each command.
    """

    __slots__ = ("_rows", "blind", "columns", "each", "keys", "steps")

    def __init__(
        self,
        steps: Sequence[DataCommand],
        *,
        rows: Sequence[Sequence[bytes]] | None = None,
        columns: Sequence[Sequence[bytes]] | None = None,
        each: Each | None = None,
        blind: frozenset[bytes] = frozenset(),
    ) -> None:
        """`rows`: the arguments of each command, its key first. `columns`: the same as one sequence of all keys, and
        one of each further word; one of the two is needed. `each`: executes `columns`. `blind`: keys that their first
        command writes without looking."""
        self.steps = steps
        self.each = each
        self.columns = columns
        self._rows = rows
        self.keys: Sequence[bytes] = columns[0] if columns is not None else [words[0] for words in rows or ()]
        self.blind = blind

    @property
    def rows(self) -> Sequence[Sequence[bytes]]:
        """The arguments of each command, its key first. The first time 0.1 µs a command."""
        if self._rows is None:
            self._rows = list(zip(*self.columns or (), strict=True))
        return self._rows

    def at(self, places: Sequence[int]) -> Commands:
        """Those at these places."""
        steps = [self.steps[place] for place in places]
        if self.columns is not None:
            columns = [[column[place] for place in places] for column in self.columns]
            return Commands(steps, columns=columns, each=self.each, blind=self.blind)
        return Commands(steps, rows=[self.rows[place] for place in places], each=self.each, blind=self.blind)

    def before(self, place: int) -> Commands:
        """The first ones."""
        return self.at(range(place))

    def behind(self, place: int) -> Commands:
        """Those from a place on. What the others write is not written blindly."""
        rest = self.at(range(place, len(self.keys)))
        rest.blind = self.blind.difference(self.keys[:place])
        return rest


class RunReceiver(Protocol):
    """Who waits for the replies of a run."""

    def finish_run(self, places: Sequence[int], replies: Sequence[Any]) -> None:
        """The replies, or errors, of the commands at these places; called when `Receiver.finish` would be."""
        ...

    def at(self, place: int) -> Receiver:
        """The receiver of a command that was taken out."""
        ...


class CommandRun:
    """Many commands of one connection, executed in columns as one entry of a round. What it has in common with
    `QueuedCommand` means the same.

    Invariant: `keys` and `places` have one entry for each command that is still in the run.
    """

    __slots__ = (
        *("_commands", "_written", "_wrote", "asked", "blind", "keys", "owner", "places", "receiver", "replies"),
        "taken_out",
    )

    def __init__(self, owner: Owner, commands: Commands, receiver: RunReceiver, places: Sequence[int]) -> None:
        """`places`: where the receiver has them."""
        self.owner = owner
        self._commands = commands
        self.keys = commands.keys
        self.receiver = receiver
        self.places = places
        self.blind = blind = commands.blind
        self.asked: Sequence[bytes] = [key for key in self.keys if key not in blind] if blind else self.keys
        self.replies: Sequence[Any] = ()
        """Of its last execution."""
        self.taken_out: list[Work] = []
        """Commands that are not in the run any more, in their order; all of them came behind those that are."""
        self._written: Sequence[bytes] = ()
        """Keys that were written, where it was executed in columns."""
        self._wrote: Sequence[bool] = ()
        """Which commands wrote, where they were executed one by one."""

    @property
    def cost(self) -> int:
        """In jobs: a command of a run costs less than half."""
        return (len(self.keys) + 1) // 2

    @property
    def weight(self) -> int:
        """See `QueuedCommand`: each command has one key, and the columns make one of a run half as costly."""
        return self.cost

    def run(self, overlay: Overlay, room: int) -> int:
        """Execute the commands; about how many bytes their replies have.

        Behind the command with which replies and writes have more than `room` bytes, or the overlay is late, and before
        one that is `Undecided`, the rest is taken out, as one run. Raises `Undecided` of the first one.
        """
        commands = self._commands
        if commands.each is not None and commands.columns is not None:
            before = len(overlay.keys)
            replies = commands.each(overlay, commands.columns)
            if replies is not None:
                self.replies = replies
                self._written = overlay.keys[before:]
                return 0
        return self._one_by_one(overlay, room)

    def _one_by_one(self, overlay: Overlay, room: int) -> int:
        written = overlay.keys
        replies: list[Any] = []
        wrote: list[bool] = []
        size, most = 0, room + overlay.bytes
        for step, words in zip(self._commands.steps, self._commands.rows, strict=True):
            before = len(written)
            try:
                reply = step(overlay, words)
            except Problem as problem:
                assert len(written) == before, f"{words!r} fails and has written {written[before:]}"
                reply = problem
            except Undecided:
                if not replies:
                    raise
                break
            replies.append(reply)
            wrote.append(len(written) > before)
            if type(reply) is bytes:
                size += len(reply)
            if size + overlay.bytes > most or overlay.late():
                break
        self.replies, self._wrote = replies, wrote
        if len(replies) < len(self.keys):
            self.taken_out = [self._cut(len(replies))]
        return size

    def _cut(self, start: int) -> CommandRun:
        """Take the commands from `start` on out of the run; the run that they are."""
        rest = CommandRun(self.owner, self._commands.behind(start), self.receiver, self.places[start:])
        self._keep(start)
        return rest

    def _keep(self, count: int) -> None:
        self._commands = self._commands.before(count)
        self.keys, self.places = self._commands.keys, self.places[:count]

    def pieces(self, cost: int) -> Sequence[Work]:
        """What it is where a round takes no more than `cost`: a first run and the rest. By themselves where those are
        few."""
        if 2 * cost < _RUN_MIN:
            return self.alone()
        rest = self._cut(2 * cost)
        self.asked = self.keys if not self.blind else [key for key in self.keys if key not in self.blind]
        return [self, rest]

    def starts(self, before: int, after: int) -> Sequence[int]:
        """See `QueuedCommand`: each command writes one key, or none."""
        return range(before, after)

    def take_out(self, start: int = 0) -> list[QueuedCommand]:
        """Take the commands from `start` on out of the run; the jobs that they are by themselves."""
        jobs: list[QueuedCommand] = []
        wrote = self._wrote or _which_wrote(self.keys, self._written)
        steps, rows = self._commands.steps, self._commands.rows
        for number in range(start, len(self.keys)):
            key, step, words = self.keys[number], steps[number], rows[number]
            job = QueuedCommand(self.owner, (key,), step, words, self.receiver.at(self.places[number]))
            job.wrote = number < len(wrote) and wrote[number]
            jobs.append(job)
        if jobs:
            self._keep(start)
            self.taken_out = [*jobs, *self.taken_out]
        return jobs

    def alone(self) -> Sequence[QueuedCommand]:
        """The commands that are still in it, as jobs by themselves; it is empty then."""
        return self.take_out()

    def parts(self) -> Sequence[Work]:
        """The run itself, then every job that was taken out of it."""
        return [self, *self.taken_out]

    def answer(self, first: int) -> None:
        """Give the replies to the receiver. `first`: the offset of the group's first write."""
        if self.places:
            replies = self.replies
            if not MAY_BE_PENDING.isdisjoint(map(type, replies)):
                replies = [with_versions(reply, first) for reply in replies]
            self.receiver.finish_run(self.places, replies)

    def fail(self, error: DuramenError) -> None:
        """Give every command that is still in it the same error."""
        if self.places:
            self.receiver.finish_run(self.places, [copy(error) for _ in self.places])

    def judge(self, judge: Judge) -> None:
        """See `QueuedCommand`. Where one is refused, they are executed row by row."""
        rows, steps = self._commands.rows, self._commands.steps
        problems = [judge(step, words) for step, words in zip(steps, rows, strict=True)]
        if any(problem is not None for problem in problems):
            judged = [
                step if problem is None else refusing(problem) for step, problem in zip(steps, problems, strict=True)
            ]
            self._commands = Commands(judged, rows=rows)
            self.keys = self.asked = self._commands.keys
            self.blind = self._commands.blind


def _which_wrote(keys: Sequence[bytes], written: Sequence[bytes]) -> list[bool]:
    """Which commands have written these keys, in this order: of those on one key either all, or the first."""
    left = iter(written)
    following = next(left, None)
    wrote = []
    for key in keys:
        wrote.append(key == following)
        if wrote[-1]:
            following = next(left, None)
    return wrote
