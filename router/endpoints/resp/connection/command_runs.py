"""Where runs come from: the first commands of a connection's queue, as far as they are on one key each.

Commands that are alike (a kind, a number of words) are found by comparing columns of the queue; they become a run that
is executed in columns. Commands that differ are looked at one by one, and become a run as well. A run ends before a
command on several keys, before everything that is not about keys, and before many reads in a row, which are cheaper on
the fast path.

`RunReplies` is the place of a run's replies: one for all of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from operator import itemgetter
from typing import Any, Final, NamedTuple

from log_tier.model.errors import DuramenError
from log_tier.model.record import KEY_BYTES_MAX
from router.endpoints.resp.command_spec import DATA_KINDS, CommandSpec
from router.endpoints.resp.commands.columns import EACH
from router.endpoints.resp.commands.command_table import find_command
from router.endpoints.resp.data.rounds.command_run import Commands
from router.endpoints.resp.data.rounds.queued_commands import Receiver
from router.endpoints.resp.wire.fallback_parser import RespCommand
from router.endpoints.resp.wire.replies import encode, encode_many
from router.endpoints.resp.wire.slow_replies import WaitedCommand

__all__ = ["READS_ALONE", "GatheredCommands", "RunReplies", "drop", "gather"]

READS_ALONE: Final = 16
"""So many reads in a row wait for what is before them."""

# A round takes several runs; shorter ones fill it better, and longer ones save nothing.
_RUN_MAX: Final = 512

# A millisecond of copying. Commands with longer arguments cost so much that they may go one by one.
_RUN_BYTES_MAX: Final = 1 << 20

_FIRST: Final = itemgetter(0)

# Fewer like commands are not worth their columns.
_LIKE_MIN: Final = 8


class GatheredCommands(NamedTuple):
    """The commands of a run: the first ones of the queue."""

    commands: Commands
    size: int
    """Bytes of the arguments."""
    last: CommandSpec
    """The kind of the last one."""


def gather(queue: deque[RespCommand]) -> GatheredCommands | None:
    """The first commands of the queue that can be one run; None where those are fewer than two. 0.5 µs a command, a
    third of that where they are alike.
    """
    if len(queue) < 2:
        return None
    first = queue[0]
    spec = _spec_of(first)
    if spec is None:
        return None
    alike = _alike(queue)
    if alike >= _LIKE_MIN and spec.kind != "read":
        columns: Sequence[Sequence[bytes]] = tuple(zip(*islice(queue, alike), strict=True))[1:]
        count, size = _within_limits(columns[0], columns, lambda: zip(*columns, strict=True))
        if count < alike:
            columns = [column[:count] for column in columns]
        return GatheredCommands(_like(spec, columns), size, spec) if count > 1 else None
    specs = _specs_of(queue)
    rows: list[Sequence[bytes]] = [command[1:] for command in islice(queue, len(specs))]
    count, size = _within_limits(list(map(_FIRST, rows)), rows, lambda: rows)
    if count < 2:
        return None
    del specs[count:], rows[count:]
    return GatheredCommands(
        Commands([spec.run for spec in specs], rows=rows, blind=_blind(specs, rows)), size, specs[-1]
    )


def drop(queue: deque[RespCommand], count: int) -> None:
    """Remove the first commands, which have begun."""
    if count == len(queue):
        queue.clear()
    else:
        for _ in range(count):
            queue.popleft()


def _like(spec: CommandSpec, columns: Sequence[Sequence[bytes]]) -> Commands:
    """Commands of one kind and one number of words."""
    keys = columns[0]
    blind = frozenset(keys if spec.name == "set" and len(columns) == 2 else ())
    return Commands([spec.run] * len(keys), columns=columns, each=EACH.get(spec.name), blind=blind)


def _alike(queue: deque[RespCommand]) -> int:
    """How many of the first commands have the name and the number of words of the first one."""
    name, words = queue[0][0], len(queue[0])
    if len(queue) >= _RUN_MAX and queue[_RUN_MAX - 1][0] == name:
        # They may be alike as far as a run goes: two counts in C find it out.
        commands = list(islice(queue, _RUN_MAX))
        names = list(map(_FIRST, commands))
        if names.count(name) == len(names) and set(map(len, commands)) == {words}:
            return len(names)
    alike = 0
    for command in islice(queue, _RUN_MAX):
        if command[0] != name or len(command) != words:
            break
        alike += 1
    return alike


def _spec_of(command: RespCommand) -> CommandSpec | None:
    """The kind of a command on one key that is as long as it should be; None for every other command."""
    spec = find_command(command[0])
    if spec is None or spec.kind not in DATA_KINDS or spec.subcommands is not None or not spec.fits(len(command)):
        return None
    return spec if spec.first == 1 and (spec.last == 1 or len(command) == 2) else None


def _specs_of(queue: deque[RespCommand]) -> list[CommandSpec]:
    """The kinds of the first commands, up to one that belongs in no run."""
    known: dict[tuple[bytes, int], CommandSpec | None] = {}
    specs: list[CommandSpec] = []
    reads = 0
    for command in islice(queue, _RUN_MAX):
        shape = (command[0], len(command))
        if shape not in known:
            known[shape] = _spec_of(command)
        spec = known[shape]
        if spec is None:
            break
        specs.append(spec)
        reads = reads + 1 if spec.kind == "read" else 0
        if reads == READS_ALONE:
            del specs[-READS_ALONE:]
            break
    return specs


def _within_limits(
    keys: Sequence[bytes], words: Sequence[Sequence[bytes]], rows: Callable[[], Iterable[Sequence[bytes]]]
) -> tuple[int, int]:
    """How many of the commands, from the first one on, have a key that can be one, and are not too long together; and
    how many bytes those have. `words`: all arguments, in rows or in columns.
    """
    lengths = list(map(len, keys))
    size = sum([sum(map(len, some)) for some in words])
    if size <= _RUN_BYTES_MAX and lengths and min(lengths) and max(lengths) <= KEY_BYTES_MAX:
        return len(keys), size
    size = 0
    for count, row in enumerate(rows()):
        longer = size + sum(map(len, row))
        if longer > _RUN_BYTES_MAX or not 0 < len(row[0]) <= KEY_BYTES_MAX:
            return count, size
        size = longer
    return len(keys), size


def _blind(specs: Sequence[CommandSpec], args: Sequence[Sequence[bytes]]) -> frozenset[bytes]:
    """The keys that are set, by SET without options, before a command looks at them."""
    blind: set[bytes] = set()
    seen: set[bytes] = set()
    for spec, words in zip(specs, args, strict=True):
        if spec.name == "set" and len(words) == 2 and words[0] not in seen:
            blind.add(words[0])
        seen.add(words[0])
    return frozenset(blind)


class RunReplies:
    """The place of the replies of a run. A `RunReceiver`, and `PendingReply`.

    `answered` is called when the last of them is there; `encode_error` makes the reply of an error.
    """

    __slots__ = ("_answered", "_encode_error", "_left", "_parts", "_protocol", "began_s", "command", "reply")

    began_s: float
    command: WaitedCommand

    def __init__(
        self,
        commands: int,
        protocol: int,
        *,
        answered: Callable[[], None],
        encode_error: Callable[[DuramenError], bytes],
    ) -> None:
        self.reply: bytes | None = None
        self._parts: list[bytes | None] = [None] * commands
        self._left = commands
        self._protocol = protocol
        """The connection's when the commands came: HELLO may come before the replies."""
        self._answered = answered
        self._encode_error = encode_error

    def finish_run(self, places: Sequence[int], replies: Sequence[Any]) -> None:
        """See `RunReceiver`. A reply that is there already stays."""
        if any(issubclass(kind, DuramenError) for kind in set(map(type, replies))):
            encoded = [
                self._encode_error(reply) if isinstance(reply, DuramenError) else encode(reply, self._protocol)
                for reply in replies
            ]
        else:
            encoded = encode_many(replies, self._protocol)
        if self._left == len(encoded) == len(self._parts):
            self._finish(encoded)
            return
        for place, each in zip(places, encoded, strict=True):
            if self._parts[place] is None:
                self._parts[place] = each
                self._left -= 1
        if not self._left and self.reply is None:
            self._finish([part for part in self._parts if part is not None])

    def _finish(self, encoded: Sequence[bytes]) -> None:
        self._left = 0
        self.reply = b"".join(encoded)
        self._answered()

    def at(self, place: int) -> Receiver:
        return _Place(self, place)


class _Place:
    """The place of one of them."""

    __slots__ = ("_place", "_replies")

    def __init__(self, replies: RunReplies, place: int) -> None:
        self._replies = replies
        self._place = place

    def finish(self, reply: Any) -> None:
        self._replies.finish_run((self._place,), (reply,))
